package files

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	opLookup, opGetattr, opSetattr, opOpen, opRead, opWrite = 1, 3, 4, 14, 15, 16
	opRelease, opFlush, opInit, opOpendir, opAccess         = 18, 25, 26, 27, 34
	opForget, opBatchForget, opInterrupt, opCreate          = 2, 42, 36, 35

	inHeader, outHeader = 40, 16
	fileSize            = 1 << 20
	fopenDirect         = 1
)

// serveFUSE mounts a file system with one file "f" at dir and answers until it is unmounted, as include/uapi/linux/fuse.h has it (7.31):
// names that are not there can be looked up, and the file read and written past the page cache.
func serveFUSE(t testing.TB, dir, source string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	if err := unix.Mount(source, dir, "fuse.test", unix.MS_NODEV|unix.MS_NOSUID,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)); err != nil {
		_ = unix.Close(fd)
		t.Skipf("mount a FUSE file system: %v", err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		<-done
		_ = unix.Close(fd)
	})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<17+4096)
		for {
			n, err := unix.Read(fd, buf)
			if err == unix.EINTR || err == unix.ENOENT {
				continue
			}
			if err != nil || n < inHeader {
				return // ENODEV: it was unmounted
			}
			if out := answer(buf[:n]); out != nil {
				_, _ = unix.Write(fd, out)
			}
		}
	}()
}

// answer makes the answer to a request, nil where none is expected.
func answer(in []byte) []byte {
	e := binary.NativeEndian
	code, unique, node := e.Uint32(in[4:]), in[8:16], e.Uint64(in[16:])
	body := in[inHeader:]
	reply := func(errno unix.Errno, payload []byte) []byte {
		out := make([]byte, outHeader, outHeader+len(payload))
		e.PutUint32(out, uint32(outHeader+len(payload)))
		e.PutUint32(out[4:], uint32(-int32(errno)))
		copy(out[8:], unique)
		return append(out, payload...)
	}
	switch code {
	case opInit:
		p := make([]byte, 64)
		e.PutUint32(p, 7)
		e.PutUint32(p[4:], 31)
		e.PutUint32(p[20:], 1<<17) // max_write
		return reply(0, p)
	case opForget, opBatchForget, opInterrupt:
		return nil
	case opLookup:
		if string(body[:len(body)-1]) != "f" {
			return reply(unix.ENOENT, nil)
		}
		return reply(0, append(append(make([]byte, 0, 128), entryHead(2)...), attributes(2)...))
	case opGetattr, opSetattr:
		return reply(0, append(make([]byte, 16), attributes(node)...))
	case opOpen, opOpendir:
		p := make([]byte, 16)
		e.PutUint32(p[8:], fopenDirect)
		return reply(0, p)
	case opRead:
		return reply(0, make([]byte, e.Uint32(body[16:])))
	case opWrite:
		p := make([]byte, 8)
		e.PutUint32(p, e.Uint32(body[16:]))
		return reply(0, p)
	case opRelease, opFlush, opAccess:
		return reply(0, nil)
	}
	return reply(unix.ENOSYS, nil)
}

func entryHead(node uint64) []byte {
	p := make([]byte, 40) // no caching: all times are 0
	binary.NativeEndian.PutUint64(p, node)
	return p
}

func attributes(node uint64) []byte {
	e, p := binary.NativeEndian, make([]byte, 88)
	mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
	if node != 1 {
		mode, size = unix.S_IFREG|0o666, fileSize
	}
	e.PutUint64(p, node)
	e.PutUint64(p[8:], size)
	e.PutUint32(p[60:], mode)
	e.PutUint32(p[64:], 1)
	return p
}
