package account

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/sensor"
	"reckon/workload"
)

// cluster names places like a kubelet that may be down. A process belongs to the container with the number of its
// session.
type cluster struct {
	away       bool
	containers map[int32]*box
	reports    map[string]*workload.ContainerFacts
}

// box is a container: its place, its names, and its control group.
type box struct {
	uid, id         string
	workload, part  string
	cg              sensor.Cgroup
	removed, closed bool
}

func (b *box) Read(c *sensor.Cgroup) error {
	if b.removed {
		return fs.ErrNotExist
	}
	*c = b.cg
	return nil
}

func (b *box) Close() error { b.closed = true; return nil }

func (b *box) use(nanos uint64) {
	b.cg.UsageNanos += nanos
	b.cg.Have |= sensor.CgroupCPU | sensor.CgroupThrottle
}

func (c *cluster) identify(p *sensor.Process, _ *Part, _ bool) Identified {
	b := c.containers[p.SID]
	if b == nil {
		return byGroup(p, nil, false)
	}
	found := Identified{Identity: c.rename(b.uid+"/"+b.id, ""), Handle: b}
	found.Cgroup = "/" + b.id
	return found
}

func (c *cluster) rename(place, _ string) workload.Identity {
	uid, id, _ := strings.Cut(place, "/")
	out := workload.Identity{
		Workload: workload.MakeID(workload.Pod, uid), Part: id, Owner: "kubernetes", Place: place, Run: uid, Naming: workload.Unnamed,
	}
	for _, b := range c.containers {
		if b.uid == uid && b.id == id && !c.away {
			out.Workload, out.Part, out.Owner, out.Naming = workload.ID(b.workload), b.part, "shop", workload.Named
		}
	}
	return out
}

func (c *cluster) report(place string, _ bool) *workload.ContainerFacts { return c.reports[place] }

func (c *cluster) rig(t interface{ Fatalf(string, ...any) }, config Config) *rig {
	config.Identify, config.Rename, config.Container = c.identify, c.rename, c.report
	return newRig(t, config)
}

// in is a process of a container.
func in(pid int32, session int32, start, cpu uint64) sensor.Process {
	p := proc(pid, pid, start, cpu)
	p.SID = session
	return p
}

// ids are the workloads and parts of the last export that have CPU time.
func (r *rig) ids() (out []string) {
	for k := range r.values {
		if f := strings.Split(k, "|"); f[0] == "reckon_workload_cpu_seconds_total" && f[2] != "other" && f[5] == "user" {
			out = append(out, f[1]+" "+f[3])
		}
	}
	slices.Sort(out)
	return out
}

func (r *rig) wantIDs(want ...string) {
	if got := r.ids(); !slices.Equal(got, want) {
		r.t.Fatalf("workloads %q, want %q", got, want)
	}
}

// TestNamedBeforeExport: names that arrive within two seconds are used in the first export.
func TestNamedBeforeExport(t *testing.T) {
	b := &box{uid: "u1", id: "c1", workload: "deployment/shop/cart", part: "cart-x/app"}
	c := &cluster{away: true, containers: map[int32]*box{7: b}}
	r := c.rig(t, Config{})
	r.tick(0, nil)
	b.use(second / 2)
	p := in(7, 7, r.boot+1, second/2)
	r.tick(second/2, []sensor.Process{p})
	r.export()
	r.wantIDs() // held back
	c.away = false
	b.use(second / 2)
	p = in(7, 7, p.Start, second)
	r.tick(second/2, []sensor.Process{p})
	r.export()
	r.wantIDs("deployment/shop/cart cart-x/app")
	r.want("all of it", r.cpu("deployment/shop/cart", "cart-x/app", "shop"), 1)
	r.want("distribution", r.values["reckon_workload_cores|deployment/shop/cart|deployment||shop"], 2)
	if r.l.parts.partAtPlace("u1/c1") == nil {
		t.Fatalf("the place is forgotten")
	}
}

