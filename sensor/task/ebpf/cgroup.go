package ebpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/sensor"
)

// cgroupSet is a set of control groups, one in each hierarchy.
type cgroupSet struct {
	ids   []uint32 // of the hierarchies, beside paths
	paths []sensor.CgroupPath
	count int    // of hierarchies; paths may be lacking
	pass  uint64 // pass in which a process was last seen in it
}

// keptPasses is the number of passes for which a set without a process is kept.
const keptPasses = 600

// hierarchies maps the numbers of cgroup hierarchies to their controllers (cgroups(7)).
type hierarchies struct {
	root  string            // of the file tree
	names map[uint32]string // controllers
	own   map[uint32]string // start of paths, if it is not the root of the hierarchy
	// origin is the root of our cgroup namespace, if the tree above it is visible.
	origin cgpath.Origin
}

// CgroupPaths returns the cgroups behind the number in [sensor.Process.Cgroup].
func (s *Source) CgroupPaths(n uint64) (paths []sensor.CgroupPath, ok bool) {
	c := s.sets[n]
	if c == nil && s.ring != nil {
		s.drainRing() // a set that the last pass met
		c = s.sets[n]
	}
	if c == nil || len(c.paths) < c.count {
		return nil, false
	}
	return c.paths, true
}

// addPath adds the path of a cgroup to its set. b is the encoded record:
//
//	u32 kind, u32 hierarchy, u64 set, u32 count, u32 length, names from leaf to root
func (s *Source) addPath(b []byte) {
	const header = 24
	if len(b) < header {
		return
	}
	hierarchy := binary.NativeEndian.Uint32(b[4:])
	number := binary.NativeEndian.Uint64(b[8:])
	count := binary.NativeEndian.Uint32(b[16:])
	length := binary.NativeEndian.Uint32(b[20:])
	c := s.sets[number]
	if c == nil {
		c = &cgroupSet{count: int(min(count, 64)), pass: s.pass}
		s.sets[number] = c
	}
	if length == math.MaxUint32 || int(length) > len(b)-header || slices.Contains(c.ids, hierarchy) {
		return
	}
	path := s.names.relativePath(hierarchy, joinPath(b[header:header+length]))
	at, _ := slices.BinarySearchFunc(c.ids, hierarchy, func(have, want uint32) int { return cmp.Compare(want, have) })
	c.ids = slices.Insert(c.ids, at, hierarchy)
	c.paths = slices.Insert(c.paths, at, sensor.CgroupPath{Controllers: s.names.controllersOf(hierarchy), Path: path})
}

// joinPath returns a path from names in the order from leaf to root, each ended by NUL.
func joinPath(names []byte) string {
	if len(names) == 0 {
		return "/"
	}
	path := make([]byte, 0, len(names))
	names = bytes.TrimSuffix(names, []byte{0})
	for {
		i := bytes.LastIndexByte(names, 0)
		path = append(path, '/')
		path = append(path, names[i+1:]...)
		if i < 0 {
			return string(path)
		}
		names = names[:i]
	}
}

// controllersOf returns the controllers of a hierarchy in the form of /proc/PID/cgroup.
func (h *hierarchies) controllersOf(id uint32) string {
	if id == 0 {
		return ""
	}
	if _, ok := h.names[id]; !ok {
		h.readOwnPaths()
	}
	return h.names[id]
}

// readOwnPaths reads the hierarchies from our own list, and returns our own paths.
func (h *hierarchies) readOwnPaths() map[uint32]string {
	h.names = make(map[uint32]string)
	own := make(map[uint32]string)
	text, err := os.ReadFile(filepath.Join(h.root, "/proc/self/cgroup"))
	if err != nil {
		return own
	}
	for line := range strings.Lines(string(text)) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		id, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			continue
		}
		h.names[uint32(id)] = controllers
		own[uint32(id)] = h.origin.Absolute(controllers, path)
	}
	return own
}

// findOwn determines the cgroup that paths are relative to. It is the root of the hierarchy. In a container without the
// machine's file tree it is the root of our cgroup namespace, as in /proc. findOwn compares the path of our own cgroup
// in the kernel with that in /proc.
func (s *Source) findOwn() {
	seen := s.names.readOwnPaths()
	us := s.table.find(int32(os.Getpid()))
	if us == nil {
		return
	}
	paths, ok := s.CgroupPaths(us.process.Cgroup)
	if !ok {
		return
	}
	own := make(map[uint32]string)
	for k, id := range s.sets[us.process.Cgroup].ids {
		full := paths[k].Path
		begin := "/" + strings.Trim(strings.TrimSuffix(full, strings.TrimSuffix(seen[id], "/")), "/")
		if rel, ok := seen[id]; ok && rel != full && strings.HasSuffix(full, strings.TrimSuffix(rel, "/")) {
			own[id] = begin
		}
	}
	if len(own) == 0 {
		return
	}
	s.names.own = own
	for _, c := range s.sets {
		for k, id := range c.ids {
			c.paths[k].Path = s.names.relativePath(id, c.paths[k].Path)
		}
	}
}

// relativePath returns a path relative to our cgroup namespace: "/../x" for a sibling.
func (h *hierarchies) relativePath(id uint32, path string) string {
	own, ok := h.own[id]
	if !ok {
		return path
	}
	up := ""
	for at := own; ; at = at[:strings.LastIndexByte(at, '/')] {
		if at == "" {
			return up + strings.TrimSuffix(path, "/")
		}
		if path == at {
			return cmp.Or(up, "/")
		}
		if strings.HasPrefix(path, at+"/") {
			return up + path[len(at):]
		}
		up += "/.."
	}
}

// tidySets forgets sets that have had no process for long. The kernel reports them again if they reappear.
func (s *Source) tidySets(p *sensor.Pass) {
	if s.pass%64 != 0 {
		return
	}
	s.tidyClaimed()
	for i := range p.Live {
		if c := s.sets[p.Live[i].Cgroup]; c != nil {
			c.pass = s.pass
		}
	}
	for n, c := range s.sets {
		if c.pass+keptPasses < s.pass || len(c.paths) < c.count {
			delete(s.sets, n)
			_ = s.kernel.reported.Delete(n) // a missing entry is reported anyway
		}
	}
}
