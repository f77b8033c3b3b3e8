// Package move reports which work should run elsewhere: on a partition or cluster that suits it better, by seven ordered rules.
//
// The subject is the [Work] of one owner under one name over a period, its figures weighted by core-hours. A rule holds if the runs for
// which it is true have [Most] of the core-hours. A figure that was not measured makes no rule true. The first rule that holds decides.
// The work moves only if the target fits it, admits its account and has a known wait that is about as short, if enough is freed, and if
// the source is busy, because on an idle machine no work has to move.
//
// Units: cores, bytes, seconds; hours are core- and GPU-hours. A nil figure is unknown. The package is pure and safe for concurrent use.
package move

import (
	"cmp"
	"math"
	"slices"
	"time"

	"reckon/internal/quantiles"
)

// The rules, in their order.
const (
	GPUOff = "gpu-off"
	GPUUp  = "gpu-up"
	CPUUp  = "cpu-up"
	Memory = "memory"
	Nodes  = "nodes"
	Length = "length"
	Small  = "small"
)

// Shape is a kind of node of a partition, or of machines without a batch system.
type Shape struct {
	Site, Partition                string
	Nodes                          float64
	Cores, Memory, GPUs, GPUMemory *float64 // of one node; memory of one GPU
	Vendor                         string   // of the GPUs; empty if unknown
	MaxTime, MaxNodes              *float64 // +Inf: no limit
	FastNetwork                    *bool
	Who                            []string // accounts that it lets in; none: all
	Whole                          bool     // its jobs hold whole nodes
	Large                          bool     // its nodes have at least twice the memory of most, by core too
	Bare                           bool     // no batch system allocates it
	Busy                           *float64 // share of hours in which more than half of the shape was used
	FileWait                       *Wait    // by a file of shapes
	JoulesPerCoreHour              *float64 // measured on average
}

// Run is one run of the work, over all its nodes, while it was in the period.
type Run struct {
	ID                string
	Shape             int // of the list of shapes; -1: unknown
	Start             time.Time
	Hours             float64  // core-hours allocated or, without an allocation, used
	Seconds           float64  // wall time, the whole run
	Ended, Well       bool     // it ended; by itself and without a fault
	Nodes             float64  // at once
	Given, Cores      *float64 // allocated cores; sustained use (p95), or the mean if only the sum is known
	CPUSeconds        *float64
	Memory            *float64 // upper need on one node
	GPUs              float64  // held
	GPUBusy           *float64 // GPUs that computed, on average
	GPUMemory         *float64 // most, all GPUs together
	Wait              *float64
	CutAt             *float64 // the limit at which it was ended
	JoulesPerCoreHour *float64
}

// Work is the work of an owner under a name.
type Work struct {
	Owner, Name, Account string
	Runs                 []Run
	Contended            bool // the owner has a score for more CPU than a fair share
	// Bursts returns the number of days on which a GPU was busy for a while. It is called only if GPUs seem unused.
	Bursts func() (int, error)
	Scales func([]Run) bool // whether runs of several sizes show that more cores would help
}

// Wait is a median of waits.
type Wait struct {
	Seconds float64
	Jobs    int    // it is the median of
	Source  string // ByJobs, NoQueue, or the source named in a file of shapes
}

// Sources of waits.
const (
	ByJobs  = "jobs"
	NoQueue = "none"
)

// Waits returns the waits of jobs of a size in a shape; nil if unknown.
type Waits func(shape int, cores, gpus float64) *Wait

// Limits of the rules.
const (
	Most      = 0.8 // share of the core-hours for which a rule has to hold
	LeastRuns = 10
	LeastDays = 3
	idleGPU   = 0.05 // of one GPU, or of those held
	busyGPU   = 0.8
	nearlyAll = 0.9
	fewOf     = 0.25
	cutShare  = 0.1 // of the runs
	// waitedLong is the shortest wait in seconds that matters, and the shortest that a move to a shorter queue has to
	// save.
	waitedLong = 300.0
	// LeastCoreHours and LeastGPUHours are the minimum amounts that a move must free in a month.
	LeastCoreHours, LeastGPUHours = 100.0, 5.0
	busyHours                     = 0.25
	waitFactor, waitMore          = 1.2, 600.0
	burstDays                     = 3
)

// Result is the judgement of a work.
type Result struct {
	Rule     string // that holds; empty for none
	From, To int    // shapes; To is -1 if it stays
	Why      string // why it stays, a key of the texts
	Need     Need
	Share    float64 // of the core-hours for which the rule holds
	Hours    float64 // core-hours, in the period
	GPUHours float64 // held at the source
	// FreedCores and FreedGPUs are core- and GPU-hours of the source that become free in a month.
	FreedCores, FreedGPUs float64
	Here, There           *Wait
	Value                 float64  // the figure behind the rule
	OtherVendor           []int    // shapes with larger GPUs of another vendor
	JoulesHere            *float64 // of a core-hour
	Top                   []string // the runs with most core-hours
}

