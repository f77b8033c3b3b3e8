package scaling

import (
	"math"
	"strings"
	"testing"
	"testing/quick"
)

func at(v float64) *float64 { return &v }

func laws(t testing.TB, runs []Run) (amdahl, usl *Fit) {
	if a, err := Amdahl(runs); err == nil {
		amdahl = &a
	}
	if u, err := USL(runs); err == nil {
		usl = &u
	}
	return amdahl, usl
}

func text(list []Verdict) string {
	var out []string
	for _, v := range list {
		out = append(out, v.Severity+" "+v.Text)
	}
	return strings.Join(out, "\n")
}

// TestNotBegun: of a job that waits nothing is said of itself, and no size is proposed
// from what an array as a whole asks for.
func TestNotBegun(t *testing.T) {
	got := text(Judge(Use{Waits: true, Held: at(10000)}, nil, nil, nil))
	if !strings.Contains(got, "it has not begun") || strings.Contains(got, "5000") || strings.Contains(got, "nothing can be said") {
		t.Error(got)
	}
	runs := []Run{{1, 100}, {2, 60}, {4, 40}, {8, 30}}
	amdahl, usl := laws(t, runs)
	if got := text(Judge(Use{Waits: true, Held: at(4)}, runs, amdahl, usl)); !strings.Contains(got, "it has not begun") || !strings.Contains(got, "20% of the work does not run in parallel") {
		t.Error(got)
	}
}

// TestHolds: a law far off its runs is none, whatever its parameters.
func TestHolds(t *testing.T) {
	good, _ := laws(t, []Run{{1, 100}, {2, 60}, {4, 40}})
	bad, _ := laws(t, []Run{{1, 100}, {2, 700}, {4, 40}, {8, 500}})
	two, _ := laws(t, []Run{{1, 100}, {2, 60}})
	if !good.Holds() || bad.Holds() || !two.Holds() {
		t.Errorf("holds %v (%g), %v (%g), %v", good.Holds(), good.Error, bad.Holds(), bad.Error, two.Holds())
	}
}

// TestOneRun holds what one run shows, and that no law is claimed from it.
func TestOneRun(t *testing.T) {
	for name, c := range map[string]struct {
		u    Use
		want string
	}{
		"8 of 64":     {Use{WallSeconds: 600, Held: at(64), CoresP95: at(8), CoresMean: at(7.5)}, "warning it uses 8 of 64 cores (p95; 7.5 on average): more cores will not help"},
		"its work":    {Use{WallSeconds: 600, Held: at(64), CoresP95: at(8), CoresMean: at(7.5)}, "nothing that was measured holds it back but its own work"},
		"all used":    {Use{WallSeconds: 600, Held: at(8), CoresP95: at(8), CoresMean: at(7.9)}, "good it uses what it held: 8 of 8 cores (p95; 7.9 on average); this run alone can not show"},
		"phases":      {Use{WallSeconds: 600, Held: at(8), CoresP95: at(8), CoresMean: at(2)}, "parts of it do not run in parallel"},
		"of the node": {Use{WallSeconds: 600, Held: at(2), HeldFrom: "of its node", CoresP95: at(0.9), CoresMean: at(0.8)}, "0.9 of 2 cores of its node"},
		"quota":       {Use{WallSeconds: 100, Held: at(8), CoresP95: at(1), CoresMean: at(1), ThrottledSeconds: at(50)}, "its limit of CPU time holds it back (50%"},
		"storage":     {Use{WallSeconds: 100, Held: at(8), CoresP95: at(1), CoresMean: at(1), StorageStalledSeconds: at(40)}, "stalled on storage 40%"},
		"gpu":         {Use{WallSeconds: 100, Held: at(8), CoresP95: at(1), CoresMean: at(1), GPUs: at(1), GPUSeconds: at(90)}, "GPUs are busy 90%"},
		"memory":      {Use{WallSeconds: 100, Held: at(8), CoresP95: at(1), CoresMean: at(1), Memory: at(100), MemoryPeak: at(99)}, "its memory is full (99%"},
		"swap":        {Use{WallSeconds: 100, Held: at(8), CoresP95: at(1), CoresMean: at(1), SwapPeak: at(1 << 30)}, "it wants for memory"},
		"waits":       {Use{WallSeconds: 100, Held: at(8), CoresP95: at(4), CoresMean: at(4), CPUSeconds: at(400), WaitSeconds: at(400)}, "wait for a core for 50%"},
		"starved":     {Use{WallSeconds: 100, Held: at(8), CoresP95: at(4), CoresMean: at(4), CPUSeconds: at(400), WaitSeconds: at(400)}, "what it would use of cores of its own can not be seen"},
		"waits a bit": {Use{WallSeconds: 100, Held: at(8), CoresP95: at(4), CoresMean: at(4), CPUSeconds: at(400), WaitSeconds: at(4)}, "more cores will not help"},
		"too short":   {Use{WallSeconds: 5, Held: at(8), CoresP95: at(1)}, "too short"},
		"not known":   {Use{WallSeconds: 500, Held: at(8)}, "nothing can be said"},
	} {
		for _, runs := range [][]Run{nil, {{8, 600}}, {{8, 600}, {8, 500}}} {
			amdahl, usl := laws(t, runs)
			got := Judge(c.u, runs, amdahl, usl)
			if !strings.Contains(text(got), c.want) || !strings.Contains(text(got), "how it scales can not be seen") || strings.Contains(text(got), "does not run in parallel, and") {
				t.Errorf("%s with %d runs:\n%s\nwant %q", name, len(runs), text(got), c.want)
			}
		}
	}
}

