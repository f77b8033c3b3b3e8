package procfs

import (
	"errors"

	"reckon/internal/sysfs"
)

// errMalformed is the error of parsers for text that the kernel does not write.
var errMalformed = errors.New("malformed")

// parseSigned parses a number that may be negative and fits 32 bits.
func parseSigned(b []byte) (int32, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	v, ok := sysfs.Unsigned(b)
	if !ok || v > 1<<31-1 {
		return 0, false
	}
	if neg {
		return -int32(v), true
	}
	return int32(v), true
}
