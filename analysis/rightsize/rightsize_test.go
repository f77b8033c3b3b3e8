package rightsize

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/quick"

	"reckon/figure"
	"reckon/internal/phrase"
	"reckon/internal/phrase/phrasetest"
)

// whole returns sentences as lines; each must be made of its template and its values.
func whole(list []phrase.Sentence) string {
	var out []string
	for i := range list {
		if loose := phrasetest.Loose(&list[i], "0", "95", "99"); loose != "" {
			panic(loose)
		}
		out = append(out, list[i].String())
	}
	return strings.Join(out, "\n")
}

func at(v float64) *float64 { return &v }

const gib = 1 << 30

func TestFor(t *testing.T) {
	good := Run{Run: figure.Run{Row: figure.Row{CoresP95: at(7.8), MemoryNeededPeakBytes: at(10 * gib), MemoryPeakBytes: at(200 * gib)}}, Seconds: 3600, Nodes: 1, Cores: at(64), Memory: at(256 * gib), Done: true}
	with := func(f func(*Run)) Run { r := good; f(&r); return r }
	for name, c := range map[string]struct {
		runs                      []Run
		cores, memory, secs, gpus float64 // below 0: none
		n                         int
		why                       string
	}{
		"one run":           {[]Run{good}, 8, 12 * gib, 4500, -1, 1, "memory 12 GiB: it needed 10 GiB, and a fifth above it"},
		"came and went":     {[]Run{with(func(r *Run) { r.MemoryNeededMostBytes = at(20 * gib) })}, 8, 24 * gib, 4500, -1, 1, "memory 24 GiB: between two readings it may have needed 20 GiB, and a fifth above it"},
		"hardly apart":      {[]Run{with(func(r *Run) { r.MemoryNeededMostBytes = at(10.4 * gib) })}, 8, 12.5 * gib, 4500, -1, 1, "memory 12.5 GiB: it needed 10.4 GiB, and a fifth above it"},
		"ends crossed":      {[]Run{with(func(r *Run) { r.MemoryNeededMostBytes = at(4 * gib) })}, 8, 12 * gib, 4500, -1, 1, "it needed 10 GiB"},
		"p95 hardly above":  {[]Run{with(func(r *Run) { r.CoresP95 = at(8.04) })}, 8, 12 * gib, 4500, -1, 1, ""},
		"most of all runs":  {[]Run{good, with(func(r *Run) { r.MemoryNeededPeakBytes, r.Seconds, r.CoresP95 = at(20*gib), 7200, at(9.3) })}, 10, 24 * gib, 9000, -1, 2, "the longest of 2 runs took 2 h"},
		"other sizes apart": {[]Run{good, with(func(r *Run) { r.Nodes, r.MemoryNeededPeakBytes = 4, at(100*gib) })}, 8, 12 * gib, 4500, -1, 1, ""},
		"killed": {[]Run{with(func(r *Run) {
			r.OutOfMemory, r.Done, r.MemoryNeededPeakBytes, r.Memory = true, false, at(8*gib), at(8*gib)
		})}, 8, 12 * gib, -1, -1, 1, "half as much again, rounded up to a multiple of 256 MiB; how much it needs is unknown"},
		"killed, then well": {[]Run{good, with(func(r *Run) {
			r.OutOfMemory, r.Done, r.MemoryNeededPeakBytes, r.Memory = true, false, at(4*gib), at(4*gib)
		})}, 8, 12 * gib, 4500, -1, 2, "of 2 runs"},
		"squeezed":           {[]Run{with(func(r *Run) { r.Squeezed, r.MemoryNeededPeakBytes, r.Memory = true, at(2*gib), at(4*gib) })}, 8, 5 * gib, 4500, -1, 1, "memory 5 GiB: with 4 GiB it was held up for lack of memory"},
		"squeezed once":      {[]Run{good, with(func(r *Run) { r.Squeezed, r.Memory = true, at(4*gib) })}, 8, 12 * gib, 4500, -1, 2, "of 2 runs"},
		"squeezed, as much":  {[]Run{good, with(func(r *Run) { r.Squeezed, r.Memory = true, at(9.6*gib) })}, 8, 12 * gib, 4500, -1, 2, "of 2 runs"},
		"squeezed, killed":   {[]Run{with(func(r *Run) { r.Squeezed, r.Memory = true, at(20*gib) }), with(func(r *Run) { r.OutOfMemory, r.MemoryNeededPeakBytes, r.Memory = true, at(16*gib), at(16*gib) })}, 8, 25 * gib, 4500, -1, 2, "held up for lack of memory"},
		"time limit":         {[]Run{with(func(r *Run) { r.Limit, r.Done, r.RequestSeconds = true, false, at(3600) })}, 8, 12 * gib, 5400, -1, 1, "ended at its limit after 1 h"},
		"idle at its limit":  {[]Run{with(func(r *Run) { r.Limit, r.Idle, r.Done, r.RequestSeconds = true, true, false, at(3600) })}, 8, 12 * gib, -1, -1, 1, ""},
		"runs longer":        {[]Run{with(func(r *Run) { r.Cut, r.Done, r.Seconds = true, false, 3*3600 }), with(func(r *Run) { r.Seconds = 1740 })}, 8, 12 * gib, 13500, -1, 2, "time 3 h 45 min: it took 3 h without coming to its end"},
		"another was killed": {[]Run{good, with(func(r *Run) { r.ID, r.OutOfMemory, r.Done, r.Memory = "slurm/7", true, false, at(48*gib) })}, 8, 72 * gib, 4500, -1, 2, "a run (slurm/7) was killed with 48 GiB"},
		"waited, steady": {[]Run{with(func(r *Run) {
			r.Waited, r.CPUSeconds, r.CPUWaitSeconds, r.CoresP95 = true, at(3600*0.15), at(3600*0.85), at(0.16)
		})}, 1, 12 * gib, 4500, -1, 1, ""},
		"waited, in bursts": {[]Run{with(func(r *Run) {
			r.Waited, r.CPUSeconds, r.CPUWaitSeconds, r.CoresP95 = true, at(3600*0.15), at(3600*0.85), at(3)
		})}, -1, 12 * gib, 4500, -1, 1, ""},
		"waited, in bursts, by ticks": {[]Run{with(func(r *Run) {
			r.Waited, r.CPUSeconds, r.CPUWaitSeconds, r.CoresP95, r.CoresWantedP95 = true, at(3600*0.15), at(3600*0.85), at(3), at(5.7)
		})}, 6, 12 * gib, 4500, -1, 1, "for 95 % of the time it used no more than about 5.2, what it waited for others included"},
		"waited, of one thread": {[]Run{with(func(r *Run) {
			r.Waited, r.CPUSeconds, r.CPUWaitSeconds, r.CoresP95, r.CoresWantedP95 = true, at(3600*0.15), at(3600*0.85), at(0.9), at(1.09)
		})}, 1, 12 * gib, 4500, -1, 1, "cores 1"},
		"waited, at least": {[]Run{with(func(r *Run) {
			r.Waited, r.CPUSeconds, r.CPUWaitSeconds, r.CoresP95 = true, at(3600*0.15), at(3600*0.85), at(0.16)
			r.Exactness = figure.Degrees{"cpu_wait_seconds": figure.AtLeast}
		})}, -1, 12 * gib, 4500, -1, 1, "cores: no advice, as its threads waited for cores, and how many they wanted at a time is not known"},
		"waited, at least, by ticks": {[]Run{with(func(r *Run) {
			r.Waited, r.CPUSeconds, r.CPUWaitSeconds, r.CoresP95, r.CoresWantedP95 = true, at(3600*0.15), at(3600*0.85), at(0.5), at(1.98)
			r.Exactness = figure.Degrees{"cpu_wait_seconds": figure.AtLeast}
		})}, 2, 12 * gib, 4500, -1, 1, "cores 2: for 95 % of the time it wanted at least 1.8, what it waited for others included"},
		"uses all":               {[]Run{with(func(r *Run) { r.Cores = at(8) })}, 8, 12 * gib, 4500, -1, 1, "reckon scale"},
		"waited for cores":       {[]Run{with(func(r *Run) { r.Waited = true })}, -1, 12 * gib, 4500, -1, 1, ""},
		"waited, used all":       {[]Run{with(func(r *Run) { r.Waited, r.Cores = true, at(8) })}, 8, 12 * gib, 4500, -1, 1, ""},
		"no need is known":       {[]Run{with(func(r *Run) { r.MemoryNeededPeakBytes, r.MemoryPeakBytes = nil, at(10*gib) })}, 8, 12 * gib, 4500, -1, 1, "its peak was 10 GiB, and a fifth above it"},
		"of two runs":            {[]Run{good, with(func(r *Run) { r.MemoryNeededPeakBytes = at(5 * gib) })}, 8, 12 * gib, 4500, -1, 2, "the most that one of 2 runs needed was 10 GiB"},
		"an estimate":            {[]Run{with(func(r *Run) { r.MemoryInexact = true })}, 8, -1, 4500, -1, 1, "memory: no advice, as no run that came to its end has an exactly measured peak"},
		"a lower bound":          {[]Run{with(func(r *Run) { r.CPUInexact = true })}, -1, 12 * gib, 4500, -1, 1, "cores: no advice, as their use was not measured exactly"},
		"GPU, a bound":           {[]Run{with(func(r *Run) { r.GPUs, r.GPUSeconds, r.GPUInexact = at(2), at(36), true })}, 8, 12 * gib, 4500, -1, 1, ""},
		"GPU never used":         {[]Run{with(func(r *Run) { r.GPUs, r.GPUSeconds = at(1), at(0) })}, 8, 12 * gib, 4500, 0, 1, "the 1 GPU it had was never used; if it needs it after all"},
		"two GPUs, 15 %":         {[]Run{with(func(r *Run) { r.GPUs, r.GPUSeconds = at(2), at(540) })}, 8, 12 * gib, 4500, 1, 1, "of the 2 GPUs it had, 0.15 were busy on average"},
		"29 s on GPUs":           {[]Run{{Run: figure.Run{Row: figure.Row{GPUSeconds: at(0), MemoryPeakBytes: at(1)}}, Seconds: 29, Nodes: 1, GPUs: at(1)}}, -1, 64 << 20, -1, -1, 1, ""},
		"used 90 %":              {[]Run{with(func(r *Run) { r.Cores, r.CoresP95 = at(10), at(9) })}, 10, 12 * gib, 4500, -1, 1, "reckon scale"},
		"used less":              {[]Run{with(func(r *Run) { r.Cores, r.CoresP95 = at(10), at(8.9) })}, 9, 12 * gib, 4500, -1, 1, "no more than 8.9"},
		"idle gpu":               {[]Run{with(func(r *Run) { r.GPUs, r.GPUSeconds = at(2), at(36) })}, 8, 12 * gib, 4500, 0, 1, "the 2 GPUs it had were busy 0.5 % of the time; if it needs them after all, find out why they are idle"},
		"one of two gpus":        {[]Run{with(func(r *Run) { r.GPUs, r.GPUSeconds = at(2), at(3000) })}, 8, 12 * gib, 4500, 1, 1, "of the 2 GPUs it had, 0.83 were busy"},
		"too short":              {[]Run{{Run: figure.Run{Row: figure.Row{CoresP95: at(1), MemoryPeakBytes: at(100 << 20)}}, Seconds: 3, Nodes: 1, Done: true}}, -1, 128 << 20, 60, -1, 1, "a fifth above it, rounded up to a multiple of 64 MiB\ncores: no advice, as it ran for less than 30 s\ntime 1 min: it took 3 s, and a quarter above it, rounded up to a multiple of 1 min"},
		"an estimate above":      {[]Run{good, with(func(r *Run) { r.MemoryNeededPeakBytes, r.MemoryInexact = at(12.1*gib), true })}, 8, -1, 4500, -1, 2, ""},
		"an estimate of as much": {[]Run{good, with(func(r *Run) { r.MemoryNeededPeakBytes, r.MemoryInexact = at(12*gib), true })}, 8, 12 * gib, 4500, -1, 2, ""},
		"cut short":              {[]Run{good, with(func(r *Run) { r.Cut, r.Done, r.MemoryNeededPeakBytes, r.CoresP95 = true, false, at(15*gib), at(7) })}, 8, 18 * gib, 4500, -1, 2, ""},
		"only cut short":         {[]Run{with(func(r *Run) { r.Cut = true })}, -1, -1, 4500, -1, 1, "memory: no advice, as no run that came to its end has an exactly measured peak\ncores: no advice, as no run came to its end"},
		"failed":                 {[]Run{{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(1)}}, Seconds: 60, Nodes: 1}}, -1, 64 << 20, -1, -1, 1, ""},
	} {
		a := Recommend(c.runs, false)
		if a == nil {
			t.Errorf("%s: nothing", name)
			continue
		}
		if a.Runs != c.n || !strings.Contains(whole(a.Why), c.why) {
			t.Errorf("%s: %d runs, %q", name, a.Runs, whole(a.Why))
		}
		for what, x := range map[string]struct {
			got  *float64
			want float64
		}{"cores": {a.Cores, c.cores}, "memory": {a.Memory, c.memory}, "seconds": {a.Seconds, c.secs}, "gpus": {a.GPUs, c.gpus}} {
			if (x.got == nil) != (x.want < 0) || x.got != nil && *x.got != x.want {
				t.Errorf("%s: %s is %s, want %g", name, what, show(x.got), x.want)
			}
		}
	}
	for _, runs := range [][]Run{nil, {{Seconds: 100, Nodes: 1}}, {{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(math.NaN()), CoresP95: at(-1)}}, Seconds: 100}}} {
		if a := Recommend(runs, false); a != nil {
			t.Errorf("%+v: said %+v", runs, a)
		}
	}
}

