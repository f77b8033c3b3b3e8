package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reckon/web/client"
)

// process is one process of a tree. Its lines have the form of Linux 6.18.
type process struct {
	pid, parent       int
	comm, args        string
	user, system      int // ticks
	childUser         int
	minor, childMinor int
	read, write       int64
	voluntary         int64
	container         string
	noIO              bool
	threads           []int // ticks of each
	start             int
}

// tree writes processes as a /proc, in place of what was there.
func tree(t *testing.T, root string, processes ...process) {
	t.Helper()
	old, _ := filepath.Glob(filepath.Join(root, "[0-9]*"))
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "stat"), "cpu 0\nbtime 1700000000\n")
	for _, p := range processes {
		dir := filepath.Join(root, fmt.Sprint(p.pid))
		stat := func(id, user, system int) string {
			return fmt.Sprintf("%d (%s) S %d 1 1 0 -1 4194560 %d %d 0 0 %d %d %d 0 20 0 %d 0 %d 8192000 500 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 7 0 0 0 0 0 0 0 0 0 0\n",
				id, p.comm, p.parent, p.minor, p.childMinor, user, system, p.childUser, max(1, len(p.threads)), p.start)
		}
		write(filepath.Join(dir, "stat"), stat(p.pid, p.user, p.system))
		write(filepath.Join(dir, "cmdline"), strings.ReplaceAll(p.args, " ", "\x00")+"\x00")
		write(filepath.Join(dir, "status"), fmt.Sprintf("Name:\t%s\nVmStk:\t     132 kB\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t2\n", p.comm, p.voluntary))
		write(filepath.Join(dir, "schedstat"), "1000 2000 3\n")
		write(filepath.Join(dir, "fd", "0"), "")
		write(filepath.Join(dir, "cgroup"), "0::/../cri-containerd-"+p.container+".scope\n")
		if !p.noIO {
			write(filepath.Join(dir, "io"), fmt.Sprintf("rchar: 1\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n", p.read, p.write))
		}
		for i, ticks := range p.threads {
			write(filepath.Join(dir, "task", fmt.Sprint(p.pid+i), "stat"), stat(p.pid+i, ticks, 0))
			write(filepath.Join(dir, "task", fmt.Sprint(p.pid+i), "schedstat"), fmt.Sprintf("%d 5 1\n", ticks*10_000_000))
		}
	}
}

var pause = process{pid: 1, comm: "pause", args: "/pause"}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is unknown, want %g", what, want)
	} else if math.Abs(*got-want) > 1e-9*math.Max(1, want) {
		t.Errorf("%s is %g, want %g", what, *got, want)
	}
}

