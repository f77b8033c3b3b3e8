package peer

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Numbers of linux/inet_diag.h and linux/sock_diag.h.
const (
	sockDiagByFamily = 20
	established      = 1
	requestLen       = 56 // struct inet_diag_req_v2
	answerLen        = 72 // struct inet_diag_msg
)

// tcpOwner returns the owner of the socket in this network namespace that connects from to to.
func tcpOwner(from, to netip.AddrPort) (uint32, error) {
	answer, err := queryDiag(diagRequest(from, to))
	if err != nil {
		return 0, err
	}
	return parseOwner(answer, from, to)
}

// queryDiag sends a request of sock_diag(7) and returns the first part of its answer.
func queryDiag(request []byte) ([]byte, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	defer unix.Close(s)
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	if err := unix.Sendto(s, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, buf, 0)
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	return buf[:n], nil
}

// unixSocketIsHere reports whether a Unix socket with an inode is in our network namespace (struct unix_diag_req of linux/unix_diag.h).
func unixSocketIsHere(inode uint32) bool {
	b := make([]byte, unix.NLMSG_HDRLEN+24)
	le := binary.NativeEndian
	le.PutUint32(b[0:], uint32(len(b)))
	le.PutUint16(b[4:], sockDiagByFamily)
	le.PutUint16(b[6:], unix.NLM_F_REQUEST)
	le.PutUint32(b[8:], 1)
	p := b[unix.NLMSG_HDRLEN:]
	p[0] = unix.AF_UNIX
	le.PutUint32(p[4:], 1<<established)
	le.PutUint32(p[8:], inode)
	le.PutUint64(p[16:], ^uint64(0)) // any cookie
	answer, err := queryDiag(b)
	return err == nil && len(answer) >= unix.NLMSG_HDRLEN+8 && le.Uint16(answer[4:]) == sockDiagByFamily &&
		le.Uint32(answer[unix.NLMSG_HDRLEN+4:]) == inode
}

// diagRequest returns struct nlmsghdr with struct inet_diag_req_v2 for one socket.
func diagRequest(from, to netip.AddrPort) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+requestLen)
	le := binary.NativeEndian
	le.PutUint32(b[0:], uint32(len(b)))
	le.PutUint16(b[4:], sockDiagByFamily)
	le.PutUint16(b[6:], unix.NLM_F_REQUEST)
	le.PutUint32(b[8:], 1)
	p := b[unix.NLMSG_HDRLEN:]
	p[0] = addressFamily(from)
	p[1] = unix.IPPROTO_TCP
	le.PutUint32(p[4:], 1<<established)
	writeSocketID(p[8:], from, to)
	return b
}

func addressFamily(a netip.AddrPort) byte {
	if a.Addr().Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// writeSocketID writes struct inet_diag_sockid, with any cookie.
func writeSocketID(p []byte, from, to netip.AddrPort) {
	binary.BigEndian.PutUint16(p[0:], from.Port())
	binary.BigEndian.PutUint16(p[2:], to.Port())
	copy(p[4:20], from.Addr().Unmap().AsSlice())
	copy(p[20:36], to.Addr().Unmap().AsSlice())
	for i := 40; i < 48; i++ {
		p[i] = 0xff // INET_DIAG_NOCOOKIE
	}
}

// parseOwner returns the user id of the socket's owner from a sock_diag response. A socket that its program has closed has
// no inode, and the kernel reports user 0 for it. parse returns [ErrUnknown] for such a socket.
func parseOwner(b []byte, from, to netip.AddrPort) (uint32, error) {
	if len(b) < unix.NLMSG_HDRLEN {
		return 0, ErrUnknown
	}
	le := binary.NativeEndian
	length, kind := le.Uint32(b[0:]), le.Uint16(b[4:])
	if kind != sockDiagByFamily || int(length) > len(b) || int(length) < unix.NLMSG_HDRLEN+answerLen {
		return 0, ErrUnknown
	}
	p := b[unix.NLMSG_HDRLEN:]
	var want [36]byte
	var id [48]byte
	writeSocketID(id[:], from, to)
	copy(want[:], id[:36])
	uid, inode := le.Uint32(p[64:]), le.Uint32(p[68:])
	if p[0] != addressFamily(from) || p[1] != established || [36]byte(p[4:40]) != want || inode == 0 {
		return 0, ErrUnknown
	}
	return uid, nil
}
