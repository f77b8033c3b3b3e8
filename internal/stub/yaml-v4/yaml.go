// Package yaml is a stub for the package of this name, with which Prometheus writes the
// description of its own API: that is not built in.
package yaml

import "errors"

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("yaml: the description of Prometheus's API is not built into this program")

// Kind is the kind of a Node.
type Kind uint32

// ScalarNode is a single value.
const ScalarNode Kind = 8

// Node is an element of a document.
type Node struct {
	Kind       Kind
	Tag, Value string
	Content    []*Node
}

// Marshal returns ErrNotBuilt.
func Marshal(any) ([]byte, error) { return nil, ErrNotBuilt }

// Unmarshal leaves the value unchanged: the code that makes examples panics on errors.
func Unmarshal([]byte, any) error { return nil }