func TestSample(t *testing.T) {
	id := strings.Repeat("ab", 32)
	shell := process{pid: 7, comm: "sh", args: "sh -c work", container: id, user: 100, system: 20, childUser: 50, minor: 10, childMinor: 5, read: 4096, write: 8192, voluntary: 4, start: 500}
	gone := process{pid: 8, parent: 7, comm: "short", args: "short", container: id, user: 30, start: 600}
	root := t.TempDir()
	tree(t, root)
	r := newReader(root)
	r.threads = true
	read := func(ps ...process) *processTable {
		t.Helper()
		tree(t, root, ps...)
		tab, err := r.read(time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	before := read(pause, shell, gone)
	after := shell
	// What short used up to its end, 5 ticks since the baseline, is now in the children of sh, with 3 of
	// a process that was never seen.
	after.user, after.system, after.childUser, after.childMinor, after.minor, after.voluntary = 130, 25, 50+35+3, 25, 40, 9
	after.read, after.write = 4096+1000, 8192+2000
	fresh := process{pid: 9, parent: 7, comm: "we ird) S 1", args: "fresh", container: id, user: 12, start: 700, threads: []int{10, 2}}
	s, _ := sampleBetween(before, read(pause, after, fresh), Options{Processes: true, Threads: true, boot: r.boot}, before.sumCounters().cpu)
	near(t, "total", s.Total.CPUSeconds, 0.35+0.12+0.05+0.03)
	near(t, "ended", s.Ended.CPUSeconds, 0.05+0.03)
	near(t, "bytes read", s.Total.ReadBytes, 1000)
	near(t, "bytes written", s.Total.WriteBytes, 2000)
	near(t, "faults", s.Total.MinorFaults, 50)
	near(t, "faults of ended processes", s.Ended.MinorFaults, 20)
	near(t, "switches", s.Total.Voluntary, 5)
	near(t, "files", s.Total.Files, 3)
	if len(s.Processes) != 3 {
		t.Fatalf("%d rows", len(s.Processes))
	}
	row := s.Processes[1]
	if row.PID != 7 || row.Command != "sh" || row.Container != id || row.Policy != "NORMAL" || *row.Processor != 3 || *row.Priority != 20 || row.Started != time.Unix(1700000005, 0) {
		t.Errorf("row %+v", row)
	}
	near(t, "user", row.UserSeconds, 0.3)
	near(t, "system", row.SystemSeconds, 0.05)
	near(t, "children", row.ChildCPUSeconds, 0.38)
	near(t, "stack", row.StackBytes, 132<<10)
	if row := s.Processes[2]; row.Command != "we ird) S 1" {
		t.Errorf("command %q", row.Command)
	} else {
		near(t, "a process that began in the interval", row.CPUSeconds, 0.12)
	}
	if len(s.Threads) != 2 || s.Threads[1].TID != 10 || s.Threads[1].PID != 9 || s.Threads[1].ResidentBytes != nil {
		t.Fatalf("threads %+v", s.Threads)
	}
	near(t, "a thread", s.Threads[0].CPUSeconds, 0.1)
	if len(s.Commands) != 3 || s.Commands[1].Command != "sh" || s.Commands[1].Count != 1 {
		t.Errorf("commands %+v", s.Commands)
	}
}

// TestNobodyWaited: a process that nobody waited for takes its counters along. The total is then what
// the others used, and the next one is right again.
func TestNobodyWaited(t *testing.T) {
	root := t.TempDir()
	r := newReader(root)
	read := func(ps ...process) *processTable {
		tree(t, root, ps...)
		tab, _ := r.read(time.Unix(1, 0))
		return tab
	}
	a := process{pid: 7, comm: "a", user: 100}
	before := read(pause, a, process{pid: 8, comm: "b", user: 1000})
	a.user = 110
	middle := read(pause, a)
	s, high := sampleBetween(before, middle, Options{}, before.sumCounters().cpu)
	near(t, "total", s.Total.CPUSeconds, 0.1)
	a.user = 130
	s, _ = sampleBetween(middle, read(pause, a), Options{}, high)
	near(t, "next total", s.Total.CPUSeconds, 0.2)
}

func TestUnreadable(t *testing.T) {
	root := t.TempDir()
	tree(t, root, pause, process{pid: 7, comm: "a", user: 1, noIO: true})
	// io that exists and cannot be read
	if err := os.Mkdir(filepath.Join(root, "7", "io"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree1 := newReader(root)
	tab, err := tree1.read(time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := sampleBetween(tab, tab, Options{}, 0)
	if s.Total.ReadBytes != nil || s.Total.WriteBytes != nil {
		t.Error("bytes that could not be read have a value")
	}
	if s.Total.Voluntary == nil {
		t.Error("switches could be read")
	}
	if tab.absent["read_bytes, write_bytes"] == "" {
		t.Errorf("no reason: %v", tab.absent)
	}
}

func TestExactlySoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		tree(t, root, pause, process{pid: 7, comm: "app", user: 100})
		p, err := New(Options{Proc: root, Rate: time.Second, Completions: 5})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %s", took)
		}
		page := p.Page(t.Context(), 0, 0, 100)
		if len(page.Samples) != 5 || page.Last != 5 || !page.Ended || page.Reason != "completions" {
			t.Fatalf("%d samples, %+v", len(page.Samples), page)
		}
		for i, s := range page.Samples {
			if s.Seq != int64(i+1) || !s.From.Equal(began.Add(time.Duration(i)*time.Second)) || s.To.Sub(s.From) != time.Second {
				t.Errorf("sample %d: %s to %s", s.Seq, s.From, s.To)
			}
			near(t, "first reading as a value", s.Total.CPUSeconds, 0)
		}
	})
}

// TestApplicationBeginsAndEnds: the probe is there first. All that the application used is in the
// samples, and the last is shorter.
func TestApplicationBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		tree(t, root, pause)
		p, err := New(Options{Proc: root, Rate: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- p.Run(t.Context()) }()
		<-time.After(3*time.Second + 5*time.Millisecond)
		tree(t, root, pause, process{pid: 7, comm: "app", user: 2})
		for i := range 25 {
			<-time.After(100 * time.Millisecond)
			tree(t, root, pause, process{pid: 7, comm: "app", user: 2 + 3*(i+1)})
		}
		<-time.After(150 * time.Millisecond)
		tree(t, root, pause)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		page := p.Page(t.Context(), 0, 0, 100)
		if len(page.Samples) != 3 || page.Reason != "application" {
			t.Fatalf("%d samples, %q", len(page.Samples), page.Reason)
		}
		sum := 0.0
		for _, s := range page.Samples {
			sum += *s.Total.CPUSeconds
		}
		near(t, "all samples", &sum, 0.77)
		last := page.Samples[2]
		if d := last.To.Sub(last.From); d < 500*time.Millisecond || d > 700*time.Millisecond {
			t.Errorf("the last sample is of %s", d)
		}
	})
}

