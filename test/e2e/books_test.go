//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bookOwner is the user that does the work of [TestBooks], and who does nothing else on this machine.
const bookOwner = 7600

// amounts are of a piece of work, by its own count and its files in /proc. All its traffic is between its own sockets.
type amounts struct {
	CPU, Wait, IOWait             float64 // seconds
	Read, Written, Sent, Received float64 // bytes
	Opened, Taken                 float64 // connections
}

func (a *amounts) add(b amounts) {
	a.CPU, a.Wait, a.IOWait = a.CPU+b.CPU, a.Wait+b.Wait, a.IOWait+b.IOWait
	a.Read, a.Written, a.Sent, a.Received = a.Read+b.Read, a.Written+b.Written, a.Sent+b.Sent, a.Received+b.Received
	a.Opened, a.Taken = a.Opened+b.Opened, a.Taken+b.Taken
}

// work is one piece of it.
type work struct {
	MiB, Connections, Bytes int // to write, sync and read again; connections, and what each one carries both ways
	Datagrams               int
	Threads, Millis         int // that compute for so long, each
	Children                int // that do a tenth of it each, one after the other
	Stay                    time.Duration
}

// TestBooks holds for storage, network, connections and waits that workloads, short work and other are what the node counted, to 0.5 %.
// Mixed work runs for a minute, or RECKON_BOOKS (30m), beside whatever else the machine does. What its user is charged with is held against
// its own count.
func TestBooks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: the sources that count everything cannot be opened")
	}
	length := time.Minute
	if text := os.Getenv("RECKON_BOOKS"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	room := openRoom(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(room, "work")
	if err := os.WriteFile(program, self, 0o755); err != nil { //nolint:gosec // the user of the work runs it
		t.Fatal(err)
	}
	u := startUp(t, t.TempDir(), "--source", "ebpf", "--export", "15s")
	pause(20 * time.Second) // past the first export

	start := u.stamp()
	var truth amounts
	var mu sync.Mutex
	var all sync.WaitGroup
	draw := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	t.Logf("seed %d", os.Getpid())
	pieces := 0
	slots := make(chan struct{}, 8)
	for end := time.Now().Add(length); time.Now().Before(end); {
		w := draws(draw)
		w.Stay = min(w.Stay, time.Until(end))
		pieces++
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			a, err := w.start(program, room, true)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			truth.add(a)
			mu.Unlock()
		})
		pause(time.Duration(draw.IntN(3000)) * time.Millisecond)
	}
	all.Wait()
	for done := u.stamp(); u.stamp() < done+45; { // ended groups are in the sums, and short work is folded
		pause(time.Second)
	}
	end := u.stamp()
	t.Logf("%d pieces of work in %.0f s; load %s", pieces, end-start, loadAverage(t))

	sum := func(series string, at float64) (v float64) {
		for _, v = range u.promAt("sum(last_over_time("+series+"[3h]))", at) {
		}
		return v
	}
	grew := func(series string) (v float64) {
		for one := range strings.SplitSeq(series, "+") {
			v += sum(one, end) - sum(one, start)
		}
		return v
	}
	for _, c := range []struct {
		what, workloads, node string
		truth                 float64
		within                float64 // of the truth; 0 is not compared
	}{
		{"written", `reckon_workload_io_bytes_total{direction="write"OWNER}`, `reckon_node_io_bytes_total{direction="write"}`,
			truth.Written, 0.005},
		{"read", `reckon_workload_io_bytes_total{direction="read"OWNER}`, `reckon_node_io_bytes_total{direction="read"}`, truth.Read, 0.005},
		{"CPU wait", `reckon_workload_cpu_wait_seconds_total{OWNER}`, `reckon_node_cpu_wait_seconds_total`, truth.Wait, 0.05},
		{"I/O wait", `reckon_workload_io_wait_seconds_total{OWNER}`, `reckon_node_io_wait_seconds_total`, truth.IOWait, 0},
		{"sent", `reckon_workload_network_bytes_total{direction="transmit"OWNER}+reckon_workload_loopback_bytes_total{direction="transmit"OWNER}`,
			`reckon_node_network_payload_bytes_total{direction="transmit"}`, truth.Sent, 0.005},
		{"received", `reckon_workload_network_bytes_total{direction="receive"OWNER}+reckon_workload_loopback_bytes_total{direction="receive"OWNER}`,
			`reckon_node_network_payload_bytes_total{direction="receive"}`, truth.Received, 0.005},
		{"connections opened", `reckon_workload_network_connections_total{role="client"OWNER}`,
			`reckon_node_network_connections_total{role="client"}`, truth.Opened, 0.005},
		{"connections taken", `reckon_workload_network_connections_total{role="server"OWNER}`,
			`reckon_node_network_connections_total{role="server"}`, truth.Taken, 0.005},
		{"CPU", `reckon_workload_cpu_seconds_total{OWNER}`, ``, truth.CPU, 0.02}, // what it uses after its last look is not in its own count,
	} {
		whole, node := grew(strings.ReplaceAll(c.workloads, "OWNER", "")), 0.0
		owner := fmt.Sprintf(`,owner="%d"`, bookOwner)
		if strings.Contains(c.workloads, "{OWNER") {
			owner = owner[1:]
		}
		own := grew(strings.ReplaceAll(c.workloads, "OWNER", owner))
		if c.node != "" {
			node = grew(c.node)
			t.Logf("%s: workloads, short and other %.6g, the node %.6g: %.5f", c.what, whole, node, whole/node)
			if math.Abs(whole-node) > 0.005*node {
				t.Errorf("%s: workloads, short work and other are %v, the node counted %v", c.what, whole, node)
			}
		}
		t.Logf("%s of the work: %.6g, by itself %.6g: %.5f", c.what, own, c.truth, own/c.truth)
		if c.within != 0 && math.Abs(own-c.truth) > c.within*c.truth {
			t.Errorf("%s: the user of the work was charged with %v, it counted %v itself", c.what, own, c.truth)
		}
	}
}

