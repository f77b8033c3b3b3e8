// Package efficiency judges one workload from its totals, in plain words with the
// number behind each: what it used of what it held, what held it up, and how it ended.
//
// It is pure: no file, no network, no clock, and safe for concurrent use. Figures are
// in SI base units (seconds, bytes, cores); a nil figure was not measured, and nothing
// is said about it. There are no errors: what can not be judged is left out. The rules
// follow what help desks ask people about (Slurm's seff, Princeton's jobstats); the
// sustained use (p95, mean) decides, never a single peak, but for memory, of which the
// peak is what a request must hold.
package efficiency

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Severity orders verdicts by how much they ask of the reader.
type Severity string

// The severities, the gravest first.
const (
	Critical Severity = "critical" // it failed, or was harmed
	Warning  Severity = "warning"  // it wastes or waits, and something can be done
	Good     Severity = "good"     // as it should be
	Info     Severity = "info"     // a fact to read the others by
)

// Verdict is one sentence and the number behind it.
type Verdict struct {
	Kind     string // oom, exit, cores, memory, ...
	Severity Severity
	Text     string
	Value    float64
	Unit     string // ratio, bytes, seconds, count, code
}

// Node is the piece of a workload on one node.
type Node struct {
	Name                               string
	CPUSeconds, MemoryPeak, GPUSeconds *float64
}

// Usage is what is known of a workload.
type Usage struct {
	Running     bool
	State       string  // of the batch system, lower case, or empty
	Reason      string  // of the batch system, why it waits
	Waited      float64 // seconds since it was handed in, of one that waits
	ExitCode    *int
	WallSeconds float64

	CPUSeconds, CPUWaitSeconds, CoresP95, ThrottledSeconds   *float64
	MemoryPeak, SwapPeak, MajorFaults, OOMKills              *float64
	GPUSeconds                                               *float64
	RequestCores, RequestMemory, RequestGPUs, RequestSeconds *float64
	// CoresImplied says that nobody asked for cores: RequestCores are those of the nodes.
	CoresImplied bool
	Nodes        []Node
}

// Thresholds. Below settled nothing is said about efficiency: start and end weigh too much.
const (
	settled   = 30.0 // seconds
	low       = 0.5  // share of a request that is worth a smaller one
	waiting   = 0.1  // share of the time that its threads wanted to run
	throttled = 0.05 // of the wall time
	uneven    = 0.5  // of the mean node's work
	idleGPU   = 0.15 // of the GPUs held
)

