// Package credentials holds what a client of gRPC would show.
package credentials

import "crypto/tls"

// TransportCredentials are those of a connection.
type TransportCredentials any

// NewTLS returns nothing.
func NewTLS(*tls.Config) TransportCredentials { return nil }
