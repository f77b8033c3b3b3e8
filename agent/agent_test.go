package agent

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/account"
	"reckon/metric"
	"reckon/sensor/replay/recording"
	"reckon/web/client"
	"reckon/workload"
)

func open(t *testing.T, c Config) *Agent {
	t.Helper()
	c.Tick = 100 * time.Millisecond
	c.Export = 300 * time.Millisecond
	if c.Kubelet.Address == "" {
		c.Kubelet.Address = "none" // a cluster may run here
	}
	a, _, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// sum adds the samples of a metric with matching labels.
func sum(b *metric.Batch, name string, labels ...string) (v float64, n int) {
next:
	for _, s := range b.Samples {
		if s.Series.Desc.Name != name {
			continue
		}
		for i := 0; i < len(labels); i += 2 {
			ok := false
			for k, l := range s.Series.Desc.Labels {
				ok = ok || (l == labels[i] && s.Series.Values[k] == labels[i+1])
			}
			if !ok {
				continue next
			}
		}
		v += s.Value
		n++
	}
	return v, n
}

func burn(d time.Duration) {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	var from, now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from)
	for {
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
		if now.Nano()-from.Nano() > d.Nanoseconds() {
			return
		}
	}
}

// TestOwnUse holds what the accounts report about this process's group against the kernel's
// own figure, and the sum of everything against the machine.
func TestOwnUse(t *testing.T) {
	a := open(t, Config{Source: "procfs"})
	var before, after unix.Rusage
	// Processes and the machine are read one after the other: use in between may be in one and
	// not in the other, of the first reading and of the last.
	var apart time.Duration
	tick := func() {
		t.Helper()
		began := time.Now()
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		apart = time.Since(began)
	}
	tick()
	first := apart
	start, idle := total(a), a.total.Idle+a.total.IOWait+a.total.Steal
	boot, steal := a.total.Boot, a.total.Steal
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	for range 5 {
		burn(200 * time.Millisecond)
		_ = unix.Getrusage(unix.RUSAGE_SELF, &after) // what the last reading itself takes is in the next
		tick()
	}
	own := float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e9
	us := ownWorkload(t, a) // its group, or the container that these tests run in
	var mine float64
	a.ledger.Parts(func(p *account.Part) {
		if p.Workload() == us {
			mine += float64(p.CPU()) / 1e9
		}
	})
	if mine < own*0.95 {
		t.Errorf("this process used %.3f s, %s is charged %.3f s", own, us, mine)
	}
	span := float64(a.total.Boot-boot) * float64(a.total.Cores)
	got := float64(total(a)-start) + float64(a.total.Idle+a.total.IOWait+a.total.Steal-idle)
	// Idle, I/O wait and steal are reported in ticks of 10 ms each, and time stolen from an idle processor is
	// idle as well.
	const ticks = 3 * 10e6
	stolen := float64(a.total.Steal - steal)
	skew := float64((first + apart).Nanoseconds()) * float64(a.total.Cores)
	if math.Abs(got-span) > 0.01*span+skew+ticks+stolen {
		t.Errorf("workloads, other and idle are %.3f s, the processors had %.3f s (%.3f s stolen, %.3f s for readings)",
			got/1e9, span/1e9, stolen/1e9, skew/1e9)
	}
}

// ownWorkload is the workload of this process.
func ownWorkload(t *testing.T, a *Agent) workload.ID {
	t.Helper()
	p := a.findProcess(int32(unix.Getpid()))
	if p == nil {
		t.Fatal("this process is not in the task table")
	}
	part := a.ledger.PartOf(p.PID, p.Start)
	if part == nil {
		t.Fatal("this process is in no account")
	}
	return part.Workload()
}

func total(a *Agent) uint64 { return a.ledger.Total() }

type listener struct{ last client.Live }

func (l *listener) Subscribers() int      { return 1 }
func (l *listener) Publish(v client.Live) { l.last = v }

