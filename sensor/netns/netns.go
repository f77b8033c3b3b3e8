// Package netns reads what passed the devices of a network namespace, by any process in it: /proc/PID/net/dev
// (Documentation/filesystems/proc.rst, section 1.4). It takes no privilege. The loopback device is left out. Bytes are
// those of frames, headers included, since the devices were made: those of a pod begin with its sandbox.
//
// A Reader is used from one goroutine.
package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Counters are totals over the devices of a namespace.
type Counters struct {
	ReceiveBytes, TransmitBytes     uint64
	ReceivePackets, TransmitPackets uint64
	ReceiveDropped, TransmitDropped uint64
}

// Reader reads namespaces.
type Reader struct {
	root string
	buf  []byte
}

// New returns a reader of the machine whose file tree is mounted at root, "/" if empty.
func New(root string) *Reader {
	return &Reader{root: filepath.Clean("/" + root), buf: make([]byte, 16<<10)}
}

var errFormat = errors.New("it is not what the kernel writes")

// Read reads the namespace that a process is in. The error of a process that is gone matches fs.ErrNotExist.
func (r *Reader) Read(pid int32) (Counters, error) {
	f, err := os.Open(filepath.Join(r.root, "proc", strconv.Itoa(int(pid)), "net/dev"))
	if err != nil {
		return Counters{}, fmt.Errorf("read network devices: %w", err)
	}
	defer f.Close()
	n := 0
	for {
		m, err := f.Read(r.buf[n:])
		if n += m; err != nil || m == 0 {
			break
		}
		if n == len(r.buf) && n < 1<<20 {
			r.buf = append(r.buf, make([]byte, n)...)
		}
	}
	c, ok := parse(r.buf[:n])
	if !ok {
		return Counters{}, fmt.Errorf("read network devices of process %d: %w", pid, errFormat)
	}
	return c, nil
}

// parse adds up the lines "NAME: RECEIVED... TRANSMITTED..." of eight numbers each, below two of headings.
func parse(text []byte) (c Counters, ok bool) {
	for n := 0; len(text) > 0; n++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if n < 2 {
			continue
		}
		name, rest, found := bytes.Cut(line, []byte{':'})
		if !found {
			return Counters{}, false
		}
		var v [16]uint64
		if !numbers(rest, &v) {
			return Counters{}, false
		}
		if string(bytes.TrimSpace(name)) == "lo" {
			ok = true
			continue
		}
		c.ReceiveBytes, c.ReceivePackets, c.ReceiveDropped = c.ReceiveBytes+v[0], c.ReceivePackets+v[1], c.ReceiveDropped+v[3]
		c.TransmitBytes, c.TransmitPackets, c.TransmitDropped = c.TransmitBytes+v[8], c.TransmitPackets+v[9], c.TransmitDropped+v[11]
		ok = true
	}
	return c, ok
}

func numbers(text []byte, v *[16]uint64) bool {
	i := 0
	for field := range bytes.FieldsSeq(text) {
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil || i == len(v) {
			return false
		}
		v[i] = n
		i++
	}
	return i == len(v)
}
