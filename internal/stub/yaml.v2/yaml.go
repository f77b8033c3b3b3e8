// Package yaml is a stub for the package of this name, with which Alertmanager reads its
// configuration: it wraps go.yaml.in/yaml/v2, where the same code is maintained and which
// Prometheus uses.
package yaml

import "go.yaml.in/yaml/v2"

// Marshaler, Unmarshaler and TypeError are those of go.yaml.in/yaml/v2.
type (
	Marshaler   = yaml.Marshaler
	Unmarshaler = yaml.Unmarshaler
	TypeError   = yaml.TypeError
)

// Marshal writes a value as YAML.
func Marshal(in any) ([]byte, error) { return yaml.Marshal(in) }

// Unmarshal reads a value from YAML.
func Unmarshal(in []byte, out any) error { return yaml.Unmarshal(in, out) }

// UnmarshalStrict reads a value from YAML and refuses keys that it does not have.
func UnmarshalStrict(in []byte, out any) error { return yaml.UnmarshalStrict(in, out) }
