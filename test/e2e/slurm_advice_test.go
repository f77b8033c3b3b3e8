//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

// advisedLoad is a load with a known need: what it holds at most, by its own count.
type advisedLoad struct {
	name, script string // SIZE is bytes, and HALF and THIRD of them
	sizes        [3]int // MiB, of the three runs; the fourth has the largest
	mem          int    // MiB, what it asks for
	options      []string
}

// advisedLoads are the loads of TestSlurmAdvice. Twenty ask for twice their need and more. The list is older than the advice that it judges.
func advisedLoads() (list []advisedLoad) {
	const (
		steady    = "LOAD -alloc SIZE -hold 6s"
		spike     = "LOAD -burn 300ms -hold 3s; head -c SIZE /dev/zero | tail >/dev/null; LOAD -hold 3s"
		atOnce    = "LOAD -alloc HALF -hold 5s & LOAD -alloc HALF -hold 5s & wait"
		inTurn    = "LOAD -alloc HALF -hold 2s; LOAD -alloc SIZE -hold 2s; LOAD -alloc THIRD -hold 2s"
		steps     = "srun LOAD -alloc THIRD -hold 3s; srun LOAD -alloc SIZE -hold 3s"
		inStep    = "srun sh -c 'LOAD -hold 2s; head -c SIZE /dev/zero | tail >/dev/null; LOAD -hold 2s'"
		lastThing = "LOAD -hold 5s; head -c SIZE /dev/zero | tail >/dev/null"
		cached    = "F=$(mktemp /var/tmp/advice-XXXX); head -c 700000000 /dev/zero >$F; cat $F >/dev/null; LOAD -alloc SIZE -hold 4s; rm $F"
		inMemory  = "F=$(mktemp /dev/shm/advice-XXXX); head -c SIZE /dev/zero >$F; LOAD -hold 5s; rm $F"
		children  = "LOAD -procs 200 -each 2ms; LOAD -alloc SIZE -hold 3s"
	)
	add := func(name, script string, mem int, sizes ...int) {
		l := advisedLoad{name: name, script: script, mem: mem}
		copy(l.sizes[:], append(sizes, sizes[0], sizes[0]))
		list = append(list, l)
	}
	add("steady-1", steady, 1000, 410)
	add("steady-2", steady, 1500, 700)
	add("steady-3", steady, 500, 330)
	add("steady-grows", steady, 2000, 300, 500, 610)
	add("spike-1", spike, 1500, 640)
	add("spike-2", spike, 2000, 900)
	add("spike-3", spike, 900, 450)
	add("spike-grows", spike, 2000, 350, 420, 700)
	add("spike-tight", spike, 700, 600)
	add("at-once-1", atOnce, 1600, 600)
	add("at-once-2", atOnce, 1000, 820)
	add("at-once-grows", atOnce, 2000, 400, 700, 500)
	add("in-turn-1", inTurn, 1500, 620)
	add("in-turn-2", inTurn, 1000, 480)
	add("in-turn-3", inTurn, 600, 510)
	add("steps-1", steps, 1500, 560)
	add("steps-2", steps, 900, 760)
	add("steps-grows", steps, 2000, 300, 330, 650)
	add("in-step-1", inStep, 1600, 600)
	add("in-step-2", inStep, 1200, 380)
	add("last-thing-1", lastThing, 1500, 570)
	add("last-thing-2", lastThing, 900, 400)
	add("last-thing-grows", lastThing, 2000, 310, 600, 450)
	add("cached-1", cached, 1500, 330)
	add("cached-2", cached, 1000, 420)
	add("cached-3", cached, 600, 450)
	add("in-memory-1", inMemory, 1200, 430)
	add("in-memory-2", inMemory, 700, 560)
	add("children-1", children, 1500, 500)
	add("children-2", children, 900, 640)
	return list
}

// longLoads last for more than a minute, so that advice of time and cores shows: with RECKON_LOADS=long they are run instead. Two have several tasks,
// and one uses a node of its two only.
func longLoads() []advisedLoad {
	return []advisedLoad{
		{"long-hold", "LOAD -alloc SIZE -hold 80s", [3]int{300, 400, 350}, 1500, []string{"-c2", "-t30"}},
		{"long-burst", "LOAD -alloc SIZE -burn 5s -hold 50s; LOAD -burn 5s -hold 20s", [3]int{200, 200, 200}, 900, []string{"-c2", "-t20"}},
		{"long-tasks", "srun -n2 LOAD -alloc HALF -burn 10s -hold 60s", [3]int{300, 300, 300}, 900, []string{"-n2", "-t20"}},
		{"long-one-works", "srun -n2 sh -c 'if [ $SLURM_PROCID = 0 ]; then LOAD -alloc SIZE -burn 15s -hold 50s; else sleep 60; fi'", [3]int{350, 350, 350}, 1200, []string{"-n2", "-t20"}},
		{"long-one-node", "LOAD -alloc SIZE -burn 5s -hold 70s", [3]int{400, 300, 350}, 1200, []string{"-N2", "-n2", "-t20"}},
		{"long-steps", "srun LOAD -alloc THIRD -hold 35s; srun LOAD -alloc SIZE -burn 5s -hold 40s", [3]int{300, 500, 450}, 1600, []string{"-t25"}},
	}
}

func (l *advisedLoad) at(mib int) string {
	n := mib << 20
	return strings.NewReplacer("SIZE", strconv.Itoa(n), "HALF", strconv.Itoa(n/2), "THIRD", strconv.Itoa(n/3)).Replace(l.script)
}

