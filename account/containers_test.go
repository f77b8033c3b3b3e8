package account

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/sensor"
	"reckon/workload"
)

// pods is a rig with a container in each of n pods of one workload, which request 0.2 cores and 64 MiB and have the
// given limit.
func pods(t *testing.T, n int32, completes bool, limit workload.Amounts) (*rig, *cluster, func(...int32) []sensor.Process) {
	c := &cluster{containers: map[int32]*box{}, reports: map[string]*workload.ContainerFacts{}}
	r := c.rig(t, Config{})
	for i := range n {
		uid := string(rune('a' + i))
		c.containers[10+i] = &box{uid: uid, id: "c", workload: "deployment/shop/cart", part: "cart-" + uid + "/app"}
		c.containers[20+i] = &box{uid: uid, id: "p", workload: "deployment/shop/cart", part: "cart-" + uid}
		ask := workload.Amounts{Cores: 0.2, MemoryBytes: 64 << 20}
		c.reports[uid+"/c"] = &workload.ContainerFacts{
			Namespace: "shop", Pod: "cart-" + uid, UID: uid, Name: "app", Type: "main", Request: ask, Limit: limit, PodRequest: ask, PodLimit: limit, Completes: completes,
		}
		c.reports[uid+"/p"] = &workload.ContainerFacts{Namespace: "shop", Pod: "cart-" + uid, UID: uid, Type: "sandbox", PodRequest: ask, PodLimit: limit, Completes: completes}
	}
	r.tick(0, nil)
	start := r.boot + 1
	return r, c, func(list ...int32) (out []sensor.Process) {
		for _, i := range list {
			out = append(out, in(10+i, 10+i, start, second), in(20+i, 20+i, start, second/100))
		}
		return out
	}
}

// bounds returns request cores, request memory, limit cores and limit memory of the last export, -1 for none.
func (r *rig) bounds() (out [4]float64) {
	for i, name := range [...]string{"request_cores", "request_memory_bytes", "limit_cores", "limit_memory_bytes"} {
		v, ok := r.values["reckon_workload_"+name+"|deployment/shop/cart|deployment||shop"]
		if out[i] = v; !ok {
			out[i] = -1
		}
	}
	return out
}

// TestPodBounds: the sums of requests and of limits of the pods of a workload on the node.
func TestPodBounds(t *testing.T) {
	both := workload.Amounts{Cores: 0.5, MemoryBytes: 128 << 20}
	for what, tt := range map[string]struct {
		completes    bool
		limit        workload.Amounts
		two, one, no [4]float64 // with two pods, one, and after the end
	}{
		"a service": {false, both, [4]float64{0.4, 128 << 20, 1, 256 << 20}, [4]float64{0.2, 64 << 20, 1, 256 << 20}, [4]float64{0.2, 64 << 20, 1, 256 << 20}},
		"a job":     {true, both, [4]float64{0.4, 128 << 20, 1, 256 << 20}, [4]float64{0.4, 128 << 20, 1, 256 << 20}, [4]float64{0.4, 128 << 20, 1, 256 << 20}},
		"no limits": {true, workload.Amounts{}, [4]float64{0.4, 128 << 20, -1, -1}, [4]float64{0.4, 128 << 20, -1, -1}, [4]float64{0.4, 128 << 20, -1, -1}},
		"one limit": {false, workload.Amounts{Cores: 0.3}, [4]float64{0.4, 128 << 20, 0.6, -1}, [4]float64{0.2, 64 << 20, 0.6, -1}, [4]float64{0.2, 64 << 20, 0.6, -1}},
	} {
		t.Run(what, func(t *testing.T) {
			r, c, running := pods(t, 2, tt.completes, tt.limit)
			step := func(want [4]float64, list ...int32) {
				for range 3 {
					r.tick(0, running(list...))
				}
				r.export()
				if got := r.bounds(); got != want {
					t.Errorf("with %d pods %v, want %v", len(list), got, want)
				}
			}
			step(tt.two, 0, 1)
			if k := "reckon_container_request_cores|deployment/shop/cart|deployment|cart-a/app|shop"; r.values[k] != 0.2 {
				t.Errorf("%s is %v", k, r.values[k])
			}
			c.containers[11].removed, c.containers[21].removed = true, true
			step(tt.one, 0)
			c.containers[10].removed, c.containers[20].removed = true, true
			step(tt.no)
		})
	}
}

