package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
)

// Special descriptor values of a file that is not open.
const (
	fileAbsent   = -1 // does not exist, or may not be read
	fileOnDemand = -2 // exists and is opened at each reading: over the budget, or not read each time
)

// openAfterReadings is the number of consecutive full readings after which the files of a group are kept open. An open
// file takes a page of kernel memory, and an idle group is read only once in [cpuOnlyTime].
const openAfterReadings = 3

// retryAfterReadings is the number of readings after which missing files are looked for again, in the next reading of all files.
const retryAfterReadings = 64

// maxFileSize is the maximum number of bytes that are read from one file.
const maxFileSize = 4 << 20

// file is a file of a control group that a handle reads.
type file struct {
	dir    int32 // index in handle.dirs
	fd     int32
	source *fileSource
	name   string // name is the first of source.names that exists.
	usage  bool   // it has all CPU time of the group
}

// groupDirectory is the directory of a control group in one hierarchy.
type groupDirectory struct {
	fd   int
	path string
}

type handle struct {
	reader *Reader
	dirs   []groupDirectory
	files  []file
	reads  uint
	probe  uint // reading from which on absent files are looked for
	rare   uint // and rare files are read

	last   sensor.Cgroup // the last reading
	read   uint64        // CPU time at the last reading of all files, nanoseconds
	rested uint          // readings since then
	row    uint          // readings of all files without another between them, up to often
}

// addHierarchy records the directory of the control group in one hierarchy.
func (h *handle) addHierarchy(m *cgpath.Mount, path string, all []sensor.CgroupPath) error {
	r := h.reader
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	r.kept++
	dir := int32(len(h.dirs))
	h.dirs = append(h.dirs, groupDirectory{fd, path})
	sources := r.v1
	if m.V2 {
		sources = r.v2
	}
	for i := range sources {
		s := &sources[i]
		if m.V2 && hasController(all, s.names[0]) || !m.V2 && !m.Serves(s.controller) {
			continue
		}
		f := file{dir: dir, fd: fileAbsent, source: s, usage: m.V2 && s.names[0] == "cpu.stat\x00" || s.names[0] == "cpuacct.usage\x00"}
		h.openFile(&f)
		h.files = append(h.files, f)
	}
	return nil
}

// openFile opens a file if it exists, and keeps it open while the budget allows.
func (h *handle) openFile(f *file) {
	for _, name := range f.source.names {
		fd, err := openat(h.dirs[f.dir].fd, name)
		if err != 0 {
			continue
		}
		f.name = name
		if h.reader.kept >= h.reader.budget || f.source.rare {
			_ = unix.Close(fd)
			f.fd = fileOnDemand
			return
		}
		h.reader.kept++
		f.fd = int32(fd)
		return
	}
}

var _ sensor.CgroupRester = (*handle)(nil)

// Rest implements [sensor.CgroupRester].
func (h *handle) Rest() bool {
	if h.last.Have == 0 || !h.reader.lazy || h.rested >= h.reader.rest {
		return false
	}
	h.reads++
	h.rested++
	return true
}

// Read implements [sensor.CgroupHandle].
func (h *handle) Read(c *sensor.Cgroup) error {
	if len(h.dirs) == 0 {
		return fmt.Errorf("read a cgroup: its handle was closed: %w", fs.ErrNotExist)
	}
	h.reads++
	if h.isIdle() {
		h.rested++
		*c = h.last
		return nil
	}
	return h.readAll(c)
}

// readMode determines which files a reading includes.
type readMode struct {
	resting bool // nothing has run in the group for long
	still   bool // read only the values that others can change
	keep    bool // files stay open
	probing bool // absent files are looked for
	rare    bool // rare files are read
}

