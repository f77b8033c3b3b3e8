package scaling

import (
	"math"
	"strings"
	"testing"
)

// work returns runs of the same work that follow a law, with cores as busy as the law allows.
func work(f Fit, sizes ...float64) (out []Run) {
	for _, n := range sizes {
		out = append(out, Run{Size: n, Seconds: f.OneCore / f.Speedup(n), Used: at(f.OneCore)})
	}
	return out
}

// scaled changes the CPU time of the runs.
func scaled(runs []Run, by ...float64) []Run {
	for i := range runs {
		runs[i].Used = at(*runs[i].Used * by[i%len(by)])
	}
	return runs
}

// TestLaws tests the verdicts on runs at several sizes.
func TestLaws(t *testing.T) {
	u := Use{WallSeconds: 600, Given: at(16), CoresP95: at(15.9), CoresMean: at(15)}
	amdahl := func(serial float64) Fit { return Fit{OneCore: 1000, Serial: serial} }
	for name, c := range map[string]struct {
		runs       []Run
		unit       Unit
		want, deny string
	}{
		"three sizes": {work(amdahl(0.1), 1, 4, 16), Cores, "(between 10 % and 10 %, as one leaves out a size): no number of cores makes it more than 10 times as fast as one; with 16 cores it is 6.4 times (3 runs at 3 sizes, 1 to 16 cores", "third"},
		"two sizes":   {work(amdahl(0.1), 1, 16), Cores, "with 16 cores it took 156 s against 1,000 s with 1 core: 6.4 times as fast (2 runs at 2 sizes, 1 to 16 cores). Two sizes fit any law of scaling", "does not run in parallel"},
		"doubling":    {work(amdahl(0.5), 1, 4, 16), Cores, "twice the 16 cores that this run was given would make it 3 % faster", ""},
		"worth it":    {work(amdahl(0.001), 1, 4, 16), Cores, "info twice the 16 cores that this run was given would make it 97 % faster", ""},
		"usl":         {work(Fit{OneCore: 1000, Serial: 0.05, Crosstalk: 0.01}, 1, 2, 4, 8, 16), Cores, "it is fastest with 10 cores: 4.3 times as fast as with one, and slower with more; 5 % of the work does not run in parallel, and the rest is communication and coherency overhead", "talk"},
		"perfect":     {work(amdahl(0), 1, 2, 4), Cores, "no part that does not run in parallel shows: it is about 4 times as fast with 4 cores", "as many"},
		"GPUs":        {work(amdahl(0.1), 1, 2, 4, 8), GPUs, "no number of GPUs makes it more than 10 times as fast as one; with 8 GPUs it is 4.7 times (4 runs at 4 sizes, 1 to 8 GPUs", "core"},
		"no law":      {[]Run{{Size: 1, Seconds: 100, Used: at(90)}, {Size: 2, Seconds: 500, Used: at(90)}, {Size: 4, Seconds: 20, Used: at(90)}, {Size: 8, Seconds: 900, Used: at(90)}}, Cores, "off any scaling curve", "twice the"},
		"none used":   {[]Run{{Size: 1, Seconds: 100}, {Size: 2, Seconds: 60}, {Size: 4, Seconds: 40}}, Cores, "what the runs used was not measured", "law:"},
		// Regressions of earlier faults, with their figures.
		"97 times as fast on 1.1 cores": {[]Run{{Size: 8, Seconds: 1500, Used: at(1650)}, {Size: 12, Seconds: 1050, Used: at(1300)}, {Size: 16, Seconds: 790, Used: at(1200)}}, Cores,
			"but they kept only 1.1 busy (3 runs at 3 sizes, 8 to 16 cores): something other than cores made them faster", "does not run in parallel"},
		"efficiency of 121 %": {[]Run{{Size: 4, Seconds: 1210, Used: at(4700)}, {Size: 8, Seconds: 500, Used: at(3900)}}, Cores, "Two sizes fit any law", "as many times"},
	} {
		if name == "GPUs" {
			u := Use{WallSeconds: 600, GPUs: at(8)}
			if got := text(Compare(u, c.runs, c.unit).Verdicts); !strings.Contains(got, c.want) || strings.Contains(got, "1 core") {
				t.Errorf("%s:\n%s\nwant %q", name, got, c.want)
			}
			continue
		}
		got := text(Compare(u, c.runs, c.unit).Verdicts)
		if !strings.Contains(got, c.want) || c.deny != "" && strings.Contains(got, c.deny) {
			t.Errorf("%s:\n%s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}
}

// TestRefused tests each reason for rejecting a law, on both sides of its threshold. A rejected
// law leaves no fit behind that a page could draw.
func TestRefused(t *testing.T) {
	f := Fit{OneCore: 1000, Serial: 0.1}
	off := func(by float64) []Run { // every other run is off the law
		runs := work(f, 1, 2, 4, 8, 16, 32)
		for i := range runs {
			runs[i].Seconds *= 1 + by*float64(1-2*(i%2))
		}
		return runs
	}
	slower := work(f, 2, 4, 8) // without a run on one core, and idle for a share of the time
	for name, c := range map[string]struct {
		runs  []Run
		claim bool
		said  string
	}{
		"two sizes":                    {work(f, 1, 8), false, "Two sizes"},
		"three sizes":                  {work(f, 1, 4, 8), true, ""},
		"CPU time 1.5 times":           {scaled(work(f, 1, 4, 8), 1, 1, 1.5), true, ""},
		"CPU time above 1.5 times":     {scaled(work(f, 1, 4, 8), 1, 1, 1.51), false, "the CPU time of the runs differs 1.5 times"},
		"one run not measured":         {append(work(f, 1, 4, 8), Run{Size: 16, Seconds: 5}), true, ""},
		"near to the law":              {off(0.09), true, ""},
		"off the law":                  {off(0.22), false, "off any scaling curve"},
		"claims what was busy":         {scaled(slower, 1/1.0), true, ""},
		"claims a tenth more at most":  {scaled(work(Fit{OneCore: 1000}, 2, 4, 8), 1/1.099), true, ""},
		"claims more than a tenth":     {scaled(work(Fit{OneCore: 1000}, 2, 4, 8), 1/1.101), false, "kept only"},
		"idle on one core as on many":  {scaled(work(Fit{OneCore: 1000}, 1, 2, 4, 8), 0.5), true, ""},
		"idle on many, not on one":     {scaled(work(Fit{OneCore: 1000}, 1, 2, 4, 8), 1, 0.7, 0.7, 0.7), false, "kept only"},
		"the size of a run is no size": {append(work(f, 1, 4, 8), Run{Size: 0, Seconds: 5, Used: at(1000)}), false, ""},
	} {
		r := Compare(Use{WallSeconds: 600, Given: at(8), CoresP95: at(8), CoresMean: at(8)}, c.runs, Cores)
		if (r.Law != nil) != c.claim || (r.Amdahl != nil) != c.claim || !c.claim && r.USL != nil || !strings.Contains(text(r.Verdicts), c.said) {
			t.Errorf("%s: law %+v\n%s", name, r.Law, text(r.Verdicts))
		}
	}
}

// TestSpare: a run that does not use its allocation gets no forecast of what more would bring.
func TestSpare(t *testing.T) {
	runs := work(Fit{OneCore: 1000, Serial: 0.05}, 1, 4, 16)
	for p95, want := range map[float64]bool{9.6: false, 9.7: false, 12.8: true} {
		got := text(Compare(Use{WallSeconds: 600, Given: at(16), CoresP95: at(p95), CoresMean: at(p95)}, runs, Cores).Verdicts)
		if strings.Contains(got, "twice the 16 cores") != want {
			t.Errorf("p95 %g:\n%s", p95, got)
		}
	}
}

// TestWaited: slow-downs by neighbours are reported with a law.
func TestWaited(t *testing.T) {
	runs := work(Fit{OneCore: 1000, Serial: 0.05}, 1, 4, 16)
	runs[1].Waited = true
	if got := text(Compare(Use{}, runs, Cores).Verdicts); !strings.Contains(got, "the threads of 1 of the runs waited for cores") {
		t.Error(got)
	}
	if got := text(Compare(Use{}, runs[:2], Cores).Verdicts); strings.Contains(got, "waited for cores") {
		t.Errorf("without a law:\n%s", got)
	}
}

// TestBetter: the richer law must be clearly closer to the runs.
func TestBetter(t *testing.T) {
	a := &Fit{Error: 0.1}
	for name, c := range map[string]struct {
		usl  *Fit
		want bool
	}{
		"none":              {nil, false},
		"clearly nearer":    {&Fit{Error: 0.079, Crosstalk: 0.1}, true},
		"hardly nearer":     {&Fit{Error: 0.081, Crosstalk: 0.1}, false},
		"no error is known": {&Fit{Error: math.NaN(), Crosstalk: 0.1}, false},
		"no crosstalk":      {&Fit{Error: 0.01}, false},
	} {
		if got := betterLaw(a, c.usl); (got == c.usl && c.usl != nil) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTryOnNode: without an allocation, the cores of the node limit the sizes to try.
func TestTryOnNode(t *testing.T) {
	for cores, want := range map[float64]string{
		2: "with 1 core and with 2 cores", 8: "with 1 core and with 4 cores", 1: "one size (2 cores): its scaling is unknown",
	} {
		got := text(Compare(Use{WallSeconds: 60, Given: &cores, GivenBy: "of its node"}, []Run{{Size: 2, Seconds: 60}}, Cores).Verdicts)
		if !strings.Contains(got, want) || cores == 1 && strings.Contains(got, "run the same work") {
			t.Errorf("%g cores: %s", cores, got)
		}
	}
}
