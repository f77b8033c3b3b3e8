package traffic

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"reckon/sensor"
)

// TestMain is also the programs that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "send" {
		if err := send(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// send is a process that sends some bytes and ends.
func send(network, address, bytes string) error {
	n, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return err
	}
	if network == "sendfile" {
		return sendFile(address, n)
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.CopyN(c, zeros{}, n)
	return err
}

// open skips where the kernel or the permissions do not allow it.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	s, err := Open(o)
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Source, p *sensor.TallyPass) {
	t.Helper()
	if err := s.Read(p); err != nil {
		t.Fatal(err)
	}
}

// moved is payload in one direction.
type moved struct{ Bytes, Messages uint64 }

// counts is the traffic of rows. Messages, which come without their scope, are at ScopeLoopback.
type counts struct {
	Moved                         [Protocols][Scopes][sensor.Directions]moved
	Opened, Accepted, Retransmits uint64
}

func (c *counts) add(r *sensor.TallyRow) {
	i := int(r.Series)
	switch {
	case i < firstMessageSeries:
		c.Moved[i/(Scopes*sensor.Directions)][i/sensor.Directions%Scopes][i%sensor.Directions].Bytes += r.Amount
	case i < firstRoleSeries:
		i -= firstMessageSeries
		c.Moved[i/sensor.Directions][ScopeLoopback][i%sensor.Directions].Messages += r.Amount
	default:
		*[]*uint64{&c.Opened, &c.Accepted, &c.Retransmits}[i-firstRoleSeries] += r.Amount
	}
}

// of adds up what the pass has of some processes.
func of(p *sensor.TallyPass, want func(pid int32) bool) (sum counts) {
	for i := range p.Rows {
		if want(p.Rows[i].PID) {
			sum.add(&p.Rows[i])
		}
	}
	return sum
}

// ours adds up what the pass holds of this process.
func ours(p *sensor.TallyPass) counts {
	return of(p, func(pid int32) bool { return pid == int32(os.Getpid()) })
}

// during is the charge of this process while f ran.
func during(t testing.TB, s *Source, f func()) counts {
	t.Helper()
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	f()
	read(t, s, &p)
	return ours(&p)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// pair is a TCP connection to ourselves.
func pair(t testing.TB, address string) (out, in net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	defer l.Close()
	taken := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		taken <- c
	}()
	if out, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	in = <-taken
	t.Cleanup(func() { _ = out.Close(); _ = in.Close() })
	return out, in
}

// carry sends what from has and takes it.
func carry(t testing.TB, out io.Writer, in io.Reader, from io.Reader, n int64) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, in, n)
		done <- err
	}()
	if _, err := io.CopyN(out, from, n); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// both is n bytes received and sent.
func both(m [sensor.Directions]moved, n uint64) bool {
	return m[sensor.Receive].Bytes == n && m[sensor.Transmit].Bytes == n
}

// TestTransfers holds every byte of transfers of many sizes by TCP and UDP over IPv4 and IPv6, and by
// sendfile(2).
func TestTransfers(t *testing.T) {
	s := open(t, Options{})
	t.Logf("counted by %s; not counted: %v", s.kernel.hooks, s.kernel.missing)
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(1 << 24); err != nil {
		t.Fatal(err)
	}
	sizes := []int64{1, 2, 1447, 1448, 1449, 65535, 65536, 1<<20 + 7, 1 << 23}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, n := range sizes {
			for _, from := range []io.Reader{zeros{}, file} {
				got := during(t, s, func() {
					_, _ = file.Seek(0, io.SeekStart)
					out, in := pair(t, address)
					carry(t, out, in, from, n)
				})
				if !both(got.Moved[TCP][ScopeLoopback], uint64(n)) || got.Opened != 1 || got.Accepted != 1 {
					t.Errorf("tcp %s, %d bytes from %T: %+v", address, n, from, got)
				}
			}
			if n > 60000 {
				continue
			}
			got := during(t, s, func() {
				out, in := datagramPair(t, address)
				carry(t, out, in, zeros{}, n)
			})
			if m := got.Moved[UDP][ScopeLoopback]; !both(m, uint64(n)) || m[sensor.Transmit].Messages != 1 {
				t.Errorf("udp %s, %d bytes: %+v", address, n, got)
			}
		}
	}
}

// TestSilentConnections: a connection without payload is counted where it is closed, whoever closes first.
func TestSilentConnections(t *testing.T) {
	s := open(t, Options{})
	for _, clientFirst := range []bool{true, false} {
		got := during(t, s, func() {
			for range 50 {
				out, in := pair(t, "127.0.0.1:0")
				if !clientFirst {
					out, in = in, out
				}
				_ = out.Close()
				_, _ = in.Read(make([]byte, 1)) // its end has come
				_ = in.Close()
			}
		})
		if got.Opened != 50 || got.Accepted != 50 {
			t.Errorf("client first %v: %+v", clientFirst, got)
		}
	}
}

