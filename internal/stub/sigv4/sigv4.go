// Package sigv4 is a stub for the package of this name, which signs requests for Amazon's
// services: a configuration that requires it is refused.
package sigv4

import (
	"errors"
	"net/http"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("sigv4: signing requests for Amazon's services is not built into this program")

// SigV4Config is the configuration of a signature.
type SigV4Config struct{} //nolint:revive // the library's name

// UnmarshalYAML returns ErrNotBuilt.
func (*SigV4Config) UnmarshalYAML(func(any) error) error { return ErrNotBuilt }

// NewSigV4RoundTripper returns ErrNotBuilt.
func NewSigV4RoundTripper(*SigV4Config, http.RoundTripper) (http.RoundTripper, error) {
	return nil, ErrNotBuilt
}
