//go:build amd64

package catalogue

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	sys "golang.org/x/sys/unix"

	"reckon/store"
	"reckon/store/tsdb"
)

const (
	stopDir   = "RECKON_STOP_DIR" // set in the process that is stopped
	stopCount = "RECKON_STOPS"    // how many stops; 8 by default
)

// TestStops ends a process at its writes, syncs and renames in a data directory, one after the
// other, while late samples come, history is imported and the database compacts. Whatever was
// on the disk then: the next start makes usage that is what the counters report, to 1e-9, and holds
// what was acknowledged.
func TestStops(t *testing.T) {
	if os.Getenv(stopDir) != "" {
		if err := tellTracer(); err != nil {
			t.Fatal(err)
		}
		stopped(t, os.Getenv(stopDir))
		return
	}
	stops, err := strconv.Atoi(os.Getenv(stopCount))
	if err != nil {
		stops = 8
	}
	dir := t.TempDir()
	all, err := trace(t, filepath.Join(dir, "whole"), math.MaxInt)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("processes cannot be traced here: ", err)
	}
	if err != nil || all < 50 {
		t.Fatalf("%d points, %v", all, err)
	}
	accounted(t, filepath.Join(dir, "whole"))
	t.Logf("%d writes, syncs and renames", all)
	for i := range stops {
		at := 1 + (2*i+1)*all/(2*stops)
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			if _, err := trace(t, data, at); err != nil {
				t.Fatal(err)
			}
			accounted(t, data)
		})
	}
}

// stopped is the process that is stopped: a site with nodes that send late, an import, a compaction.
func stopped(t *testing.T, dir string) {
	x := newSite(t, dir, simBegin)
	x.step = time.Minute
	ack := func() {
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "acknowledged"), []byte(fmt.Sprint(x.acked())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.begin("unit/b", partPlace{Node: "n2"})
	for round := range 3 {
		x.cut["n2"] = true
		for range 50 {
			x.work(steady)
			x.exportAll()
		}
		ack()
		b.roll.reset()
		advance(t, b)
		x.flush() // late
		ack()
		if round == 1 {
			var h tsdb.History
			from := simBegin.Add(-48 * time.Hour)
			cpu := h.Series(labels.FromStrings("__name__", simUser.Name, "workload", "slurm/9", "kind", "slurm", "owner", "bob", "mode", "user", "node", "n7", "site", "s"))
			start := h.Series(labels.FromStrings("__name__", simStart.Name, "workload", "slurm/9", "kind", "slurm", "owner", "bob", "node", "n7", "site", "s"))
			for i := range 20 {
				at := from.Add(time.Duration(i) * 10 * time.Minute).UnixMilli()
				if err := errors.Join(cpu.Add(at, float64(i)*100), start.Add(at, float64(from.Unix()))); err != nil {
					t.Fatal(err)
				}
			}
			if err := x.s.ImportBlocks(t.Context(), &h); err != nil {
				t.Fatal(err)
			}
			if _, err := b.History(t.Context(), [][2]time.Time{{from, from.Add(4 * time.Hour)}}); err != nil {
				t.Fatal(err)
			}
		}
		b.roll.reset()
		advance(t, b)
		if round == 2 {
			if err := x.s.Backup(t.Context(), filepath.Join(filepath.Dir(dir), "backup")); err != nil { // which compacts late samples
				t.Fatal(err)
			}
		}
	}
	x.close()
}

func (r *roller) reset() {
	if r != nil {
		r.next = time.Time{}
	}
}

// acked is the use of all workloads on nodes that could send.
func (x *site) acked() (sum float64) {
	for _, p := range x.live {
		if !x.cut[p.Node] {
			sum += p.exported
		}
	}
	return sum
}

// accounted opens what a stop has left and holds usage against the counters.
func accounted(t *testing.T, dir string) {
	t.Helper()
	x := newSite(t, dir, simBegin.Add(24*time.Hour))
	defer x.close()
	b := x.builder()
	for range 2 {
		b.roll.reset()
		advance(t, b)
	}
	d, err := x.s.Dirty()
	if err != nil || len(d.Hours) != 0 {
		t.Errorf("hours are left to be made: %+v, %v", d.Hours, err)
	}
	raw, sent := counters(t, x.s)
	use, err := x.c.Use(t.Context(), store.RollupQuery{From: simBegin.AddDate(0, 0, -7), To: simBegin.AddDate(0, 0, 7), Span: store.SpanWhole})
	if err != nil {
		t.Fatal(err)
	}
	got := 0.0
	if len(use) > 0 && use[0].CPUSeconds != nil {
		got = *use[0].CPUSeconds
	}
	if math.Abs(got-raw) > 1e-9*(1+raw) {
		t.Errorf("usage is %.9f CPU seconds, the counters say %.9f", got, raw)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "acknowledged"))
	if err != nil {
		return // stopped before anything was
	}
	acked, err := strconv.ParseFloat(string(text), 64)
	if err != nil || sent < acked*(1-1e-9) {
		t.Errorf("%g CPU seconds were acknowledged (%v) and %g are stored", acked, err, sent)
	}
}

