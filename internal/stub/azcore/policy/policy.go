// Package policy is a stub for what is asked of Azure.
package policy

// TokenRequestOptions say what a token is for.
type TokenRequestOptions struct{ Scopes []string }