// TestNamesThatDoNotCome: after two seconds the figures continue under the provisional name, and when the kubelet is
// back under the final one, each second once.
func TestNamesThatDoNotCome(t *testing.T) {
	b := &box{uid: "u1", id: "c1", workload: "deployment/shop/cart", part: "cart-x/app"}
	c := &cluster{away: true, containers: map[int32]*box{7: b}}
	r := c.rig(t, Config{})
	r.tick(0, nil)
	start, used := r.boot+1, uint64(0)
	step := func() {
		used += second / 2
		b.use(second / 2)
		b.cg.ThrottledNanos += second / 10
		r.tick(second/2, []sensor.Process{in(7, 7, start, used)})
	}
	step() // met
	step()
	r.export()
	r.wantIDs() // for a second
	step()
	r.export()
	r.wantIDs("pod/u1 c1")
	r.want("before", r.cpu("pod/u1", "c1", "kubernetes"), 1.5)
	c.away = false
	step()
	step()
	r.export()
	before, after := r.cpu("pod/u1", "c1", "kubernetes"), r.cpu("deployment/shop/cart", "cart-x/app", "shop")
	r.want("together", before+after, 2.5)
	if before < 1.5 || after < 0.5 {
		t.Fatalf("%v before, %v after", before, after)
	}
	throttled := "reckon_workload_cpu_throttled_seconds_total|"
	r.want("throttled, together", r.values[throttled+"pod/u1|pod|c1|kubernetes"]+r.values[throttled+"deployment/shop/cart|deployment|cart-x/app|shop"], 0.5)
	step()
	step()
	r.export()
	r.export()
	r.wantIDs("deployment/shop/cart cart-x/app") // the other has ended
	r.want("the rest", r.cpu("deployment/shop/cart", "cart-x/app", "shop"), 3.5-before)
	r.want("conservation", toSeconds(r.l.Total()), 3.5)
	if b.closed {
		t.Fatalf("the control group was closed")
	}
}

// TestShortContainers: containers that end before an export get their names, also after their end.
func TestShortContainers(t *testing.T) {
	c := &cluster{away: true, containers: map[int32]*box{}, reports: map[string]*workload.ContainerFacts{}}
	r := c.rig(t, Config{})
	r.tick(0, nil)
	var want []string
	var exited []sensor.Process
	for i := range int32(12) {
		b := &box{uid: fmt.Sprintf("u%02d", i), id: "c", workload: fmt.Sprintf("job/shop/j%02d", i), part: fmt.Sprintf("j%02d-x/main", i), removed: true}
		c.containers[100+i] = b
		exited = append(exited, in(100+i, 100+i, r.boot+1, second/20))
		want = append(want, b.workload+" "+b.part)
		c.reports[b.uid+"/c"] = &workload.ContainerFacts{Name: "main", Type: "main", Ended: i%2 == 0, Reason: "Completed"}
	}
	r.tick(12*second/20, nil, exited...)
	r.tick(0, nil)
	r.export()
	r.wantIDs() // held back: the names may still arrive
	c.away = false
	r.tick(0, nil)
	r.export()
	r.wantIDs(want...)
	r.want("one of them", r.cpu("job/shop/j03", "j03-x/main", "shop"), 0.05)
	if n := len(r.values); n > 12*17 {
		t.Errorf("%d series of 12 containers that hardly did anything", n)
	}
	for range 3 { // containers without a reported end stay for two seconds
		r.tick(0, nil)
	}
	r.export()
	r.tick(0, nil)
	r.export()
	r.wantIDs()
	r.want("conservation", toSeconds(r.l.Total()), 0.6)
}

// TestContainerBegunAgain: a container that crashes continues in its part, with each control group counted from zero.
func TestContainerBegunAgain(t *testing.T) {
	for what, export := range map[string]bool{"exported": true, "not exported": false} {
		t.Run(what, func(t *testing.T) {
			first := &box{uid: "u1", id: "c1", workload: "pod/shop/a", part: "app"}
			c := &cluster{containers: map[int32]*box{1: first}}
			r := c.rig(t, Config{})
			r.tick(0, nil)
			first.use(second)
			first.cg.ThrottledNanos, first.cg.OOMKills, first.cg.Have = 300e6, 1, first.cg.Have|sensor.CgroupEvents
			r.tick(second, []sensor.Process{in(1, 1, r.boot+1, second)})
			if export {
				r.export()
			}
			first.use(second / 2)
			first.removed = true
			// The second one is not reported yet: it begins under its digits.
			next := &box{uid: "u1", id: "c2", workload: "pod/shop/a", part: "app"}
			c.containers[2] = next
			c.away = true
			next.use(second / 4)
			next.cg.ThrottledNanos, next.cg.Have = 100e6, next.cg.Have|sensor.CgroupEvents
			r.tick(second*3/4, []sensor.Process{in(2, 2, r.boot+1, second/4)}, in(1, 1, 1001*second, second*3/2))
			c.away = false
			next.use(second / 4)
			r.tick(second/4, []sensor.Process{in(2, 2, r.boot+1-second, second/2)})
			next.use(second / 8) // of children that no reading saw
			r.tick(second/8, []sensor.Process{in(2, 2, r.boot+1-2*second, second/2)})
			r.export()
			r.wantIDs("pod/shop/a app")
			r.want("both", r.cpu("pod/shop/a", "app", "shop"), 2.125)
			r.want("throttled", r.values["reckon_workload_cpu_throttled_seconds_total|pod/shop/a|pod|app|shop"], 0.4)
			r.want("OOM kills", r.values["reckon_workload_oom_kills_total|pod/shop/a|pod|app|shop"], 1)
			r.want("conservation", toSeconds(r.l.Total()), 2.125)
		})
	}
}

