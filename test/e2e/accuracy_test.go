//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/figure"
	"reckon/web/client"
)

type load struct {
	PID        int     `json:"pid"`
	PGID       int     `json:"pgid"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Processes  int     `json:"processes"`
	Bytes      int     `json:"bytes"`
	Wait       float64 `json:"wait_seconds"`
	Reached    float64 `json:"reached"`
}

// run does a known load in a process group of its own and returns what the kernel
// counted for it.
func run(t *testing.T, args ...string) load {
	t.Helper()
	cmd := exec.Command(program(t, "load"), args...)
	return runCmd(t, cmd)
}

func runCmd(t *testing.T, cmd *exec.Cmd) load {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var l load
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// find waits until the workload of a process group has ended in the catalogue.
func (u *up) find(pgid int) client.Workload {
	u.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	var last []client.Workload
	for time.Now().Before(deadline) {
		last = u.workloads("kind=group&limit=10000")
		for _, w := range last {
			if strings.Contains(w.ID, fmt.Sprintf("/%d-", pgid)) && w.End != nil {
				return w
			}
		}
		pause(500 * time.Millisecond)
	}
	u.t.Fatalf("process group %d did not end in the catalogue: %+v", pgid, last)
	panic("unreachable")
}

func near(t *testing.T, what string, got *float64, want, tolerance float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: unknown, want %v", what, want)
		return
	}
	t.Logf("%s: %.4g, the kernel says %.4g (%+.2f %%)", what, *got, want, 100*(*got/want-1))
	if math.Abs(*got-want) > tolerance*want {
		t.Errorf("%s: got %v, want %v within %v %%", what, *got, want, 100*tolerance)
	}
}

// chargedCPU holds the CPU time of a run against the kernel's: within 1 %, or marked.
func chargedCPU(t *testing.T, w *client.Workload, want float64) {
	t.Helper()
	near := 0.01*want + 0.01 // a clock tick
	got, mark := *w.CPUSeconds, w.Exactness["cpu_seconds"]
	t.Logf("CPU seconds: %.4g, %v, the kernel says %.4g (%+.2f %%)", got, mark, want, 100*(got/want-1))
	low, high := got < want-near, got > want+near
	if mark == figure.Exact && (low || high) || mark == figure.AtLeast && high || mark == figure.AtMost && low {
		t.Errorf("CPU seconds: got %v, %v, want %v within 1 %%", got, mark, want)
	}
}

// TestAccuracy holds what `reckon up` reports for known loads against the kernel's
// own totals, within 1 %.
func TestAccuracy(t *testing.T) {
	for _, source := range []struct {
		name   string
		args   []string
		counts bool // short processes one by one
	}{
		{"ebpf", []string{"--source", "ebpf"}, true},
		{"procfs", []string{"--source", "procfs"}, true},
		{"procfs without exit records", []string{"--source", "procfs", "--set", "exits=none"}, false},
	} {
		t.Run(source.name, func(t *testing.T) {
			u := startUp(t, t.TempDir(), append(source.args, "--export", "5s")...)
			pause(3 * time.Second)
			t.Run("busy loop", func(t *testing.T) {
				l := run(t, "-burn", "4s", "-hold", "1ms")
				w := u.find(l.PGID)
				chargedCPU(t, &w, l.CPUSeconds)
			})
			t.Run("2000 short processes", func(t *testing.T) {
				l := run(t, "-procs", "2000", "-each", "3ms")
				w := u.find(l.PGID)
				chargedCPU(t, &w, l.CPUSeconds)
				if source.counts {
					near(t, "processes", w.Processes, float64(l.Processes), 0.01)
				}
			})
			if source.name == "ebpf" {
				t.Run("children that nobody waits for", func(t *testing.T) {
					group := newControl(t)
					join := "for d in " + group.cpu + " " + group.memory + " " + group.io + "; do echo $$ > $d/cgroup.procs; done; "
					before, _, _ := group.used(t)
					l := runCmd(t, exec.Command("sh", "-c", join+`exec "$0" "$@"`, program(t, "load"), "-procs", "500", "-each", "3ms", "-forget"))
					after, _, _ := group.used(t)
					w := u.find(l.PGID)
					chargedCPU(t, &w, after-before)
				})
			}
			t.Run("memory", func(t *testing.T) {
				l := run(t, "-alloc", "314572800", "-burn", "1100ms", "-hold", "3s")
				near(t, "peak memory", u.find(l.PGID).MemoryPeakBytes, float64(l.Bytes), 0.05)
			})
			t.Run("conservation", func(t *testing.T) { u.conserved(t) })
		})
	}
}

// conserved holds the sum of all workloads and other against the machine's busy time.
func (u *up) conserved(t *testing.T) {
	// The series hold every export since the start; the test compares ten seconds.
	at := func(t float64) (workloads, machine float64) {
		for _, v := range u.promAt(`sum(last_over_time(reckon_workload_cpu_seconds_total[1h]))`, t) {
			workloads += v
		}
		for _, v := range u.promAt(`sum(node_cpu_seconds_total{mode=~"idle|iowait|steal"})`, t) {
			machine += v
		}
		return workloads, machine
	}
	pause(6 * time.Second)
	start := u.stamp()
	w0, idle0 := at(start)
	for u.stamp()-start < 20 {
		pause(300 * time.Millisecond)
	}
	end := u.stamp()
	w1, idle1 := at(end)
	span := end - start
	cores := 0.0
	for _, v := range u.prom(`count(node_cpu_seconds_total{mode="idle"})`) {
		cores = v
	}
	total := (w1 - w0) + (idle1 - idle0)
	t.Logf("workloads and other %.3f s + idle %.3f s = %.3f s; %v cores for %.3f s = %.3f s", w1-w0, idle1-idle0, total, cores, span, cores*span)
	if math.Abs(total-cores*span) > 0.01*cores*span {
		t.Errorf("workloads + other + idle = %v s, want %v s within 1 %%", total, cores*span)
	}
}

// stamp is the time of the newest sample, seconds since the Unix epoch.
func (u *up) stamp() float64 {
	for _, v := range u.prom(`max(timestamp(reckon_agent_ticks_total))`) {
		return v
	}
	return 0
}
