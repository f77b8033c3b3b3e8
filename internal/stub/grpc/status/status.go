// Package status makes errors of status codes.
package status

import (
	"fmt"

	"google.golang.org/grpc/codes"
)

// Errorf returns an error with a code.
func Errorf(c codes.Code, format string, args ...any) error {
	return fmt.Errorf("rpc error: code = %d desc = "+format, append([]any{c}, args...)...)
}