// TestRuns: a pod is returned once, with the lowest of its process ids, while it runs and after it was exported.
func TestRuns(t *testing.T) {
	r, c, running := pods(t, 2, false, workload.Amounts{})
	runs := func() (out []string) {
		r.l.Runs(func(id workload.ID, part, owner string, f *workload.ContainerFacts, pid int32) {
			out = append(out, fmt.Sprint(id, " ", part, " ", owner, " ", f.Pod, " ", pid))
		})
		return out
	}
	r.tick(0, running(0, 1))
	if got := runs(); len(got) != 0 {
		t.Errorf("before the first export %q", got)
	}
	r.export()
	want := []string{"deployment/shop/cart cart-a shop cart-a 10", "deployment/shop/cart cart-b shop cart-b 11"}
	if got := runs(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	c.containers[10].removed, c.containers[20].removed = true, true
	r.tick(0, running(1), running(0)...)
	r.tick(0, running(1))
	if got := runs(); !slices.Equal(got, want[1:]) {
		t.Errorf("when one has ended %q, want %q", got, want[1:])
	}
}

// TestGroupLimits: the hard limit of a control group is exported as a limit, not as a request.
func TestGroupLimits(t *testing.T) {
	limited := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | sensor.CgroupMemoryMax | sensor.CgroupCPUMax, MemoryMax: 512 << 20, CPUMax: 1.5}}
	free := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
	for what, tt := range map[string]struct {
		id          workload.Identity
		part, whole *fakeCgroup
		cores, mem  float64
	}{
		"a unit":                    {workload.Identity{Workload: "unit/a.service", Owner: "root"}, limited, nil, 1.5, 512 << 20},
		"a unit without":            {workload.Identity{Workload: "unit/a.service", Owner: "root"}, free, nil, 0, 0},
		"a job":                     {workload.Identity{Workload: "slurm/1", Part: "batch", Owner: "bob"}, free, limited, 1.5, 512 << 20},
		"the step of a job":         {workload.Identity{Workload: "slurm/1", Part: "0", Owner: "bob"}, limited, free, 0, 0},
		"a pod without names":       {workload.Identity{Workload: "pod/u", Part: "c", Owner: "kubernetes", Place: "u/c", Run: "u"}, free, limited, 1.5, 512 << 20},
		"a container in a free pod": {workload.Identity{Workload: "pod/u", Part: "c", Owner: "kubernetes", Place: "u/c", Run: "u"}, limited, free, 0, 0},
	} {
		r := newRig(t, Config{Identify: func(*sensor.Process, *Part, bool) Identified {
			found := Identified{Identity: tt.id, Handle: tt.part}
			if tt.whole != nil {
				found.Whole = tt.whole
			}
			return found
		}})
		r.tick(0, []sensor.Process{proc(1, 1, second, 0)})
		r.tick(0, []sensor.Process{proc(1, 1, second, 0)})
		r.export()
		labels := "|" + string(tt.id.Workload) + "|" + string(tt.id.Workload.Kind()) + "||" + tt.id.Owner
		if c, m := r.values["reckon_workload_limit_cores"+labels], r.values["reckon_workload_limit_memory_bytes"+labels]; c != tt.cores || m != tt.mem {
			t.Errorf("%s: limits of %v cores and %v bytes", what, c, m)
		}
		for k := range r.values {
			if strings.HasPrefix(k, "reckon_workload_request_") {
				t.Errorf("%s: %s", what, k)
			}
		}
	}
}

