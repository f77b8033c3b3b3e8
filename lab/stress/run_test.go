package stress

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func figures(t *testing.T, r *Report, of Resource) (out []Figure) {
	t.Helper()
	for _, s := range r.Steps {
		f, ok := s.Figures[of.String()]
		if !ok || f.Achieved == nil {
			t.Fatalf("step %d: no figure of %s", s.Step, of)
		}
		out = append(out, f)
	}
	return out
}

// All loads but the GPU at once. How exactly they are achieved depends on the machine;
// that the figures are the kernel's and that nothing is left behind does not.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	p := Program{Workers: 2, Steps: []Step{
		{Level{CPU: 0.4, Memory: 128 << 20, DiskWrite: 4e6, DiskRead: 2e6, Network: 4e6}, 200 * time.Millisecond},
		{Level{CPU: 0.2, Memory: 96 << 20, DiskWrite: 8e6, Network: 2e6}, 150 * time.Millisecond},
	}}
	told := 0
	r, err := Run(t.Context(), p, Options{Dir: dir, FileSize: 4 << 20, Pin: true, Done: func(StepReport) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	if !r.Ended || len(r.Steps) != 2 || told != 2 || r.Seconds < 0.35 {
		t.Fatalf("report %+v, told of %d steps", r, told)
	}
	spent := 0.0
	for i, f := range figures(t, r, CPU) {
		spent += *f.Achieved * r.Steps[i].Seconds
	}
	rusage := float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e9
	if spent <= 0 || spent > rusage+0.005 {
		t.Errorf("%g CPU seconds, the kernel counted %g", spent, rusage)
	}
	for i, f := range figures(t, r, Memory) {
		if *f.Achieved < 32<<20 || f.Wish != p.Steps[i].Level[Memory] {
			t.Errorf("step %d: memory %g of %g", i+1, *f.Achieved, f.Wish)
		}
	}
	for _, of := range []Resource{DiskRead, DiskWrite, Network} {
		sum, wish := 0.0, 0.0
		for i, f := range figures(t, r, of) {
			sum += *f.Achieved * r.Steps[i].Seconds
			wish += p.Steps[i].Level[of] * p.Steps[i].Duration.Seconds()
		}
		if sum <= 0 || sum > wish*1.001 {
			t.Errorf("%s: %g bytes, wished were %g", of, sum, wish)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var b bytes.Buffer
	if err := r.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); len(lines) != 3 ||
		!strings.HasPrefix(lines[0], "step,start_seconds,seconds,cores_wish,cores_achieved,cores_deviation,memory_bytes_wish,") {
		t.Errorf("CSV:\n%s", b.String())
	}
}

func TestKeep(t *testing.T) {
	for _, mode := range []DiskMode{DiskSync, DiskCached} {
		dir := t.TempDir()
		r, err := Run(t.Context(), Constant(Level{DiskWrite: 4e6}, 50*time.Millisecond),
			Options{Dir: dir, FileSize: 2 << 20, Keep: true, DiskMode: mode})
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "reckon-stress-*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: files %v, %v", mode, files, err)
		}
		st, err := os.Stat(files[0])
		if err != nil || st.Size() != int64(math.Round(*figures(t, r, DiskWrite)[0].Achieved*r.Seconds)) {
			t.Errorf("%s: a file of %d bytes, %v; reported %v", mode, st.Size(), err, r.Steps)
		}
		if _, err := Run(t.Context(), Constant(Level{DiskWrite: 4e6}, time.Millisecond),
			Options{Dir: dir, FileSize: 2 << 20, Keep: true, DiskMode: mode}); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s: the file of another run: %v", mode, err)
		}
	}
}

// A signal ends a program of an hour, and the report covers the time until then.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := Program{Steps: []Step{
		{Level{CPU: 0.1, Memory: 64 << 20, Network: 1e6, DiskWrite: 1e6}, 50 * time.Millisecond},
		{Level{CPU: 0.1, Memory: 64 << 20, Network: 1e6, DiskWrite: 1e6}, time.Hour},
	}}
	r, err := Run(ctx, p, Options{Dir: t.TempDir(), FileSize: 2 << 20, Done: func(StepReport) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ended || len(r.Steps) != 2 || r.Seconds > 600 {
		t.Errorf("report %+v", r)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "interrupted: ") }) {
		t.Errorf("nothing warns that it was interrupted: %q", r.Warnings)
	}
	cancel()
	r, err = Run(ctx, Constant(Level{CPU: 1}, time.Hour), Options{})
	if err != nil || r.Ended {
		t.Errorf("a context that had ended: %+v, %v", r, err)
	}
}