// TestSameNameNewUID: a recreated pod of a StatefulSet is a run of its own, and its counters start at zero.
func TestSameNameNewUID(t *testing.T) {
	const id, part = "statefulset/shop/db", "db-0/db"
	old := &box{uid: "u1", id: "c1", workload: id, part: part}
	c := &cluster{containers: map[int32]*box{1: old}}
	r := c.rig(t, Config{Linger: 3600e9})
	r.tick(0, nil)
	old.use(second)
	r.tick(second, []sensor.Process{in(1, 1, r.boot+1, second)})
	r.export()
	r.want("the first", r.cpu(id, part, "shop"), 1)
	from := r.values["reckon_workload_start_time_seconds|"+id+"|statefulset|"+part+"|shop"]
	old.removed = true
	c.containers[2] = &box{uid: "u2", id: "c2", workload: id, part: part}
	r.tick(second, nil, in(1, 1, 1001*second, 2*second))
	c.containers[2].use(second / 2)
	anew := r.boot + 1
	r.tick(second/2, []sensor.Process{in(2, 2, anew, second/2)})
	r.export()
	r.want("the first, to its end", r.cpu(id, part, "shop"), 2)
	c.containers[2].use(second / 4)
	r.tick(second/4, []sensor.Process{in(2, 2, anew, second*3/4)})
	r.export()
	r.want("the second", r.cpu(id, part, "shop"), 0.75)
	if at := r.values["reckon_workload_start_time_seconds|"+id+"|statefulset|"+part+"|shop"]; at <= from {
		t.Errorf("it began at %v, the one before it at %v", at, from)
	}
	r.want("conservation", toSeconds(r.l.Total()), 2.75)
}

// TestNamesOverRestart: an agent that starts while the kubelet is down continues under the previous names.
func TestNamesOverRestart(t *testing.T) {
	b := &box{uid: "u1", id: "c1", workload: "deployment/shop/cart", part: "cart-x/app"}
	c := &cluster{containers: map[int32]*box{7: b}}
	r := c.rig(t, Config{})
	r.tick(0, nil)
	b.use(second)
	start := r.boot + 1
	r.tick(second, []sensor.Process{in(7, 7, start, second)})
	r.export()
	data, err := r.saved("boot")
	if err != nil {
		t.Fatal(err)
	}
	again := c.rig(t, Config{})
	if err := again.l.Restore(data, "boot"); err != nil {
		t.Fatal(err)
	}
	again.boot, again.m = r.boot, r.m
	c.away = true
	b.use(second)
	again.tick(second, []sensor.Process{in(7, 7, start, 3*second/2), in(8, 7, start+2*second, second/2)})
	again.export()
	again.wantIDs("deployment/shop/cart cart-x/app")
	again.want("both", again.cpu("deployment/shop/cart", "cart-x/app", "shop"), 2)
}