// beginReading determines the mode of the next reading.
func (h *handle) beginReading() readMode {
	if h.rested > 0 {
		h.row = 0
	}
	h.row = min(h.row+1, openAfterReadings)
	m := readMode{resting: h.reader.lazy && h.rested >= h.reader.rest, keep: !h.reader.lazy || h.row == openAfterReadings,
		probing: h.reads >= h.probe}
	m.still = m.resting && !m.probing && h.isUnused()
	m.rare = h.reads >= h.rare && !m.still
	if m.probing {
		h.probe = h.reads + retryAfterReadings
	}
	r := &h.reader.r
	*r = reading{devices: h.reader.devices, pmd: h.reader.pmd}
	switch {
	case m.still:
		r.Cgroup = h.last
		r.Have &^= changedByOthers
	case m.rare:
		h.rare = h.reads + rareInterval
	default:
		r.NodeBytes, r.IOLimits = h.last.NodeBytes, h.last.IOLimits
		r.Have |= h.last.Have & (sensor.CgroupNodes | sensor.CgroupIOLimits)
	}
	return m
}

// isDue reports whether a file must be read, and opens it if it should stay open.
func (h *handle) isDue(f *file, m readMode) bool {
	rare := f.source.rare
	if rare && !m.rare || m.still && !f.source.others {
		return false
	}
	if f.fd == fileAbsent && (m.probing || rare) || f.fd == fileOnDemand && m.keep && !rare && h.reader.kept < h.reader.budget {
		h.openFile(f)
	}
	return f.fd != fileAbsent
}

// readAll reads all files that are due.
func (h *handle) readAll(c *sensor.Cgroup) error {
	m, r, got := h.beginReading(), &h.reader.r, 0
	for i := range h.files {
		f := &h.files[i]
		if !h.isDue(f, m) {
			continue
		}
		b, err := h.readFile(f)
		if err == unix.ENODEV || (err == unix.ENOENT && f.fd == fileOnDemand) {
			if err := h.checkExists(f.dir); err != nil {
				return err
			}
			h.closeFile(f, fileAbsent) // the controller was taken away, the group is there
			continue
		}
		if m.resting || !m.keep && !f.usage {
			h.closeFile(f, fileOnDemand)
		}
		if err != 0 { // such as EOPNOTSUPP if pressure is disabled
			continue
		}
		f.source.parse(b, r)
		got++
	}
	if got == 0 || !h.reader.kernel {
		for i := range h.dirs {
			if err := h.checkExists(int32(i)); err != nil {
				return err
			}
		}
	}
	r.combineFigures()
	h.reader.refused = sensor.JoinRefused(h.reader.refused, h.reader.checkMemory(&r.Cgroup, h.dirs[0].path))
	h.last, h.read, h.rested = r.Cgroup, r.UsageNanos, 0
	*c = r.Cgroup
	return nil
}

// A group without running processes is taken to be unchanged for restTime. After that time a reading shows reclaim and
// write-back by others, and every second one also shows changed limits. If a group used less than maxIdleCPU since all its
// files were read, only its CPU time is read for cpuOnlyTime. In that CPU time it cannot have touched more than about ten
// MiB of memory.
const (
	restTime    = time.Minute
	cpuOnlyTime = 10 * time.Second
	maxIdleCPU  = uint64(5 * time.Millisecond)
)

// isIdle reports whether the group used little or no CPU time since all its files were read. Then only its CPU time is
// read, which saves reading eight files in version 1.
func (h *handle) isIdle() bool {
	if !h.reader.lazy || h.rested >= h.reader.rest || h.last.Have&sensor.CgroupCPU == 0 {
		return false
	}
	for i := range h.files {
		f := &h.files[i]
		if !f.usage || f.fd == fileAbsent {
			continue
		}
		if f.fd == fileOnDemand && h.reader.kept < h.reader.budget {
			h.openFile(f)
		}
		b, err := h.readFile(f)
		if err != 0 {
			return false
		}
		r := &h.reader.r
		*r = reading{Cgroup: h.last}
		r.Have &^= sensor.CgroupCPU
		f.source.parse(b, r)
		used := r.UsageNanos - h.read
		if r.Have&sensor.CgroupCPU == 0 || r.UsageNanos < h.read || used >= maxIdleCPU || used > 0 && h.rested >= h.reader.little {
			return false
		}
		h.last = r.Cgroup
		return true
	}
	return false
}

