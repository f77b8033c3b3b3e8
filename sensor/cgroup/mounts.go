package cgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mount is one mounted hierarchy, from a line of /proc/PID/mountinfo
// (Documentation/filesystems/proc.rst, section 3.5).
type mount struct {
	v2          bool
	controllers []string // version 1: the controllers, or "name=systemd"
	root        string   // the cgroup that stands at the mount point: "/", or deeper in a container
	point       string
}

// errOutside says that a cgroup exists, but not below any mount that we can see.
var errOutside = errors.New("outside the mounted part of its hierarchy")

// parseMounts returns the control group mounts in the text of a mountinfo file.
func parseMounts(text []byte) []mount {
	var out []mount
	for line := range bytes.Lines(text) {
		if m, ok := parseMount(strings.TrimSuffix(string(line), "\n")); ok {
			out = append(out, m)
		}
	}
	return out
}

func parseMount(line string) (m mount, ok bool) {
	before, after, ok := strings.Cut(line, " - ")
	if !ok {
		return m, false
	}
	left, right := strings.Split(before, " "), strings.Split(after, " ")
	if len(left) < 6 || len(right) < 3 {
		return m, false
	}
	m.root, m.point = unescape(left[3]), unescape(left[4])
	if !strings.HasPrefix(m.root, "/") || !strings.HasPrefix(m.point, "/") {
		return m, false
	}
	switch right[0] {
	case "cgroup2":
		m.v2 = true
	case "cgroup":
		for option := range strings.SplitSeq(right[2], ",") {
			switch option {
			case "rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods":
			default:
				m.controllers = append(m.controllers, option)
			}
		}
	default:
		return m, false
	}
	return m, true
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// readMounts finds the hierarchies under root. The mount points of another mount
// namespace (a host's tree mounted at root) are those of its first process; a mount
// point that already lies under root is one of our own namespace.
func readMounts(root string) ([]mount, error) {
	files := []string{"proc/self/mountinfo"}
	if root != "/" {
		files = []string{"proc/1/mountinfo", "proc/self/mountinfo"}
	}
	var first error
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		var found []mount
		for _, m := range parseMounts(text) {
			if root != "/" && !strings.HasPrefix(m.point, root+"/") {
				m.point = filepath.Join(root, m.point)
			}
			if info, err := os.Stat(m.point); err == nil && info.IsDir() {
				found = append(found, m)
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, first
}

// locate returns the directory of the cgroup path in a hierarchy, which is named as
// in /proc/PID/cgroup. The deepest mount that holds the path is taken, so that a bind
// mount of a part of the tree serves as well as the whole.
func locate(mounts []mount, controllers, path string) (*mount, string, error) {
	var best *mount
	var below string
	found := false
	for i := range mounts {
		m := &mounts[i]
		if !m.serves(controllers) {
			continue
		}
		found = true
		rest, ok := relative(m.root, path)
		if ok && (best == nil || len(m.root) > len(best.root)) {
			best, below = m, rest
		}
	}
	switch {
	case !found:
		return nil, "", errNoMount
	case best == nil:
		return nil, "", errOutside
	}
	return best, best.point + below, nil
}

var errNoMount = errors.New("hierarchy not mounted")

// serves reports whether m is the hierarchy with the given controllers. Their order
// differs between kernels ("cpu,cpuacct", "cpuacct,cpu"), and one is enough: a
// controller is in one hierarchy only.
func (m *mount) serves(controllers string) bool {
	if controllers == "" {
		return m.v2
	}
	for c := range strings.SplitSeq(controllers, ",") {
		for _, have := range m.controllers {
			if c == have {
				return true
			}
		}
	}
	return false
}

// figures reports whether the hierarchy has any file that we read.
func (m *mount) figures() bool {
	if m.v2 {
		return true
	}
	for _, c := range m.controllers {
		switch c {
		case "cpu", "cpuacct", "memory", "blkio", "pids":
			return true
		}
	}
	return false
}

// relative returns what follows the mount root in the path of a cgroup. Seen from
// inside a cgroup namespace both may climb out of its root: "/../../a" below a mount
// of "/../.." is "/a". It is false when the path is not below the mount, or when its
// name is not known from in here, or when it is no path of a cgroup.
func relative(root, path string) (string, bool) {
	if !strings.HasPrefix(path, "/") || strings.IndexByte(path, 0) >= 0 {
		return "", false
	}
	rest := path
	if root != "/" {
		var ok bool
		if rest, ok = strings.CutPrefix(path, root); !ok || (rest != "" && rest[0] != '/') {
			return "", false
		}
	}
	rest = strings.TrimRight(rest, "/")
	for c := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		if c == ".." || c == "." || (c == "" && rest != "") {
			return "", false
		}
	}
	return rest, true
}