// TestRenameConserves: whatever names arrive and change, each CPU second is charged once.
func TestRenameConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{containers: map[int32]*box{}}
		r := c.rig(t, Config{})
		r.tick(0, nil)
		live := map[int32]sensor.Process{}
		var used, next int32 = 0, 1
		exported := map[string]float64{} // by series and start: a run after another begins at zero
		export := func() {
			r.export()
			for k, v := range r.values {
				if f := strings.Split(k, "|"); f[0] == "reckon_workload_cpu_seconds_total" && f[2] != "other" {
					start := r.values["reckon_workload_start_time_seconds|"+strings.Join(f[1:5], "|")]
					k = fmt.Sprint(k, start)
					if v < exported[k]-1e-9 {
						t.Fatalf("%s fell from %v to %v", k, exported[k], v)
					}
					exported[k] = v
				}
			}
		}
		for range rapid.IntRange(5, 40).Draw(t, "ticks") {
			c.away = rapid.Bool().Draw(t, "away")
			var exited []sensor.Process
			if len(live) < 4 && rapid.Bool().Draw(t, "begin") {
				pod := rapid.IntRange(0, 2).Draw(t, "pod")
				name := fmt.Sprintf("p%d-%d/app", pod, next)
				if again := rapid.Bool().Draw(t, "again"); again { // of the same name, after the one before it has ended
					name = fmt.Sprintf("p%d/app", pod)
					for pid := range live {
						if c.containers[pid].part == name {
							name = fmt.Sprintf("p%d-%d/app", pod, next)
						}
					}
				}
				c.containers[next] = &box{
					uid: fmt.Sprintf("u%d-%d", pod, next/4), id: fmt.Sprintf("c%d", next),
					workload: fmt.Sprintf("deployment/shop/d%d", pod), part: name,
				}
				live[next] = in(next, next, r.boot+second/2, 0) // its own start, not the start of the part before it, in seconds as exported
				next++
			}
			busy := uint64(0)
			for _, pid := range slices.Sorted(func(yield func(int32) bool) {
				for k := range live {
					if !yield(k) {
						return
					}
				}
			}) {
				p, b := live[pid], c.containers[pid]
				d := uint64(rapid.IntRange(0, 100).Draw(t, "use")) * 1e6
				p.UserNanos += d
				busy += d
				used += int32(d / 1e6)
				b.use(d)
				live[pid] = p
				if rapid.IntRange(0, 4).Draw(t, "end") == 0 {
					b.removed = rapid.Bool().Draw(t, "removed")
					delete(live, pid)
					exited = append(exited, p)
				}
			}
			var list []sensor.Process
			for pid := int32(1); pid < next; pid++ {
				if p, ok := live[pid]; ok {
					list = append(list, p)
				}
			}
			r.tick(busy, list, exited...)
			if rapid.IntRange(0, 2).Draw(t, "export") == 0 {
				export()
			}
			if got, want := toSeconds(r.l.Total()), float64(used)/1e3; math.Abs(got-want) > 1e-6 {
				t.Fatalf("%v s are charged of %v", got, want)
			}
		}
		c.away = false
		for range 30 {
			r.tick(0, nil)
			export()
		}
		sum := 0.0
		for _, v := range exported {
			sum += v
		}
		if want := float64(used) / 1e3; math.Abs(sum-want) > 1e-6 {
			t.Fatalf("%v s were exported of %v", sum, want)
		}
	})
}

// TestNameGrace: while the kubelet is down, new parts are held back for the grace period, and not longer.
func TestNameGrace(t *testing.T) {
	for what, tt := range map[string]struct {
		grace     time.Duration
		ticks     int // until the export
		back      bool
		workloads []string
	}{
		"at least two seconds":  {0, 2, false, nil},
		"no more without":       {0, 3, false, []string{"pod/u1 c1"}},
		"held":                  {5 * time.Second, 5, false, nil},
		"held long enough":      {5 * time.Second, 6, false, []string{"pod/u1 c1"}},
		"named in the meantime": {5 * time.Second, 5, true, []string{"deployment/shop/cart cart-x/app"}},
	} {
		t.Run(what, func(t *testing.T) {
			b := &box{uid: "u1", id: "c1", workload: "deployment/shop/cart", part: "cart-x/app"}
			c := &cluster{away: true, containers: map[int32]*box{7: b}}
			r := c.rig(t, Config{NameGrace: func() time.Duration { return tt.grace }})
			r.tick(0, nil)
			start := r.boot + second/2
			for i := range uint64(tt.ticks) {
				b.use(second / 2)
				r.tick(second/2, []sensor.Process{in(7, 7, start, (i+1)*second/2)})
			}
			c.away = !tt.back
			if tt.back {
				r.tick(0, []sensor.Process{in(7, 7, start, uint64(tt.ticks)*second/2)})
			}
			r.export()
			r.wantIDs(tt.workloads...)
		})
	}
}

// TestStartingContainer: a container with a runtime that takes long to execute its program is held back until that runs and
// is named, so that the runtime's use does not appear under another name; for the two minutes that the kubelet gives a runtime,
// and not once it has ended.
func TestStartingContainer(t *testing.T) {
	for what, tt := range map[string]struct {
		ticks     int
		ends      bool
		workloads []string
	}{
		"starting":          {120, false, nil},
		"for too long":      {121, false, []string{"pod/u1 c1"}},
		"ended before that": {5, true, []string{"pod/u1 c1"}},
	} {
		t.Run(what, func(t *testing.T) {
			b := &box{uid: "u1", id: "c1", workload: "deployment/shop/cart", part: "cart-x/app"}
			c := &cluster{away: true, containers: map[int32]*box{7: b}}
			r := c.rig(t, Config{})
			r.tick(0, nil)
			start := r.boot + second/2
			p := in(7, 7, start, 0)
			p.Comm = sensor.CommOf([]byte("runc:[2:INIT]"))
			for range tt.ticks {
				p.UserNanos += second / 100
				b.use(second / 100)
				r.tick(second/100, []sensor.Process{p})
			}
			if tt.ends {
				b.removed = true
				for range 13 {
					r.tick(0, nil)
				}
			}
			r.export()
			r.wantIDs(tt.workloads...)
			if !tt.ends && tt.workloads == nil {
				c.away, p.Comm, p.UserNanos = false, sensor.CommOf([]byte("sh")), p.UserNanos+second/2
				b.use(second / 2)
				r.tick(second/2, []sensor.Process{p})
				r.export()
				r.wantIDs("deployment/shop/cart cart-x/app")
				r.want("all of it", r.cpu("deployment/shop/cart", "cart-x/app", "shop"), 1.7)
			}
		})
	}
}

