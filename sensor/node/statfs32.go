//go:build !(amd64 || arm64 || riscv64 || ppc64 || ppc64le || s390x || loong64 || mips64 || mips64le)

package node

import "golang.org/x/sys/unix"

// statfs reads the state of the file system at path, which ends in NUL. 32-bit machines have a different system call.
// Package unix wraps it, but needs a copy of the path.
func statfs(path []byte, s *unix.Statfs_t) error {
	return unix.Statfs(string(path[:len(path)-1]), s)
}
