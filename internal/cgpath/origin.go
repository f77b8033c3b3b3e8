package cgpath

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Origin is the location of our cgroup namespace's root (cgroup_namespaces(7)). Container engines
// create such a namespace on version 2. The kernel then shows paths relative to our own group, such
// as "/../c1" for a sibling container, without the names of the groups above. If the machine's tree
// is mounted, those names are found by searching it for our own group, which needs no privilege.
//
// The zero value changes no path. An Origin is safe for concurrent use.
type Origin struct {
	roots []namespaceRoot
}

// namespaceRoot is the root of our namespace in one hierarchy.
type namespaceRoot struct {
	mount Mount
	path  string // below the outermost mount of the hierarchy: "/kubepods/pod1/c1"
}

// FindOrigin finds our own groups in the hierarchies mounted under root, the mount point of the
// machine's file tree ("" for "/"). On most machines it reads the names of a few hundred groups,
// once.
func FindOrigin(root string) Origin {
	root = filepath.Clean("/" + root)
	outer, err := ReadMounts(root)
	if err != nil {
		return Origin{}
	}
	text, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	return findOrigin(outer, ParseMounts(text), own, os.Getpid())
}

// findOrigin takes the mounts of the machine's tree, our own mounts, our /proc/self/cgroup and our process id.
func findOrigin(outer, inner []Mount, selfCgroup []byte, pid int) (o Origin) {
	for i := range outer {
		m := &outer[i]
		up := leadingParents(m.Root)
		if up == 0 || strings.Trim(m.Root[3*up:], "/") != "" || o.hasMount(m) {
			continue // its root is at or below the root of our namespace
		}
		for j := range outer { // the outermost mount of the hierarchy
			if n := &outer[j]; n.isSameHierarchy(m) && leadingParents(n.Root) > up {
				m, up = n, leadingParents(n.Root)
			}
		}
		path, ok := findRootByInode(m, up, inner)
		if !ok {
			path, ok = findRootByMember(m, up, selfCgroup, pid)
		}
		if ok {
			o.roots = append(o.roots, namespaceRoot{*m, path})
		}
	}
	return o
}

// leadingParents counts the leading ".." of a path: "/../../a" has two.
func leadingParents(path string) int {
	n := 0
	for rest, ok := strings.CutPrefix(path, "/.."); ok && (rest == "" || rest[0] == '/'); rest, ok = strings.CutPrefix(rest, "/..") {
		n++
	}
	return n
}

func (m *Mount) isSameHierarchy(n *Mount) bool {
	return m.V2 && n.V2 || !m.V2 && !n.V2 && m.Serves(strings.Join(n.Controllers, ","))
}

func (o *Origin) hasMount(m *Mount) bool {
	for i := range o.roots {
		if o.roots[i].mount.isSameHierarchy(m) {
			return true
		}
	}
	return false
}

// findRootByInode finds the root of our cgroup namespace through the mount that container engines create for it. The mount and
// the group are one directory with the same inode number.
func findRootByInode(m *Mount, depth int, inner []Mount) (path string, ok bool) {
	for i := range inner {
		n := &inner[i]
		if n.Root != "/" || !n.isSameHierarchy(m) {
			continue
		}
		var want syscall.Stat_t
		if err := syscall.Stat(n.Point, &want); err != nil {
			continue
		}
		path, ok := searchBelow(m.Point, depth, func(dir string) bool {
			var st syscall.Stat_t
			return syscall.Stat(dir, &st) == nil && st.Ino == want.Ino && st.Dev == want.Dev
		})
		if ok {
			return path, true
		}
	}
	return "", false
}

// findRootByMember searches the mounted hierarchy for the group that has our process id as a member. It is the fallback if no
// mount shows our group. own is /proc/self/cgroup, which gives the path from the namespace root to our group.
func findRootByMember(m *Mount, depth int, selfCgroup []byte, pid int) (path string, ok bool) {
	for line := range strings.Lines(string(selfCgroup)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, below, ok := strings.Cut(rest, ":")
		if !ok || !m.Serves(controllers) || leadingParents(below) > 0 {
			continue
		}
		below = strings.TrimSuffix(below, "/")
		path, ok := searchBelow(m.Point, depth+strings.Count(below, "/"), func(dir string) bool { return hasMember(dir, pid) })
		if !ok {
			return "", false
		}
		return strings.CutSuffix(path, below)
	}
	return "", false
}

func hasMember(dir string, pid int) bool {
	text, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil {
		return false
	}
	want := strconv.Itoa(pid)
	for line := range strings.Lines(string(text)) {
		if strings.TrimSuffix(line, "\n") == want {
			return true
		}
	}
	return false
}

// searchBelow finds a directory at a depth below dir, and returns the rest of its path.
func searchBelow(dir string, depth int, isMatch func(dir string) bool) (path string, ok bool) {
	if depth == 0 {
		return "", isMatch(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if rest, ok := searchBelow(dir+"/"+e.Name(), depth-1, isMatch); ok {
			return "/" + e.Name() + rest, true
		}
	}
	return "", false
}

// Absolute returns path relative to the outermost mount of its hierarchy. path is from /proc/PID/cgroup or is the root
// of a mount. If we are in "/kubepods/pod1/c1", "/../c2" becomes "/kubepods/pod1/c2". A path that leads outside that
// mount is returned unchanged.
func (o Origin) Absolute(controllers, path string) string {
	for i := range o.roots {
		r := &o.roots[i]
		if !r.mount.Serves(controllers) {
			continue
		}
		up, base := leadingParents(path), r.path
		rest := strings.TrimSuffix(path[3*up:], "/")
		for range up {
			j := strings.LastIndexByte(base, '/')
			if j < 0 {
				return path
			}
			base = base[:j]
		}
		if base+rest == "" {
			return "/"
		}
		return base + rest
	}
	return path
}

// AbsoluteRoots makes the roots of mounts absolute, as [Origin.Absolute] does with paths.
func (o Origin) AbsoluteRoots(mounts []Mount) {
	for i := range mounts {
		m := &mounts[i]
		m.Root = o.Absolute(strings.Join(m.Controllers, ","), m.Root)
	}
}
