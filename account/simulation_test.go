package account

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/workload"
)

// simulationsVariable is the environment variable with the random machines to simulate: how many, or the seeds of the first and the
// last one (1000-1199), such as that which a failure has printed (57-57).
const simulationsVariable = "RECKON_SIMULATIONS"

// simulations returns the first seed and the one behind the last.
func simulations(t *testing.T, few uint64) (first, end uint64) {
	text := os.Getenv(simulationsVariable)
	if text == "" {
		return 0, few
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		from, to = "1", from
	}
	first, err := strconv.ParseUint(from, 10, 63)
	end, errEnd := strconv.ParseUint(to, 10, 63)
	if err != nil || errEnd != nil || end < first {
		t.Fatalf("%s: %q is no number of seeds, and no first and last one", simulationsVariable, text)
	}
	return first, end + 1
}

// conditions are the circumstances of a measurement.
type conditions struct {
	records  bool // taskstats: records of ends that name no group
	busy     bool // readings come late and take long
	restarts bool
	// wrong is the number of accounts in 1,000 that may be wrong without a mark. It is lowered with each cause that is mended.
	wrong int
}

func (c conditions) String() string {
	words := []string{"procfs"}
	if c.records {
		words[0] = "taskstats"
	}
	if c.busy {
		words = append(words, "busy")
	}
	if c.restarts {
		words = append(words, "restarts")
	}
	return strings.Join(words, ", ")
}

// TestSimulatedMachines feeds the ledger the readings of random machines, and compares each account with what its process group used. A
// figure without a mark is right, one that reports "at least" is no higher than the truth, and nothing of an owner's is lost or
// counted twice.
func TestSimulatedMachines(t *testing.T) {
	first, end := simulations(t, 20)
	for _, c := range []conditions{
		{wrong: 9}, {busy: true, wrong: 12}, {restarts: true, wrong: 16}, {busy: true, restarts: true, wrong: 9},
		{records: true, wrong: 9}, {records: true, busy: true, wrong: 18}, {records: true, restarts: true, wrong: 12},
		{records: true, busy: true, restarts: true, wrong: 14},
	} {
		t.Run(c.String(), func(t *testing.T) {
			var sum marks
			wrong := 0
			log := t.Logf
			if end-first != 1 {
				log = nil
			}
			for seed := first; seed < end; seed++ {
				for _, fault := range simulate(seed, c, &sum, log) {
					wrong++
					t.Logf("seed %d: %s", seed, fault)
				}
			}
			if wrong*1000 > sum.accounts*c.wrong {
				t.Errorf("%d of %d accounts are wrong and do not say so, at most %d of 1,000 were", wrong, sum.accounts, c.wrong)
			}
			t.Logf("%d accounts, of them %d wrong without a mark, %d at least and %d estimated", sum.accounts, wrong, sum.atLeast, sum.estimated)
		})
	}
}

type marks struct{ accounts, atLeast, estimated int }

// reportedUse is the use of an account by the exports.
type reportedUse struct {
	cpu   float64
	worst figure.Exactness
}

// reportedUses takes in what the last export stated.
func (r *rig) reportedUses(all map[string]*reportedUse) {
	kinds := map[string]figure.Exactness{}
	of := map[string]figure.Exactness{}
	for key, v := range r.values {
		if f := strings.Split(key, "|"); f[0] == "reckon_figure_exactness" && f[1] == "cpu_seconds" {
			if d := figure.Exactness(v); f[4] == "" {
				kinds[f[2]] = kinds[f[2]].Worse(d)
			} else {
				of[f[4]+"|"+f[5]] = of[f[4]+"|"+f[5]].Worse(d)
			}
		}
	}
	sum := map[string]float64{}
	for key, v := range r.values {
		if f := strings.Split(key, "|"); f[0] == "reckon_workload_cpu_seconds_total" {
			sum[f[1]+"|"+f[4]] += v
		}
	}
	for k, v := range sum {
		u := all[k]
		if u == nil {
			u = new(reportedUse)
			all[k] = u
		}
		id, _, _ := strings.Cut(k, "|")
		u.cpu = v
		u.worst = u.worst.Worse(of[k]).Worse(kinds[string(workload.ID(id).Kind())])
	}
}