func TestRunExportsAndExposes(t *testing.T) {
	a := open(t, Config{Node: "n1", Expose: true, Version: "1.2.3"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var live listener
	exports := 0
	err := a.Run(ctx, &live, func(_ context.Context, b *metric.Batch) error {
		if _, n := sum(b, "reckon_workload_cpu_seconds_total", "workload", "other/n1"); n != 2 {
			t.Errorf("other/n1 has %d series of CPU time, want user and system", n)
		}
		if v, n := sum(b, "reckon_sensor_up", "sensor", "machine"); n != 1 || v != 1 {
			t.Errorf("the machine sensor is %v in %d series, want up in one", v, n)
		}
		if v, _ := sum(b, "reckon_agent_memory_bytes"); v < 1<<20 {
			t.Errorf("the agent says it has %v bytes", v)
		}
		if exports++; exports == 2 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if exports < 3 {
		t.Errorf("%d exports, want two and the last one", exports)
	}
	var b metric.Batch
	if err := a.Gather(&b); err != nil || len(b.Samples) < 20 {
		t.Errorf("the exposition has %d samples, error %v", len(b.Samples), err)
	}
	if live.last.Node != "n1" || len(live.last.Workloads) == 0 || live.last.Cores < 1 {
		t.Errorf("the live view is %+v", live.last)
	}
}

func TestFailingSinkIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	a := open(t, Config{Source: "procfs", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, good := 0, 0
	err := a.Run(ctx, nil,
		func(context.Context, *metric.Batch) error { n++; return io.ErrClosedPipe },
		func(context.Context, *metric.Batch) error {
			if good++; good == 3 {
				cancel()
			}
			return nil
		})
	if err != nil || n < 3 || good < 3 {
		t.Errorf("got %v, %d calls of the failing sink, %d of the good one", err, n, good)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("the failure is logged %d times, want once:\n%s", lines, &log)
	}
}

func TestStateIsTakenUp(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	a := open(t, Config{Source: "procfs", State: state})
	for range 3 {
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
	}
	a.export(time.Now())
	a.save()
	was := total(a)
	b := open(t, Config{Source: "procfs", State: state})
	if got := total(b); got != was {
		t.Errorf("after a restart the accounts hold %d ns, before %d ns", got, was)
	}
	if b.btime != a.btime {
		t.Errorf("booted at %d, before at %d", b.btime, a.btime)
	}
}

// TestPlainState: the state of a version that did not compress it is taken up, and the new file is smaller than that. By how much
// depends on how many processes there are: a quarter with a hundred, half with two.
func TestPlainState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	a := open(t, Config{Source: "procfs", State: state})
	for range 3 {
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
	}
	a.export(time.Now())
	for range 2 { // the writer is used again
		a.save()
	}
	packed, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := readState(state)
	if err != nil || plain[0] != '{' || len(packed) >= len(plain) {
		t.Errorf("%d bytes of %d: %v", len(packed), len(plain), err)
	}
	if err := os.WriteFile(state, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, was := total(open(t, Config{Source: "procfs", State: state})), total(a); got != was {
		t.Errorf("from a plain file the accounts hold %d ns, want %d", got, was)
	}
}

// TestDamagedState: it is reported once, in words, and set aside; the accounts start again.
func TestDamagedState(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"torn":  func(b []byte) []byte { return b[:len(b)/2] },
		"a bit": func(b []byte) []byte { b[len(b)/3] ^= 4; return b }, "its format": func(b []byte) []byte { b[1] ^= 4; return b },
		"empty": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			a := open(t, Config{Source: "procfs", State: state})
			if err := a.tick(); err != nil {
				t.Fatal(err)
			}
			a.save()
			good, err := os.ReadFile(state)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(state, damage(good), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			b := open(t, Config{Source: "procfs", State: state, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if got := total(b); got != 0 {
				t.Errorf("the accounts hold %d ns, want a fresh start", got)
			}
			if s := log.String(); strings.Count(s, "level=WARN") != 1 || !strings.Contains(s, "accounts start from zero") || !strings.Contains(s, "damaged") {
				t.Errorf("logged:\n%s", s)
			}
			if _, err := os.Stat(state + ".damaged"); err != nil {
				t.Errorf("not set aside: %v", err)
			}
		})
	}
}

// TestSavedBeforeSent: a kill at any moment leaves a state that is not behind what a sink has.
func TestSavedBeforeSent(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	a := open(t, Config{Source: "procfs", State: state, Tick: 20 * time.Millisecond, Export: 40 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sends := 0
	err := a.Run(ctx, nil, func(_ context.Context, batch *metric.Batch) error {
		sent, _ := sum(batch, "reckon_workload_cpu_seconds_total")
		data, err := readState(state)
		if err != nil {
			t.Errorf("nothing is saved when the first export is sent: %v", err)
			cancel()
			return nil
		}
		l := account.New(account.Config{Node: a.Node(), Identify: a.identify})
		if err := l.Restore(data, a.bootID); err != nil {
			t.Error(err)
		}
		if held := float64(l.Total()) / 1e9; held < sent-1e-6 {
			t.Errorf("%.6f s are sent, %.6f saved", sent, held)
		}
		if sends++; sends == 4 {
			cancel()
		}
		return nil
	})
	if err != nil || sends < 4 {
		t.Errorf("%v, %d exports", err, sends)
	}
}

// TestRecordAndReplay records this machine and plays it back as another agent.
func TestRecordAndReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "machine.rec")
	ticked := func(c Config) *Agent {
		t.Helper()
		a := open(t, c)
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		return a
	}
	before := ticked(Config{Source: "procfs"})
	a := open(t, Config{Source: "procfs"})
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	a.addSensor("card", &card{pid: int32(os.Getpid())}, nil)
	r, meta := a.Recorder(true, recording.NewScrubber(a.Node()), 50*time.Millisecond)
	w, err := recording.NewWriter(f, meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Record(t.Context(), w, 4, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	after := ticked(Config{Source: "procfs"})
	b := open(t, Config{Replay: path})
	for range 6 { // over its end, where it begins again
		if err := b.tick(); err != nil {
			t.Fatal(err)
		}
	}
	b.export(b.now())
	parts, processes, _ := b.ledger.Counts()
	if parts < 2 || processes < 2 {
		t.Errorf("the recording gives %d parts and %d processes", parts, processes)
	}
	if _, n := sum(&b.batch, "reckon_workload_info", "workload", "other/"+b.Node()); n != 1 {
		t.Errorf("the replayed node %s has %d workloads other, want one", b.Node(), n)
	}
	if v, n := sum(&b.batch, "reckon_workload_gpu_seconds_total", "device", "GPU-1"); n != 1 || v != 3 {
		t.Errorf("six ticks in which this process computed for half a second give %v s in %d series", v, n)
	}
	ids := func(a *Agent) map[string]bool {
		out := map[string]bool{}
		a.ledger.Parts(func(p *account.Part) {
			if p.Workload().Kind() == workload.Group {
				_, id, _ := strings.Cut(p.Workload().Name(), "/") // the node's name is scrubbed
				out[id] = true
			}
		})
		return out
	}
	first := ids(ticked(Config{Replay: path}))
	if again := ids(ticked(Config{Replay: path})); !maps.Equal(first, again) || len(first) == 0 {
		t.Errorf("two replays name %d and %d groups", len(first), len(again))
	}
	// Every replay gives the ids that the machine gave: of all groups that were there before the recording and after it.
	same, stayed := 0, ids(after)
	for id := range ids(before) {
		if !stayed[id] {
			continue
		}
		if same++; !first[id] {
			t.Errorf("the replay does not name the group %s of the machine", id)
		}
	}
	if same == 0 {
		t.Error("no group, not even that of the test, was there before the recording and after it")
	}
}

func TestConfigMistakes(t *testing.T) {
	for name, c := range map[string]Config{
		"source":   {Source: "magic"},
		"exits":    {Exits: "magic"},
		"interval": {Tick: time.Minute, Export: time.Second},
		"replay":   {Replay: filepath.Join(t.TempDir(), "none")},
	} {
		if a, _, err := Open(c); err == nil {
			_ = a.Close()
			t.Errorf("%s: no error for %+v", name, c)
		}
	}
}

// TestStoredViews: with StoreCompat an export holds the views as well, under a job of their own
// and the name of the node as instance; the exposition has them without both, as a scrape adds
// its own. Without it the export holds our names only.
func TestStoredViews(t *testing.T) {
	for _, store := range []bool{true, false} {
		a := open(t, Config{Source: "procfs", Node: "n1", Compat: []string{"kepler", "cadvisor"}, StoreCompat: store, Expose: true, PowerModel: noModel})
		for range 3 {
			if err := a.tick(); err != nil {
				t.Fatal(err)
			}
			a.export(time.Now())
		}
		_, marked := sum(&a.batch, "machine_memory_bytes", "job", "reckon-compat", "instance", "n1")
		if want := map[bool]int{true: 1, false: 0}[store]; marked != want {
			t.Errorf("store %v: %d of machine_memory_bytes with our job, want %d", store, marked, want)
		}
		var b metric.Batch
		if err := a.Gather(&b); err != nil {
			t.Fatal(err)
		}
		if _, n := sum(&b, "machine_memory_bytes"); n != 1 {
			t.Errorf("store %v: %d of machine_memory_bytes are exposed, want 1", store, n)
		}
		if _, n := sum(&b, "machine_memory_bytes", "job", "reckon-compat"); n != 0 {
			t.Error("a scrape would meet our job")
		}
	}
}
