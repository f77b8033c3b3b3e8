package cgroup

import (
	"errors"
	"strings"

	"reckon/internal/cgpath"
)

// errOutside means that a cgroup exists, but not below any mount that we can see.
var errOutside = errors.New("outside the mounted part of its hierarchy")

// locate returns the directory of the cgroup path in a hierarchy, which is named as
// in /proc/PID/cgroup. The deepest mount that holds the path is taken, so that a bind
// mount of a part of the tree serves as well as the whole.
func locate(mounts []cgpath.Mount, controllers, path string) (*cgpath.Mount, string, error) {
	var best *cgpath.Mount
	var below string
	found := false
	for i := range mounts {
		m := &mounts[i]
		if !m.Serves(controllers) {
			continue
		}
		found = true
		rest, ok := relative(m.Root, path)
		if ok && (best == nil || len(m.Root) > len(best.Root)) {
			best, below = m, rest
		}
	}
	switch {
	case !found:
		return nil, "", errNoMount
	case best == nil:
		return nil, "", errOutside
	}
	return best, best.Point + below, nil
}

var errNoMount = errors.New("hierarchy not mounted")

// figures reports whether the hierarchy has any file that we read.
func figures(m *cgpath.Mount) bool {
	if m.V2 {
		return true
	}
	for _, c := range m.Controllers {
		switch c {
		case "cpu", "cpuacct", "memory", "blkio", "pids":
			return true
		}
	}
	return false
}

// relative returns the path of a cgroup below the mount root. Where the place of
// our cgroup namespace is not known ([cgpath.Origin]) both may climb out of it: "/../../a"
// below a mount of "/../.." is "/a". It is false when the path is not below the mount, or
// when its name is not known from in here, or when it is no path of a cgroup.
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
