package traffic

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// control runs f with the descriptor of a socket.
func control(t *testing.T, c net.Conn, f func(fd int)) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSplice: bytes spliced into a socket count like any call; bytes spliced out of one only where a program could be
// attached to the function that does it, which Missing names otherwise.
func TestSplice(t *testing.T) {
	s := open(t, Options{})
	const n = 5000
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(ends[0]); _ = unix.Close(ends[1]) }()
	got := during(t, s, func() {
		out, in := pair(t, "127.0.0.1:0")
		if _, err := unix.Write(ends[1], make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		control(t, out, func(fd int) {
			if m, err := unix.Splice(ends[0], nil, fd, nil, n, 0); err != nil || m != n {
				t.Errorf("spliced %d into the socket, %v", m, err)
			}
		})
		control(t, in, func(fd int) {
			left := int64(n)
			for tries := 0; left > 0 && tries < 1e6; tries++ {
				m, err := unix.Splice(fd, nil, ends[1], nil, int(left), unix.SPLICE_F_NONBLOCK)
				if err != nil && err != unix.EAGAIN {
					t.Errorf("splice out of the socket: %v", err)
					return
				}
				left -= max(m, 0)
			}
		})
	})
	m := got.Moved[TCP][ScopeLoopback]
	want := uint64(n)
	if len(s.kernel.missing) > 0 {
		want = 0
	}
	if m[sensor.Transmit].Bytes != n || m[sensor.Receive].Bytes != want {
		t.Errorf("spliced %d bytes in and out, not counted: %v: %+v", n, s.kernel.missing, m)
	}
	var p sensor.TallyPass
	if err := s.Read(&p); err != nil || slices.Contains(p.Lacks, sensor.LackSpliced) != (m[sensor.Receive].Bytes < n) {
		t.Errorf("what is lacking: %v (%v)", p.Lacks, err)
	}
}

// TestRing: what io_uring(7) sends counts to the process that owns the ring.
func TestRing(t *testing.T) {
	s := open(t, Options{})
	const n = 3000
	payload := make([]byte, n)
	got := during(t, s, func() {
		out, in := pair(t, "127.0.0.1:0")
		control(t, out, func(fd int) { ringSend(t, fd, payload) })
		if _, err := io.ReadFull(in, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	})
	if m := got.Moved[TCP][ScopeLoopback]; !both(m, n) {
		t.Errorf("%d bytes by io_uring: %+v", n, got)
	}
}

// ringSend sends by one entry of a ring (io_uring_setup(2), include/uapi/linux/io_uring.h).
func ringSend(t *testing.T, socket int, payload []byte) {
	const offRing, offEntries, opSend, getEvents = 0, 0x10000000, 26, 1
	e := binary.NativeEndian
	params := make([]byte, 120)
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		t.Skipf("io_uring: %v", errno)
	}
	fd := int(ring)
	defer unix.Close(fd)
	tail, array := e.Uint32(params[44:]), e.Uint32(params[64:])
	queue, err := unix.Mmap(fd, offRing, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Skipf("io_uring: %v", err)
	}
	defer func() { _ = unix.Munmap(queue) }()
	entry, err := unix.Mmap(fd, offEntries, 64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Skipf("io_uring: %v", err)
	}
	defer func() { _ = unix.Munmap(entry) }()
	entry[0] = opSend
	e.PutUint32(entry[4:], uint32(socket))
	e.PutUint64(entry[16:], uint64(uintptr(unsafe.Pointer(&payload[0]))))
	e.PutUint32(entry[24:], uint32(len(payload)))
	e.PutUint32(queue[array:], 0)
	e.PutUint32(queue[tail:], 1)
	if done, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, getEvents, 0, 0); errno != 0 || done != 1 {
		t.Errorf("io_uring took %d entries, %v", done, errno)
	}
}
