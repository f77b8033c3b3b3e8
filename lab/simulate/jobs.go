package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Job is a job that a user submits to the batch system.
type Job struct {
	Raw         uint32 // the number that the batch system gives to each
	Array, Task int    // Array is the number of the array, 0 for a single job. Task is the number of the task in it.
	User        *User
	Name        string
	Program     string
	Partition   string

	Nodes       int
	Cores       int // on each node
	MemoryBytes uint64
	GPUs        int
	Limit       time.Duration

	Submit time.Time
	Start  time.Time // zero: it never began in the time of the plan
	End    time.Time // zero likewise
	On     []int     // numbers of the nodes
	// Outcome is the final state: completed, failed, timeout, out_of_memory, cancelled, node_fail.
	Outcome string
	Exit    int
	// CancelledBy is the user who cancels it, if planned. Stuck is the reason why it never starts, or empty.
	CancelledBy, Stuck string

	plan *Planned // nil for a job that was drawn

	kind   *programKind
	seed   uint64
	length time.Duration // run time if nothing ends it earlier
	peak   uint64        // bytes of memory on a node
	used   float64       // cores that it can use of those it asked for, as a share
}

// ID returns the name of the job as the batch system shows it.
func (j *Job) ID() string {
	if j.Array != 0 {
		return strconv.Itoa(j.Array) + "_" + strconv.Itoa(j.Task)
	}
	return strconv.FormatUint(uint64(j.Raw), 10)
}

// The outcomes.
const (
	completed   = "completed"
	failed      = "failed"
	timeout     = "timeout"
	outOfMemory = "out_of_memory"
	cancelled   = "cancelled"
	nodeFail    = "node_fail"
)

// drawJobs generates the jobs.
func (s *Site) drawJobs(rnd *rand.Rand) {
	clock := newArrivals(s.From.Add(-s.lead), s.lead+s.For)
	weights := make([]float64, len(s.Users))
	total := 0.0
	for i, u := range s.Users {
		total += u.weight
		weights[i] = total
	}
	// Jobs that were submitted before the beginning are added.
	wanted := s.Config.Jobs + int(float64(s.Config.Jobs)*s.lead.Hours()/s.For.Hours())
	for len(s.Jobs) < wanted {
		at := min(sort.SearchFloat64s(weights, rnd.Float64()*total), len(s.Users)-1)
		u := s.Users[at]
		k := u.kinds[min(rnd.IntN(len(u.kinds)), rnd.IntN(len(u.kinds)))]
		if k.gpus != nil && s.GPUNodes == 0 {
			k = &programKinds[3]
		}
		submit := clock.drawTime(u.nightly, rnd)
		first := s.drawJob(u, k, submit, rnd)
		tasks := 1
		if k.array > 0 && rnd.IntN(4) > 0 {
			tasks = min(1+rnd.IntN(2*k.array), wanted-len(s.Jobs))
		}
		s.Jobs = append(s.Jobs, first)
		for n := 1; n < tasks; n++ {
			j := s.drawJob(u, k, submit, rnd)
			j.Name, j.Cores, j.MemoryBytes, j.Limit, j.Nodes = first.Name, first.Cores, first.MemoryBytes, first.Limit, first.Nodes
			j.Partition, j.GPUs, j.peak = first.Partition, first.GPUs, min(j.peak, first.MemoryBytes)
			j.Task = n
			s.Jobs = append(s.Jobs, j)
		}
		if tasks > 1 {
			for i := len(s.Jobs) - tasks; i < len(s.Jobs); i++ {
				s.Jobs[i].Array = len(s.Jobs) // for now: any number that is not 0 and its own
			}
		}
	}
}

// numberJobs sorts jobs by submit time and numbers them.
func (s *Site) numberJobs() {
	slices.SortStableFunc(s.Jobs, func(a, b *Job) int { return cmp.Or(a.Submit.Compare(b.Submit), cmp.Compare(a.Array, b.Array)) })
	arrays := map[int]int{}
	for i, j := range s.Jobs {
		j.Raw = uint32(100_000 + i)
		if j.Array == 0 {
			continue
		}
		if arrays[j.Array] == 0 {
			arrays[j.Array] = int(j.Raw)
		}
		j.Array = arrays[j.Array]
	}
}