// isUnused reports whether the group has used no CPU time since all files were read.
func (h *handle) isUnused() bool {
	for i := range h.files {
		f := &h.files[i]
		if !f.usage || f.fd == fileAbsent {
			continue
		}
		b, err := h.readFile(f)
		if err != 0 {
			return false
		}
		h.closeFile(f, fileOnDemand)
		r := &h.reader.r
		*r = reading{}
		f.source.parse(b, r)
		unused := r.Have&sensor.CgroupCPU != 0 && r.UsageNanos == h.read
		*r = reading{devices: h.reader.devices, pmd: h.reader.pmd}
		return unused
	}
	return false
}

// readFile returns the bytes of a file, in the reader's buffer.
func (h *handle) readFile(f *file) ([]byte, unix.Errno) {
	fd := int(f.fd)
	if fd == fileOnDemand {
		var err unix.Errno
		if fd, err = openat(h.dirs[f.dir].fd, f.name); err != 0 {
			return nil, err
		}
		defer unix.Close(fd)
	}
	for {
		n, err := unix.Pread(fd, h.reader.buf, 0)
		if err != nil {
			if err == unix.EINTR {
				continue
			}
			var errno unix.Errno
			if !errors.As(err, &errno) {
				errno = unix.EIO
			}
			return nil, errno
		}
		// The kernel makes these files in one piece: less than asked for is all.
		if n < len(h.reader.buf) || n >= maxFileSize {
			return h.reader.buf[:n], 0
		}
		h.reader.buf = make([]byte, 2*len(h.reader.buf))
	}
}

// checkExists returns an error if the cgroup no longer exists in the hierarchy with index dir. It is needed if the files of the group do
// not
// show that: the hierarchy has no figures, or it is a copy in a common file system, where open files stay readable.
func (h *handle) checkExists(dir int32) error {
	d := &h.dirs[dir]
	if !h.reader.kernel {
		var st unix.Stat_t
		if unix.Fstat(d.fd, &st) == nil && st.Nlink == 0 {
			return errorGroupRemoved(d)
		}
		return nil
	}
	fd, err := openat(d.fd, "cgroup.procs\x00")
	switch err {
	case 0:
		_ = unix.Close(fd)
	case unix.ENOENT, unix.ENODEV:
		return errorGroupRemoved(d)
	}
	return nil
}

// closeFile closes a file if it is open, and marks it with the value now: absent or opened on demand.
func (h *handle) closeFile(f *file, now int32) {
	if f.fd >= 0 {
		_ = unix.Close(int(f.fd))
		h.reader.kept--
	}
	f.fd = now
}

func errorGroupRemoved(d *groupDirectory) error {
	return fmt.Errorf("read cgroup %s: removed: %w", d.path, fs.ErrNotExist)
}

// Close implements [sensor.CgroupHandle].
func (h *handle) Close() error {
	var first error
	for i := range h.files {
		if f := &h.files[i]; f.fd >= 0 {
			if err := unix.Close(int(f.fd)); err != nil && first == nil {
				first = err
			}
			h.reader.kept--
		}
	}
	for i := range h.dirs {
		if err := unix.Close(h.dirs[i].fd); err != nil && first == nil {
			first = err
		}
		h.reader.kept--
	}
	h.files, h.dirs = nil, nil
	return first
}

// openat opens a file for reading. name must end in a zero byte, so that it need not be copied. Unlike unix.Openat, it
// therefore does not allocate if the file is missing.
func openat(dir int, name string) (int, unix.Errno) {
	fd, _, err := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.StringData(name))),
		unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0, 0)
	return int(fd), err
}