// datagramPair is a socket with a peer and the one that takes what it sends.
func datagramPair(t testing.TB, address string) (out, in net.Conn) {
	t.Helper()
	c, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if out, err = net.Dial("udp", c.LocalAddr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out, c.(net.Conn)
}

// TestNotTraffic holds that some calls are no traffic of the network: sockets of the machine itself, and
// looking without taking.
func TestNotTraffic(t *testing.T) {
	s := open(t, Options{})
	got := during(t, s, func() {
		l, err := net.Listen("unix", t.TempDir()+"/socket")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	})
	if got != (counts{}) {
		t.Errorf("a socket of unix(7): %+v", got)
	}
	got = during(t, s, func() {
		out, in := pair(t, "127.0.0.1:0")
		if _, err := out.Write(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		peek(t, in, 500)
		peek(t, in, 500)
		if _, err := io.ReadFull(in, make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
	})
	if !both(got.Moved[TCP][ScopeLoopback], 500) {
		t.Errorf("500 bytes, looked at twice: %+v", got)
	}
}

// TestShortProcesses: each process sends and ends between two readings, and every byte is
// in the pass of some process that is not ours. Their accounts are freed.
func TestShortProcesses(t *testing.T) {
	s := open(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	const processes, bytes = 50, 10000
	children := map[int32]bool{}
	for range processes {
		c := exec.Command("/proc/self/exe", "send", "tcp", l.Addr().String(), strconv.Itoa(bytes))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		children[int32(c.Process.Pid)] = true
	}
	read(t, s, &p)
	seen := map[int32]bool{}
	sum := of(&p, func(pid int32) bool { seen[pid] = children[pid]; return children[pid] })
	found := 0
	for _, ok := range seen {
		if ok {
			found++
		}
	}
	if got := sum.Moved[TCP][ScopeLoopback][sensor.Transmit].Bytes; got != processes*bytes || found != processes || sum.Opened != processes {
		t.Errorf("%d processes sent %d bytes in %d connections, want %d, %d, %d", found, got, sum.Opened, processes, processes*bytes, processes)
	}
	for range 3 {
		read(t, s, &p)
	}
	var key uint32
	var value []byte
	for it := s.kernel.accounts.Iterate(); it.Next(&key, &value); {
		if children[int32(key)] {
			t.Errorf("the account of process %d is still there", key)
		}
	}
}

// TestPending: calls that a processor keeps pending are counted, all of them, where they are more than it has room for, where kinds
// take turns, and where somebody reads at the same time.
func TestPending(t *testing.T) {
	s := open(t, Options{})
	var conns []net.Conn
	for _, address := range []string{"127.0.0.1:9", "[::1]:9"} {
		c, err := net.Dial("udp", address)
		if err != nil {
			t.Skip("not available here: ", err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	const messages = 300_000 // room is for 131,072
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	sent := func(n int, pick func(i int) net.Conn) {
		for i := range n {
			for {
				if _, err := pick(i).Write([]byte("abc")); err == nil {
					break // else the refusal of an earlier one: nothing was sent
				}
			}
		}
	}
	sent(messages, func(int) net.Conn { return conns[0] })
	sent(1000, func(i int) net.Conn { return conns[i%2] })
	done := make(chan struct{})
	go func() {
		defer close(done)
		sent(20_000, func(int) net.Conn { return conns[1] })
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		read(t, s, &p)
	}
	read(t, s, &p)
	got := ours(&p)
	if m := got.Moved[UDP][ScopeLoopback][sensor.Transmit]; m.Messages != messages+21_000 || m.Bytes != 3*m.Messages {
		t.Errorf("%d messages of %d bytes are counted, %d of 3 were sent", m.Messages, m.Bytes, messages+21_000)
	}
}

// TestNoRoom: what cannot be charged to a process is in the pass as nobody's, and nothing is lost.
func TestNoRoom(t *testing.T) {
	s := open(t, Options{accounts: 1})
	for range 2 { // our process, and one that begins when there is no room
		got := during(t, s, func() {
			out, in := pair(t, "127.0.0.1:0")
			carry(t, out, in, zeros{}, 1000)
		})
		if !both(got.Moved[TCP][ScopeLoopback], 1000) {
			t.Skipf("somebody else was first: %+v", got)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	if out, err := exec.Command("/proc/self/exe", "send", "tcp", l.Addr().String(), "777").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read(t, s, &p)
	unowned := of(&p, func(pid int32) bool { return pid == 0 })
	if got := unowned.Moved[TCP][ScopeLoopback][sensor.Transmit].Bytes; got < 777 || unowned.Opened < 1 || !p.Unowned {
		t.Errorf("%d bytes and %d connections are nobody's, want at least 777 and 1", got, unowned.Opened)
	}
}

func TestClosed(t *testing.T) {
	s := open(t, Options{})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Read(new(sensor.TallyPass)); err == nil {
		t.Error("a source that is closed was read")
	}
}

// TestReadAllocatesNothing but for the iteration of the kernel, which is ours and allocates
// nothing either.
func TestReadAllocatesNothing(t *testing.T) {
	s := open(t, Options{})
	out, in := pair(t, "127.0.0.1:0")
	carry(t, out, in, zeros{}, 100)
	var p sensor.TallyPass
	for range 3 {
		p.Reset()
		read(t, s, &p)
	}
	if n := testing.AllocsPerRun(20, func() { p.Reset(); read(t, s, &p) }); n > 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}

func TestRoom(t *testing.T) {
	for cpus, want := range map[uint32]uint32{1: 8704, 2: 9216, 112: 65536, 113: 65536, 4096: 65536} {
		if got := processRoom(cpus); got != want {
			t.Errorf("%d processors: room for %d, want %d", cpus, got, want)
		}
	}
}

func TestRoomForAddresses(t *testing.T) {
	for n, want := range map[int]uint32{0: 2048, 1024: 2048, 1025: 2050, 4096: 8192, 1 << 15: 1 << 16, 1 << 20: 1 << 16} {
		if got := addressRoom(n); got != want {
			t.Errorf("%d addresses: room for %d, want %d", n, got, want)
		}
	}
}