// TestReadOnce: what was asked for after a number is forgotten, and the end is drained when a reader
// has seen it.
func TestReadOnce(t *testing.T) {
	root := t.TempDir()
	tree(t, root, pause, process{pid: 7, comm: "app"})
	p, err := New(Options{Proc: root, Rate: 100 * time.Millisecond, Completions: 3, Pod: "a", PodUID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	get := func(query string) (page client.ProbePage) {
		t.Helper()
		resp, err := http.Get(server.URL + "/v1/samples?" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s", query, resp.Status)
		}
		if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
			t.Fatal(err)
		}
		return page
	}
	if page := get("after=0"); len(page.Samples) != 0 || page.Ended || page.Pod != "a" || page.Wanted != 3 {
		t.Errorf("before the beginning: %+v", page)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a reader that lost an answer asks again
		if page := get("after=1&wait=5s"); len(page.Samples) != 2 || !page.Ended {
			t.Errorf("%+v", page)
		}
	}
	select {
	case <-p.drained:
		t.Error("drained before the end was seen")
	default:
	}
	if page := get("after=3&kept=1"); len(page.Samples) != 0 || !page.Ended {
		t.Errorf("%+v", page)
	}
	if page := get("after=1&kept=1"); len(page.Samples) != 2 {
		t.Errorf("what is not kept elsewhere is gone: %+v", page)
	}
	select {
	case <-p.drained:
		t.Error("drained before all was kept")
	default:
	}
	if page := get("after=3"); len(page.Samples) != 0 || !page.Ended || page.Last != 3 {
		t.Errorf("%+v", page)
	}
	<-p.drained
	if len(p.samples) != 0 {
		t.Errorf("%d samples are kept", len(p.samples))
	}
	resp, err := http.Get(server.URL + "/v1/samples?after=x")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("after=x: %s", resp.Status)
	}
}