// Need is the largest need over 95 of 100 core-hours of a work, on one node unless stated otherwise.
type Need struct {
	Cores, Memory, GPUs, Seconds *float64
	Nodes                        float64
	SizeCores, SizeGPUs          float64 // requested in all
}

// weightedQuantile returns the value that a share of the weight does not exceed; nil if most of the weight has unknown values.
func weightedQuantile(runs []Run, q float64, of func(*Run) *float64) *float64 {
	type pair struct{ v, w float64 }
	var list []pair
	known, all := 0.0, 0.0
	for i := range runs {
		all += runs[i].Hours
		if v := of(&runs[i]); v != nil {
			list = append(list, pair{*v, runs[i].Hours})
			known += runs[i].Hours
		}
	}
	if known < Most*all || len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b pair) int { return cmp.Compare(a.v, b.v) })
	sum := 0.0
	for _, p := range list {
		if sum += p.w; sum >= q*known-1e-9 {
			return &p.v
		}
	}
	return &list[len(list)-1].v
}

func perNode(v *float64, nodes float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v / max(nodes, 1))
}

func largestNeed(runs []Run) Need {
	value := func(of func(*Run) *float64) float64 {
		if v := weightedQuantile(runs, 0.95, of); v != nil {
			return *v
		}
		return 0
	}
	return Need{
		Cores:     weightedQuantile(runs, 0.95, func(r *Run) *float64 { return perNode(r.Cores, r.Nodes) }),
		Memory:    weightedQuantile(runs, 0.95, func(r *Run) *float64 { return r.Memory }),
		GPUs:      weightedQuantile(runs, 0.95, func(r *Run) *float64 { return new(r.GPUs / max(r.Nodes, 1)) }),
		Seconds:   weightedQuantile(runs, 0.95, func(r *Run) *float64 { return new(r.Seconds) }),
		Nodes:     value(func(r *Run) *float64 { return new(r.Nodes) }),
		SizeCores: value(func(r *Run) *float64 { return cmp.Or(r.Given, r.Cores) }),
		SizeGPUs:  value(func(r *Run) *float64 { return new(r.GPUs) }),
	}
}

// waitHere returns the median wait of the work's runs, or nil without a batch system queue.
func waitHere(s *Shape, runs []Run) *Wait {
	if s.Bare {
		return &Wait{Source: NoQueue, Jobs: len(runs)}
	}
	var waits []float64
	for i := range runs {
		if w := runs[i].Wait; w != nil {
			waits = append(waits, *w)
		}
	}
	if len(waits) == 0 {
		return nil
	}
	slices.Sort(waits)
	return &Wait{Seconds: quantiles.Nearest(waits, 0.5), Jobs: len(waits), Source: ByJobs}
}

// Judge reports whether a work should move. The period ends at until.
func Judge(w *Work, shapes []Shape, waits Waits, from, until time.Time) (Result, error) {
	j := &judge{work: w, shapes: shapes, waits: waits, Result: Result{To: -1, From: -1}}
	hours, days := map[int]float64{}, map[string]bool{}
	for i := range w.Runs {
		r := &w.Runs[i]
		hours[r.Shape] += r.Hours
		j.Hours += r.Hours
		days[r.Start.UTC().Format(time.DateOnly)] = true
	}
	if len(w.Runs) < LeastRuns && j.Hours < LeastCoreHours || len(days) < LeastDays {
		j.Why = "few"
		return j.Result, nil
	}
	for k, h := range hours { // place of most of its runs
		if j.From < 0 || h > hours[j.From] || h == hours[j.From] && k < j.From {
			j.From = k
		}
	}
	if j.From < 0 {
		j.Why = "unknown-place"
		return j.Result, nil
	}
	j.source = &shapes[j.From]
	for i := range w.Runs {
		if r := &w.Runs[i]; r.Shape == j.From {
			j.here = append(j.here, *r)
			gpus := r.GPUs
			if j.source.Bare { // nothing allocates them
				gpus = *cmp.Or(r.GPUBusy, &gpus)
			}
			j.GPUHours += gpus * r.Seconds / 3600
			j.FreedCores += r.Hours
		}
	}
	month := 30 * 24 / max(until.Sub(from).Hours(), 1)
	j.FreedCores, j.FreedGPUs = j.FreedCores*month, j.GPUHours*month
	j.Need, j.Here = largestNeed(j.here), waitHere(j.source, j.here)
	j.JoulesHere = weightedQuantile(j.here, 0.5, func(r *Run) *float64 { return r.JoulesPerCoreHour })
	slices.SortStableFunc(j.here, func(a, b Run) int { return cmp.Compare(b.Hours, a.Hours) })
	for i := range min(len(j.here), 5) {
		j.Top = append(j.Top, j.here[i].ID)
	}
	for _, rule := range []func() error{j.suggestWithoutGPUs, j.suggestMoreGPUs, j.suggestMoreCores, j.suggestMemory, j.suggestNetwork,
		j.suggestForLength, j.suggestForSmall} {
		if err := rule(); err != nil || j.Rule != "" {
			j.keepInPlace(until)
			return j.Result, err
		}
	}
	j.Why = "suits"
	return j.Result, nil
}

