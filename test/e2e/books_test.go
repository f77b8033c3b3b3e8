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

	"reckon/figure"
	"reckon/web/client"
)

// bookOwner is the user that does the work of [TestBooks], and who does nothing else on this machine.
const bookOwner = 7600

// amounts are of a piece of work, by its own count and its files in /proc. All its traffic is between its own sockets.
type amounts struct {
	CPU, Wait, IOWait             float64 // seconds
	Read, Written, Sent, Received float64 // bytes
	Opened, Taken                 float64 // connections
	Tasks                         float64 // processes and their threads
}

func (a *amounts) add(b amounts) {
	a.CPU, a.Wait, a.IOWait = a.CPU+b.CPU, a.Wait+b.Wait, a.IOWait+b.IOWait
	a.Read, a.Written, a.Sent, a.Received = a.Read+b.Read, a.Written+b.Written, a.Sent+b.Sent, a.Received+b.Received
	a.Opened, a.Taken, a.Tasks = a.Opened+b.Opened, a.Taken+b.Taken, a.Tasks+b.Tasks
}

// work is one piece of it.
type work struct {
	MiB, Connections, Bytes int // to write, sync and read again; connections, and what each one carries both ways
	Datagrams               int
	Threads, Millis         int // that compute for so long, each
	Children                int // that do a tenth of it each, one after the other
	Stay                    time.Duration
}

