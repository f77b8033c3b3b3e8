package traffic

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

func peek(t *testing.T, c net.Conn, n int) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	err = raw.Read(func(fd uintptr) bool {
		got, _, err = unix.Recvfrom(int(fd), make([]byte, n), unix.MSG_PEEK)
		return err != unix.EAGAIN
	})
	if err != nil || got != n {
		t.Fatalf("looked at %d bytes, %v", got, err)
	}
}

// apart runs f on a thread that is in a network namespace of its own, after the commands of ip(8).
func apart(t testing.TB, f func(), commands ...string) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }() // also where f skips, which ends the goroutine
		runtime.LockOSThread()         // and never unlocked: the thread ends with the namespace
		err = unix.Unshare(unix.CLONE_NEWNET)
		for _, c := range commands {
			if err != nil {
				break
			}
			cmd := exec.Command("ip", strings.Fields(c)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{} // started from this thread, in its namespace
			err = cmd.Run()
		}
		if err == nil {
			f()
		}
	}()
	if err := <-done; err != nil {
		t.Skipf("a network namespace of our own: %v", err)
	}
}

// TestScopes: to the machine itself by another address than loopback, away from it, and to
// nobody in particular.
func TestScopes(t *testing.T) {
	s := open(t, Options{})
	var got, away, unknown counts
	apart(t, func() {
		got = during(t, s, func() {
			out, in := pair(t, "192.0.2.1:0")
			carry(t, out, in, zeros{}, 4000)
			out, in = datagramPair(t, "192.0.2.1:0")
			carry(t, out, in, zeros{}, 400)
		})
		away = during(t, s, func() {
			c, err := net.Dial("udp", "198.51.100.7:9")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = c.Write(make([]byte, 300))
		})
		unknown = during(t, s, func() {
			c, err := net.ListenPacket("udp", "0.0.0.0:0")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = c.WriteTo(make([]byte, 200), &net.UDPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 9})
		})
	}, "link set lo up", "tuntap add dev t0 mode tun", "addr add 192.0.2.1/24 dev t0", "link set t0 up", "route add default dev t0")
	if !both(got.Moved[TCP][ScopeHost], 4000) {
		t.Errorf("to our own address by TCP: %+v", got)
	}
	if m := got.Moved[UDP]; m[ScopeHost][sensor.Transmit].Bytes != 400 || m[ScopeUnknown][sensor.Receive].Bytes != 400 {
		t.Errorf("to our own address by UDP: %+v", got)
	}
	if n := away.Moved[UDP][ScopeElsewhere][sensor.Transmit].Bytes; n != 300 {
		t.Errorf("away: %+v", away)
	}
	want := ScopeUnknown
	if s.kernel.hooks == byFexit {
		want = ScopeElsewhere
	}
	if n := unknown.Moved[UDP][want][sensor.Transmit].Bytes; n != 200 {
		t.Errorf("without a peer: %+v", unknown)
	}
}

// TestRetransmits: nobody answers, so that the request for a connection is sent again, as often as the kernel asks.
func TestRetransmits(t *testing.T) {
	s := open(t, Options{})
	var got counts
	var want uint64
	apart(t, func() {
		got = during(t, s, func() {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{198, 51, 100, 7}, Port: 9}); err != unix.EINPROGRESS {
				t.Errorf("somebody answered: %v", err)
			}
			for end := time.Now().Add(2 * time.Minute); want == 0 && time.Now().Before(end); {
				_, _ = unix.Poll(nil, 10)
				info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
				if err != nil {
					t.Error(err)
					return
				}
				want = uint64(info.Total_retrans)
			}
		})
	}, "tuntap add dev t0 mode tun", "addr add 192.0.2.1/24 dev t0", "link set t0 up", "route add default dev t0")
	if got.Opened != 1 || want == 0 || got.Retransmits != want {
		t.Errorf("%d connections tried, %d segments sent again, want 1 and %d", got.Opened, got.Retransmits, want)
	}
}

