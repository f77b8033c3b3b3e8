//go:build amd64 || arm64 || riscv64 || ppc64 || ppc64le || s390x || loong64 || mips64 || mips64le

package node

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// statfs reads the state of the file system at path, which ends in NUL. Unlike unix.Statfs, it does not copy the path,
// so that a reading does not allocate.
func statfs(path []byte, s *unix.Statfs_t) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(s)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