// Judge says what is worth saying, the gravest first.
func Judge(u Usage) []Verdict {
	j := &judge{u: u}
	if u.State == "pending" && !u.Running && u.CPUSeconds == nil {
		j.queued()
		return j.out
	}
	if u.State == "started" && u.CPUSeconds == nil {
		j.say("queue", Info, 0, "seconds", "it stood for the tasks of an array that waited; all of them have begun, and each is a job of its own")
		return j.out
	}
	if u.State == "cancelled" && !u.Running && u.CPUSeconds == nil && u.WallSeconds == 0 {
		j.say("queue", Info, u.Waited, "seconds", "it was cancelled after it had waited for %s, and never began", duration(u.Waited))
		return j.out
	}
	j.ending()
	j.memory()
	if u.WallSeconds < settled {
		j.say("short", Info, u.WallSeconds, "seconds", "%s %s: too short to judge how well it used what it held", ran(u.Running), duration(u.WallSeconds))
	} else {
		j.cores()
		j.gpus()
		j.waits()
		j.balance()
		j.otherBalance()
		j.time()
	}
	slices.SortStableFunc(j.out, func(a, b Verdict) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return j.out
}

func rank(s Severity) int { return slices.Index([]Severity{Critical, Warning, Good, Info}, s) }

type judge struct {
	u   Usage
	out []Verdict
}

func (j *judge) say(kind string, s Severity, value float64, unit, format string, args ...any) {
	j.out = append(j.out, Verdict{Kind: kind, Severity: s, Text: fmt.Sprintf(format, args...), Value: value, Unit: unit})
}

// ending says how it ended, if not well.
func (j *judge) ending() {
	u := j.u
	if n, ok := known(u.OOMKills); ok && n > 0 {
		j.say("oom", Critical, n, "count", "the kernel killed %s of it for want of memory; ask for more memory, or use less", plural(n, "process", "processes"))
	}
	switch {
	case u.State == "out_of_memory" && !positive(u.OOMKills):
		j.say("oom", Critical, 1, "count", "the batch system ended it for want of memory; ask for more memory, or use less")
	case u.State == "timeout" || u.State == "deadline":
		j.say("timeout", Critical, u.WallSeconds, "seconds", "it reached its time limit after %s and was ended; ask for more time, or write checkpoints", duration(u.WallSeconds))
	case u.State == "node_fail" || u.State == "boot_fail":
		j.say("node_fail", Critical, u.WallSeconds, "seconds", "a node failed under it after %s; this was not its fault, submit it again", duration(u.WallSeconds))
	}
	if !u.Running && u.ExitCode != nil && *u.ExitCode != 0 {
		j.say("exit", Critical, float64(*u.ExitCode), "code", "it ended with exit code %d%s", *u.ExitCode, signal(*u.ExitCode))
	}
}

func signal(code int) string {
	if name := map[int]string{134: "abort", 136: "arithmetic error", 137: "killed", 139: "segmentation fault", 143: "terminated"}[code]; name != "" {
		return fmt.Sprintf(" (signal %d: %s)", code-128, name)
	}
	return ""
}

func (j *judge) memory() {
	u := j.u
	if swap, ok := known(u.SwapPeak); ok && swap >= 64<<20 {
		j.say("swap", Warning, swap, "bytes", "up to %s of it lay in swap, which is slow; it needs more memory than it had", size(swap))
	}
	peak, ok := known(u.MemoryPeak)
	asked, held := known(u.RequestMemory)
	if !ok || !held || asked <= 0 {
		return
	}
	share := peak / asked
	switch {
	case positive(u.OOMKills) || u.State == "out_of_memory": // that is said already
	case share >= 0.95:
		j.say("memory", Warning, share, "ratio", "memory peaked at %s of the %s it asked for (%s): a little more and it would be killed", size(peak), size(asked), percent(share))
	case share < low && asked-peak >= 1<<30 && u.WallSeconds >= settled:
		j.say("memory", Warning, share, "ratio", "memory peaked at %s of the %s it asked for (%s); a fifth above the peak would do: %s", size(peak), size(asked), percent(share), size(peak*1.2))
	case share >= low:
		j.say("memory", Good, share, "ratio", "memory peaked at %s of the %s it asked for (%s)", size(peak), size(asked), percent(share))
	}
}

func (j *judge) cores() {
	u := j.u
	cpu, ok := known(u.CPUSeconds)
	held, has := known(u.RequestCores)
	if !ok || !has || held <= 0 {
		return
	}
	of := "the " + plural(held, "core", "cores") + " it held"
	if u.CoresImplied {
		of = "the " + plural(held, "core", "cores") + " of its nodes (it asked for none)"
	}
	share := cpu / (held * u.WallSeconds)
	mean := cpu / u.WallSeconds
	p95, sustained := known(u.CoresP95)
	wait, _ := known(u.CPUWaitSeconds)
	starved := wait >= waiting*(cpu+wait) && wait >= 10
	switch {
	case starved && share < 0.8:
		j.say("cores", Info, share, "ratio", "it used %s of %s on average (%s) while its threads waited for cores: what it would have used can not be seen", count(mean), of, percent(share))
	case u.CoresImplied:
		j.say("cores", Info, share, "ratio", "it used %s of %s on average (%s)", count(mean), of, percent(share))
	case share >= 0.8:
		j.say("cores", Good, share, "ratio", "it used %s of %s on average (%s)", count(mean), of, percent(share))
	case sustained && held >= 2 && p95 <= held*low:
		j.say("cores", Warning, share, "ratio", "it used %s of %s on average (%s), and no more than %s for 95%% of the time: %s would have done",
			count(mean), of, percent(share), count(p95), plural(math.Max(1, math.Ceil(p95-0.05)), "core", "cores"))
	case share < low:
		j.say("cores", Warning, share, "ratio", "it used %s of %s on average (%s), though at times more: parts of it do not run in parallel", count(mean), of, percent(share))
	default:
		j.say("cores", Info, share, "ratio", "it used %s of %s on average (%s)", count(mean), of, percent(share))
	}
}

func (j *judge) gpus() {
	used, ok := known(j.u.GPUSeconds)
	held, has := known(j.u.RequestGPUs)
	if !ok || !has || held <= 0 {
		return
	}
	share := used / (held * j.u.WallSeconds)
	text, s := "its %s were busy %s of the time", Good
	switch {
	case share < idleGPU:
		text, s = "its %s were busy only %s of the time; does it use them at all, and can data be fed faster?", Warning
	case share < 0.7:
		s = Info
	}
	j.say("gpu", s, share, "ratio", text, plural(held, "GPU", "GPUs"), percent(share))
}

func (j *judge) waits() {
	u := j.u
	cpu, ok := known(u.CPUSeconds)
	if wait, has := known(u.CPUWaitSeconds); ok && has && cpu+wait > 0 {
		if share := wait / (cpu + wait); share >= waiting && wait >= 10 {
			j.say("cpu_wait", Warning, share, "ratio", "its threads were ready but waited for a core for %s (%s of the time they wanted to run): more threads than cores, or busy neighbours", duration(wait), percent(share))
		}
	}
	if t, has := known(u.ThrottledSeconds); has && t >= 1 && t/u.WallSeconds >= throttled {
		j.say("throttled", Warning, t, "seconds", "its limit of CPU time held it back for %s in all; raise the limit, or start fewer threads", duration(t))
	}
}

// balance compares the nodes of a workload with their mean.
func (j *judge) balance() {
	if len(j.u.Nodes) < 2 {
		return
	}
	sum := 0.0
	least := j.u.Nodes[0]
	for _, n := range j.u.Nodes {
		v, ok := known(n.CPUSeconds)
		if !ok {
			return // one that was not measured is not idle
		}
		sum += v
		if v < *least.CPUSeconds {
			least = n
		}
	}
	mean := sum / float64(len(j.u.Nodes))
	if mean < settled {
		return
	}
	share := *least.CPUSeconds / mean
	if share < uneven {
		j.say("balance", Warning, share, "ratio", "node %s did %s of the CPU work of the mean of its %d nodes: the work is not spread evenly", least.Name, percent(share), len(j.u.Nodes))
		return
	}
	j.say("balance", Good, share, "ratio", "its %d nodes shared the work evenly; the least did %s of the mean", len(j.u.Nodes), percent(share))
}

// otherBalance says where the memory or the GPUs of one node stand out.
func (j *judge) otherBalance() {
	for _, x := range []struct {
		kind, unit string
		of         func(Node) *float64
		least      float64 // below this mean it does not matter
	}{
		{"gpu_balance", "GPU time", func(n Node) *float64 { return n.GPUSeconds }, settled},
		{"memory_balance", "memory", func(n Node) *float64 { return n.MemoryPeak }, 1 << 30},
	} {
		sum, high, low := 0.0, Node{}, Node{}
		most, fewest := -1.0, math.Inf(1)
		all := len(j.u.Nodes) > 1
		for _, n := range j.u.Nodes {
			v, ok := known(x.of(n))
			if all = all && ok; !all {
				break
			}
			sum += v
			if v > most {
				most, high = v, n
			}
			if v < fewest {
				fewest, low = v, n
			}
		}
		mean := sum / float64(max(1, len(j.u.Nodes)))
		switch {
		case !all || mean < x.least:
		case fewest < uneven*mean && x.kind == "gpu_balance":
			j.say(x.kind, Warning, fewest/mean, "ratio", "node %s had %s of the GPU time of the mean of its %d nodes: its GPUs idle while others work", low.Name, percent(fewest/mean), len(j.u.Nodes))
		case most > 2*mean:
			j.say(x.kind, Info, most/mean, "ratio", "node %s peaked at %s times the %s of the mean of its %d nodes: what all of them ask for is what this one needs", high.Name, count(most/mean), x.unit, len(j.u.Nodes))
		}
	}
}

func (j *judge) time() {
	asked, ok := known(j.u.RequestSeconds)
	if !ok || asked <= 0 || j.u.Running || j.u.State == "timeout" || j.u.State == "deadline" {
		return
	}
	share := j.u.WallSeconds / asked
	if share < 0.25 && asked-j.u.WallSeconds >= 3600 {
		j.say("time", Info, share, "ratio", "it took %s of the %s it asked for (%s); a shorter request is likely to start sooner", duration(j.u.WallSeconds), duration(asked), percent(share))
	}
}
