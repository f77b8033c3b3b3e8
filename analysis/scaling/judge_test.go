package scaling

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/quick"

	"reckon/internal/phrase/phrasetest"
)

func at(v float64) *float64 { return &v }

func text(list []Verdict) string {
	var out []string
	for _, v := range list {
		out = append(out, v.Severity+" "+v.Text)
		if loose := phrasetest.Loose(&v.Sentence, "95"); loose != "" || v.Sentence.String() != v.Text {
			panic(fmt.Sprintf("%s, %q of %q", loose, v.Sentence.String(), v.Text))
		}
	}
	return strings.Join(out, "\n")
}

// TestNotBegun: a pending job is not judged, and no size is recommended
// from the request of a whole array.
func TestNotBegun(t *testing.T) {
	got := text(Compare(Use{Waits: true, Given: at(10000)}, nil, Cores).Verdicts)
	if !strings.Contains(got, "it has not started") || strings.Contains(got, "5000") || strings.Contains(got, "shows nothing") {
		t.Error(got)
	}
	got = text(Compare(Use{Waits: true, Given: at(4)}, work(Fit{OneCore: 100, Serial: 0.2}, 1, 2, 4, 8), Cores).Verdicts)
	if !strings.Contains(got, "it has not started") || !strings.Contains(got, "20 % of the work does not run in parallel") {
		t.Error(got)
	}
	got = text(Compare(Use{Array: "slurm/7"}, nil, Cores).Verdicts)
	if got != "info it represented the pending tasks of an array, and never ran itself: query one of its tasks; "+
		"`reckon job slurm/7` lists them" {
		t.Error(got)
	}
}

