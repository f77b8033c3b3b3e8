// Package credentials is a stub for the credentials of a gRPC client.
package credentials

import "crypto/tls"

// TransportCredentials are those of a connection.
type TransportCredentials any

// NewTLS returns nothing.
func NewTLS(*tls.Config) TransportCredentials { return nil }