// drawJob generates one job.
func (s *Site) drawJob(u *User, k *programKind, submit time.Time, rnd *rand.Rand) *Job {
	j := &Job{User: u, kind: k, Name: k.name, Program: k.program, Partition: "batch", Submit: submit, seed: rnd.Uint64(),
		Nodes: k.nodes[rnd.IntN(len(k.nodes))]}
	if n := rnd.IntN(6); n > 0 {
		j.Name += "-" + strconv.Itoa(n)
	}
	most := s.Nodes - s.GPUNodes - 2
	j.Nodes = max(min(j.Nodes, most/4), 1)
	j.Cores = max(int(math.Round(k.cores[rnd.IntN(len(k.cores))]*float64(s.Cores))), 1)
	whole := uint64(s.Cores) * 4 << 30
	j.MemoryBytes = max(whole*uint64(j.Cores)/uint64(s.Cores)*9/10, 2<<30)
	j.used = 1
	if k.gpus != nil {
		j.Partition, j.GPUs = "gpu", k.gpus[rnd.IntN(len(k.gpus))]
		j.Cores = min(max(j.Cores, j.GPUs*s.Cores/8), s.Cores)
	} else if u.wasteful {
		j.used = 0.15 + 0.35*rnd.Float64()
	}
	j.peak = uint64(float64(j.MemoryBytes) * min(k.memory*(0.5+rnd.Float64()), 0.97))
	if u.wasteful {
		j.peak /= 4
	}
	j.length = time.Duration(k.hours * math.Exp(k.spread*rnd.NormFloat64()) * float64(time.Hour))
	j.Outcome = completed
	switch at := rnd.Float64(); {
	case at < k.fails:
		j.Outcome, j.Exit = failed, 1+rnd.IntN(2)
		if rnd.IntN(2) == 0 { // most mistakes show at once
			j.length = time.Duration(2+rnd.IntN(90)) * time.Second
		}
	case at < k.fails+k.runsOut:
		j.Outcome = outOfMemory
	case at < k.fails+k.runsOut+k.overdue:
		j.Outcome = timeout
	case at < k.fails+k.runsOut+k.overdue+k.cancelled:
		j.Outcome = cancelled
	}
	return j
}

// scaleLengths scales the length of all jobs so that the site is about three quarters full, and sets their time limits.
func (s *Site) scaleLengths() {
	const full = 0.7
	var demand, room [2]float64 // core seconds by partition: batch, gpu
	of := func(j *Job) int {
		if j.GPUs > 0 {
			return 1
		}
		return 0
	}
	for _, j := range s.Jobs {
		if j.plan != nil {
			continue
		}
		demand[of(j)] += j.length.Seconds() * float64(j.Nodes*j.Cores)
	}
	for i := range s.specs {
		switch s.specs[i].role {
		case compute:
			room[0] += float64(s.Cores) * (s.lead + s.For).Seconds()
		case withGPUs:
			room[1] += float64(s.Cores) * (s.lead + s.For).Seconds()
		}
	}
	for _, j := range s.Jobs {
		if j.plan != nil {
			continue
		}
		p := of(j)
		if demand[p] > 0 && j.length > 2*time.Minute {
			scale := min(max(full*room[p]/demand[p], 0.02), 4)
			j.length = time.Duration(float64(j.length) * scale)
		}
		j.length = min(max(j.length, 2*time.Second), 3*24*time.Hour).Truncate(time.Millisecond)
		limit := time.Duration(float64(j.length) * j.kind.limit)
		j.Limit = roundLimit(limit)
		if j.Outcome == timeout {
			j.Limit = roundLimit(j.length * 2 / 3)
			j.length = j.Limit + 30*time.Second
		}
		j.length = min(j.length, j.Limit+30*time.Second)
	}
}

// roundLimit returns a limit as people write it.
func roundLimit(d time.Duration) time.Duration {
	for _, step := range []time.Duration{10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
		12 * time.Hour} {
		if d <= step {
			return step
		}
	}
	return d.Truncate(24*time.Hour) + 24*time.Hour
}

// arrivalTimes draws the times of submissions.
type arrivalTimes struct {
	from  time.Time
	sums  []float64
	whole time.Duration
}

const arrivalStep = 10 * time.Minute

func newArrivals(from time.Time, span time.Duration) *arrivalTimes {
	a := &arrivalTimes{from: from, whole: span}
	total := 0.0
	for d := time.Duration(0); d < span; d += arrivalStep {
		at := from.Add(d)
		w := hourlyRates[at.Hour()]
		if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
			w *= weekendFactor
		}
		total += w
		a.sums = append(a.sums, total)
	}
	return a
}

func (a *arrivalTimes) drawTime(nightly bool, rnd *rand.Rand) time.Time {
	d := time.Duration(rnd.Int64N(int64(a.whole)))
	if !nightly {
		at := sort.SearchFloat64s(a.sums, rnd.Float64()*a.sums[len(a.sums)-1])
		d = time.Duration(min(at, len(a.sums)-1))*arrivalStep + time.Duration(rnd.Int64N(int64(arrivalStep)))
	}
	return a.from.Add(min(d, a.whole-time.Second)).Truncate(time.Second)
}

// Steps reports whether the work of the job is a step of its own in addition to its script.
func (j *Job) Steps() bool { return j.kind.steps }

// Planned returns the plan of the job, or nil for a random job.
func (j *Job) Planned() *Planned { return j.plan }