// TestOneRun tests the verdicts on one run, on both sides of each threshold.
func TestOneRun(t *testing.T) {
	run := func(given, p95, mean float64, edit ...func(*Use)) Use {
		u := Use{WallSeconds: 600, Given: at(given), CoresP95: at(p95), CoresMean: at(mean)}
		for _, e := range edit {
			e(&u)
		}
		return u
	}
	waits := func(cpu, wait float64) func(*Use) {
		return func(u *Use) { u.CPUSeconds, u.WaitSeconds = at(cpu), at(wait) }
	}
	for name, c := range map[string]struct {
		u          Use
		want, deny string
	}{
		"8 of 64":                 {run(64, 8, 7.5), "warning it uses 8 of 64 cores (p95; 7.5 on average): more cores will not help", ""},
		"its work":                {run(64, 8, 7.5), "nothing that was measured holds it back but its own work", ""},
		"60 %":                    {run(10, 6, 6), "will not help", ""},
		"above 60 %":              {run(10, 6.1, 6), "will hardly help", "will not help"},
		"below 80 %":              {run(10, 7.9, 7.9), "will hardly help", ""},
		"80 %":                    {run(10, 8, 7), "it uses what it was given", "hardly"},
		"mean at 80 % of p95":     {run(10, 10, 8), "it uses what it was given", "at times"},
		"mean below it":           {run(10, 10, 7.9), "at times (p95), but 7.9 on average", "what it was given"},
		"one core, half used":     {run(1, 0.5, 0.5), "1 core (p95; 0.5 on average): more cores will hardly help", "will not help"},
		"all used":                {run(8, 8, 7.9), "good it uses what it was given: 8 of 8 cores (p95; 7.9 on average); this run alone cannot show", ""},
		"phases":                  {run(8, 8, 2), "parts of it do not run in parallel", ""},
		"of the node":             {run(2, 0.9, 0.8, func(u *Use) { u.GivenBy = "of its node" }), "0.9 of 2 cores of its node", ""},
		"a lower bound":           {run(8, 0.1, 0.1, func(u *Use) { u.AtLeast = true }), "info it used at least 0.1 of 8 cores", "will not help"},
		"quota 5 %":               {run(8, 1, 1, func(u *Use) { u.ThrottledSeconds = at(30) }), "its limit of CPU time holds it back (5 %", "its own work"},
		"quota below 5 %":         {run(8, 1, 1, func(u *Use) { u.ThrottledSeconds = at(29) }), "its own work", "limit of CPU time"},
		"storage 10 %":            {run(8, 1, 1, func(u *Use) { u.StorageStalledSeconds = at(60) }), "stalled on storage 10 %", ""},
		"storage below 10 %":      {run(8, 1, 1, func(u *Use) { u.StorageStalledSeconds = at(59) }), "its own work", "storage"},
		"one GPU 70 %":            {run(8, 1, 1, func(u *Use) { u.GPUs, u.GPUSeconds = at(1), at(420) }), "its 1 GPU is busy 70 %", ""},
		"two GPUs":                {run(8, 1, 1, func(u *Use) { u.GPUs, u.GPUSeconds = at(2), at(900) }), "its 2 GPUs are busy 75 %", ""},
		"GPU below 70 %":          {run(8, 1, 1, func(u *Use) { u.GPUs, u.GPUSeconds = at(1), at(419) }), "its own work", "GPU"},
		"memory 95 %":             {run(8, 1, 1, func(u *Use) { u.Memory, u.MemoryNeeded = at(100), at(95) }), "the memory it needs fills what it was given (95 %)", ""},
		"memory below 95 %":       {run(8, 1, 1, func(u *Use) { u.Memory, u.MemoryNeeded = at(1000), at(949) }), "its own work", "memory"},
		"stalled for memory":      {run(8, 1, 1, func(u *Use) { u.MemoryStalledSeconds = at(60) }), "it lacks memory (swap, or stalled for it 10 %", ""},
		"hardly stalled for it":   {run(8, 1, 1, func(u *Use) { u.MemoryStalledSeconds = at(59) }), "its own work", "memory"},
		"swap 64 MiB":             {run(8, 1, 1, func(u *Use) { u.SwapPeak = at(64 << 20) }), "it lacks memory", ""},
		"a little swap":           {run(8, 1, 1, func(u *Use) { u.SwapPeak = at(64<<20 - 1) }), "its own work", "memory"},
		"waits 10 %":              {run(8, 4, 4, waits(90, 10)), "wait for a core for 10 %", "will not help"},
		"one thread, others work": {run(4, 0.5, 0.5, waits(50, 50), func(u *Use) { u.Threads = at(1) }), "others have the cores meanwhile", "fewer threads"},
		"too many threads":        {run(4, 4, 4, waits(2300, 2300), func(u *Use) { u.Threads = at(16) }), "it has more threads than cores", "others"},
		"starved":                 {run(8, 6.3, 4, waits(400, 400)), "this run does not show what it would use of dedicated cores", "more cores will"},
		"waits, but used all":     {run(8, 6.4, 6.4, waits(400, 400)), "it uses what it was given", "of dedicated cores"},
		"waits below 10 %":        {run(8, 4, 4, waits(91, 9)), "more cores will not help", "wait for a core"},
		"30 s":                    {run(8, 1, 1, func(u *Use) { u.WallSeconds = 30 }), "will not help", "too short"},
		"29 s":                    {run(8, 1, 1, func(u *Use) { u.WallSeconds = 29 }), "it ran for 29 s: too short", "will not help"},
		"not known":               {Use{WallSeconds: 500, Given: at(8)}, "this run alone shows nothing", ""},
	} {
		if got := text(Judge(c.u)); !strings.Contains(got, c.want) || c.deny != "" && strings.Contains(got, c.deny) {
			t.Errorf("%s:\n%s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}
}

// TestSerial: one run yields a lower bound of the serial fraction if only its own work limited it.
func TestSerial(t *testing.T) {
	run := func(given, mean float64, edit func(*Use)) Use {
		u := Use{WallSeconds: 600, Given: at(given), CoresP95: at(mean), CoresMean: at(mean), CPUSeconds: at(600 * mean)}
		if edit != nil {
			edit(&u)
		}
		return u
	}
	const said = "(Karp-Flatt)"
	for name, c := range map[string]struct {
		u    Use
		want bool
	}{
		"1.1 of 16":          {run(16, 1.1, nil), true},
		"1 of 16":            {run(16, 1, nil), true},
		"it slept":           {run(16, 0.99, nil), false},
		"80 %":               {run(10, 8, nil), false},
		"below 80 %":         {run(10, 7.9, nil), true},
		"one core":           {run(1, 1, nil), false},
		"two cores":          {run(2, 1.2, nil), true},
		"short":              {run(16, 1.1, func(u *Use) { u.WallSeconds = 29 }), false},
		"a lower bound":      {run(16, 1.1, func(u *Use) { u.AtLeast = true }), false},
		"waited for cores":   {run(16, 1.1, func(u *Use) { u.WaitSeconds = at(600) }), false},
		"waited for storage": {run(16, 1.1, func(u *Use) { u.StorageStalledSeconds = at(30) }), false},
		"storage below 5 %":  {run(16, 1.1, func(u *Use) { u.StorageStalledSeconds = at(29) }), true},
	} {
		if got := text(Compare(c.u, nil, Cores).Verdicts); strings.Contains(got, said) != c.want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	got := text(Compare(run(16, 1.1, nil), nil, Cores).Verdicts)
	if want := "it kept 1.1 of 16 cores busy on average, so it was at most 1.1 times as fast as on one: at least 90 % of the work did not run in parallel (Karp-Flatt)"; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestWhole: for any figures, sentences are complete, values finite, and no reported speed-up
// exceeds the cores that were busy.
func TestWhole(t *testing.T) {
	f := func(wall, given, p95, mean, cpu, wait uint16, seconds, used [5]uint16) bool {
		runs := []Run{}
		for i, s := range seconds {
			runs = append(runs, Run{Size: float64(int(1) << i), Seconds: 1 + float64(s), Used: at(float64(used[i]))})
		}
		for _, unit := range []Unit{Cores, GPUs} {
			r := Compare(Use{WallSeconds: float64(wall), Given: at(float64(given)), CoresP95: at(float64(p95)), CoresMean: at(float64(mean)), CPUSeconds: at(float64(cpu)), WaitSeconds: at(float64(wait))}, runs, unit)
			for _, v := range r.Verdicts {
				if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || strings.ContainsAny(v.Text, "{}!") || strings.Contains(v.Text, "NaN") || strings.Contains(v.Text, "Inf") {
					t.Logf("%+v", v)
					return false
				}
			}
		}
		return true
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

// TestTexts checks that every sentence of the file is complete; that each is in use is covered by the other
// tests.
func TestTexts(t *testing.T) {
	for _, k := range texts.Keys() {
		if s := texts.Say(k, nil); strings.HasPrefix(s, "!") || len(s) < 10 {
			t.Errorf("%s: %q", k, s)
		}
	}
	if n := len(texts.Keys()); n < 30 {
		t.Error(fmt.Sprint(n, " sentences"))
	}
}

// Judge returns the verdicts on one run, the most severe first.
func Judge(u Use) []Verdict {
	j := judge{u: u}
	j.judgeSingle()
	return j.sortedVerdicts()
}
