package scrape

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// peerFinder finds the local process at the other end of a connection. All methods except recordConnection must be
// called from one goroutine.
type peerFinder struct {
	root string

	mu    sync.Mutex
	local netip.AddrPort // address of the other end, if it is on this machine
	cred  *unix.Ucred    // of the other end of a unix socket

	socket socketEntry // the socket that listens at local
	pid    int32       // process that holds it, 0 when unknown
	looked netip.AddrPort
}

// socketEntry is an entry of /proc/net/tcp.
type socketEntry struct {
	inode uint64
	uid   uint32
}

// recordConnection records the other end of a new connection.
func (p *peerFinder) recordConnection(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.local, p.cred = netip.AddrPort{}, nil
	if u, ok := c.(*net.UnixConn); ok {
		p.cred = listenerCredentials(u)
		return
	}
	remote, err1 := netip.ParseAddrPort(c.RemoteAddr().String())
	own, err2 := netip.ParseAddrPort(c.LocalAddr().String())
	if err1 != nil || err2 != nil {
		return
	}
	if a := remote.Addr().Unmap(); a.IsLoopback() || a == own.Addr().Unmap() {
		p.local = netip.AddrPortFrom(a, remote.Port())
	}
}

// listenerCredentials returns the credentials that the other end had when it began to listen (unix(7), SO_PEERCRED).
func listenerCredentials(c *net.UnixConn) (cred *unix.Ucred) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if got, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred = got
		}
	})
	return cred
}

// originOfPeer returns the origin of the figures from the other end of the last connection.
func (p *peerFinder) originOfPeer() sensor.Origin {
	p.mu.Lock()
	local, cred := p.local, p.cred
	p.mu.Unlock()
	if cred != nil {
		o := sensor.Origin{UID: cred.Uid, HasUID: true}
		if cred.Pid > 0 {
			o.PID = cred.Pid
		}
		return o
	}
	if !local.IsValid() {
		return sensor.Origin{Trusted: true} // another machine: the administrator named it
	}
	s, ok := p.findListener(local)
	if !ok {
		return sensor.Origin{Trusted: true} // not in our network namespace: published by a proxy
	}
	if s != p.socket || local != p.looked || p.pid == 0 || !ownsSocket(p.root, p.pid, s.inode) {
		p.socket, p.looked, p.pid = s, local, socketOwner(p.root, s.inode)
	}
	return sensor.Origin{PID: p.pid, UID: s.uid, HasUID: true}
}

// findListener finds the socket that listens at an address (proc_net_tcp(5)).
func (p *peerFinder) findListener(at netip.AddrPort) (found socketEntry, ok bool) {
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		f, err := os.Open(filepath.Join(p.root, name))
		if err != nil {
			continue
		}
		s, score := findInTable(f, at)
		_ = f.Close()
		if score > 0 {
			return s, true
		}
	}
	return socketEntry{}, false
}

// findInTable returns the best entry in a table of sockets that listens at the address. score is 0 if there is none.
func findInTable(r io.Reader, at netip.AddrPort) (best socketEntry, score int) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != "0A" { // TCP_LISTEN
			continue
		}
		a, ok := parseEndpoint(f[1])
		if !ok || a.Port() != at.Port() {
			continue
		}
		s := 0
		switch addr := a.Addr().Unmap(); {
		case addr == at.Addr():
			s = 2
		case addr.IsUnspecified():
			s = 1
		}
		uid, err1 := strconv.ParseUint(f[7], 10, 32)
		inode, err2 := strconv.ParseUint(f[9], 10, 64)
		if s > score && err1 == nil && err2 == nil {
			best, score = socketEntry{inode, uint32(uid)}, s
		}
	}
	return best, score
}

// parseEndpoint parses an address as printed by the kernel: 32-bit words in native byte order, and the port.
func parseEndpoint(s string) (address netip.AddrPort, ok bool) {
	host, port, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || len(host) != 8 && len(host) != 32 {
		return netip.AddrPort{}, false
	}
	raw, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(n)), ok
}

// socketOwner returns the lowest process id that has a socket open, by the inode of the socket.
func socketOwner(root string, inode uint64) int32 {
	proc, err := os.Open(filepath.Join(root, "proc"))
	if err != nil {
		return 0
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	best := int32(0)
	for _, n := range names {
		pid, err := strconv.ParseInt(n, 10, 32)
		if err != nil || best != 0 && int32(pid) > best {
			continue
		}
		if ownsSocket(root, int32(pid), inode) {
			best = int32(pid)
		}
	}
	return best
}

// ownsSocket reports whether a process has the socket with an inode open.
func ownsSocket(root string, pid int32, inode uint64) bool {
	dir, err := os.Open(filepath.Join(root, "proc", strconv.Itoa(int(pid)), "fd"))
	if err != nil {
		return false
	}
	defer dir.Close()
	want := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	var buf [64]byte
	for {
		names, err := dir.Readdirnames(256)
		for _, n := range names {
			if l, err := unix.Readlinkat(int(dir.Fd()), n, buf[:]); err == nil && string(buf[:l]) == want {
				return true
			}
		}
		if err != nil || len(names) == 0 {
			return false
		}
	}
}