// TestBetweenNamespaces: both ends of a veth are this machine, and its outer end counts the payload of the
// sockets within 2 %: the rest is headers.
func TestBetweenNamespaces(t *testing.T) {
	s := open(t, Options{})
	const n = 32 << 20
	apart(t, func() {
		listen := make(chan net.Listener, 1)
		server := exec.Command("unshare", "-n", "sleep", "60")
		if err := server.Start(); err != nil {
			t.Skip("not available here: ", err)
		}
		defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
		pid := strconv.Itoa(server.Process.Pid)
		if !elsewhere(t, pid) {
			return
		}
		for _, c := range []string{"ip link add v0 type veth peer name v1 netns " + pid, "ip addr add 192.0.2.1/24 dev v0", "ip link set v0 up",
			"nsenter -n -t " + pid + " ip addr add 192.0.2.2/24 dev v1", "nsenter -n -t " + pid + " ip link set v1 up"} {
			f := strings.Fields(c)
			if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%s: %v: %s", c, err, out)
			}
		}
		go func() {
			runtime.LockOSThread()
			fd, err := unix.Open("/proc/"+pid+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Setns(fd, unix.CLONE_NEWNET)
			}
			l, err2 := net.Listen("tcp", "192.0.2.2:0")
			if err != nil || err2 != nil {
				t.Error(err, err2)
			}
			listen <- l
		}()
		l := <-listen
		if l == nil {
			return
		}
		defer l.Close()
		taken := make(chan net.Conn, 1)
		go func() { c, _ := l.Accept(); taken <- c }()
		got := during(t, s, func() {
			out, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			in := <-taken
			carry(t, out, in, zeros{}, n)
			_ = out.Close()
			_ = in.Close()
		})
		if !both(got.Moved[TCP][ScopeHost], n) {
			t.Errorf("between two namespaces: %+v", got)
		}
		wire := deviceBytes(t, pid, "v1")
		if wire < n || float64(wire) > 1.02*n {
			t.Errorf("the outer end of the veth received %d bytes for a payload of %d", wire, n)
		}
		t.Logf("payload %d, device %d: %.3f %% more", n, wire, 100*(float64(wire)/n-1))
	})
}

// elsewhere waits until a process has left our network namespace.
func elsewhere(t *testing.T, pid string) bool {
	t.Helper()
	own, err := os.Readlink("/proc/thread-self/ns/net")
	for end := time.Now().Add(2 * time.Minute); err == nil && time.Now().Before(end); runtime.Gosched() {
		if its, err := os.Readlink("/proc/" + pid + "/ns/net"); err == nil && its != own {
			return true
		}
	}
	t.Errorf("process %s stays in our network namespace (%v)", pid, err)
	return false
}

// deviceBytes is the amount that a device in the namespace of a process has received.
func deviceBytes(t *testing.T, pid, device string) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == device {
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no device %s in:\n%s", device, text)
	return 0
}

// A datagram socket that gets another peer has the scope of that one from then on.
func TestReconnect(t *testing.T) {
	s := open(t, Options{})
	var got counts
	apart(t, func() {
		got = during(t, s, func() {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			for i, address := range [][4]byte{{192, 0, 2, 1}, {198, 51, 100, 7}} {
				if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: address}); err != nil {
					t.Error(err)
				}
				if _, err := unix.Write(fd, make([]byte, 100+200*i)); err == unix.ECONNREFUSED { // of the message before
					_, _ = unix.Write(fd, make([]byte, 100+200*i))
				}
			}
		})
	}, "link set lo up", "tuntap add dev t0 mode tun", "addr add 192.0.2.1/24 dev t0", "link set t0 up", "route add default dev t0")
	m := got.Moved[UDP]
	if a, b := m[ScopeHost][sensor.Transmit].Bytes, m[ScopeElsewhere][sensor.Transmit].Bytes; a != 100 || b != 300 {
		t.Errorf("%d bytes to ourselves and %d away, want 100 and 300", a, b)
	}
}
