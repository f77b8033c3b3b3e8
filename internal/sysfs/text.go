package sysfs

import (
	"bytes"
	"strconv"
	"strings"
)

// Uint parses the decimal number at the start of b and returns the remaining bytes as rest. ok is false if b does not
// start with a digit or the number exceeds 64 bits.
func Uint(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i] - '0')
		if d > 9 {
			break
		}
		if v > (1<<64-1-d)/10 {
			return 0, nil, false
		}
		v = v*10 + d
	}
	return v, b[i:], i > 0
}

// Unsigned parses a text that is a decimal number of up to 64 bits.
func Unsigned(b []byte) (uint64, bool) {
	v, rest, ok := Uint(b)
	if !ok || len(rest) > 0 || len(b) > 20 {
		return 0, false
	}
	return v, true
}

// Field cuts the first word off b; words are separated by spaces or tabs, and end with their line.
func Field(b []byte) (word, rest []byte) {
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

// Line cuts the first line off b, without its newline.
func Line(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// Unescape turns the octal escapes of /proc (\040 for a blank, \134 for a backslash; seq_path of fs/seq_file.c) into the bytes.
func Unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}