func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	disk := Constant(Level{DiskWrite: 1e6}, time.Millisecond)
	for name, c := range map[string]struct {
		p    Program
		o    Options
		want string
	}{
		"no program":   {Program{}, Options{}, "no steps"},
		"no such dir":  {disk, Options{Dir: file + "/none"}, file},
		"not a dir":    {disk, Options{Dir: file}, "not a directory"},
		"no space":     {disk, Options{Dir: t.TempDir(), FileSize: 1 << 60}, "bytes free"},
		"tiny file":    {disk, Options{Dir: t.TempDir(), FileSize: 1}, "give"},
		"no peer":      {Constant(Level{Network: 1}, time.Millisecond), Options{Peer: nobody}, "connect to the peer"},
		"a GPU":        {Constant(Level{GPU: 0.3}, time.Millisecond), Options{}, "leave out --gpu"},
		"short period": {Constant(Level{CPU: 1}, time.Millisecond), Options{Period: 1}, "period"},
	} {
		if _, err := Run(t.Context(), c.p, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestSink(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		n   int64
		err error
	}
	ended := make(chan end)
	go func() { n, err := Sink(ctx, l); ended <- end{n, err} }()
	r, err := Run(t.Context(), Constant(Level{Network: 5e6}, 100*time.Millisecond), Options{Peer: l.Addr().String()})
	cancel()
	got := <-ended
	if err != nil || got.err != nil {
		t.Fatal(err, got.err)
	}
	if sent := *figures(t, r, Network)[0].Achieved * r.Seconds; got.n <= 0 || float64(got.n) > sent+1 {
		t.Errorf("%d bytes came of %g", got.n, sent)
	}
}

func TestThreadClock(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	byID := readClock(threadClock(unix.Gettid()))
	after := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	if before <= 0 || byID < before || byID > after {
		t.Errorf("own clock %d, by id %d, own clock %d", before, byID, after)
	}
}

// A burst uses the requested CPU time, allocates nothing, and ends when its time is over.
func TestBurn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &spinner{clock: newClock(), perNano: 0.5, curve: newCurve(Constant(Level{CPU: 1}, time.Hour), CPU)}
	const want = 3_000_000
	before := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	s.useCPU(want, time.Hour)
	if got := readClock(unix.CLOCK_THREAD_CPUTIME_ID) - before; got < want-minPiece || got > 3*want {
		t.Errorf("a burst of %d ns took %d", want, got)
	}
	before = readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	s.useCPU(int64(time.Hour), s.clock.elapsed()+time.Millisecond)
	if got := readClock(unix.CLOCK_THREAD_CPUTIME_ID) - before; got > int64(time.Second) {
		t.Errorf("a burst beyond its time took %d ns", got)
	}
	p := pacer{targetCurve: s.curve}
	m := &useMeter{spinners: []*spinner{s}}
	s.tid.Store(int64(unix.Gettid()))
	s.begun.Store(1)
	if n := testing.AllocsPerRun(100, func() { p.amountDue(s.clock.elapsed(), 1e6); s.useCPU(20_000, time.Hour); m.updateOthers() }); n != 0 {
		t.Errorf("%g allocations in a period", n)
	}
}

// The use by the rest of the process is subtracted from the share of the spinners, and
// the value given to them never decreases.
func TestOthers(t *testing.T) {
	a, b := &spinner{}, &spinner{}
	m := &useMeter{spinners: []*spinner{a, b}, zero: readClock(unix.CLOCK_PROCESS_CPUTIME_ID) - 1e9}
	m.updateOthers()
	first := a.others.Load()
	if first < 0.5e9 || first != b.others.Load() {
		t.Errorf("others %d and %d, want half of a second or more each", first, b.others.Load())
	}
	m.zero += 2e9
	m.updateOthers()
	if got := a.others.Load(); got != first {
		t.Errorf("others shrank from %d to %d", first, got)
	}
}

func TestMemoryFollows(t *testing.T) {
	m := &memoryLoad{}
	if err := m.reserve(96 << 20); err != nil {
		t.Fatal(err)
	}
	defer m.close()
	var stop atomic.Bool
	base, err := residentBytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int64{32 << 20, 64 << 20, 16 << 20, 0} {
		m.resizeTo(float64(base+more), &stop)
		got, err := residentBytes()
		if err != nil {
			t.Fatal(err)
		}
		// The rest of the test process uses a little CPU time.
		if diff := got - base - more; diff > 8<<20 || diff < -8<<20 {
			t.Errorf("%d bytes above the base, want %d", got-base, more)
		}
	}
	stop.Store(true)
	held := m.held
	m.resizeTo(float64(base+64<<20), &stop)
	if m.held != held {
		t.Error("filled on after the stop")
	}
}

func BenchmarkBurst(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &spinner{clock: newClock(), perNano: 0.5}
	b.ReportAllocs()
	before := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	for b.Loop() {
		s.useCPU(100_000, time.Hour)
	}
	b.ReportMetric(float64(readClock(unix.CLOCK_THREAD_CPUTIME_ID)-before)/float64(b.N)-100_000, "ns-over/op")
}
