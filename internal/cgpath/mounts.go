package cgpath

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"reckon/internal/sysfs"
)

// Mount is one mounted control group hierarchy, from a line of /proc/PID/mountinfo
// (Documentation/filesystems/proc.rst, section 3.5).
type Mount struct {
	V2          bool
	Controllers []string // version 1: the controllers, or "name=systemd"
	Root        string   // the cgroup at the mount point: "/", or deeper in a container
	Point       string   // mount point
}

// ParseMounts returns the mounts of control groups in the text of a mountinfo file.
func ParseMounts(text []byte) []Mount {
	var out []Mount
	for line := range bytes.Lines(text) {
		if m, ok := parseMount(strings.TrimSuffix(string(line), "\n")); ok {
			out = append(out, m)
		}
	}
	return out
}

func parseMount(line string) (m Mount, ok bool) {
	before, after, ok := strings.Cut(line, " - ")
	if !ok {
		return m, false
	}
	left, right := strings.Split(before, " "), strings.Split(after, " ")
	if len(left) < 6 || len(right) < 3 {
		return m, false
	}
	m.Root, m.Point = sysfs.Unescape(left[3]), sysfs.Unescape(left[4])
	if !strings.HasPrefix(m.Root, "/") || !strings.HasPrefix(m.Point, "/") {
		return m, false
	}
	switch right[0] {
	case "cgroup2":
		m.V2 = true
	case "cgroup":
		for option := range strings.SplitSeq(right[2], ",") {
			switch option {
			case "rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods":
			default:
				m.Controllers = append(m.Controllers, option)
			}
		}
	default:
		return m, false
	}
	return m, true
}

// Serves reports whether m is the hierarchy of the given controllers in /proc/PID/cgroup. Their
// order differs between kernels ("cpu,cpuacct", "cpuacct,cpu"). One match is enough, because a
// controller is in one hierarchy only.
func (m *Mount) Serves(controllers string) bool {
	if controllers == "" {
		return m.V2
	}
	for c := range strings.SplitSeq(controllers, ",") {
		if slices.Contains(m.Controllers, c) {
			return true
		}
	}
	return false
}

// ReadMounts returns the cgroup hierarchies under root, the mount point of the machine's file tree. If root is the tree
// of another mount namespace, such as a host's tree in a container, ReadMounts uses the mount table of that tree's
// first process. A mount point that is already below root belongs to our own namespace. Mount roots are relative to our
// own cgroup namespace.
func ReadMounts(root string) ([]Mount, error) {
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
		var found []Mount
		for _, m := range ParseMounts(text) {
			if root != "/" && !strings.HasPrefix(m.Point, root+"/") {
				m.Point = filepath.Join(root, m.Point)
			}
			if info, err := os.Stat(m.Point); err == nil && info.IsDir() {
				found = append(found, m)
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, first
}
