package scaling

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Verdict is one sentence and the number behind it.
type Verdict struct {
	Kind     string // cores, limit, runs, law, crosstalk, work or cause
	Severity string // warning, good or info
	Text     string
	Value    float64
	Unit     string // ratio, count, cores or seconds
}

// Use is what one run used of what it held; a nil figure was not measured.
type Use struct {
	WallSeconds                                 float64
	Held                                        *float64 // cores
	HeldFrom                                    string   // "" asked for; else of whom they are, such as "of its node"
	CoresMean, CoresP50, CoresP95               *float64
	CPUSeconds, WaitSeconds, ThrottledSeconds   *float64
	GPUs, GPUSeconds                            *float64
	MemoryPeak, Memory, SwapPeak                *float64
	StorageStalledSeconds, MemoryStalledSeconds *float64
	Waits                                       bool // has not begun
}

// Thresholds: settled seconds say something of a run; a law that is further off than
// loose is no law of these runs.
const (
	settled = 30.0
	loose   = 0.15
	// clearly is by how much the richer law must be nearer to be preferred.
	clearly = 0.8
)

// Better is the law that describes the runs better: the Universal Scalability Law only
// where its error is known and clearly smaller than that of Amdahl's. nil when there is none.
func Better(amdahl, usl *Fit) *Fit {
	if amdahl == nil || usl == nil {
		return amdahl
	}
	if !math.IsNaN(usl.Error) && usl.Crosstalk > 0 && usl.Error < clearly*amdahl.Error {
		return usl
	}
	return amdahl
}

// Holds reports whether the runs are near enough to the law, as far as can be told, for
// anything to be claimed by it.
func (f *Fit) Holds() bool { return !(f.Error > loose) }

// Judge says what the one run shows, and what the runs at different sizes show.
func Judge(u Use, runs []Run, amdahl, usl *Fit) []Verdict {
	j := judge{u: u}
	if u.Waits {
		j.say("cores", "info", 0, "cores", "it has not begun: what it uses can not be seen yet")
	} else {
		j.causes(j.held())
	}
	j.runs(runs, amdahl, usl)
	return j.out
}

type judge struct {
	u   Use
	out []Verdict
}

func (j *judge) say(kind, severity string, value float64, unit, format string, args ...any) {
	j.out = append(j.out, Verdict{kind, severity, fmt.Sprintf(format, args...), value, unit})
}

// held says what one run shows: whether it has cores to spare.
func (j *judge) held() (spare bool) {
	u := j.u
	held, ok := known(u.Held)
	p95, sustained := known(u.CoresP95)
	if !ok || !sustained || held <= 0 {
		j.say("cores", "info", 0, "cores", "not known how many cores it held and used: nothing can be said from this run alone")
		return false
	}
	if u.WallSeconds < settled {
		j.say("cores", "info", u.WallSeconds, "seconds", "it has run for %s s: too short to say how it uses cores", number(u.WallSeconds))
		return false
	}
	of := number(held) + " cores"
	if held == 1 {
		of = "1 core"
	}
	if u.HeldFrom != "" {
		of += " " + u.HeldFrom
	}
	mean, _ := known(u.CoresMean)
	cpu, _ := known(u.CPUSeconds)
	wait, _ := known(u.WaitSeconds)
	starved := wait >= 0.1*(cpu+wait) && wait > 0
	switch {
	case starved && p95 < 0.8*held:
		j.say("cores", "info", p95/held, "ratio", "it used %s of %s (p95; %s on average) while its threads waited for cores: what it would use of cores of its own can not be seen from this run", number(p95), of, number(mean))
	case p95 <= 0.6*held && held >= 2:
		j.say("cores", "warning", p95/held, "ratio", "it uses %s of %s (p95; %s on average): more cores will not help", number(p95), of, number(mean))
		return true
	case p95 >= 0.8*held && mean >= 0.8*p95:
		j.say("cores", "good", p95/held, "ratio", "it uses what it held: %s of %s (p95; %s on average); this run alone can not show whether more would help", number(p95), of, number(mean))
	case p95 >= 0.8*held:
		j.say("cores", "info", mean/held, "ratio", "it uses %s of %s at times (p95), but %s on average: parts of it do not run in parallel, and more cores shorten only the others", number(p95), of, number(mean))
	default:
		j.say("cores", "info", p95/held, "ratio", "it uses %s of %s (p95; %s on average): more cores will hardly help", number(p95), of, number(mean))
		return true
	}
	return false
}

