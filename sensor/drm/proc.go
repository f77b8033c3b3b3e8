package drm

import (
	"encoding/binary"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procDir reads /proc with system calls that take bytes, so that it does not allocate.
type procDir struct {
	dir  int // descriptor of /proc
	name []byte
	list []byte // of directory entries
	link [64]byte
}

// buildPath returns a NUL-terminated path below /proc that consists of words and numbers.
func (p *procDir) buildPath(pid int32, word string, fd int32) []byte {
	p.name = strconv.AppendInt(p.name[:0], int64(pid), 10)
	p.name = append(p.name, '/')
	p.name = append(p.name, word...)
	if fd >= 0 {
		p.name = append(p.name, '/')
		p.name = strconv.AppendInt(p.name, int64(fd), 10)
	}
	p.name = append(p.name, 0)
	return p.name
}

func (p *procDir) openPath(name []byte, flags int) (int, unix.Errno) {
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(p.dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))),
		uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
	return int(fd), errno
}

// readlink returns the target of a link in a directory, cut at 64 bytes.
func (p *procDir) readlink(dir int, number int32) []byte {
	p.name = append(strconv.AppendInt(p.name[:0], int64(number), 10), 0)
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(p.name))),
		uintptr(unsafe.Pointer(&p.link)), uintptr(len(p.link)), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.link[:n]
}

// readNumbers appends the numeric file names in a directory. It reads from the start and then closes the directory.
func (p *procDir) readNumbers(dir int, to []int32) ([]int32, error) {
	if len(p.list) == 0 {
		p.list = make([]byte, 32<<10)
	}
	for {
		n, err := unix.ReadDirent(dir, p.list)
		if err != nil || n <= 0 {
			return to, err
		}
		to = parseEntries(p.list[:n], to)
	}
}

// parseEntries reads struct linux_dirent64 (getdents64(2)).
func parseEntries(b []byte, to []int32) []int32 {
	const header = 19 // inode, offset, length of the record, type
	for len(b) > header {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= header || size > len(b) {
			break
		}
		v, digits := int32(0), 0
		for _, c := range b[header:size] {
			if c == 0 {
				break
			}
			if c < '0' || c > '9' || v > (1<<31-10)/10 {
				digits = 0
				break
			}
			v = v*10 + int32(c-'0')
			digits++
		}
		if digits > 0 {
			to = append(to, v)
		}
		b = b[size:]
	}
	return to
}
