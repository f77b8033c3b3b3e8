package netfs

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"strings"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// nfs reads mountstats in pieces: of thousands of mounts it has tens of megabytes.
type nfs struct {
	path string
	file *os.File
	buf  []byte
	seen map[uint64]bool // file systems of this pass, by their statistics and server
	nth  map[uint64]int  // mounts of one name in this pass, by its hash

	// of the mount that is being read
	device, key []byte
	server      int // length of the name of the server in device
	inside      bool
	hash        maphash.Hash
	now         [countFields]uint64
	has, broken [countFields]bool
	source      func() string
}

func newNFS() *nfs {
	n := &nfs{buf: make([]byte, 64<<10), seen: make(map[uint64]bool), nth: make(map[uint64]int)}
	n.hash.SetSeed(maphash.MakeSeed())
	n.source = func() string { return strings.ToValidUTF8(sysfs.Unescape(string(n.device)), "\uFFFD") }
	return n
}

// openNFS opens the mount statistics of the first process, or of our own.
func openNFS(root string) (*nfs, error) {
	n := newNFS()
	var first error
	for _, name := range []string{"proc/1/mountstats", "proc/self/mountstats"} {
		n.path = sysfs.Path(root, name)
		f, err := os.Open(n.path)
		if err == nil {
			if _, err = f.ReadAt(n.buf[:1], 0); err == nil || err == io.EOF {
				n.file = f
				return n, nil
			}
			_ = f.Close()
		}
		if first == nil || errors.Is(first, fs.ErrPermission) {
			first = err
		}
	}
	switch {
	case errors.Is(first, fs.ErrNotExist):
		return nil, sensor.Unavailable("this kernel or file tree has no statistics of mounts", "", first)
	case errors.Is(first, fs.ErrPermission):
		return nil, sensor.Unavailable("no permission to read statistics of mounts", "run as root", first)
	}
	return nil, fmt.Errorf("read statistics of mounts: %w", first)
}

func (n *nfs) close() error {
	if n.file == nil {
		return nil
	}
	err := n.file.Close()
	n.file = nil
	return err
}

// mountFunc is called with the statistics of one mount. key identifies the mount while it is mounted, kind is the type
// of the file system, and from returns the mounted source. now holds the counts, and has tells which are valid. The
// arguments must not be kept after the call.
type mountFunc func(key []byte, kind string, from func() string, now *[countFields]uint64, has *[countFields]bool)

// eachMount calls the function once for every NFS file system, even if it is mounted several times.
func (n *nfs) eachMount(take mountFunc) error {
	if n.file == nil {
		return os.ErrClosed
	}
	clear(n.seen)
	clear(n.nth)
	n.inside = false
	var at int64
	kept := 0
	for {
		m, err := n.file.ReadAt(n.buf[kept:], at)
		at += int64(m)
		text := n.buf[:kept+m]
		for {
			i := bytes.IndexByte(text, '\n')
			if i < 0 {
				break
			}
			n.parseLine(text[:i], take)
			text = text[i+1:]
		}
		if len(text) == len(n.buf) {
			text = text[:0] // no line of the kernel is so long
		}
		kept = copy(n.buf, text)
		if err == io.EOF || err == nil && m == 0 {
			n.endMount(take)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", n.path, err)
		}
	}
}

// parseLine reads one line: "device 10.0.0.1:/home mounted on /home with fstype nfs4 statvers=1.1" begins a mount.
func (n *nfs) parseLine(l []byte, take mountFunc) {
	if rest, ok := bytes.CutPrefix(l, []byte("device ")); ok {
		n.endMount(take)
		n.beginMount(rest)
		return
	}
	if !n.inside {
		return
	}
	_, _ = n.hash.Write(l)
	name, rest, found := bytes.Cut(bytes.TrimSpace(l), []byte{':'})
	if !found {
		return
	}
	switch string(name) {
	case "bytes":
		n.parseBytes(rest)
	case "opts", "age", "caps", "nfsv4", "sec", "events", "impl_id", "fsc", "xprt":
	default:
		n.parseOperation(name, rest)
	}
}

