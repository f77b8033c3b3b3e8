// Package option is a stub for the options of clients of Google's services: remote write
// with a Google identity is refused.
package option

// ClientOption is an option of a client.
type ClientOption any

// CredentialsType is the kind of a file of credentials.
type CredentialsType string

// ServiceAccount is the kind of a service account.
const ServiceAccount CredentialsType = "service_account"

// WithScopes returns an option.
func WithScopes(...string) ClientOption { return nil }

// WithAuthCredentialsFile returns an option.
func WithAuthCredentialsFile(CredentialsType, string) ClientOption { return nil }

// WithCredentials returns an option.
func WithCredentials(any) ClientOption { return nil }