// TestBooks holds for storage, network, connections, waits and CPU time that workloads, short work and other are what the node counted, to
// 0.5 %. The agent runs on, is killed and started again three times, or is stopped for a fifth of the time. Mixed work runs for a
// minute, or RECKON_BOOKS (10m), beside whatever else the machine does. What its user is charged with, in all and row by row, is what the
// work counted itself, or bears a mark.
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
	t.Run("running", func(t *testing.T) { newBooks(t).close(length, func(*books) {}) })
	t.Run("killed", func(t *testing.T) {
		newBooks(t).close(length, func(b *books) {
			for range 3 {
				pause(length/8 + time.Duration(b.draw.Int64N(int64(length/8))))
				b.u.stop(syscall.SIGKILL)
				pause(time.Duration(b.draw.Int64N(int64(length / 40))))
				b.u = startUp(t, b.u.data, bookSettings...)
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		newBooks(t).close(length, func(b *books) {
			pause(length / 4)
			_ = b.u.cmd.Process.Signal(syscall.SIGSTOP)
			pause(length / 5)
			_ = b.u.cmd.Process.Signal(syscall.SIGCONT)
		})
	})
}

var bookSettings = []string{"--source", "ebpf", "--export", "15s"}

// books is a `reckon up`, and what the work beside it counted of itself.
type books struct {
	t             *testing.T
	u             *up
	room, program string
	draw          *rand.Rand
	mu            sync.Mutex
	truth         map[int]amounts // by process group
}

func newBooks(t *testing.T) *books {
	b := &books{t: t, room: openRoom(t), draw: rand.New(rand.NewPCG(uint64(os.Getpid()), 1)), truth: map[int]amounts{}}
	t.Logf("seed %d", os.Getpid())
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b.program = filepath.Join(b.room, "work")
	if err := os.WriteFile(b.program, self, 0o755); err != nil { //nolint:gosec // the user of the work runs it
		t.Fatal(err)
	}
	b.u = startUp(t, t.TempDir(), bookSettings...)
	return b
}

// work runs pieces of work for a time, until all have ended.
func (b *books) work(length time.Duration, draw *rand.Rand) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for end := time.Now().Add(length); time.Now().Before(end); {
		w := draws(draw)
		w.Stay = min(w.Stay, time.Until(end))
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			group, a, err := w.start(b.program, b.room, true)
			if err != nil {
				b.t.Error(err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.truth[group] = a
		})
		pause(time.Duration(draw.IntN(3000)) * time.Millisecond)
	}
	all.Wait()
}

// bookLine is one figure of the books.
type bookLine struct {
	what, workloads, node string
	figure                string // by which it is marked
	truth                 func(*amounts) float64
	charged               func(*client.Workload) *float64
	within, slack         float64 // of the truth, and what a task does after the last look at itself
}

var bookLines = []bookLine{
	{"written", `reckon_workload_io_bytes_total{direction="write"OWNER}`, `reckon_node_io_bytes_total{direction="write"}`, "io_write_bytes",
		func(a *amounts) float64 { return a.Written }, func(w *client.Workload) *float64 { return w.WriteBytes }, 0.005, 0},
	{"read", `reckon_workload_io_bytes_total{direction="read"OWNER}`, `reckon_node_io_bytes_total{direction="read"}`, "io_read_bytes",
		func(a *amounts) float64 { return a.Read }, func(w *client.Workload) *float64 { return w.ReadBytes }, 0.005, 0},
	{"CPU wait", `reckon_workload_cpu_wait_seconds_total{OWNER}`, `reckon_node_cpu_wait_seconds_total`, "cpu_wait_seconds",
		func(a *amounts) float64 { return a.Wait }, func(w *client.Workload) *float64 { return w.CPUWaitSeconds }, 0.05, 0.05},
	{"I/O wait", `reckon_workload_io_wait_seconds_total{OWNER}`, `reckon_node_io_wait_seconds_total`, "io_wait_seconds", nil, nil, 0, 0},
	{"sent",
		`reckon_workload_network_bytes_total{direction="transmit"OWNER}+reckon_workload_loopback_bytes_total{direction="transmit"OWNER}`,
		`reckon_node_network_payload_bytes_total{direction="transmit"}`, "network_bytes",
		func(a *amounts) float64 { return a.Sent }, nil, 0.005, 0},
	{"received",
		`reckon_workload_network_bytes_total{direction="receive"OWNER}+reckon_workload_loopback_bytes_total{direction="receive"OWNER}`,
		`reckon_node_network_payload_bytes_total{direction="receive"}`, "network_bytes",
		func(a *amounts) float64 { return a.Received }, nil, 0.005, 0},
	{"connections opened", `reckon_workload_network_connections_total{role="client"OWNER}`,
		`reckon_node_network_connections_total{role="client"}`, "network_bytes",
		func(a *amounts) float64 { return a.Opened }, func(w *client.Workload) *float64 { return w.NetworkConnections }, 0.005, 0},
	{"connections taken", `reckon_workload_network_connections_total{role="server"OWNER}`,
		`reckon_node_network_connections_total{role="server"}`, "network_bytes", func(a *amounts) float64 { return a.Taken }, nil, 0.005,
		0},
	{"CPU", `reckon_workload_cpu_seconds_total{OWNER}`, ``, "cpu_seconds", // what it uses after its last look is not in its own count
		func(a *amounts) float64 { return a.CPU }, func(w *client.Workload) *float64 { return w.CPUSeconds }, 0.02, 0.01},
}

// close works while the agent is damaged, and compares.
func (b *books) close(length time.Duration, damage func(*books)) {
	t := b.t
	pause(20 * time.Second) // past the first export
	start := b.u.stamp()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.work(length, rand.New(rand.NewPCG(b.draw.Uint64(), 1)))
	}()
	damage(b)
	<-done
	u := b.u
	for done := u.stamp(); u.stamp() < done+45; { // ended groups are in the sums, and short work is folded
		pause(time.Second)
	}
	end := u.stamp()
	t.Logf("%d pieces of work in %.0f s; load %s", len(b.truth), end-start, loadAverage(t))

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
	owner := fmt.Sprintf(`owner="%d"`, bookOwner)
	for _, c := range bookLines {
		whole, node := grew(strings.ReplaceAll(c.workloads, "OWNER", "")), 0.0
		own := grew(strings.ReplaceAll(strings.ReplaceAll(c.workloads, "{OWNER", "{"+owner), "OWNER", ","+owner))
		if c.node != "" {
			node = grew(c.node)
		} else {
			idle := grew(`node_cpu_seconds_total{mode=~"idle|iowait|steal"}`)
			for _, cores := range u.promAt(`count(last_over_time(node_cpu_seconds_total{mode="idle"}[3h]))`, end) {
				node = cores*(end-start) - idle
			}
		}
		t.Logf("%s: workloads, short and other %.6g, the node %.6g: %.5f", c.what, whole, node, whole/node)
		if math.Abs(whole-node) > 0.005*node {
			t.Errorf("%s: workloads, short work and other are %v, the node counted %v", c.what, whole, node)
		}
		if c.truth == nil {
			continue
		}
		truth := 0.0
		for _, a := range b.truth {
			truth += c.truth(&a)
		}
		mark := b.mark(c.figure, start, end)
		t.Logf("%s of the work: %.6g, by itself %.6g: %.5f, %v", c.what, own, truth, own/truth, mark)
		if c.differs(own, truth, c.slack*float64(len(b.truth)), mark) {
			t.Errorf("%s: the user of the work was charged with %v, %v, it counted %v itself", c.what, own, mark, truth)
		}
	}
	b.rows()
}