func TestNobodyReads(t *testing.T) {
	p, err := New(Options{Proc: t.TempDir(), Rate: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	many := &processTable{processes: map[processKey]*threadOrProcess{}, threads: map[processKey]*threadOrProcess{}}
	for i := range int32(maxRows/4 + 1) {
		k := processKey{pid: i}
		many.processes[k] = &threadOrProcess{processKey: k, command: fmt.Sprint(i), matched: true}
	}
	high := int64(0)
	for range 5 {
		high = p.addSample(many, many, high)
	}
	page := p.Page(t.Context(), 0, 0, 100)
	for i, s := range page.Samples {
		if dropped := i >= 3; s.Dropped != dropped || (len(s.Commands) == 0) != dropped {
			t.Errorf("sample %d: dropped %v, %d rows", s.Seq, s.Dropped, len(s.Commands))
		}
	}
}

func TestCommands(t *testing.T) {
	match := commandMatcher([]string{"mpirun lmp", "sh"})
	for line, want := range map[string]bool{"mpirun\x00lmp\x00-v": true, "mpirun\x00lmpx": false, "mpirun": false, "sh\x00-c": true, "bash": false} {
		if got := match("x", []byte(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestContainerOf(t *testing.T) {
	id := strings.Repeat("0f", 32)
	for text, want := range map[string]string{
		"12:cpu:/kubepods/burstable/pod1/" + id + "\n": id,
		"0::/../cri-containerd-" + id + ".scope\n":     id,
		"0::/\n":            "",
		"0::/" + id + "a\n": "",
		"0::/kubepods/podab" + "/crio-" + id + ".scope/sub\n": id,
	} {
		if got := containerID(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) S 1 1 1 0 -1 4194560 1 1 0 0 1 1 1 0 20 0 1 0 5 8192000 500 1 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 7 0 0 0 0 0 0 0 0 0 0"))
	f.Add([]byte("7 () "))
	r := newReader(f.TempDir())
	f.Fuzz(func(t *testing.T, text []byte) {
		var p threadOrProcess
		r.parseStat(text, &p)
		parseStatus(text, &p)
		parseIO(text, &p.counters)
		parseSchedstat(text)
		if id := containerID(string(text)); id != "" && len(id) != 64 {
			t.Errorf("container %q", id)
		}
	})
}

func TestStorage(t *testing.T) {
	dir := t.TempDir()
	r, err := Storage(t.Context(), StorageOptions{Directory: dir, Size: 1 << 20, Block: 4096, Duration: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"write_bytes_per_second", "read_bytes_per_second", "random_read_operations_per_second", "random_write_operations_per_second", "random_write_p99_seconds"} {
		if r.Figures[name] <= 0 {
			t.Errorf("%s is %g", name, r.Figures[name])
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
	for _, o := range []StorageOptions{{Directory: dir, Size: 100, Block: 4096}, {Directory: dir, Size: 1 << 20, Block: 511}, {Directory: filepath.Join(dir, "none"), Size: 1 << 20, Block: 4096}} {
		if _, err := Storage(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestNetwork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Three hosts of one port: three addresses of the loopback network.
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(first.Addr().String())
	second, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	for _, l := range []net.Listener{first, second} {
		go func() { _ = ServeNetwork(ctx, l, port) }()
	}
	o := NetworkOptions{Hosts: []string{"127.0.0.1", "127.0.0.2"}, Port: port, Trials: 20, Message: 64, Duration: 50 * time.Millisecond}
	r, err := Network(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pairs) != 2 {
		t.Fatalf("%d pairs", len(r.Pairs))
	}
	for _, p := range r.Pairs {
		if p.Error != "" || p.Trials != 20 || p.MinSeconds <= 0 || p.MinSeconds > p.MedianSeconds || p.MedianSeconds > p.P99Seconds || p.P99Seconds > p.MaxSeconds || p.BytesPerSecond < 1e6 {
			t.Errorf("%+v", p)
		}
	}
	o.Hosts = append(o.Hosts, "127.0.0.3") // nobody is there
	r, err = Network(ctx, o)
	if err != nil || len(r.Pairs) != 6 {
		t.Fatalf("%v, %d pairs", err, len(r.Pairs))
	}
	failed := 0
	for _, p := range r.Pairs {
		if p.Error != "" {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("%d pairs have an error, want the 4 of the missing host", failed)
	}
}