// causes says what holds it back, and so what would help.
func (j *judge) causes(spare bool) {
	u := j.u
	if u.WallSeconds < settled {
		return
	}
	before := len(j.out)
	over := func(v *float64, whole float64) float64 {
		x, ok := known(v)
		if !ok || whole <= 0 {
			return 0
		}
		return x / whole
	}
	if s := over(u.ThrottledSeconds, u.WallSeconds); s >= 0.05 {
		j.say("cause", "warning", s, "ratio", "its limit of CPU time holds it back (%s of the time it ran): a higher limit will help", percent(s))
	}
	if cpu, ok := known(u.CPUSeconds); ok {
		if s := over(u.WaitSeconds, cpu+*or(u.WaitSeconds)); s >= 0.1 {
			j.say("cause", "warning", s, "ratio", "its threads wait for a core for %s of the time they want to run: fewer threads, or cores that nobody shares, will help", percent(s))
		}
	}
	if gpus, ok := known(u.GPUs); ok && gpus > 0 {
		if s := over(u.GPUSeconds, gpus*u.WallSeconds); s >= 0.7 {
			j.say("cause", "info", s, "ratio", "its GPUs are busy %s of the time: a faster or one more GPU will help, if it can use it", percent(s))
		}
	}
	if s := over(u.StorageStalledSeconds, u.WallSeconds); s >= 0.1 {
		j.say("cause", "warning", s, "ratio", "it is stalled on storage %s of the time: faster storage, or fewer and larger reads, will help", percent(s))
	}
	swap, _ := known(u.SwapPeak)
	stalled := over(u.MemoryStalledSeconds, u.WallSeconds)
	switch full := over(u.MemoryPeak, *or(u.Memory)); {
	case swap >= 64<<20 || stalled >= 0.1:
		j.say("cause", "warning", max(stalled, 0), "ratio", "it wants for memory (swap, or stalled for it %s of the time): more memory will help", percent(stalled))
	case full >= 0.95:
		j.say("cause", "warning", full, "ratio", "its memory is full (%s of what it held): more memory may help", percent(full))
	}
	if spare && len(j.out) == before {
		j.say("cause", "info", 0, "count", "nothing that was measured holds it back but its own work: more of it must run in parallel (threads, processes), or the cores be faster")
	}
}

func or(v *float64) *float64 {
	if x, ok := known(v); ok {
		return &x
	}
	return new(float64)
}