// mark is the worst mark of a figure of the work between two exports.
func (b *books) mark(name string, from, to float64) figure.Exactness {
	var all figure.Degrees
	for _, m := range []figure.Exactness{figure.AtLeast, figure.Estimated, figure.AtMost} {
		for _, v := range b.u.promAt(fmt.Sprintf(
			`max(max_over_time((reckon_figure_exactness{figure=%q,kind=~"group|short",owner=~"|%d"} == bool %d)[%ds:5s]))`,
			name, bookOwner, m, int(to-from)), to) {
			if v > 0 {
				all.Add(name, m)
			}
		}
	}
	return all[name]
}

// differs reports whether an amount is not the truth, by the mark that it bears.
func (c *bookLine) differs(got, truth, slack float64, mark figure.Exactness) bool {
	slack += c.within * truth
	switch mark {
	case figure.Exact:
		return math.Abs(got-truth) > slack
	case figure.AtLeast:
		return got > truth+slack
	case figure.AtMost:
		return got < truth-slack
	}
	return false
}

// rows compares the rows of the work with what each piece counted of itself.
func (b *books) rows() {
	rows, marked, exact := 0, 0, 0
	for _, w := range b.u.workloads(fmt.Sprintf("owner=%d&kind=group&limit=10000", bookOwner)) {
		group, _, _ := strings.Cut(w.ID[strings.LastIndex(w.ID, "/")+1:], "-")
		pgid, _ := strconv.Atoi(group)
		truth, ok := b.truth[pgid]
		if !ok {
			b.t.Errorf("%s: no piece of work", w.ID)
			continue
		}
		rows++
		for _, c := range bookLines {
			if c.charged == nil || c.charged(&w) == nil {
				continue
			}
			got, mark := *c.charged(&w), w.Exactness[c.figure]
			if mark == figure.Exact {
				exact++
			} else {
				marked++
			}
			if want := c.truth(&truth); c.differs(got, want, c.slack*truth.Tasks, mark) {
				b.t.Errorf("%s: %s %v, %v, it counted %v itself", w.ID, c.what, got, mark, want)
			}
		}
	}
	b.t.Logf("%d rows, of their figures %d exact and %d marked", rows, exact, marked)
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

// start runs the work in a process, in a group of its own and as the user of the work where that is wanted. It returns its process
// group and what it did.
func (w *work) start(program, room string, own bool) (group int, a amounts, err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return 0, a, err
	}
	cmd := exec.Command(program)
	cmd.Dir, cmd.Stderr = room, os.Stderr
	cmd.Env = []string{bookWork + "=" + string(text), "GOMAXPROCS=2"}
	if own {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: bookOwner, Gid: bookOwner}}
	}
	out, err := cmd.Output()
	if err != nil {
		return 0, a, err
	}
	return cmd.Process.Pid, a, json.Unmarshal(out, &a)
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
	a.Tasks = float64(1 + w.Threads)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	part := work{MiB: w.MiB / 10, Connections: w.Connections / 10, Bytes: w.Bytes, Threads: w.Threads, Millis: w.Millis / 10}
	for range w.Children {
		_, b, err := part.start(self, ".", false)
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
