// Package peer finds the Unix user at the other end of a connection from this machine: for a
// Unix socket by SO_PEERCRED (unix(7)), for loopback TCP by sock_diag(7), which returns the
// owner of the socket with the addresses of the connection reversed.
//
// Sockets of other network namespaces are not found, and no user is guessed. The functions
// are safe for concurrent use.
package peer

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Peer is a Unix user.
type Peer struct {
	UID  uint32
	Name string // login name; the number if the machine has no name for it
	// Foreign is root of a container (see [Home]), who is no known user.
	Foreign bool
}

// ErrUnknown reports that the kernel has no owner for the connection's other end.
var ErrUnknown = errors.New("the kernel does not report the owner of the connection")

// overflowUID is the user id that the kernel reports for users without a mapping in this user namespace
// (user_namespaces(7)). It may stand for any user.
const overflowUID = 65534

// UID returns the user at the other end of a local connection. The error is ErrUnknown, or an error of the kernel.
func UID(c net.Conn) (uint32, error) {
	uid, err := peerUID(c)
	if err == nil && uid == overflowUID {
		return 0, ErrUnknown
	}
	return uid, err
}

func peerUID(c net.Conn) (uint32, error) {
	switch c := c.(type) {
	case *net.UnixConn:
		return unixOwner(c)
	case *net.TCPConn:
		local, err1 := netip.ParseAddrPort(c.LocalAddr().String())
		remote, err2 := netip.ParseAddrPort(c.RemoteAddr().String())
		if err1 != nil || err2 != nil || !remote.Addr().IsLoopback() || !local.Addr().IsLoopback() {
			return 0, ErrUnknown
		}
		return tcpOwner(remote, local)
	}
	return 0, ErrUnknown
}

// Home reports whether the other end of a Unix socket is in our network namespace and, with SO_PEERPIDFD (Linux 6.5),
// in our pid namespace or a parent of it. Otherwise user 0 at the other end may be root of a container, which the
// kernel reports like the host's root. A container that shares both namespaces with the host cannot be detected.
func Home(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	home := false
	_ = raw.Control(func(fd uintptr) { home = sameNetwork(int(fd)) && sameProcesses(int(fd)) })
	return home
}

// sameNetwork reports whether the peer of a socket is in our network namespace. It compares namespace cookies, because
// the kernel creates an accepted socket in the namespace of the caller. Before Linux 5.14 it uses sock_diag(7), which
// finds only sockets of our namespace.
func sameNetwork(fd int) bool {
	theirs, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == nil {
		own, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer unix.Close(own)
		ours, err := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err == nil && ours == theirs
	}
	var st unix.Stat_t
	return errors.Is(err, unix.ENOPROTOOPT) && unix.Fstat(fd, &st) == nil && unixSocketIsHere(uint32(st.Ino))
}

// sameProcesses reads NSpid of proc_pid_fdinfo(5): the ids of the process in our process namespace and each one within that.
func sameProcesses(fd int) bool {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return errors.Is(err, unix.ENOPROTOOPT) // an older kernel
	}
	defer unix.Close(pidfd)
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return false
	}
	_, ids, found := strings.Cut(string(text), "\nNSpid:")
	ids, _, _ = strings.Cut(ids, "\n")
	f := strings.Fields(ids)
	return found && len(f) == 1 && f[0] != "0" && f[0] != "-1"
}

func unixOwner(c syscall.Conn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred,
			credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return cred.Uid, nil
}
