// Package nfstest is a file system of the kernel's own NFS server for tests, mounted by the same kernel through its
// loopback device. There is no daemon: the answers of mountd are written to the server's caches beforehand
// (fs/nfsd/export.c, net/sunrpc/svcauth_unix.c of the kernel).
//
// It needs root, the modules nfsd and nfsv4, and a machine that serves no NFS of its own; else there is none.
package nfstest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Source is the name of the mount.
const Source = "127.0.0.1:/"

// ErrNone means that there can be no server here.
var ErrNone = errors.New("no NFS server can be had here")

const (
	domain   = "nfstest" // of clients
	noExpiry = "2147483647"
	// NFSEXP_INSECURE_PORT, NFSEXP_ASYNC, NFSEXP_NOSUBTREECHECK, NFSEXP_FSID of include/uapi/linux/nfsd/export.h.
	flags = 0x2 | 0x10 | 0x400 | 0x2000
)

// Server is a server that runs.
type Server struct {
	control, served string // directory of the server's control files, and the served directory
	port            int
}

// Start starts an NFS server with an empty directory. It mounts the folders "control" and "served" of dir. It returns
// [ErrNone] if the system does not support that.
func Start(dir string) (*Server, error) {
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(known), "\tnfsd\n") || !strings.Contains(string(known), "\tnfs4\n") {
		return nil, fmt.Errorf("%w: the kernel has no NFS server, or no client of version 4 (modules nfsd, nfsv4)", ErrNone)
	}
	s := &Server{control: filepath.Join(dir, "control")}
	if err := mount(s.control, "nfsd", "nfsd", ""); err != nil {
		return nil, err
	}
	if threads, err := os.ReadFile(s.controlFile("threads")); err != nil || strings.TrimSpace(string(threads)) != "0" {
		return nil, errors.Join(fmt.Errorf("%w: this machine serves NFS, with %s threads", ErrNone, strings.TrimSpace(string(threads))),
			err, unmount(s.control))
	}
	if err := s.startServer(filepath.Join(dir, "served")); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) startServer(dir string) error {
	if err := mount(dir, "nfstest", "tmpfs", "mode=777"); err != nil {
		return err
	}
	s.served = dir
	socket, err := s.listen()
	if err != nil {
		return fmt.Errorf("listen for NFS: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	for _, word := range []struct{ path, text string }{
		{"/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 " + noExpiry + " " + domain},
		{"/proc/net/rpc/nfsd.export/channel", fmt.Sprintf("%s %s %s %d 65534 65534 0", domain, dir, noExpiry, flags)},
		{"/proc/net/rpc/nfsd.fh/channel", domain + ` 1 \x00000000 ` + noExpiry + " " + dir}, // 1: by the number of the export, which is 0
		{s.controlFile("versions"), "-2 -3 +4 +4.1 +4.2"},
		{s.controlFile("nfsv4gracetime"), "10"},
		{s.controlFile("portlist"), strconv.Itoa(socket)},
		{s.controlFile("threads"), "4"},
	} {
		if err := writeFile(word.path, word.text); err != nil {
			return err
		}
	}
	_ = writeFile(s.controlFile("v4_end_grace"), "Y") // no client has state to reclaim
	return nil
}

// listen opens a socket that only this machine can reach.
func (s *Server) listen() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 64))
	at, nameErr := unix.Getsockname(fd)
	if err = errors.Join(err, nameErr); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	s.port = at.(*unix.SockaddrInet4).Port
	return fd, nil
}

// Stop stops the server. All of its mounts must be unmounted before.
func (s *Server) Stop() error {
	err := writeFile(s.controlFile("threads"), "0")
	if s.served != "" {
		for _, cache := range []string{"nfsd.export", "nfsd.fh", "auth.unix.ip"} {
			err = errors.Join(err, writeFile("/proc/net/rpc/"+cache+"/flush", strconv.FormatInt(time.Now().Unix(), 10)))
		}
		err = errors.Join(err, unmount(s.served))
	}
	return errors.Join(err, unmount(s.control))
}

func (s *Server) controlFile(name string) string { return filepath.Join(s.control, name) }

func writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text+"\n"), 0); err != nil {
		return fmt.Errorf("write to the NFS server %q: %w", text, err)
	}
	return nil
}

// Mount mounts the served directory with additional options such as "noac".
func (s *Server) Mount(dir, more string) error {
	options := fmt.Sprintf("vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,proto=tcp,port=%d,sec=sys", s.port)
	if more != "" {
		options += "," + more
	}
	return mount(dir, Source, "nfs4", options)
}

// Unmount unmounts a directory.
func (s *Server) Unmount(dir string) error { return unmount(dir) }

func mount(dir, source, kind, options string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount(source, dir, kind, 0, options)
	if err == unix.EPERM {
		return fmt.Errorf("%w: mount %s: %w", ErrNone, kind, err)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", kind, err)
	}
	return nil
}

// unmount unmounts, when the kernel has let go of the files that it served.
func unmount(dir string) (err error) {
	for range 200 {
		if err = unix.Unmount(dir, 0); err != unix.EBUSY {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
