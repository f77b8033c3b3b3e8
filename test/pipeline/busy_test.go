package pipeline_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/analysis/misuse"
	"reckon/lab/simulate"
	"reckon/test/pipeline"
)

// planted is a job with waste, and what must be found of it: the rule and part.
type planted struct {
	simulate.Planned
	rule string
}

// single is a policy without the rule that replaces single findings; TestUnused plants what that rule finds.
const single = "rules: {unused-over-time: {on: false}}"

// TestBusySite: a day of a busy site of 300 jobs, most of them good and some close to a
// threshold, with waste planted by a list. Of each rule at least nine tenths of what was planted
// is found, and at least nine tenths of the findings were planted.
func TestBusySite(t *testing.T) {
	waste, sessions, want := plantedWaste()
	jobs := goodJobs(300 - len(waste))
	for _, w := range waste {
		jobs = append(jobs, w.Planned)
		if w.rule != "" {
			want[w.rule+" "+w.User+" "+w.Name] = true
		}
	}
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 24, GPUNodes: 6, Cores: 16, Plan: jobs, Sessions: sessions}, 24*time.Hour, pipeline.Coarse)
	found := s.Findings(single)
	right, planted, said := map[string]int{}, map[string]int{}, map[string]int{}
	for w := range want {
		planted[ruleOf(w)]++
	}
	var wrong []string
	for _, f := range s.Short(found) {
		said[ruleOf(f)]++
		if want[f] {
			right[ruleOf(f)]++
			delete(want, f)
		} else {
			wrong = append(wrong, f)
		}
	}
	for _, rule := range misuse.Rules() {
		if rule == misuse.UnusedOverTime {
			continue
		}
		if rule == misuse.Anomaly && said[rule] == 0 {
			continue // it needs weeks to know the usual, and none was planted in this day
		}
		if (rule == misuse.ManyConnections || rule == misuse.StoragePattern) && said[rule] == 0 {
			continue // the simulated site has no traffic and no storage patterns; answer/findings tests them on series
		}
		recall, precision := share(right[rule], planted[rule]), share(right[rule], said[rule])
		t.Logf("%-16s %2d planted, %2d found, %2d of them right: recall %.2f, precision %.2f", rule, planted[rule], said[rule], right[rule], recall, precision)
		if planted[rule] == 0 || recall < 0.9 || precision < 0.9 {
			t.Errorf("%s: recall %.2f, precision %.2f of %d planted", rule, recall, precision, planted[rule])
		}
	}
	checkOwners(t, s, waste)
	if t.Failed() {
		var missed []string
		for w := range want {
			missed = append(missed, w)
		}
		slices.Sort(missed)
		t.Errorf("missed\n%s\nwrong\n%s", strings.Join(missed, "\n"), strings.Join(wrong, "\n"))
	}
}

