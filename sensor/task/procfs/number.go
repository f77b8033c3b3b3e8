package procfs

import (
	"bytes"
	"errors"
)

// errMalformed is what parsers return for text that the kernel does not write.
var errMalformed = errors.New("malformed")

// number parses an unsigned decimal number of up to 64 bits.
func number(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || v > (1<<64-1-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, true
}

// signed parses a number that may be negative and fits 32 bits.
func signed(b []byte) (int32, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	v, ok := number(b)
	if !ok || v > 1<<31-1 {
		return 0, false
	}
	if neg {
		return -int32(v), true
	}
	return int32(v), true
}

// word cuts the first word off b; words are separated by spaces or tabs.
func word(b []byte) (w, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	j := i
	for j < len(b) && b[j] != ' ' && b[j] != '\t' && b[j] != '\n' {
		j++
	}
	return b[i:j], b[j:]
}

// line cuts the first line off b.
func line(b []byte) (l, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}