// TestContainerReports: the kubelet's reports as series; a changed one replaces the previous.
func TestContainerReports(t *testing.T) {
	r, c, running := pods(t, 1, false, workload.Amounts{})
	f := c.reports["a/c"]
	const of = "|deployment/shop/cart|deployment|cart-a/app|shop"
	want := func(what string, values map[string]float64) {
		t.Helper()
		r.tick(0, running(0))
		r.export()
		got := 0
		for k := range r.values {
			for _, name := range []string{"restarts_total", "waiting", "exit_code", "previous_exit_code"} {
				if strings.HasPrefix(k, "reckon_container_"+name+of) {
					got++
				}
			}
		}
		for k, v := range values {
			if have, ok := r.values["reckon_container_"+k]; !ok || have != v {
				t.Errorf("%s: %s is %v, %v, want %v", what, k, have, ok, v)
			}
		}
		if got != len(values) {
			t.Errorf("%s: %d series, want %d: %v", what, got, len(values), r.values)
		}
	}
	want("it runs", map[string]float64{"restarts_total" + of: 0})
	f.Restarts, f.Waiting, f.Ended, f.ExitCode, f.Reason = 1, "CrashLoopBackOff", true, 1, "Error"
	if r.values["reckon_workload_info|deployment/shop/cart|deployment|cart-a|shop||||"] != 1 {
		t.Error("the sandbox is known by a program")
	}
	if r.values["reckon_workload_info|deployment/shop/cart|deployment|cart-a/app|shop||||cmd1"] != 1 {
		t.Errorf("the container is not known by its program: %v", r.values)
	}
	want("it crashed", map[string]float64{"restarts_total" + of: 1, "waiting" + of + "|CrashLoopBackOff": 1, "exit_code" + of + "|Error": 1})
	f.Restarts, f.Waiting, f.ExitCode, f.Reason = 2, "", 137, "OOMKilled"
	want("it runs again", map[string]float64{"restarts_total" + of: 2, "exit_code" + of + "|OOMKilled": 137})
	f.ExitCode, f.Reason, f.BeforeExitCode, f.BeforeReason = 3, "Error", 137, "OOMKilled"
	want("it ended again", map[string]float64{"restarts_total" + of: 2, "exit_code" + of + "|Error": 3, "previous_exit_code" + of + "|OOMKilled": 137})
	f.Restarts, f.BeforeReason = 3, ""
	want("it is begun again", map[string]float64{"restarts_total" + of: 3, "exit_code" + of + "|Error": 3})
	f.ID = "another"
	r.tick(0, running(0))
	r.export()
	infos := 0
	for k := range r.values {
		if strings.HasPrefix(k, "reckon_container_info"+of) {
			infos++
		}
	}
	if infos != 1 {
		t.Errorf("%d reckon_container_info of one part", infos)
	}
	if !r.l.Holds(cartPart("cart-a/app")) || r.l.Holds(cartPart("cart-z/app")) {
		t.Error("the ledger does not know what it holds")
	}
	if _, ok := r.values["reckon_container_restarts_total|deployment/shop/cart|deployment|cart-a|shop"]; ok {
		t.Error("the sandbox has restarts")
	}
}

// TestReportedKill: an OOM kill that only the kubelet noticed is counted, and none twice.
func TestReportedKill(t *testing.T) {
	r, c, running := pods(t, 1, false, workload.Amounts{})
	kills := func() float64 {
		r.export()
		v, ok := r.values["reckon_workload_oom_kills_total|deployment/shop/cart|deployment|cart-a/app|shop"]
		if !ok {
			return -1
		}
		return v
	}
	check := func(what string, want float64) {
		t.Helper()
		if got := kills(); got != want {
			t.Errorf("%s: %v kills, want %v", what, got, want)
		}
	}
	end := func(id, ended, reason string) {
		f := *c.reports["a/c"]
		f.ID, f.Ended, f.EndedID, f.Reason, f.ExitCode = id, true, ended, reason, 137
		c.reports["a/c"] = &f
	}
	step := func(exited ...sensor.Process) {
		for range 3 {
			r.tick(0, running(0), exited...)
			exited = nil
		}
	}
	step()
	check("it runs", -1)
	end("c", "before", "OOMKilled")
	check("the container before it", -1)
	end("c", "c", "OOMKilled")
	check("killed, and nobody saw it", 1)
	check("once more", 1)
	end("d", "d", "Error")
	check("another ended otherwise", 1)
	end("e", "e", "OOMKilled")
	check("another was killed", 2)
	victim := in(12, 10, r.boot+1, second)
	victim.OOMKilled = true
	step(victim)
	end("f", "f", "OOMKilled")
	check("a kill with an exit record", 3)
}

