package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
	"reckon/sensor/task/procfs"
)

// hierarchy is one mounted cgroup hierarchy and our place in it.
type hierarchy struct {
	controllers []string // empty for version 2
	mount       string   // mount point
	dir         string   // our own cgroup, below the mount point
}

// ownCgroups returns the control group of this process in every hierarchy that is mounted where the process can see it.
func ownCgroups() ([]hierarchy, error) {
	mounts, err := cgpath.ReadMounts("/")
	if err != nil {
		return nil, err
	}
	paths, err := procfs.Proc{}.Cgroups(int32(os.Getpid()))
	if err != nil {
		return nil, err
	}
	return joinHierarchies(mounts, paths), nil
}

// joinHierarchies combines the mounted hierarchies with the paths of this process in them.
func joinHierarchies(mounts []cgpath.Mount, paths []sensor.CgroupPath) (out []hierarchy) {
	for i := range mounts {
		m := &mounts[i]
		for _, p := range paths {
			if !m.Serves(p.Controllers) {
				continue
			}
			rel, err := filepath.Rel(m.Root, p.Path)
			if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
				continue // mounted from elsewhere: our group is not to be seen there
			}
			h := hierarchy{mount: m.Point, dir: filepath.Join(m.Point, rel)}
			if p.Controllers != "" {
				h.controllers = strings.Split(p.Controllers, ",")
				slices.Sort(h.controllers)
			}
			out = append(out, h)
		}
	}
	return out
}

// privateGroup is the private control group of a run. It is a folder below our own cgroup in each hierarchy where a new group
// does not affect the work. The zero value means that the run has no private group.
type privateGroup struct {
	v2, cpuacct, memory string // folders, empty if there is none
	fd                  int    // of v2
	back                map[string]string
	buf                 []byte
	files               map[string]int // descriptors by path
	stat, now           string         // paths of the memory files, found once
	keys                [3]string
	looked              bool
}

// openGroup creates the private control group of a run below the cgroups in own. It uses a hierarchy only if a new
// group there changes neither the limits of the work nor its share of the processors and disks. Suitable are cpuacct
// and memory of version 1 if mounted alone, and version 2 unless its groups distribute cpu, io or cpuset.
func openGroup(ownCgroups []hierarchy, name string) (*privateGroup, error) {
	g := &privateGroup{fd: -1, back: map[string]string{}}
	var errs []error
	for _, h := range ownCgroups {
		var slot *string
		switch {
		case len(h.controllers) == 0 && !distributesResources(h.dir):
			slot = &g.v2
		case slices.Equal(h.controllers, []string{"cpuacct"}):
			slot = &g.cpuacct
		case slices.Equal(h.controllers, []string{"memory"}) && readTrimmed(h.dir+"/memory.use_hierarchy") != "0":
			slot = &g.memory
		}
		if slot == nil || *slot != "" {
			continue
		}
		removeStale(h.dir)
		dir := filepath.Join(h.dir, name)
		_ = unix.Rmdir(dir) // of an earlier run of this process, if its daemons have ended
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		*slot, g.back[dir] = dir, h.dir
	}
	if g.v2 != "" {
		fd, err := unix.Open(g.v2, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil || readTrimmed(g.v2+"/cgroup.type") != "domain" {
			g.removeFolder(&g.v2)
		} else {
			g.fd = fd
		}
	}
	if g.v2 != "" && g.cpuacct != "" {
		g.removeFolder(&g.cpuacct) // version 2 counts the same, and splits it better
	}
	if g.v2 == "" && g.cpuacct == "" && g.memory == "" {
		return g, sensor.Unavailable("no control group can be made below ours without changing how the work runs", "", errors.Join(errs...))
	}
	return g, nil
}

// distributesResources reports whether groups below dir (version 2) compete for cpu, io or cpuset.
func distributesResources(dir string) bool {
	b, err := os.ReadFile(dir + "/cgroup.subtree_control")
	if err != nil {
		return true
	}
	for w := range strings.FieldsSeq(string(b)) {
		if w == "cpu" || w == "io" || w == "cpuset" {
			return true
		}
	}
	return false
}

const groupPrefix = "reckon-run-"

// removeStale removes groups of killed runs with processes that have all ended since.
func removeStale(dir string) {
	old, _ := filepath.Glob(dir + "/" + groupPrefix + "*")
	for _, d := range old {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), groupPrefix))
		if err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = unix.Rmdir(d) // fails while it holds a process
		}
	}
}

// dropV2 stops using version 2 after the fork could not use it.
func (g *privateGroup) dropV2() {
	_ = unix.Close(g.fd)
	g.fd = -1
	g.removeFolder(&g.v2)
}

func (g *privateGroup) removeFolder(slot *string) {
	_ = unix.Rmdir(*slot)
	*slot = ""
}