// draws returns a piece of work: of a busy one, a quiet one that stays, and short ones.
func draws(r *rand.Rand) work {
	switch r.IntN(4) {
	case 0:
		return work{MiB: 20 + r.IntN(30), Connections: 1 + r.IntN(50), Bytes: 1 << 20, Datagrams: 500, Threads: 1 + r.IntN(6),
			Millis: 500, Stay: time.Duration(r.IntN(60)) * time.Second}
	case 1:
		return work{MiB: r.IntN(12), Connections: r.IntN(200), Bytes: 30_000, Threads: 1, Millis: 50, Stay: time.Duration(r.IntN(90)) * time.Second}
	case 2:
		return work{MiB: r.IntN(3), Connections: r.IntN(10), Bytes: 10_000, Datagrams: r.IntN(10), Threads: 2, Millis: 5}
	}
	return work{MiB: 2 + r.IntN(10), Connections: 5 + r.IntN(50), Bytes: 50_000, Threads: 2, Millis: 30, Children: 1 + r.IntN(10),
		Stay: time.Duration(r.IntN(10)) * time.Second}
}

// start runs the work in a process, in a group of its own and as the user of the work where that is wanted, and returns what it did.
func (w *work) start(program, room string, own bool) (a amounts, err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return a, err
	}
	cmd := exec.Command(program)
	cmd.Dir, cmd.Stderr = room, os.Stderr
	cmd.Env = []string{bookWork + "=" + string(text), "GOMAXPROCS=2"}
	if own {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: bookOwner, Gid: bookOwner}}
	}
	out, err := cmd.Output()
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(out, &a)
}

// bookWork is in the environment of a process that does a piece of work.
const bookWork = "RECKON_BOOKS_WORK"

// bookMain does a piece of work and prints what it did. See [TestMain].
func bookMain(text string) error {
	var w work
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	a, err := w.do()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	part := work{MiB: w.MiB / 10, Connections: w.Connections / 10, Bytes: w.Bytes, Threads: w.Threads, Millis: w.Millis / 10}
	for range w.Children {
		b, err := part.start(self, ".", false)
		if err != nil {
			return err
		}
		b.Read, b.Written, b.CPU = 0, 0, 0 // the kernel adds these to the parent's
		a.add(b)
	}
	time.Sleep(w.Stay)
	if err := a.ofKernel(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

func (w *work) do() (a amounts, err error) {
	var all sync.WaitGroup
	for range w.Threads {
		all.Go(func() {
			var now unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now)
			for began := now.Nano(); now.Nano() < began+int64(w.Millis)*1e6; _ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now) {
			}
		})
	}
	all.Wait()
	if err := w.store(&a); err != nil {
		return a, err
	}
	return a, w.transfer(&a)
}

// store writes a file, and reads it past the page cache.
func (w *work) store(a *amounts) error {
	if w.MiB == 0 {
		return nil
	}
	name := fmt.Sprintf("%d", os.Getpid())
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	defer f.Close()
	block := make([]byte, 1<<20)
	for range w.MiB {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	room := make([]byte, 2<<20)
	room = room[4096-int(uintptr(unsafe.Pointer(&room[0]))%4096):][:1<<20]
	for range w.MiB {
		if _, err := d.Read(room); err != nil {
			return err
		}
	}
	a.IOWait += time.Since(began).Seconds()
	return nil
}

// transfer carries bytes between its own sockets.
func (w *work) transfer(a *amounts) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	for range w.Connections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		s, err := l.Accept()
		if err != nil {
			return err
		}
		var all sync.WaitGroup
		all.Go(func() { _, _ = c.Write(make([]byte, w.Bytes)); c.Close() })
		for room := make([]byte, 64<<10); ; {
			n, err := s.Read(room)
			if a.Received += float64(n); err != nil {
				break
			}
		}
		all.Wait()
		s.Close()
		a.Sent, a.Opened, a.Taken = a.Sent+float64(w.Bytes), a.Opened+1, a.Taken+1
	}
	if w.Datagrams == 0 {
		return nil
	}
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer p.Close()
	room := make([]byte, 2000)
	for range w.Datagrams {
		n, err := p.WriteTo(room[:1000], p.LocalAddr())
		if err != nil {
			return err
		}
		a.Sent += float64(n)
		if n, _, err = p.ReadFrom(room); err != nil {
			return err
		}
		a.Received += float64(n)
	}
	return nil
}

// ofKernel reads the counters of the kernel for this process and its children.
func (a *amounts) ofKernel() error {
	var own, children unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return err
	}
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &children); err != nil {
		return err
	}
	a.CPU = float64(own.Utime.Nano()+own.Stime.Nano()+children.Utime.Nano()+children.Stime.Nano()) / 1e9
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		wait, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
		if err != nil {
			return err
		}
		a.Wait += wait / 1e9
	}
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "read_bytes: %g", &a.Read)
		_, _ = fmt.Sscanf(line, "write_bytes: %g", &a.Written)
	}
	return nil
}

func loadAverage(t *testing.T) string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text))[:3], ", ")
}
