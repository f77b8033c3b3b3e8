// Package v3 is a stub for the package of this name: a document that is never written.
package v3

import (
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/orderedmap"
)

// Document describes an API.
type Document struct {
	Version    string
	Info       *base.Info
	Servers    []*Server
	Tags       []*base.Tag
	Paths      *Paths
	Components *Components
}

// Render returns nothing.
func (*Document) Render() ([]byte, error) { return nil, nil }

// Server is an address of an API.
type Server struct{ URL string }

// Paths are all paths of an API.
type Paths struct {
	PathItems *orderedmap.Map[string, *PathItem]
}

// PathItem is a path.
type PathItem struct{ Get, Post, Put, Delete *Operation }

// Operation is a method of a path.
type Operation struct {
	OperationId, Summary, Description string //nolint:revive // the library's name
	Tags                              []string
	Parameters                        []*Parameter
	RequestBody                       *RequestBody
	Responses                         *Responses
}

// Parameter is a parameter of an operation.
type Parameter struct {
	Name, In, Description string
	Required, Explode     *bool
	Schema                *base.SchemaProxy
	Examples              *orderedmap.Map[string, *base.Example]
	Example               any
}

// RequestBody is the body that an operation accepts.
type RequestBody struct {
	Description string
	Required    *bool
	Content     *orderedmap.Map[string, *MediaType]
}

// Responses are the responses of an operation.
type Responses struct {
	Codes *orderedmap.Map[string, *Response]
}

// Response is one response.
type Response struct {
	Description string
	Content     *orderedmap.Map[string, *MediaType]
}

// MediaType is a form of a body.
type MediaType struct {
	Schema, ItemSchema *base.SchemaProxy
	Examples           *orderedmap.Map[string, *base.Example]
}

// Components are schemas that others refer to.
type Components struct {
	Schemas *orderedmap.Map[string, *base.SchemaProxy]
}