// TestKilledAtOnce: a container killed for lack of memory before its first export has the kill in its reduced series
// set.
func TestKilledAtOnce(t *testing.T) {
	for what, tt := range map[string]struct {
		reason string
		want   float64
	}{"killed": {"OOMKilled", 1}, "failed": {"Error", -1}} {
		t.Run(what, func(t *testing.T) {
			r, c, running := pods(t, 1, true, workload.Amounts{})
			f := *c.reports["a/c"]
			f.ID, f.Ended, f.EndedID, f.Reason, f.ExitCode = "c", true, "c", tt.reason, 137
			c.reports["a/c"] = &f
			processes := running(0)
			brief := processes[0]
			brief.UserNanos = second / 10
			r.tick(0, processes[1:], brief)
			c.containers[10].removed = true
			for range 3 {
				r.tick(0, processes[1:])
			}
			r.export()
			v, ok := r.values["reckon_workload_oom_kills_total|deployment/shop/cart|deployment|cart-a/app|shop"]
			if !ok {
				v = -1
			}
			if v != tt.want {
				t.Errorf("%v kills, want %v", v, tt.want)
			}
			if _, ok := r.values["reckon_workload_cpu_seconds_total|deployment/shop/cart|deployment|cart-a/app|shop|user"]; !ok {
				t.Errorf("the container is in no export")
			}
		})
	}
}

// TestRestartBetweenTicks: a container that is restarted and ends within a tick, while its earlier run can still be
// scraped, gets the later end, and not the earlier run's.
func TestRestartBetweenTicks(t *testing.T) {
	b := &box{uid: "a", id: "c", workload: "deployment/shop/cart", part: "cart-a/app"}
	c := &cluster{containers: map[int32]*box{10: b}}
	r := c.rig(t, Config{Linger: time.Minute})
	r.tick(0, nil)
	brief := func(pid int32) uint64 {
		t.Helper()
		b.use(second / 10)
		r.tick(second/10, nil, in(pid, 10, r.boot+second/2, second/10))
		b.removed = true
		for range 3 {
			r.tick(0, nil)
		}
		r.export()
		p := r.l.parts.partAtPlace(b.uid + "/" + b.id)
		if p == nil || p.end == 0 {
			t.Fatalf("it has not ended")
		}
		return p.end
	}
	first := brief(11)
	*b = box{uid: "a", id: "d", workload: b.workload, part: b.part}
	if again := brief(12); again < first+3*second {
		t.Errorf("it ended %v s after it had ended first", toSeconds(again-first))
	}
	r.want("both", r.cpu("deployment/shop/cart", "cart-a/app", "shop"), 0.2)
}

// closable is a control group that panics where it is read after it was closed, as descriptors of another file could be.
type closable struct {
	fakeCgroup
	t      *testing.T
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }
func (c *closable) Read(to *sensor.Cgroup) error {
	if c.closed {
		c.t.Error("a control group is read after it was closed")
	}
	return c.fakeCgroup.Read(to)
}

// TestWholeOfRenamedPod: a pod that gets its name keeps its control group, which is opened once for all who find it.
func TestWholeOfRenamedPod(t *testing.T) {
	whole := &closable{t: t, fakeCgroup: fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | sensor.CgroupMemory | sensor.CgroupMemoryMax, Anon: 1 << 20, MemoryMax: 64 << 20}}}
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		id := workload.Identity{Workload: "pod/u", Part: "c", Owner: "kubernetes", Place: "u/c", Run: "u", Naming: workload.Unnamed}
		if p.PID > 1 {
			id = workload.Identity{Workload: "pod/shop/hungry", Part: "main", Owner: "shop", Place: "u/c", Run: "u", Naming: workload.Named}
		}
		return Identified{Identity: id, Whole: whole}
	}})
	r.tick(0, []sensor.Process{proc(1, 1, second, 0)})
	r.tick(0, []sensor.Process{proc(1, 1, second, 0), proc(2, 2, second, 0)})
	r.tick(0, []sensor.Process{proc(1, 1, second, 0), proc(2, 2, second, 0)})
	r.export()
	if got := r.values["reckon_workload_limit_memory_bytes|pod/shop/hungry|pod||shop"]; got != 64<<20 {
		t.Errorf("the limit of the pod is %v", got)
	}
	if whole.closed {
		t.Error("the control group of a pod that lives was closed")
	}
}
