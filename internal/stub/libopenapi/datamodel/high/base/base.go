// Package base is a stub for the package of this name: the parts of a description that
// Prometheus fills in, none of which is kept.
package base

import "github.com/pb33f/libopenapi/orderedmap"

// Contact is a part of Info.
type Contact struct{ Name, URL string }

// Info describes an API.
type Info struct {
	Title, Description, Version string
	Contact                     *Contact
}

// Tag names a group of operations.
type Tag struct{ Name, Summary, Description string }

// Example is an example of a value.
type Example struct {
	Summary, Description string
	Value                any
}

// DynamicValue is one of two kinds of value.
type DynamicValue[A, B any] struct {
	A A
	B B
	N int
}

// Schema describes a value.
type Schema struct {
	Title, Description, Format, ContentMediaType string
	Type, Required                               []string
	Enum, Example, Default                       any
	Minimum                                      *float64
	MinItems, MaxItems                           *int64
	OneOf, AnyOf                                 []*SchemaProxy
	ContentSchema                                *SchemaProxy
	Items, AdditionalProperties                  *DynamicValue[*SchemaProxy, bool]
	Properties                                   *orderedmap.Map[string, *SchemaProxy]
}

// SchemaProxy is a schema or the name of one.
type SchemaProxy struct{}

// CreateSchemaProxy returns nil.
func CreateSchemaProxy(*Schema) *SchemaProxy { return nil }

// CreateSchemaProxyRef returns nil.
func CreateSchemaProxyRef(string) *SchemaProxy { return nil }
