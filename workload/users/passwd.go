package users

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPasswdSize is the largest passwd file that is read. 64 MiB are a million users.
const maxPasswdSize = 64 << 20

// parsePasswd parses lines of the form "name:password:uid:gid:gecos:home:shell". If a number or a name occurs twice,
// the first line counts, as in getpwuid(3). It skips comments, the "+" and "-" lines of NIS, and invalid names.
func parsePasswd(text []byte) (names map[uint32]string, ids map[string]uint32) {
	names, ids = map[uint32]string{}, map[string]uint32{}
	for line := range bytes.Lines(text) {
		name, rest, ok := bytes.Cut(bytes.TrimRight(line, "\n"), []byte(":"))
		if !ok || !isValidName(string(name)) {
			continue
		}
		_, rest, ok = bytes.Cut(rest, []byte(":"))
		number, _, ok2 := bytes.Cut(rest, []byte(":"))
		if !ok || !ok2 {
			continue
		}
		n, err := strconv.ParseUint(string(number), 10, 32)
		if err != nil {
			continue
		}
		if _, dup := names[uint32(n)]; !dup {
			names[uint32(n)] = string(name)
		}
		if _, dup := ids[string(name)]; !dup {
			ids[string(name)] = uint32(n)
		}
	}
	return names, ids
}

// isValidName reports whether a user name may be used in a label. Names from directories may contain Windows domains
// ("DOM\user"), mail addresses and blanks ("jane smith"), or be plain numbers. Control characters, slashes and colons
// are invalid.
func isValidName(name string) bool {
	if name == "" || len(name) > 256 || !utf8.ValidString(name) || strings.TrimSpace(name) != name {
		return false
	}
	switch name[0] {
	case '#', '+', '-':
		return false
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '/' || r == ':' {
			return false
		}
	}
	return true
}
