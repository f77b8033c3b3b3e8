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
	"syscall"

	"golang.org/x/sys/unix"
)

// Peer is a Unix user.
type Peer struct {
	UID  uint32
	Name string // login name; the number if the machine has no name for it
}

// ErrUnknown reports that the kernel has no owner for the connection's other end.
var ErrUnknown = errors.New("the kernel does not report the owner of the connection")

// overflow is the user id of users that another user namespace does not map
// (user_namespaces(7)): no particular user.
const overflow = 65534

// UID returns the user at the other end of a connection to this machine. The error is
// ErrUnknown, or that of the kernel.
func UID(c net.Conn) (uint32, error) {
	uid, err := uidOf(c)
	if err == nil && uid == overflow {
		return 0, ErrUnknown
	}
	return uid, err
}

func uidOf(c net.Conn) (uint32, error) {
	switch c := c.(type) {
	case *net.UnixConn:
		return ofUnix(c)
	case *net.TCPConn:
		local, err1 := netip.ParseAddrPort(c.LocalAddr().String())
		remote, err2 := netip.ParseAddrPort(c.RemoteAddr().String())
		if err1 != nil || err2 != nil || !remote.Addr().IsLoopback() || !local.Addr().IsLoopback() {
			return 0, ErrUnknown
		}
		return ofTCP(remote, local)
	}
	return 0, ErrUnknown
}

func ofUnix(c syscall.Conn) (uid uint32, err error) {
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