func show(v *float64) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprint(*v)
}

// TestEnough: for any runs, their use fits into the recommended request.
func TestEnough(t *testing.T) {
	f := func(peaks [3]uint32, cores [3]uint16, seconds [3]uint16) bool {
		var runs []Run
		for i := range peaks {
			runs = append(runs, Run{Run: figure.Run{Row: figure.Row{CoresP95: at(float64(cores[i]) / 100), MemoryPeakBytes: at(float64(peaks[i]) * 1000)}}, Seconds: 30 + float64(seconds[i]), Nodes: 1, Done: true})
		}
		a := Recommend(runs, false)
		for _, r := range runs {
			if *r.MemoryPeakBytes > 0 && *a.Memory < *r.MemoryPeakBytes*memoryMargin*(1-1e-6) || *a.Cores < *r.CoresP95-0.05 || *a.Seconds < r.Seconds*timeMargin*(1-1e-6) {
				t.Logf("%+v for %+v", a, r)
				return false
			}
		}
		return true
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

func TestFraction(t *testing.T) {
	for p95, want := range map[float64]float64{0.04: 0.1, 0.104: 0.1, 0.41: 0.5, 2.06: 2.1, 0: 0.1} {
		a := Recommend([]Run{{Run: figure.Run{Row: figure.Row{CoresP95: at(p95)}}, Seconds: 100, Nodes: 1, Cores: at(4)}}, true)
		if *a.Cores != want {
			t.Errorf("p95 %g: %g cores, want %g", p95, *a.Cores, want)
		}
	}
}

func TestPaste(t *testing.T) {
	a := &Advice{Cores: at(8), Memory: at(12 * gib), Seconds: at(90000), GPUs: at(1)}
	if got, want := a.Slurm(1, a.Memory, 0), "#SBATCH --cpus-per-task=8\n#SBATCH --mem=12288M\n#SBATCH --gpus=1\n"+
		"#SBATCH --time=1-01:00:00"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := a.Slurm(3, at(5<<20+1), 0), "#SBATCH --nodes=3\n#SBATCH --mincpus=3\n#SBATCH --mem=6M\n#SBATCH --gpus=1\n"+
		"#SBATCH --time=1-01:00:00"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := a.Kubernetes(), "resources:\n  requests:\n    cpu: \"8\"\n    memory: 12288Mi\n  limits:\n    memory: 12288Mi\n    nvidia.com/gpu: 1"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if (&Advice{}).Kubernetes() != "" || (&Advice{}).Slurm(1, nil, 0) != "" {
		t.Error("nothing known, and something to paste")
	}
}
