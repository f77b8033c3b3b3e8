package run

import "errors"

// errMalformed is the error of a parser for text that the kernel does not write.
var errMalformed = errors.New("malformed")

// parseNumber parses an unsigned decimal number of up to 64 bits.
func parseNumber(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		next := v*10 + uint64(c-'0')
		if v > (1<<64-1)/10 || next < v*10 {
			return 0, false
		}
		v = next
	}
	return v, true
}
