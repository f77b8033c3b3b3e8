// Package http is a stub for the transport of clients of Google's services.
package http

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/api/option"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("google: identities of Google are not built into this program")

// NewTransport returns ErrNotBuilt.
func NewTransport(context.Context, http.RoundTripper, ...option.ClientOption) (http.RoundTripper, error) {
	return nil, ErrNotBuilt
}
