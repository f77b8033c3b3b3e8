package procfs

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// pidLister lists the numeric names in a directory with getdents64(2). Each record has inode (8 bytes), offset (8), length
// (2), type (1), and the name with a NUL.
type pidLister struct {
	dir int
	buf []byte
}

func (l *pidLister) init(dir int) { l.dir, l.buf = dir, make([]byte, 32<<10) }

// read appends the numbers in ascending order.
func (l *pidLister) read(to []int32) ([]int32, error) {
	if _, err := unix.Seek(l.dir, 0, 0); err != nil {
		return to, err
	}
	begin := len(to)
	for {
		n, err := unix.Getdents(l.dir, l.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return to, err
		}
		if n <= 0 {
			break
		}
		to = numericNames(l.buf[:n], to)
	}
	if !slices.IsSorted(to[begin:]) { // procfs sorts; a recorded tree does not
		slices.Sort(to[begin:])
	}
	return to, nil
}

// numericNames appends the names of directory records that are process ids.
func numericNames(b []byte, to []int32) []int32 {
	const header = 19
	for len(b) > header {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= header || size > len(b) {
			return to
		}
		name := b[header:size]
		end := 0
		for end < len(name) && name[end] != 0 {
			end++
		}
		if c := name[0]; c >= '1' && c <= '9' {
			if pid, ok := parseSigned(name[:end]); ok {
				to = append(to, pid)
			}
		}
		b = b[size:]
	}
	return to
}
