package sensor

import (
	"bytes"
	"unicode/utf8"
)

// Bytes returns the name without its padding.
func (c *Comm) Bytes() []byte {
	if i := bytes.IndexByte(c[:], 0); i >= 0 {
		return c[:i]
	}
	return c[:]
}

// String returns the name of the program. It replaces each byte that is not part of printable UTF-8 by '?', because a
// program can choose any name and could break an output line or a label.
func (c Comm) String() string {
	raw := c.Bytes()
	clean := true
	for _, b := range raw {
		if b < 0x20 || b >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if (r == utf8.RuneError && n <= 1) || r < 0x20 || (r >= 0x7f && r < 0xa0) {
			out = append(out, '?')
		} else {
			out = append(out, raw[:n]...)
		}
		raw = raw[n:]
	}
	return string(out)
}