// keepInPlace cancels a suggested move that is not worthwhile or that has already happened.
func (j *judge) keepInPlace(until time.Time) {
	late, lateHere := 0.0, 0.0
	for i := range j.work.Runs {
		if r := &j.work.Runs[i]; r.Start.After(until.AddDate(0, 0, -7)) {
			late += r.Hours
			if r.Shape == j.From {
				lateHere += r.Hours
			}
		}
	}
	why := ""
	switch {
	case late > 0 && lateHere < late/2:
		why = "moved"
	case j.FreedCores < LeastCoreHours && j.FreedGPUs < LeastGPUHours:
		why = "little"
	case j.source.Busy == nil:
		why = "busy-unknown"
	case *j.source.Busy < busyHours:
		why = "idle"
	}
	if why != "" {
		j.To, j.There, j.Why = -1, nil, why
	}
}

type judge struct {
	Result
	work   *Work
	shapes []Shape
	waits  Waits
	source *Shape
	here   []Run // at the source
}

// holdsForMost reports whether a condition is true for most core-hours of the work, wherever it ran.
func (j *judge) holdsForMost(of func(*Run) bool) bool {
	sum := 0.0
	for i := range j.here {
		if of(&j.here[i]) {
			sum += j.here[i].Hours
		}
	}
	j.Share = sum / max(j.Hours, 1e-9)
	return sum > 0 && j.Share >= Most
}

func satisfies(v *float64, of func(float64) bool) bool { return v != nil && of(*v) }

func greaterThan(limit float64) func(float64) bool { return func(v float64) bool { return v > limit } }

// fitsShape reports whether a shape has everything that the work needs. An unknown figure of the shape does not fit a need.
func (j *judge) fitsShape(t *Shape, gpus bool) bool {
	n := &j.Need
	enough := func(need, has *float64) bool { return need != nil && has != nil && *need <= *has*1.0001 }
	if !enough(n.Cores, t.Cores) || !enough(n.Memory, t.Memory) || max(t.Nodes, 1) < n.Nodes {
		return false
	}
	if gpus && satisfies(n.GPUs, greaterThan(0)) && !enough(n.GPUs, t.GPUs) {
		return false
	}
	return (t.MaxTime == nil || n.Seconds == nil || *n.Seconds <= *t.MaxTime) && (t.MaxNodes == nil || n.Nodes <= *t.MaxNodes)
}

// chooseTarget selects the target, the smallest accessible shape that fits the work, or explains why there is none.
func (j *judge) chooseTarget(rule string, value float64, gpus bool, suits func(*Shape) bool) {
	j.Rule, j.Value, j.Why = rule, value, "no-larger"
	var list []int
	for i := range j.shapes {
		t := &j.shapes[i]
		if i != j.From && !t.Bare && (t.Site != j.source.Site || t.Partition != j.source.Partition) && suits(t) {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return j.compareTargets(a, b) })
	order := []string{"no-larger", "no-fit", "account", "wait-unknown", "wait"} // the farther, the more telling
	for _, i := range list {
		t, why := &j.shapes[i], ""
		size := j.Need.SizeGPUs
		if !gpus {
			size = 0
		}
		switch {
		case !j.fitsShape(t, gpus):
			why = "no-fit"
		case len(t.Who) > 0 && !slices.Contains(t.Who, j.work.Account):
			why = "account"
		default:
			there := j.targetWait(i, size)
			if why = j.isWaitReason(there); why == "" {
				j.To, j.There, j.Why = i, there, ""
				return
			}
		}
		if slices.Index(order, why) > slices.Index(order, j.Why) {
			j.Why = why
		}
	}
}

func (j *judge) targetWait(i int, gpus float64) *Wait {
	if w := j.waits(i, j.Need.SizeCores, gpus); w != nil {
		return w
	}
	return j.shapes[i].FileWait
}

// isWaitReason reports whether waiting there is a reason to stay.
func (j *judge) isWaitReason(there *Wait) string {
	switch {
	case there == nil || j.Here == nil:
		return "wait-unknown"
	case there.Seconds > waitFactor*j.Here.Seconds+waitMore:
		return "wait"
	}
	return ""
}

// compareTargets orders the targets a and b; the better one comes first. It prefers, in this order, the same cluster, shared
// nodes, fewer GPUs, cores and memory, no unneeded fast network, and a shorter wait.
func (j *judge) compareTargets(a, b int) int {
	number := func(v *float64) float64 { return *cmp.Or(v, &infinite) }
	order := func(i int) []float64 {
		s, wait := &j.shapes[i], infinite
		if w := j.targetWait(i, 0); w != nil {
			wait = w.Seconds
		}
		return []float64{one[s.Site != j.source.Site], one[s.Whole], number(s.GPUs), number(s.Cores),
			math.Round(8 * math.Log2(number(s.Memory))),
			one[s.FastNetwork != nil && *s.FastNetwork], wait, float64(i)}
	}
	return slices.Compare(order(a), order(b))
}

var (
	infinite = math.Inf(1)
	one      = map[bool]float64{true: 1}
)
