// Package cgroup reads control groups of version 1, version 2 and machines that mount both.
//
// Sources are Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the kernel; the hierarchies
// are found in /proc/PID/mountinfo. CPU time is in nanoseconds, memory and I/O in bytes. All
// figures hold the descendants of a group too.
//
// A handle reads by pread into one buffer, without allocating. The kernel keeps a buffer of a page
// for each open file (a group has 13 to 21), so a handle keeps open only the files that it reads
// each time: all files of a busy group, the CPU time of a group that runs now and then, and no file
// of a group in which nothing has run for a minute. When five eighths of the limit of open files
// are taken, further handles open and close their files at each reading, which costs several times
// as much.
//
// An unavailable figure leaves its bit unset and is never zero: a controller that is not enabled, a
// file that an older kernel lacks, no permission. A file that appears later (a controller enabled
// in a parent) is found within 64 readings. Reading a removed group returns an error that matches
// [fs.ErrNotExist].
//
// Known limits of the kernel's figures: version 1 charges no buffered writes to anyone's blkio, and
// recent kernels (seen with 6.18) count there only on devices with a limit; I/O to stacked block
// devices is charged at each layer; one layer is taken here (see traffic); memory.stat lags a
// little behind on busy machines.
//
// A Reader and its handles are used from one goroutine.
package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
)

// Options controls the place to read from.
type Options struct {
	// Root is the file system to read, "/" if empty. It may be a mounted host tree or a recorded one.
	Root string
	// Tick is the time between two readings of a handle; 0 means a second. It determines how seldom
	// the files of idle groups are read.
	Tick time.Duration
}

// Reader opens control groups.
type Reader struct {
	mounts  []cgpath.Mount
	v1, v2  []fileSource
	devices *deviceLayers
	buf     []byte
	r       reading
	kept    int // descriptors held by handles
	budget  int // how many they may hold
	kernel  bool
	lazy    bool // groups that rest are not read whole each time
	root    string
	memory  uint64 // of the machine, bytes; 0 while it was not read
	pmd     uint64 // size of transparent huge pages, see hugePages
	refused error
	// rest and little are for how many readings that is so of groups that used no and little CPU time.
	rest, little uint
}

var _ sensor.CgroupReader = (*Reader)(nil)

// New finds the mounted hierarchies. It returns [sensor.ErrUnavailable] if there is none.
func New(o Options) (*Reader, error) {
	root := filepath.Clean("/" + o.Root)
	mounts, err := cgpath.ReadMounts(root)
	if err != nil {
		return nil, sensor.Unavailable("mounts can not be read", "mount /proc", err)
	}
	if len(mounts) == 0 {
		return nil, sensor.Unavailable("no cgroup hierarchy is mounted", "mount -t cgroup2 none /sys/fs/cgroup", nil)
	}
	cgpath.FindOrigin(root).AbsoluteRoots(mounts)
	r := &Reader{
		mounts: mounts, v1: legacySources(), v2: unifiedSources(),
		root: root, pmd: hugePages(root), devices: newDevices(root), buf: make([]byte, 16<<10), budget: maxOpenFiles(),
	}
	tick := cmp.Or(max(o.Tick, 0), time.Second)
	r.rest, r.little = uint(restTime/tick), uint(cpuOnlyTime/tick)
	r.addNodeFiles(numaNodes(root))
	r.addLimitFiles()
	var st unix.Statfs_t
	if unix.Statfs(mounts[0].Point, &st) == nil {
		r.kernel = st.Type == unix.CGROUP_SUPER_MAGIC || st.Type == unix.CGROUP2_SUPER_MAGIC
		r.lazy = r.kernel
	}
	return r, nil
}

// maxOpenFiles returns the maximum number of files that handles may keep open. It is five eighths of the limit, because the
// /proc task table keeps up to a quarter, and a store and a server need some too.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 512
	}
	return int(min(limit.Cur/8*5, 1<<20))
}

// Open implements [sensor.CgroupReader]. It skips hierarchies without the group, and returns an error if none has it.
// If both versions have a figure, it uses version 1, because a controller is bound to only one version.
func (r *Reader) Open(paths []sensor.CgroupPath) (sensor.CgroupHandle, error) {
	h := &handle{reader: r, probe: retryAfterReadings}
	var failed error
	open := func(measured bool) {
		for _, p := range paths {
			m, path, err := locateCgroup(r.mounts, p.Controllers, p.Path)
			if err == nil && hasFigures(m) == measured {
				err = h.addHierarchy(m, path, paths)
			}
			if err != nil && (failed == nil || errors.Is(err, fs.ErrNotExist)) {
				failed = fmt.Errorf("open cgroup %q: %w", p.Controllers+":"+p.Path, err)
			}
		}
	}
	if open(true); len(h.dirs) == 0 {
		open(false) // such as freezer: it shows no more than that the group exists
	}
	if len(h.dirs) > 0 {
		return h, nil
	}
	switch {
	case failed == nil:
		return nil, fmt.Errorf("open cgroup: no path given: %w", fs.ErrInvalid)
	case errors.Is(failed, errOutsideMounts):
		return nil, sensor.Unavailable("cgroup is outside what is mounted here",
			"mount the machine's file system and name it with --root, or run in its cgroup namespace", failed)
	case errors.Is(failed, errNoMount):
		return nil, sensor.Unavailable("cgroup hierarchy is not mounted", "", failed)
	}
	return nil, failed
}

// Close implements [sensor.CgroupReader]. Handles must be closed separately.
func (r *Reader) Close() error { return nil }

// hasController reports whether a version 1 hierarchy among paths has the controllers with the figures of file, a file
// of version 2.
func hasController(paths []sensor.CgroupPath, file string) bool {
	controller, rest, _ := strings.Cut(file, ".")
	if strings.HasPrefix(rest, "pressure") {
		return false // version 2 has it, whichever version owns the controller
	}
	for _, p := range paths {
		for c := range strings.SplitSeq(p.Controllers, ",") {
			switch {
			case c == "":
			case c == controller, c == "cpuacct" && controller == "cpu", c == "blkio" && controller == "io":
				return true
			}
		}
	}
	return false
}
