package peer

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// accept connects to a listener and returns the server's end.
func accept(t *testing.T, network, address string) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	client, err = net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server, client
}

func TestUID(t *testing.T) {
	for _, c := range []struct{ name, network, address string }{
		{"IPv4", "tcp", "127.0.0.1:0"}, {"IPv6", "tcp", "[::1]:0"}, {"Unix", "unix", filepath.Join(t.TempDir(), "s")},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := accept(t, c.network, c.address)
			uid, err := UID(server)
			if err != nil || int(uid) != os.Getuid() {
				t.Fatalf("%d, %v; want %d", uid, err, os.Getuid())
			}
			if c.network == "unix" {
				return
			}
			// A closed peer is unknown, not user 0.
			_ = client.Close()
			if uid, err := UID(server); !errors.Is(err, ErrUnknown) {
				t.Errorf("after the client closed: %d, %v", uid, err)
			}
		})
	}
}

// TestOtherUser connects as another user.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	cmd := exec.Command("/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+strconv.Itoa(port)+"; cat <&3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	if err := cmd.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if uid, err := UID(c); err != nil || uid != 4711 {
		t.Errorf("%d, %v; want 4711", uid, err)
	}
}

// TestNoSuchSocket looks up a connection that does not exist.
func TestNoSuchSocket(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	if uid, err := tcpOwner(from, to); err == nil {
		t.Errorf("a connection that is not there is of user %d", uid)
	}
}

func TestParse(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:9870")
	good := func() []byte {
		b := make([]byte, 16+answerLen)
		binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
		binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
		p := b[16:]
		p[0], p[1] = 2, established
		writeSocketID(p[4:], from, to)
		binary.NativeEndian.PutUint32(p[64:], 1000)
		binary.NativeEndian.PutUint32(p[68:], 99)
		return b
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		known  bool
	}{
		{"as it is", func(b []byte) []byte { return b }, true},
		{"closed by its program: no inode, user 0", func(b []byte) []byte {
			binary.NativeEndian.PutUint32(b[16+68:], 0)
			binary.NativeEndian.PutUint32(b[16+64:], 0)
			return b
		}, false},
		{"in TIME_WAIT", func(b []byte) []byte { b[17] = 6; return b }, false},
		{"another connection", func(b []byte) []byte { b[16+4] ^= 1; return b }, false},
		{"an error", func(b []byte) []byte { binary.NativeEndian.PutUint16(b[4:], 2); return b }, false},
		{"cut off", func(b []byte) []byte { return b[:40] }, false},
		{"empty", func([]byte) []byte { return nil }, false},
	} {
		uid, err := parseOwner(c.change(good()), from, to)
		if (err == nil) != c.known || c.known && uid != 1000 {
			t.Errorf("%s: %d, %v", c.name, uid, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	from, to := netip.MustParseAddrPort("[::1]:40000"), netip.MustParseAddrPort("[::1]:9870")
	f.Add([]byte(strings.Repeat("x", 16+answerLen)))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseOwner(b, from, to) })
}

// TestHome connects from namespaces of others as root, and checks the two ways to know the network namespace against each other.
func TestHome(t *testing.T) {
	if at := os.Getenv("RECKON_TEST_CONNECT"); at != "" {
		c, err := net.Dial("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Read(make([]byte, 1)) // until the server hangs up
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to make namespaces")
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name    string
		flags   uintptr
		network bool // of ours
		home    bool
	}{
		{"the host's root", 0, true, true},
		{"another network namespace", syscall.CLONE_NEWNET, false, false},
		{"another process namespace", syscall.CLONE_NEWPID, true, false},
		{"both", syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHome$")
			cmd.Env = append(os.Environ(), "RECKON_TEST_CONNECT="+path)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: tt.flags}
			if err := cmd.Start(); err != nil {
				t.Skip("not available here: ", err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			u := c.(*net.UnixConn)
			if uid, err := UID(u); err != nil || uid != 0 {
				t.Errorf("user %d, %v", uid, err)
			}
			raw, err := u.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			_ = raw.Control(func(fd uintptr) {
				var st unix.Stat_t
				if err := unix.Fstat(int(fd), &st); err != nil {
					t.Fatal(err)
				}
				if got := unixSocketIsHere(uint32(st.Ino)); got != tt.network {
					t.Errorf("sock_diag finds it: %v", got)
				}
				if _, err := unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
					t.Log("no cookies here: ", err)
				}
				if _, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err != nil && tt.flags&syscall.CLONE_NEWPID != 0 {
					tt.home = tt.network // before Linux 6.5
				}
			})
			if got := Home(u); got != tt.home {
				t.Errorf("home: %v, want %v", got, tt.home)
			}
			_ = c.Close()
			_ = cmd.Wait()
		})
	}
}