// TestToldByItsProgram: an export after the tick in which a runtime executes the program of a sandbox has its name: the program reports it, and the tick named parts
// before it charged them.
func TestToldByItsProgram(t *testing.T) {
	b := &box{uid: "u1", id: "c1", workload: "deployment/shop/cart", part: "cart-x/c1"}
	c := &cluster{containers: map[int32]*box{7: b}}
	known := func(place, program string) workload.Identity {
		id := c.rename(place, program)
		if id.Naming = workload.HalfNamed; program == "pause" {
			id.Part = "cart-x"
		}
		return id
	}
	r := newRig(t, Config{Rename: known, Container: c.report, Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		found := Identified{Identity: known("u1/c1", p.Comm.String()), Handle: b}
		found.Cgroup = "/c1"
		return found
	}})
	r.tick(0, nil)
	start, used := r.boot+1, uint64(0)
	run := func(program string) {
		used += second / 10
		b.use(second / 10)
		p := in(7, 7, start, used)
		p.Comm = sensor.CommOf([]byte(program))
		r.tick(second/10, []sensor.Process{p})
	}
	for range 5 { // for longer than a name is waited for
		run("runc:[2:INIT]")
	}
	r.export()
	r.wantIDs()
	run("pause")
	r.export()
	r.wantIDs("deployment/shop/cart cart-x")
	r.want("all of it", r.cpu("deployment/shop/cart", "cart-x", "shop"), 0.6)
}

// TestOneGroupTwoNames: the first processes of an array task ended before its name could be read, and are charged under
// the number of the job. Its control group has one account all the same, and each second counts once.
func TestOneGroupTwoNames(t *testing.T) {
	for name, exported := range map[string]bool{"before an export": false, "after an export": true} {
		t.Run(name, func(t *testing.T) {
			step, job := &box{}, &box{}
			job.cg = sensor.Cgroup{Have: sensor.CgroupMemory | sensor.CgroupPeak, Current: 5 << 20, Peak: 5 << 20}
			identify := func(p *sensor.Process, parent *Part, ended bool) Identified {
				if p.SID != 7 {
					return byGroup(p, parent, ended)
				}
				found := Identified{Identity: workload.Identity{Workload: "slurm/12", Part: "batch", Owner: "alice"}, Handle: step, Whole: job}
				if found.Naming = workload.Unnamed; p.PID > 20 {
					found.Workload, found.Naming = "slurm/11_1", workload.Named
				}
				return found
			}
			r := newRig(t, Config{Identify: identify})
			r.tick(0, nil)
			step.use(second / 2)
			r.tick(second/2, nil, in(20, 7, r.boot+1, second/2))
			if exported {
				r.tick(0, nil)
				r.tick(0, nil)
				r.export()
				r.want("by number", r.cpu("slurm/12", "batch", "alice"), 0.5)
			}
			step.use(second)
			p := in(21, 7, r.boot+1, second)
			r.tick(second, []sensor.Process{p})
			step.use(second / 4) // by a process that no reading sees
			late := in(19, 7, r.boot+1, second/4)
			r.tick(second/2, []sensor.Process{p}, late) // with a name that is not found any more
			step.use(second / 4)
			r.tick(second/4, []sensor.Process{p})
			r.export()
			first := 0.5
			if !exported {
				first = 0
				r.want("all under its name", r.cpu("slurm/11_1", "batch", "alice"), 2)
				r.wantIDs("slurm/11_1 batch")
			} else {
				r.want("by number", r.cpu("slurm/12", "batch", "alice"), first)
				r.want("under its name", r.cpu("slurm/11_1", "batch", "alice"), 1.5)
			}
			r.want("peak of the job", r.values["reckon_workload_memory_peak_bytes|slurm/11_1|slurm||alice"], 5<<20)
			if job.closed || step.closed {
				t.Errorf("control groups in use are closed: step %v, job %v", step.closed, job.closed)
			}
		})
	}
}
