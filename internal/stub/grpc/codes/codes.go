// Package codes holds the status codes that the packages over the stub of gRPC refer to.
package codes

// Code is a status code of gRPC.
type Code uint32

// The codes in use.
const (
	Unknown       Code = 2
	Unimplemented Code = 12
)