// prepareFork makes the next fork of this thread start inside the group. It uses clone3 for version 2
// (CLONE_INTO_CGROUP), and moves only this thread for version 1. The returned function moves the thread back.
func (g *privateGroup) prepareFork(sys *syscall.SysProcAttr) func() {
	if g == nil {
		return func() {}
	}
	if g.v2 != "" {
		sys.UseCgroupFD, sys.CgroupFD = true, g.fd
	}
	tid := strconv.Itoa(unix.Gettid())
	var moved []string
	for _, slot := range []*string{&g.cpuacct, &g.memory} {
		if *slot == "" {
			continue
		}
		if os.WriteFile(*slot+"/tasks", []byte(tid), 0) != nil {
			g.removeFolder(slot)
			continue
		}
		moved = append(moved, g.back[*slot])
	}
	return func() {
		for _, dir := range moved {
			_ = os.WriteFile(dir+"/tasks", []byte(tid), 0)
		}
	}
}

// readCPU returns the CPU time of the group in nanoseconds. user and system are 0 if the source has no reliable split. ok
// is false if the group has no CPU counter.
func (g *privateGroup) readCPU() (total, user, system uint64, ok bool) {
	switch {
	case g == nil:
	case g.v2 != "":
		b, err := g.readFile(g.v2 + "/cpu.stat")
		if err != nil {
			return
		}
		total, ok = findValue(b, "usage_usec")
		user, _ = findValue(b, "user_usec")
		system, _ = findValue(b, "system_usec")
		return total * 1000, user * 1000, system * 1000, ok
	case g.cpuacct != "":
		b, err := g.readFile(g.cpuacct + "/cpuacct.usage")
		if err != nil {
			return
		}
		total, ok = parseNumber(bytes.TrimSpace(b))
	}
	return total, 0, 0, ok
}

// groupMemory is the memory charged to the group, bytes.
type groupMemory struct {
	anon, shared uint64 // shared: mapped files and shared memory
	shmem        uint64 // shared memory and files of tmpfs, mapped or not
	current      uint64 // page cache and kernel memory too
}

func (g *privateGroup) readMemory() (m groupMemory, ok bool) {
	if g == nil {
		return m, false
	}
	if !g.looked {
		g.looked = true
		dir, keys, now := g.memoryFileNames()
		if g.keys = keys; dir != "" {
			g.stat, g.now = dir+"/memory.stat", dir+"/"+now
		}
	}
	if g.stat == "" {
		return m, false
	}
	b, err := g.readFile(g.stat)
	if err != nil {
		return m, false
	}
	anon, ok1 := findValue(b, g.keys[0])
	mapped, ok2 := findValue(b, g.keys[1])
	shmem, _ := findValue(b, g.keys[2])
	b, err = g.readFile(g.now)
	if err != nil {
		return m, false
	}
	current, ok3 := parseNumber(bytes.TrimSpace(b))
	return groupMemory{anon, max(mapped, shmem), shmem, current}, ok1 && ok2 && ok3
}

func (g *privateGroup) memoryFileNames() (dir string, keys [3]string, now string) {
	switch {
	case g.memory != "":
		return g.memory, [3]string{"total_rss", "total_mapped_file", "total_shmem"}, "memory.usage_in_bytes"
	case g.v2 != "":
		if _, err := os.Stat(g.v2 + "/memory.current"); err == nil {
			return g.v2, [3]string{"anon", "file_mapped", "shmem"}, "memory.current"
		}
	}
	return "", keys, ""
}

// readMemoryPeak returns the highest charge so far, or false if the kernel does not record it.
func (g *privateGroup) readMemoryPeak() (uint64, bool) {
	if g == nil {
		return 0, false
	}
	for _, path := range []string{g.memory + "/memory.max_usage_in_bytes", g.v2 + "/memory.peak"} {
		if path[0] == '/' && filepath.Dir(path) != "/" {
			if b, err := g.readFile(path); err == nil {
				if v, ok := parseNumber(bytes.TrimSpace(b)); ok {
					return v, true
				}
			}
		}
	}
	return 0, false
}

// close removes the group. If processes outlive the command, the group stays.
func (g *privateGroup) close() error {
	if g == nil {
		return nil
	}
	if g.fd >= 0 {
		_ = unix.Close(g.fd)
		g.fd = -1
	}
	for _, fd := range g.files {
		_ = unix.Close(fd)
	}
	g.files = nil
	var errs []error
	for _, dir := range []string{g.v2, g.cpuacct, g.memory} {
		if dir == "" {
			continue
		}
		err := unix.Rmdir(dir)
		for i := 0; i < 20 && errors.Is(err, unix.EBUSY); i++ { // a task is counted until it is released
			if b, e := os.ReadFile(dir + "/cgroup.procs"); e != nil || len(b) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
			err = unix.Rmdir(dir)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// readFile reads a file of the group. The file stays open after the first call.
func (g *privateGroup) readFile(path string) ([]byte, error) {
	if g.buf == nil {
		g.buf, g.files = make([]byte, 16<<10), map[string]int{}
	}
	fd, ok := g.files[path]
	if !ok {
		var err error
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, err
		}
		g.files[path] = fd
	}
	n, err := unix.Pread(fd, g.buf, 0)
	if err != nil {
		return nil, err
	}
	return g.buf[:n], nil
}

// findValue returns the value in the line "key value" of b.
func findValue(b []byte, key string) (uint64, bool) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok && len(rest) > 1 && rest[0] == ' ' {
			return parseNumber(bytes.TrimSpace(rest))
		}
	}
	return 0, false
}

func readTrimmed(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