// counters adds up the last values of the counters of CPU time, by nothing but the store: all,
// and those that were not imported.
func counters(t *testing.T, s *tsdb.Store) (all, sent float64) {
	t.Helper()
	q, err := s.Querier(simBegin.AddDate(0, 0, -7).UnixMilli(), simBegin.AddDate(0, 0, 7).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", simUser.Name))
	for set.Next() {
		last := 0.0
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if _, v := it.At(); !math.IsNaN(v) {
				last = v
			}
		}
		all += last
		if set.At().Labels().Get("workload") != "slurm/9" {
			sent += last
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return all, sent
}

// stopPoints are the calls at which a process is stopped, as the kernel numbers them (amd64).
var stopPoints = map[uint64]bool{
	syscall.SYS_WRITE: true, syscall.SYS_PWRITE64: true, syscall.SYS_FSYNC: true, syscall.SYS_FDATASYNC: true, syscall.SYS_FTRUNCATE: true,
	syscall.SYS_RENAME: true, syscall.SYS_RENAMEAT: true, syscall.SYS_UNLINKAT: true, syscall.SYS_MSYNC: true,
}

// trace runs the process until its nth call of that kind in the data directory and kills it
// there, by ptrace(2); it returns how many there were.
func trace(t *testing.T, data string, n int) (points int, err error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := os.MkdirAll(data, 0o750); err != nil {
		return 0, err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStops$", "-test.count=1")
	cmd.Env = append(os.Environ(), stopDir+"="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
		return 0, err
	}
	const traceClone, traceSeccomp, exitKill = 8, 0x80, 0x100000
	if err := syscall.PtraceSetOptions(pid, traceClone|traceSeccomp|exitKill); err != nil {
		return 0, err
	}
	if err := syscall.PtraceCont(pid, 0); err != nil {
		return 0, err
	}
	for {
		who, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		if err != nil {
			return points, err
		}
		if ws.Exited() || ws.Signaled() {
			if who == pid {
				if n == math.MaxInt && ws.ExitStatus() != 0 {
					return points, fmt.Errorf("the process failed: %v", ws)
				}
				return points, nil
			}
			continue
		}
		if !ws.Stopped() {
			continue
		}
		signal := 0
		switch s := ws.StopSignal(); s {
		case syscall.SIGTRAP:
			if ws.TrapCause() == sys.PTRACE_EVENT_SECCOMP && counts(who, pid, data) {
				if points++; points == n {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		case syscall.SIGSTOP: // a new thread
		default:
			signal = int(s)
		}
		_ = syscall.PtraceCont(who, signal) // it may be gone
	}
}

// tellTracer has the kernel stop this process at the calls of stopPoints for its tracer
// (seccomp(2)), and at no others.
func tellTracer() error {
	const load, jump, ret = sys.BPF_LD | sys.BPF_W | sys.BPF_ABS, sys.BPF_JMP | sys.BPF_JEQ | sys.BPF_K, sys.BPF_RET | sys.BPF_K
	program := []sys.SockFilter{{Code: load, K: 0}} // the number of the call
	for nr := range stopPoints {
		program = append(program, sys.SockFilter{Code: jump, Jf: 1, K: uint32(nr)}, sys.SockFilter{Code: ret, K: 0x7ff00000}) // SECCOMP_RET_TRACE
	}
	program = append(program, sys.SockFilter{Code: ret, K: 0x7fff0000}) // SECCOMP_RET_ALLOW
	if err := sys.Prctl(sys.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := sys.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const filterMode, allThreads = 1, 1
	if _, _, no := syscall.Syscall(sys.SYS_SECCOMP, filterMode, allThreads, uintptr(unsafe.Pointer(&f))); no != 0 {
		return no
	}
	return nil
}

// counts reports whether a thread begins a call that changes a file of the data directory.
func counts(thread, pid int, data string) bool {
	var r syscall.PtraceRegs
	if syscall.PtraceGetRegs(thread, &r) != nil || !stopPoints[r.Orig_rax] {
		return false
	}
	switch r.Orig_rax {
	case syscall.SYS_RENAME, syscall.SYS_RENAMEAT, syscall.SYS_UNLINKAT, syscall.SYS_MSYNC:
		return true
	}
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(r.Rdi)))
	return err == nil && strings.HasPrefix(file, data)
}