func (n *nfs) beginMount(rest []byte) {
	device, after, ok := bytes.Cut(rest, []byte(" mounted on "))
	if !ok {
		return
	}
	_, kind, ok := bytes.Cut(after, []byte(" with fstype "))
	if !ok || !bytes.HasPrefix(kind, []byte("nfs")) || bytes.HasPrefix(kind, []byte("nfsd")) || !bytes.Contains(kind, []byte("statvers=")) {
		return
	}
	n.inside = true
	n.device = append(n.device[:0], device...)
	n.server = max(bytes.Index(n.device, []byte(":/")), 0)
	n.hash.Reset()
	_, _ = n.hash.Write(n.device[:n.server])
	n.now, n.has, n.broken = [countFields]uint64{}, [countFields]bool{}, [countFields]bool{}
}

// endMount passes the current mount to take, unless its file system was passed before.
func (n *nfs) endMount(take mountFunc) {
	if !n.inside {
		return
	}
	n.inside = false
	sum := n.hash.Sum64()
	if n.seen[sum] {
		return
	}
	n.seen[sum] = true
	n.key = append(append(n.key[:0], n.device...), 0)
	same := maphash.Bytes(n.hash.Seed(), n.key)
	i := n.nth[same]
	n.nth[same] = i + 1
	n.key = append(n.key, byte(i), byte(i>>8))
	for i, b := range n.broken {
		n.has[i] = n.has[i] && !b
	}
	take(n.key, "nfs", n.source, &n.now, &n.has)
}

// parseBytes reads the octets that reads and writes took: by calls, by direct calls, from and to the server (fifth and sixth), by pages.
func (n *nfs) parseBytes(rest []byte) {
	var f [8]uint64
	if parseNumbers(rest, f[:]) < 6 {
		return
	}
	n.setCount(readBytes, f[4], 1)
	n.setCount(writeBytes, f[5], 1)
}

// parseOperation parses a line such as "READ: 1298 1298 0 207680 1210292152 6 79386 79407": requests, transmissions,
// time-outs, bytes sent and received, and milliseconds in the queue, at the server and in total.
func (n *nfs) parseOperation(name, rest []byte) {
	var f [8]uint64
	if parseNumbers(rest, f[:]) < 8 {
		return
	}
	kind := opMetadata
	switch string(name) {
	case "NULL":
		return
	case "READ", "READ_PLUS": // READ_PLUS is used by clients of NFS 4.2 if the server offers it (Linux 6.12)
		kind = opRead
	case "WRITE", "COMMIT":
		kind = opWrite
	}
	again := uint64(0)
	if f[1] > f[0] {
		again = f[1] - f[0]
	}
	n.setCount(readOperations+kind, f[0], 1)
	n.setCount(readMicros+kind, f[7], 1000)
	n.setCount(readServerMicros+kind, f[6], 1000)
	n.setCount(retransmissions, again, 1)
	n.setCount(timeouts, f[2], 1)
}

// maxPlausible exceeds any real counter of a mount. The kernel sums time differences, and a negative one makes the
// sum wrap to nearly 2^64. Such a figure is omitted until it is valid again.
const maxPlausible = 1 << 53

func (n *nfs) setCount(i int, v, scale uint64) {
	if v >= maxPlausible {
		n.broken[i] = true
		return
	}
	n.now[i] += v * scale
	n.has[i] = true
}

// parseNumbers parses numbers of up to 64 bits into f and returns how many there are.
func parseNumbers(b []byte, f []uint64) int {
	for i := range f {
		var w []byte
		var ok bool
		w, b = sysfs.Field(b)
		if f[i], ok = sysfs.Unsigned(w); !ok {
			return i
		}
	}
	return len(f)
}