// runs says what the runs at different sizes show.
func (j *judge) runs(runs []Run, amdahl, usl *Fit) {
	sizes := sizesOf(runs)
	if amdahl == nil {
		text := "no run ended well that could be compared"
		if len(sizes) == 1 {
			text = fmt.Sprintf("%s at one size (%s)", plural(len(runs), "run", "runs"), cores(sizes[0]))
		}
		if j.u.Waits && len(sizes) == 0 {
			j.say("runs", "info", 0, "count", "%s: how it scales can not be seen", text)
			return
		}
		try := 2.0
		if held, ok := known(j.u.Held); ok && j.u.HeldFrom == "" {
			try = max(2, held)
		}
		if len(sizes) == 1 {
			try = sizes[0]
		}
		one, two := math.Floor(try/2), 2*try
		if one < 1 {
			one, two = 2*try, 4*try
		}
		j.say("runs", "info", float64(len(sizes)), "count", "%s: how it scales can not be seen; run the same work under the same name with %s and with %s, and ask again",
			text, cores(one), cores(two))
		return
	}
	most := sizes[len(sizes)-1]
	behind := fmt.Sprintf("%s at %d sizes, %s to %s", plural(len(runs), "run", "runs"), len(sizes), number(sizes[0]), cores(most))
	best := Better(amdahl, usl)
	switch {
	case math.IsNaN(best.Error):
		j.say("law", "info", best.Serial, "ratio", "if it follows Amdahl's law, %s of the work does not run in parallel, and no number of cores makes it more than %s times as fast as one (%s); two sizes fit any such law: a third would show whether it holds",
			percent(best.Serial), limit(best), behind)
	case !best.Holds():
		j.say("law", "warning", best.Error, "ratio", "the runs are %s off any law (%s): they may not be the same work, and nothing is claimed from them", percent(best.Error), behind)
		return
	case best.Crosstalk > 0:
		speed, at := best.Limit()
		beyond := ""
		if at > most {
			beyond = ", which is more than was tried"
		}
		j.say("crosstalk", "info", at, "cores", "it is fastest with %s%s: %s times as fast as one, and slower with more; %s of the work does not run in parallel, and talk between cores costs the rest (%s, off the law by %s)",
			cores(math.Max(1, math.Round(at))), beyond, number(speed), percent(best.Serial), behind, percent(best.Error))
	case best.Serial == 0:
		j.say("law", "good", 0, "ratio", "no part that does not run in parallel shows: it is about %s times as fast with %s as with one (%s, off the law by %s)", number(best.Speedup(most)), cores(most), behind, percent(best.Error))
	default:
		between := ""
		if !math.IsNaN(best.SerialLow) {
			between = fmt.Sprintf(" (between %s and %s, as one leaves out a size)", percent(best.SerialLow), percent(best.SerialHigh))
		}
		j.say("law", "info", best.Serial, "ratio", "%s of the work does not run in parallel%s: no number of cores makes it more than %s times as fast as one; with %s it is %s times (%s, off the law by %s)",
			percent(best.Serial), between, limit(best), cores(most), number(best.Speedup(most)), behind, percent(best.Error))
	}
	if held, ok := known(j.u.Held); ok && held >= 1 && j.u.HeldFrom == "" && !math.IsNaN(best.Error) {
		gain := best.Speedup(2*held)/best.Speedup(held) - 1
		switch {
		case gain < 0.1:
			half := math.Max(1, math.Floor(held/2))
			j.say("limit", "warning", gain, "ratio", "twice the %s that this run held would make it %s; half of them make it %s slower", cores(held), faster(gain), percent(max(0, best.Speedup(held)/best.Speedup(half)-1)))
		default:
			j.say("limit", "info", gain, "ratio", "twice the %s that this run held would make it %s", cores(held), faster(gain))
		}
	}
}

// SameWork says whether the CPU time of the runs speaks against the same work: the
// greatest is a multiple of the least. ok is false where it is known of too few.
func SameWork(cpuSeconds []float64) (ratio float64, ok bool) {
	if len(cpuSeconds) < 2 {
		return 0, false
	}
	least := slices.Min(cpuSeconds)
	if !(least > 0) {
		return 0, false
	}
	return slices.Max(cpuSeconds) / least, true
}

func faster(gain float64) string {
	if gain < 0 {
		return percent(-gain) + " slower"
	}
	return percent(gain) + " faster"
}

func limit(f *Fit) string {
	if f.Serial == 0 {
		return "as many"
	}
	s, _ := f.Limit()
	return number(s)
}

func sizesOf(runs []Run) []float64 {
	var out []float64
	for _, r := range runs {
		out = append(out, r.Cores)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func known(v *float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return 0, false
	}
	return *v, true
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func cores(v float64) string {
	if v == 1 {
		return "1 core"
	}
	return number(v) + " cores"
}

func number(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if v < 0.1 {
		return strconv.FormatFloat(v, 'g', 1, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func percent(share float64) string {
	switch {
	case share > 0 && share < 0.001:
		return "below 0.1%"
	case share > 0 && share < 0.0995:
		return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + "%"
}