// simulate runs a machine until its programs have ended, and returns the faults.
func simulate(seed uint64, c conditions, sum *marks, log func(string, ...any)) (faults []string) {
	w := newSimulated(seed, log)
	rng := rand.New(rand.NewPCG(seed, 2))
	w.load(rng)
	w.advance(uint64(rng.IntN(2e9)) + 5e7)
	failed := &failure{}
	interval := []int{5, 15}[rng.IntN(2)]
	r := newRig(failed, Config{Export: time.Duration(interval) * time.Second, Identify: identifySimulated})
	r.users = true
	r.m.Cores = w.cores
	r.m.Boot, r.boot = w.now, w.now
	tick := func() {
		lasts := uint64(0)
		if c.busy {
			w.advance(uint64(rng.IntN(5e8)))
			lasts = uint64(rng.IntN(4e8))
		}
		w.read(&r.pass, lasts, c.records)
		r.boot = r.pass.Boot
		busy := w.used - r.before
		r.before = w.used
		r.m.User += busy
		r.m.Idle += uint64(w.cores)*(w.now-r.m.Boot) - min(busy, uint64(w.cores)*(w.now-r.m.Boot))
		r.m.Boot, r.m.Forks = w.now, 1000+w.forks
		r.l.Tick(wall.Add(time.Duration(r.boot)), &r.pass, &r.m)
		for _, p := range r.l.parts.order {
			if p.now.cpu > 0 {
				w.trace("  %s of %s has %.3f, of it now %.3f, unclear %v", p.id, p.owner, toSeconds(p.CPU()), toSeconds(p.now.cpu),
					r.l.table.doubts.errorBoundsOf(p))
			}
		}
	}
	r.before, w.ended = w.used, nil
	tick()
	for j, v := range w.truth {
		w.before[j] = v
	}
	for _, a := range w.procs {
		w.before[a.job()] -= min(a.cpu, w.before[a.job()])
	}
	all := map[string]*reportedUse{}
	r.export() // reports "at least" of what there was before
	saved, err := r.saved("b")
	if err != nil {
		return []string{err.Error()}
	}
	quiet := 0
	for n := 1; quiet < 12; n++ {
		w.advance(second)
		tick()
		if n%interval == 0 || quiet > 8 {
			r.export()
			r.reportedUses(all)
			if saved, err = r.saved("b"); err != nil {
				return []string{err.Error()}
			}
			w.save()
		}
		if c.restarts && rng.IntN(25) == 0 && quiet == 0 {
			w.advance(uint64(rng.IntN(5e9)))
			w.lose()
			w.trace("%.3f restart", float64(w.now)/1e9)
			if r.l = New(r.l.config); r.l.Restore(saved, "b") != nil {
				return []string{"the state is not taken back"}
			}
		}
		if w.over() || n > 300 {
			quiet++
		}
	}
	for range 70 { // work held back as short work
		w.advance(second)
		tick()
	}
	r.export()
	r.reportedUses(all)
	return append(failed.words, w.compare(all, sum, c.restarts)...)
}

// failure collects what a rig finds.
type failure struct{ words []string }

func (f *failure) Fatalf(format string, args ...any) {
	f.words = append(f.words, fmt.Sprintf(format, args...))
}

// over reports whether all programs have ended but those that wait for ever.
func (w *simulated) over() bool {
	for _, a := range w.order {
		if len(a.todo) > 0 && a.todo[0].span < forever {
			return false
		}
	}
	return true
}

// compare compares accounts with the truth. What ended while no ledger ran may have been charged to another owner, who bears a mark of it.
func (w *simulated) compare(all map[string]*reportedUse, sum *marks, restarts bool) (faults []string) {
	estimated := map[string]bool{}
	for at, u := range all {
		_, owner, _ := strings.Cut(at, "|")
		estimated[owner] = estimated[owner] || restarts && u.worst == figure.Estimated
	}
	shorts, owners, totals := map[string]float64{}, map[string]float64{}, map[string]float64{}
	detail := map[string][]string{}
	check := func(name, what string, got, truth float64, d figure.Exactness) {
		sum.accounts++
		slack := truth/100 + 0.030 // three clock ticks: one for each of the two child times, and one that may be unclear
		wrong := false
		switch d {
		case figure.Exact:
			wrong = math.Abs(got-truth) > slack
		case figure.AtLeast:
			sum.atLeast++
			wrong = got > truth+slack
		default:
			sum.estimated++
		}
		if wrong {
			faults = append(faults, fmt.Sprintf("%s (%s) has %.3f s, used %.3f (%v)", name, what, got, truth, d))
		}
	}
	jobs := slices.SortedFunc(maps.Keys(w.truth), func(a, b job) int { return int(a.pgid - b.pgid) })
	for _, j := range jobs {
		truth := toSeconds(w.truth[j] - w.before[j])
		owners[j.owner] += truth
		id := fmt.Sprintf("group/n1/%d", j.pgid)
		u := all[id+"|"+j.owner]
		if u == nil {
			shorts[j.owner] += truth
			if truth > 0.001 {
				detail[j.owner] = append(detail[j.owner], w.kinds[j])
			}
			continue
		}
		totals[j.owner] += u.cpu
		check(id, w.kinds[j], u.cpu, truth, u.worst)
	}
	for _, o := range []string{"alice", "bob", "root"} {
		if u := all["short/"+o+"/n1|"+o]; u != nil {
			totals[o] += u.cpu
			slices.Sort(detail[o])
			check("short/"+o, strings.Join(slices.Compact(detail[o]), " "), u.cpu, shorts[o], u.worst)
		}
		most := owners[o] + toSeconds(w.foreign[o])
		least := owners[o] - toSeconds(w.foreign[o]) - toSeconds(w.lost[o])
		if !estimated[o] && totals[o] > most*1.01+0.1 || !estimated[o] && totals[o] < least*0.99-0.1 {
			faults = append(faults, fmt.Sprintf("all of %s is %.3f s, used %.3f, by orphans that no reading saw %.3f, beside other users %.3f", o, totals[o], owners[o], toSeconds(w.lost[o]), toSeconds(w.foreign[o])))
		}
	}
	return faults
}
