// Package cgpath parses the paths of control groups, as in /proc/PID/cgroup (cgroups(7)), and makes
// names of their components. It finds the mount points of the hierarchies, and resolves paths that
// are relative to a cgroup namespace.
//
// A path is untrusted input, because the creator of a control group (any user in a delegated tree)
// chooses its name, up to 255 bytes of anything but a slash and a zero byte.
package cgpath

import (
	"fmt"
	"hash/fnv"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxName is the maximum length of the names made by [Clean], in bytes.
const MaxName = 128

// Components yields each component of a path, together with the path up to and including that component. It skips empty
// components. A ".." of a group outside our cgroup namespace is yielded like any other name.
func Components(path string) iter.Seq2[string, string] {
	return func(yield func(name, prefix string) bool) {
		for i := 0; i < len(path); {
			if path[i] == '/' {
				i++
				continue
			}
			end := len(path)
			if j := strings.IndexByte(path[i:], '/'); j >= 0 {
				end = i + j
			}
			if !yield(path[i:end], path[:end]) {
				return
			}
			i = end
		}
	}
}

// Piece is a component and the path up to it.
type Piece struct{ Name, Prefix string }

// maxDepth is the maximum number of components. The kernel has no limit by default, but real trees have about ten.
const maxDepth = 64

// Split returns the components of a path.
func Split(path string) []Piece {
	n := min(strings.Count(path, "/")+1, maxDepth)
	return AppendSplit(make([]Piece, 0, n), path)
}

// AppendSplit appends the components of a path to pieces.
func AppendSplit(pieces []Piece, path string) []Piece {
	most := len(pieces) + maxDepth
	for name, prefix := range Components(path) {
		if pieces = append(pieces, Piece{name, prefix}); len(pieces) == most {
			break
		}
	}
	return pieces
}

// Clean makes a string valid for an id. Slashes and bytes that are not printable UTF-8 become '?'.
// Strings longer than [MaxName] are truncated and get a hash of the whole, so that different names
// stay different.
func Clean(s string) string {
	clean := len(s) <= MaxName
	for i := 0; clean && i < len(s); i++ {
		clean = s[i] >= 0x20 && s[i] < 0x7f && s[i] != '/'
	}
	if clean {
		return s
	}
	whole := s
	var b strings.Builder
	for len(s) > 0 && b.Len() < MaxName-16 {
		r, n := utf8.DecodeRuneInString(s)
		if (r == utf8.RuneError && n <= 1) || r < 0x20 || (r >= 0x7f && r < 0xa0) || r == '/' || r == 0x2028 || r == 0x2029 {
			b.WriteByte('?')
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	if len(s) > 0 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(whole))
		fmt.Fprintf(&b, "~%08x", h.Sum32())
	}
	return b.String()
}

// Unescape resolves systemd's escapes (systemd.unit(5)), such as "\x2d" for "-". It keeps escapes
// of characters that [Clean] would replace.
func Unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], `\x`) && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil && n > 0x20 && n < 0x7f && n != '/' {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Hex reports whether s consists of n or more lower-case hexadecimal digits.
func Hex(s string, n int) bool {
	if len(s) < n {
		return false
	}
	for i := 0; i < len(s); i++ {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// Number returns the decimal number after prefix, if that is all of s.
func Number(s, prefix string) (number uint32, ok bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || digits == "" || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil
}

// SliceUser returns the user of a path component of a login session: "user-1000.slice" or "user@1000.service".
func SliceUser(name string) (uid uint32, ok bool) {
	if rest, ok := strings.CutSuffix(name, ".slice"); ok {
		return Number(rest, "user-")
	}
	if rest, ok := strings.CutSuffix(name, ".service"); ok {
		return Number(rest, "user@")
	}
	return 0, false
}

// Owner returns the user of the login session that a path belongs to, or false.
func Owner(pieces []Piece) (uid uint32, ok bool) {
	for _, p := range pieces {
		if uid, ok := SliceUser(p.Name); ok {
			return uid, true
		}
	}
	return 0, false
}