// checkOwners holds the core-hours and GPU-hours that owners wasted against what was planted.
func checkOwners(t *testing.T, s *pipeline.Site, waste []planted) {
	t.Helper()
	cores, gpus := map[string]float64{}, map[string]float64{}
	for _, w := range waste {
		seconds := min(w.Length, s.Now.Sub(s.Plan.From)-w.Submit).Seconds()
		switch w.rule {
		case "over-requested cpu", "":
			cores[w.User] += (float64(w.Cores) - w.Does.Cores) * seconds
		case "gpu-unused gpu", "idle-allocation gpu":
			gpus[w.User] += (1 - w.Does.GPU) * float64(w.GPUs) * seconds
		case "idle-allocation allocation":
			cores[w.User] += float64(w.Cores) * (seconds - w.Does.Ends.Seconds())
		case "imbalance nodes":
			cores[w.User] += float64((w.Nodes-1)*w.Cores) * seconds
		}
	}
	for _, o := range s.Owners(single) {
		for what, x := range map[string]struct {
			got  *float64
			want float64
		}{"core-hours": {o.CoreSeconds, cores[o.Owner]}, "GPU-hours": {o.GPUSeconds, gpus[o.Owner]}} {
			got := 0.0
			if x.got != nil {
				got = *x.got
			}
			if math.Abs(got-x.want) > 0.05*x.want {
				t.Errorf("%s wasted %.1f %s, want %.1f", o.Owner, got/3600, what, x.want/3600)
			}
			delete(map[string]map[string]float64{"core-hours": cores, "GPU-hours": gpus}[what], o.Owner)
		}
	}
	if len(cores)+len(gpus) > 0 {
		t.Errorf("not among the owners: %v, %v", cores, gpus)
	}
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

// ruleOf is the rule of a finding as the pipeline writes it.
func ruleOf(short string) string { rule, _, _ := strings.Cut(short, " "); return rule }

// goodJobs are jobs of eighteen people that use what they hold, some of them only just.
func goodJobs(n int) (out []simulate.Planned) {
	for i := range n {
		cores := 1 + i%8
		p := simulate.Planned{User: fmt.Sprintf("user%02d", i%18), Name: fmt.Sprintf("good-%03d", i), Cores: cores, MemoryBytes: 8 * gib,
			Submit: time.Duration(i) * 22 * time.Hour / time.Duration(n), Length: time.Duration(20+13*(i%8)) * time.Minute,
			Does: simulate.Does{Cores: 0.9 * float64(cores), Needed: 6 * gib}}
		switch i % 12 {
		case 3: // 30 % of its cores
			p.Cores, p.Does.Cores = 10, 3
		case 5: // little, but not for long
			p.Cores, p.Does.Cores, p.Length = 16, 1, time.Hour
		case 7: // GPUs busy 8 % of the time
			p.GPUs, p.Does.GPU, p.Does.GPUBytes, p.Length = 1, 0.08, 4*gib, time.Hour
		case 8: // 30 % of much memory
			p.MemoryBytes, p.Does.Needed, p.Length = 40*gib, 12*gib, 5*time.Hour
		case 9: // one node with half of the work
			p.Nodes = 2
		case 10: // page cache fills its memory, and nothing is read again
			p.Does.Needed, p.Does.Cache = 5*gib, 3*gib
		case 11: // some page faults
			p.Does.Faults = 50
		}
		out = append(out, p)
	}
	return out
}

// plantedWaste are the jobs and logins that waste, and the findings that are about an owner.
func plantedWaste() (jobs []planted, sessions []simulate.PlannedSession, want map[string]bool) {
	plant := func(n int, rule, name string, p simulate.Planned) {
		for i := range n {
			p.User, p.Name = fmt.Sprintf("waster%d", (len(jobs)+i)%7), fmt.Sprintf("%s-%d", name, i)
			if p.Submit == 0 || i > 0 && p.Submit < 12*time.Hour {
				p.Submit = time.Duration(1+i) * time.Hour
			}
			jobs = append(jobs, planted{p, rule})
		}
	}
	const late = 19 * time.Hour // they run at the end of the day
	hour := time.Hour
	plant(8, "over-requested cpu", "cores", simulate.Planned{Cores: 16, MemoryBytes: 8 * gib, Length: 3 * hour, Does: simulate.Does{Cores: 1.5, Needed: 6 * gib}})
	plant(6, "over-requested memory", "memory", simulate.Planned{Cores: 2, MemoryBytes: 56 * gib, Length: 5 * hour, Does: simulate.Does{Cores: 1.9, Needed: 4 * gib}})
	plant(6, "gpu-unused gpu", "gpu-never", simulate.Planned{GPUs: 1, Cores: 2, MemoryBytes: 8 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 1.9, Needed: 6 * gib}})
	plant(4, "gpu-unused gpu", "gpu-hardly", simulate.Planned{GPUs: 2, Cores: 2, MemoryBytes: 8 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 1.9, Needed: 6 * gib, GPU: 0.02, GPUBytes: 2 * gib}})
	plant(4, "idle-allocation allocation", "empty", simulate.Planned{Cores: 4, Submit: late, Length: 8 * hour, Does: simulate.Does{Cores: 3.9, Ends: hour}})
	plant(3, "idle-allocation gpu", "gpu-held", simulate.Planned{GPUs: 1, Cores: 2, MemoryBytes: 8 * gib, Submit: late, Length: 8 * hour, Does: simulate.Does{Cores: 1.9, Needed: 6 * gib, GPUBytes: 8 * gib}})
	plant(4, "memory-thrashing faults", "faults", simulate.Planned{Cores: 2, MemoryBytes: 4 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 1.9, Needed: 3 * gib, Faults: 300}})
	plant(3, "memory-thrashing swap", "swap", simulate.Planned{Cores: 2, MemoryBytes: 4 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 1.9, Needed: 2 * gib, Swap: 2 * gib}})
	plant(3, "memory-thrashing quota", "quota", simulate.Planned{Cores: 2, MemoryBytes: 4 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 1.9, Needed: 3 * gib, Throttled: 0.5}})
	plant(5, "imbalance nodes", "uneven", simulate.Planned{Nodes: 3, Cores: 4, MemoryBytes: 8 * gib, Length: 2 * hour, Does: simulate.Does{Cores: 3.9, Needed: 6 * gib, FirstNodeOnly: true}})
	plant(5, "cannot-start queue", "stuck", simulate.Planned{Cores: 1, Stuck: "PartitionTimeLimit"})
	want = map[string]bool{}
	for i := range 24 { // no one of them matters alone
		jobs = append(jobs, planted{simulate.Planned{User: "swarm", Name: fmt.Sprintf("small-%d", i), Cores: 8, MemoryBytes: 4 * gib, Submit: time.Duration(i) * 40 * time.Minute, Length: 30 * time.Minute,
			Does: simulate.Does{Cores: 0.5, Needed: 3 * gib}}, ""})
	}
	want["many-small-jobs cpu swarm"] = true
	sessions = []simulate.PlannedSession{
		{User: "hogger", Program: "stress", From: hour, For: 5 * hour, Cores: 13, Wants: 16, MemoryBytes: gib},
		{User: "modest", Program: "vim", From: hour, For: 6 * hour, Cores: 2, Wants: 6, MemoryBytes: gib},
		{User: "humble", Program: "make", From: hour, For: 6 * hour, Cores: 1, Wants: 4, MemoryBytes: gib},
		{User: "undead", Program: "spawn", From: 18 * hour, For: 8 * hour, Cores: 0.1, MemoryBytes: gib, Zombies: 60},
	}
	want["over-share cpu hogger"], want["idle-allocation zombies undead"] = true, true
	return jobs, sessions, want
}
