// Package rest is a stub for the package of this name: no request is made.
package rest

import "context"

// WarningHandlerWithContext receives warnings of an API server.
type WarningHandlerWithContext interface {
	HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string)
}

// WarningLogger drops warnings.
type WarningLogger struct{}

// HandleWarningHeaderWithContext implements WarningHandlerWithContext.
func (WarningLogger) HandleWarningHeaderWithContext(context.Context, int, string, string) {}
