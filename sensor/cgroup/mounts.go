package cgroup

import (
	"errors"
	"strings"

	"reckon/internal/cgpath"
)

// errOutsideMounts means that a control group exists, but not below any visible mount.
var errOutsideMounts = errors.New("outside the mounted part of its hierarchy")

// locateCgroup returns the mount that contains a cgroup, and the directory of the cgroup. path is from /proc/PID/cgroup. It
// uses the mount with the longest matching root, so that a bind mount of a subtree works as well.
func locateCgroup(mounts []cgpath.Mount, controllers, path string) (*cgpath.Mount, string, error) {
	var best *cgpath.Mount
	var below string
	found := false
	for i := range mounts {
		m := &mounts[i]
		if !m.Serves(controllers) {
			continue
		}
		found = true
		rest, ok := relativePath(m.Root, path)
		if ok && (best == nil || len(m.Root) > len(best.Root)) {
			best, below = m, rest
		}
	}
	switch {
	case !found:
		return nil, "", errNoMount
	case best == nil:
		return nil, "", errOutsideMounts
	}
	return best, best.Point + below, nil
}

var errNoMount = errors.New("hierarchy not mounted")

// hasFigures reports whether the hierarchy has any file that we read.
func hasFigures(m *cgpath.Mount) bool {
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

// relativePath returns path relative to root, the root of a mount. If the origin of our cgroup namespace is unknown
// ([cgpath.Origin]), both may start above it: "/../../a" below a mount of "/../.." is "/a". It returns false if path is
// not below the mount, is not a cgroup path, or contains a name that is unknown in this namespace.
func relativePath(root, path string) (string, bool) {
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
