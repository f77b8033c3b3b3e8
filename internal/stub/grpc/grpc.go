// Package grpc is a stub for the package of this name: metrics of OpenTelemetry are received over
// HTTP, and nothing here serves or calls anything by gRPC.
package grpc

import (
	"context"
	"errors"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("grpc: gRPC is not built into this program")

// CallOption is an option of a call.
type CallOption any

// ClientConn is a connection to a server. There is none.
type ClientConn struct{}

// Invoke returns ErrNotBuilt.
func (*ClientConn) Invoke(context.Context, string, any, any, ...CallOption) error { return ErrNotBuilt }

// Server serves nothing.
type Server struct{}

// RegisterService does nothing.
func (*Server) RegisterService(*ServiceDesc, any) {}

// UnaryHandler answers a call.
type UnaryHandler func(context.Context, any) (any, error)

// UnaryServerInfo identifies the called method.
type UnaryServerInfo struct {
	Server     any
	FullMethod string
}

// UnaryServerInterceptor wraps a UnaryHandler.
type UnaryServerInterceptor func(context.Context, any, *UnaryServerInfo, UnaryHandler) (any, error)

// MethodDesc describes a method.
type MethodDesc struct {
	MethodName string
	Handler    func(any, context.Context, func(any) error, UnaryServerInterceptor) (any, error) //nolint:revive // the library's order
}

// StreamDesc describes a stream.
type StreamDesc struct{}

// ServiceDesc describes a service.
type ServiceDesc struct {
	ServiceName string
	HandlerType any
	Methods     []MethodDesc
	Streams     []StreamDesc
	Metadata    any
}