// TestLaws holds what runs at several sizes show.
func TestLaws(t *testing.T) {
	runsAt := func(f Fit, sizes ...float64) []Run {
		var out []Run
		for _, n := range sizes {
			out = append(out, Run{n, f.OneCore / f.Speedup(n)})
		}
		return out
	}
	u := Use{WallSeconds: 600, Held: at(16), CoresP95: at(15.9), CoresMean: at(15)}
	for name, c := range map[string]struct {
		runs       []Run
		want, deny string
	}{
		"two sizes": {runsAt(Fit{OneCore: 1000, Serial: 0.1}, 1, 16), "10% of the work does not run in parallel, and no number of cores makes it more than 10 times", "twice the"},
		"amdahl":    {runsAt(Fit{OneCore: 1000, Serial: 0.1}, 1, 4, 16), "(between 10% and 10%, as one leaves out a size): no number of cores makes it more than 10 times as fast as one; with 16 cores it is 6.4 times (3 runs at 3 sizes, 1 to 16 cores", "third"},
		"doubling":  {runsAt(Fit{OneCore: 1000, Serial: 0.5}, 1, 4, 16), "twice the 16 cores that this run held would make it 3.0% faster", ""},
		"worth it":  {runsAt(Fit{OneCore: 1000, Serial: 0.001}, 1, 4, 16), "info twice the 16 cores that this run held would make it 97% faster", ""},
		"usl":       {runsAt(Fit{OneCore: 1000, Serial: 0.05, Crosstalk: 0.01}, 1, 2, 4, 8, 16), "it is fastest with 10 cores: 4.3 times as fast as one, and slower with more", ""},
		"perfect":   {runsAt(Fit{OneCore: 1000}, 1, 2, 4), "no part that does not run in parallel shows: it is about 4 times as fast with 4 cores", "does not run in parallel, and"},
		"no law":    {[]Run{{1, 100}, {2, 500}, {4, 20}, {8, 900}}, "off any law", "twice the"},
	} {
		amdahl, usl := laws(t, c.runs)
		got := text(Judge(u, c.runs, amdahl, usl))
		if !strings.Contains(got, c.want) || c.deny != "" && strings.Contains(got, c.deny) {
			t.Errorf("%s:\n%s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}
}

// TestWhole holds for any figures: sentences are whole and values finite.
func TestWhole(t *testing.T) {
	f := func(wall, held, p95, mean, cpu, wait uint16, seconds [4]uint16) bool {
		runs := []Run{}
		for i, s := range seconds {
			runs = append(runs, Run{float64(int(1) << i), 1 + float64(s)})
		}
		amdahl, usl := laws(t, runs)
		for _, v := range Judge(Use{WallSeconds: float64(wall), Held: at(float64(held)), CoresP95: at(float64(p95)), CoresMean: at(float64(mean)), CPUSeconds: at(float64(cpu)), WaitSeconds: at(float64(wait))}, runs, amdahl, usl) {
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || strings.Contains(v.Text, "%!") || strings.Contains(v.Text, "NaN") || strings.Contains(v.Text, "Inf") {
				t.Logf("%+v", v)
				return false
			}
		}
		return true
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

func TestSameWork(t *testing.T) {
	if r, ok := SameWork([]float64{10, 30}); !ok || r != 3 {
		t.Error(r, ok)
	}
	for _, few := range [][]float64{nil, {1}, {0, 1}} {
		if _, ok := SameWork(few); ok {
			t.Errorf("%v", few)
		}
	}
}
