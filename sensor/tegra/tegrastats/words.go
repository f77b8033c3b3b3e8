package tegrastats

import "bytes"

// nextWord cuts the next word off the line; nil at its end.
func (p *Parser) nextWord() []byte {
	w := p.peekWord()
	p.line = p.line[len(w):]
	return w
}

// peekWord skips spaces and returns the next word without consuming it.
func (p *Parser) peekWord() []byte {
	for len(p.line) > 0 && isSpace(p.line[0]) {
		p.line = p.line[1:]
	}
	n := 0
	for n < len(p.line) && !isSpace(p.line[n]) {
		n++
	}
	return p.line[:n]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// intern returns w as a string that is reused. It returns "" if there are too many names.
func (p *Parser) intern(w []byte) string {
	if s, ok := p.names[string(w)]; ok {
		return s
	}
	if len(p.names) >= maxNames || len(w) > 64 {
		return ""
	}
	if p.names == nil {
		p.names = make(map[string]string)
	}
	s := string(w)
	p.names[s] = s
	return s
}

// isFieldName reports whether w begins like a field name and has only its letters up to an @.
func isFieldName(w []byte) bool {
	for i, c := range w {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case (c >= '0' && c <= '9' || c == '-' || c == '.') && i > 0:
		case c == '@' && i > 0:
			return true
		default:
			return false
		}
	}
	return len(w) > 0
}

func indexByte(b []byte, c byte) int { return bytes.IndexByte(b, c) }

// parseNumber reads a decimal number with an optional sign and fraction.
func parseNumber(b []byte) (v float64, rest []byte, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	scale, digits := 0.0, 0
	for len(b) > 0 {
		c := b[0]
		if c == '.' && scale == 0 && digits > 0 {
			scale = 1
		} else if c < '0' || c > '9' || digits > 18 {
			break
		} else {
			v = v*10 + float64(c-'0')
			scale *= 10
			digits++
		}
		b = b[1:]
	}
	if scale > 1 {
		v /= scale
	}
	if negative {
		v = -v
	}
	return v, b, digits > 0
}

// parseCelsius parses "31.5C", and "52.9C/52.9C" with the current value first.
func parseCelsius(b []byte) (degrees float64, ok bool) {
	v, rest, ok := parseNumber(b)
	return v, ok && len(rest) > 0 && rest[0] == 'C' && (len(rest) == 1 || rest[1] == '/')
}

// parseWattUnit parses a unit of power, milliwatts if there is none.
func parseWattUnit(b []byte) (scale float64, rest []byte, unit bool) {
	switch {
	case bytes.HasPrefix(b, []byte("mW")):
		return 1e-3, b[2:], true
	case bytes.HasPrefix(b, []byte("W")):
		return 1, b[1:], true
	}
	return 1e-3, b, false
}

// byteUnit returns the number of bytes in a unit of memory, or 0 for an unknown unit.
func byteUnit(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case 'k', 'K':
		return 1 << 10
	case 'M':
		return 1 << 20
	case 'G':
		return 1 << 30
	case 'B':
		return 1
	}
	return 0
}
