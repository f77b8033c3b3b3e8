package resctrl

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"reckon/internal/sysfs"
)

// maxTaskListBytes is the number of bytes that are read from a list of threads.
const maxTaskListBytes = 1 << 20

// value is one counter. It is absent if the kernel writes a word ("Unavailable", "Error", "Unassigned").
type value struct {
	n  uint64
	ok bool
}

// reading is the count of a group in one domain since the group was created.
type reading struct{ total, local, cache value }

// group is a control group (CTRL_MON) or a monitoring group (MON) of resctrl.
type group struct {
	dir      string
	inode    uint64
	parent   *group // nil for a control group
	children int
	readings []reading // by domain
	tasks    []int32

	counted  uint64 // the last total that was read, of all domains
	known    bool   // counted is one
	bytes    uint64 // bytes that moved between the last two readings, if moved is true
	moved    bool
	fresh    bool
	gap      bool
	occupies value
	seen     bool
}

// listGroups updates s.groups to the groups that exist now, and keeps their order. It returns the groups that were removed.
func (s *Sensor) listGroups() (removed []*group, err error) {
	for _, g := range s.groups {
		g.seen, g.children = false, 0
	}
	first := s.groups == nil
	root, err := s.groupAt(s.dir, nil, first)
	if err != nil {
		return nil, err
	}
	s.listMonitorGroups(root, first)
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		switch e.Name() {
		case "info", "mon_data", "mon_groups":
			continue
		}
		if !e.IsDir() {
			continue
		}
		if g, err := s.groupAt(filepath.Join(s.dir, e.Name()), nil, first); err == nil {
			s.listMonitorGroups(g, first)
		}
	}
	kept := s.groups[:0]
	for _, g := range s.groups {
		if g.seen {
			kept = append(kept, g)
		} else {
			removed = append(removed, g)
		}
	}
	s.groups = kept
	return removed, nil
}

func (s *Sensor) listMonitorGroups(parent *group, first bool) {
	entries, _ := os.ReadDir(filepath.Join(parent.dir, "mon_groups")) // there is none without monitoring
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if _, err := s.groupAt(filepath.Join(parent.dir, "mon_groups", e.Name()), parent, first); err == nil {
			parent.children++
		}
	}
}

// groupAt returns the group of a directory. It is a new group if the directory is new or was replaced.
func (s *Sensor) groupAt(dir string, parent *group, first bool) (*group, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	for _, g := range s.groups {
		if g.dir == dir && g.inode == inode {
			g.seen, g.parent = true, parent
			return g, nil
		}
	}
	g := &group{dir: dir, inode: inode, parent: parent, seen: true, fresh: !first, known: !first, readings: make([]reading, len(s.domains))}
	s.groups = append(s.groups, g)
	return g, nil
}

// read reads the counters of the group, which include its descendants.
func (g *group) read(domains []cacheDomain) {
	sum, cache := value{ok: true}, value{ok: true}
	for i := range domains {
		dir := filepath.Join(g.dir, "mon_data", domains[i].name)
		r := reading{readCounter(dir, "mbm_total_bytes"), readCounter(dir, "mbm_local_bytes"), readCounter(dir, "llc_occupancy")}
		g.readings[i] = r
		sum.add(r.total)
		cache.add(r.cache)
	}
	g.occupies, g.moved, g.gap, g.bytes = cache, false, false, 0
	if !sum.ok {
		return // the next reading that is whole has it
	}
	if g.known {
		g.moved, g.gap = true, sum.n < g.counted
		if !g.gap {
			g.bytes = sum.n - g.counted
		}
	}
	g.counted, g.known = sum.n, true
}

func (v *value) add(o value) { v.n, v.ok = v.n+o.n, v.ok && o.ok }

func readCounter(dir, name string) value {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return value{}
	}
	n, ok := sysfs.Number(bytes.TrimSpace(b))
	return value{uint64(n), ok && n >= 0}
}

// readTasks reads the threads of the group.
func (g *group) readTasks() {
	g.tasks = g.tasks[:0]
	f, err := os.Open(filepath.Join(g.dir, "tasks"))
	if err != nil {
		return
	}
	defer f.Close()
	g.tasks = parseTasks(g.tasks, readLimited(f))
}

func readLimited(f *os.File) []byte {
	var buf bytes.Buffer
	block := make([]byte, 4096)
	for buf.Len() < maxTaskListBytes {
		n, err := f.Read(block)
		buf.Write(block[:n])
		if n == 0 || err != nil {
			break
		}
	}
	return buf.Bytes()
}

// parseTasks appends the numbers of a list with one number per line.
func parseTasks(list []int32, text []byte) []int32 {
	for line := range bytes.Lines(text) {
		if n, ok := sysfs.Number(bytes.TrimSpace(line)); ok && n >= 0 && n < 1<<31 {
			list = append(list, int32(n))
		}
	}
	return list
}

// cacheDomain is one last-level cache.
type cacheDomain struct {
	name   string // of the folder in mon_data
	socket string
}

// listDomains returns the last-level caches that are monitored. If a cache is divided (sub-NUMA clusters), the
// folders of its parts are inside the folder of the whole cache.
func listDomains(root, dir string) (out []cacheDomain) {
	sockets := map[string]string{}
	caches, _ := filepath.Glob(sysfs.Path(root, "sys/devices/system/cpu/cpu[0-9]*/cache/index3/id")) // the pattern is well formed
	for _, path := range caches {
		cpu := filepath.Dir(filepath.Dir(filepath.Dir(path)))
		sockets[sysfs.ReadWord(path)] = sysfs.ReadWord(cpu, "topology/physical_package_id")
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "mon_data"))
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), "mon_L3_"); ok && e.IsDir() {
			number = cmp.Or(strings.TrimLeft(number, "0"), "0")
			out = append(out, cacheDomain{e.Name(), sockets[number]})
		}
	}
	return out
}
