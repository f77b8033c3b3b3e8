package files

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// networkTypes are the file system types that class_of of the programs treats as network file systems.
var networkTypes = []string{
	"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "afs", "coda", "9p", "lustre", "gpfs", "beegfs", "panfs", "pvfs2", "gfs2", "ocfs2",
}

// mountTable opens the mount table of the machine. It does not use package os, because the Go runtime would poll the
// file and so consume the notifications of changes.
func mountTable(root string) (*os.File, error) {
	var first error
	for _, process := range []string{"1", "self"} {
		path := filepath.Join(root, "proc", process, "mountinfo")
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if first == nil {
			first = &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	return nil, first
}

// mountsChanged reports whether a table of mounts has changed since the last call (proc(5): such a file then polls as exceptional).
func mountsChanged(f *os.File) bool {
	p := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// hasRemoteMount shows whether a table of mounts has a file system across the network.
func hasRemoteMount(f io.ReadSeeker) (bool, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("read the table of mounts: %w", err)
	}
	in := bufio.NewScanner(f)
	for in.Scan() {
		_, right, _ := strings.Cut(in.Text(), " - ")
		kind, _, _ := strings.Cut(right, " ")
		if isRemote(kind) {
			return true, nil
		}
	}
	if err := in.Err(); err != nil {
		return false, fmt.Errorf("read the table of mounts: %w", err)
	}
	return false, nil
}

// isRemote reports whether a type of file system is a network one or FUSE.
func isRemote(kind string) bool {
	return slices.Contains(networkTypes, kind) || kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.")
}
