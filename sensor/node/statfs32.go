//go:build !(amd64 || arm64 || riscv64 || ppc64 || ppc64le || s390x || loong64 || mips64 || mips64le)

package node

import "golang.org/x/sys/unix"

// statfs queries the file system at path, which ends in NUL. 32-bit systems have a different system
// call, which package unix implements with a copy of the path.
func statfs(path []byte, s *unix.Statfs_t) error {
	return unix.Statfs(string(path[:len(path)-1]), s)
}
