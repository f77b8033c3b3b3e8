// Package netns reads the traffic of the devices of a network namespace from any process in it: /proc/PID/net/dev
// (Documentation/filesystems/proc.rst, section 1.4). It takes no privilege. The loopback device is left out. Bytes are
// those of frames, including headers, since the devices were created. The devices of a pod begin with its sandbox.
//
// A Reader is used from one goroutine.
package netns

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"reckon/internal/sysfs"

	"golang.org/x/sys/unix"
)

// Device is the traffic of one device of a namespace.
type Device struct {
	Name              string
	Receive, Transmit Counters
}

// Counters are the totals of one direction.
type Counters struct{ Bytes, Packets, Errors, Dropped uint64 }

// maxDevices is the number of devices of a namespace that are listed separately; the rest are combined as [Others].
const maxDevices = 16

// Others is the name of the devices above the first few.
const Others = "others"

// Reader reads namespaces.
type Reader struct {
	root  string
	buf   []byte
	list  []Device
	names map[string]string // so that a steady node allocates none
}

// New returns a reader of the machine with its file tree mounted at root, "/" if empty.
func New(root string) *Reader {
	return &Reader{root: filepath.Clean("/" + root), buf: make([]byte, 16<<10), names: map[string]string{}}
}

var errFormat = errors.New("it is not what the kernel writes")

// Read returns the network devices in the network namespace of a process. The list is valid until the next call. If the
// process is gone, the error matches fs.ErrNotExist.
func (r *Reader) Read(pid int32) ([]Device, error) {
	path := filepath.Join(r.root, "proc", strconv.Itoa(int(pid)), "net/dev")
	// Bypass the poller of the runtime: a node has a hundred of these files, and they never block.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read network devices: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	defer unix.Close(fd)
	n := 0
	for {
		m, err := unix.Read(fd, r.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			break
		}
		n += m
		if n == len(r.buf) && n < 1<<20 {
			r.buf = append(r.buf, make([]byte, n)...)
		}
	}
	if !r.parseDevices(r.buf[:n]) {
		return nil, fmt.Errorf("read network devices of process %d: %w", pid, errFormat)
	}
	return r.list, nil
}

// parseDevices reads the lines "NAME: RECEIVED... TRANSMITTED..." of eight numbers each, below two of headings.
func (r *Reader) parseDevices(text []byte) (ok bool) {
	r.list = r.list[:0]
	for n := 0; len(text) > 0; n++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if n < 2 {
			continue
		}
		name, rest, found := bytes.Cut(line, []byte{':'})
		var v [16]uint64
		if !found || !parseNumbers(rest, &v) {
			return false
		}
		ok = true
		if name = bytes.TrimSpace(name); string(name) != "lo" {
			r.addDevice(name, &v)
		}
	}
	return ok
}

// addDevice adds a device to the list, or to the common entry if there are too many.
func (r *Reader) addDevice(name []byte, v *[16]uint64) {
	if len(r.list) < maxDevices {
		r.list = append(r.list, Device{Name: r.deviceName(name)})
	} else {
		r.list[maxDevices-1].Name = Others
	}
	d := &r.list[len(r.list)-1]
	for i, c := range [...]*Counters{&d.Receive, &d.Transmit} {
		c.Bytes, c.Packets, c.Errors, c.Dropped = c.Bytes+v[8*i], c.Packets+v[8*i+1], c.Errors+v[8*i+2], c.Dropped+v[8*i+3]
	}
}

// deviceName returns a device name as a string. It reuses strings to avoid allocations.
func (r *Reader) deviceName(b []byte) string {
	if s, ok := r.names[string(b)]; ok {
		return s
	}
	if len(r.names) > 10_000 {
		clear(r.names)
	}
	s := string(b)
	r.names[s] = s
	return s
}

func parseNumbers(text []byte, v *[16]uint64) bool {
	i := 0
	for field := range bytes.FieldsSeq(text) {
		n, ok := sysfs.Unsigned(field)
		if !ok || i == len(v) {
			return false
		}
		v[i] = n
		i++
	}
	return i == len(v)
}