// TestSlurmAdvice runs each load three times, submits it a fourth time with exactly the lines that are advised, and counts runs that were
// killed for lack of memory or at their limit. RECKON_KINDS picks loads; RECKON_LOADS=long runs those of more than a minute.
func TestSlurmAdvice(t *testing.T) {
	c := startSlurm(t)
	u := startUp(t, t.TempDir(), "--slurm", "--site", "tiny")
	began := time.Now()
	loads := advisedLoads()
	if os.Getenv("RECKON_LOADS") == "long" {
		loads = longLoads()
	}
	if only := chosen(t, []*jobKind{{what: ""}}); len(only) == 0 { // picked by name
		loads = slices.DeleteFunc(loads, func(l advisedLoad) bool { return len(chosen(t, []*jobKind{{what: l.name}})) == 0 })
	}
	partition := func(i int) string {
		if slices.Contains(loads[i].options, "-N2") {
			return wide
		}
		return []string{"-pnormal", "-pdevel"}[i%2]
	}
	ids := make([]string, len(loads))
	for run := range 3 {
		for i := range loads {
			l := &loads[i]
			ids[i] = c.submit("hpcuser", l.at(l.sizes[run]), append([]string{partition(i), "-J", l.name, "-t5", fmt.Sprintf("--mem=%dM", l.mem)}, l.options...)...)
		}
	}
	ended := func() bool { return c.run("squeue", "-h", "-o", "%A") == "" }
	c.until("all have run three times", 20*time.Minute, ended)
	pause(150 * time.Second) // accounting is asked every two minutes
	again, advised := make([]string, len(loads)), make([]*client.Advice, len(loads))
	without := 0
	for i := range loads {
		var d client.WorkloadDetail
		u.get("/api/reckon/v1/workloads/slurm/"+ids[i], &d)
		if advised[i] = d.Advice; d.Advice == nil || d.Advice.Paste == "" || d.Advice.MemoryBytes == nil {
			t.Logf("%s: no advice of memory: %+v; state %s, needed %s to %s of a peak of %s", loads[i].name, d.Advice, d.State,
				figureOf(d.MemoryNeededPeakBytes), figureOf(d.MemoryNeededMostBytes), figureOf(d.MemoryPeakBytes))
			without++
			continue
		}
		options := []string{partition(i), "-J", loads[i].name + "-again"}
		for line := range strings.Lines(d.Advice.Paste) {
			options = append(options, strings.TrimPrefix(strings.TrimSpace(line), "#SBATCH "))
		}
		again[i] = c.submit("hpcuser", loads[i].at(slices.Max(loads[i].sizes[:])), options...)
	}
	c.until("all have run with what was advised", 15*time.Minute, ended)
	pause(5 * time.Second)
	states, took := map[string]string{}, map[string]float64{} // by id; the longest run by name, seconds
	for line := range strings.Lines(c.run("sacct", "-a", "-X", "-n", "-P", "-S", "now-2hours", "-o", "JobIDRaw,State,ElapsedRaw,JobName")) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 4 {
			seconds, _ := strconv.ParseFloat(f[2], 64)
			states[f[0]], took[f[3]] = f[1], max(took[f[3]], seconds)
		}
	}
	var slack, late, minutes []float64
	for i := range loads {
		if again[i] == "" {
			continue
		}
		l, a := &loads[i], advised[i]
		truth := float64(slices.Max(l.sizes[:]) << 20)
		slack = append(slack, *a.MemoryBytes/truth-1)
		if longest := took[l.name]; a.Seconds != nil && longest > 0 {
			late = append(late, *a.Seconds/longest-1)
			minutes = append(minutes, *a.Seconds/(60*math.Ceil(longest/60))-1) // Slurm counts limits in whole minutes
		}
		t.Logf("| %s | held %.0f MiB | advised %.0f MiB | %+.0f %% | %s | took %.0f s | %s | %s |", l.name, truth/(1<<20), *a.MemoryBytes/(1<<20),
			100*(*a.MemoryBytes/truth-1), states[again[i]], took[l.name], strings.Join(a.Why, "; "), strings.ReplaceAll(a.Paste, "\n", " "))
		if states[again[i]] != "COMPLETED" {
			t.Errorf("%s with %q: %s", l.name, strings.ReplaceAll(a.Paste, "\n", " "), states[again[i]])
		}
	}
	slices.Sort(slack)
	slices.Sort(late)
	slices.Sort(minutes)
	if n := len(late); n > 0 {
		t.Logf("%d with advice of time, median slack %.0f %% of the longest run, %.0f %% of its whole minutes", n, 100*late[n/2], 100*minutes[n/2])
		if minutes[n/2] > 0.35 {
			t.Errorf("the median slack of time is %.0f %% of whole minutes, want 35 at most", 100*minutes[n/2])
		}
	}
	if without > len(loads)/10 {
		t.Errorf("%d of %d loads got no advice", without, len(loads))
	}
	if n := len(slack); n > 0 {
		t.Logf("%d loads, %d without advice, median slack of memory %.0f %%, in %v", len(loads), without, 100*slack[n/2], time.Since(began).Round(time.Second))
		if slack[n/2] > 0.35 {
			t.Errorf("the median slack of memory is %.0f %%, want 35 at most", 100*slack[n/2])
		}
	}
}
