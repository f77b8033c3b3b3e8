package planted

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"testing"
	"time"

	"reckon/agent"
	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/internal/kubelet"
	"reckon/interop/scheduler"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/store/tsdb"
	"reckon/transport/push"
	"reckon/workload"
)

// plantedUsers are the names of user ids.
var plantedUsers = map[uint32]string{0: "root", 101: "www", 102: "cron", 103: "surge", 104: "away", 105: "leaky", 106: "grown", 107: "hush", 108: "newly",
	201: "alice", 202: "bob", 203: "dora"}

const (
	plantedStep = 5 * time.Minute
	plantedDays = 23
	gib         = float64(1 << 30)
)

// plan is the planted site: the truth, by which everything that is shown is judged.
type plan struct {
	now, hour time.Time // of the end, and its hour
	from      time.Time
	gap       [2]time.Time // no sample of any machine arrived
	machines  []*machineSpec
	jobs      []*plantedJob
}

// plantedJob is a batch job.
type plantedJob struct {
	id               uint64
	user, name, node string
	start, end       time.Time
	cores, used      float64
	memory, peak     float64
	gpus             int
	limit            time.Duration
	load             *load
}

// base is the hour in which the site ends, 19:00 by its habits. Whenever the test runs, the site is the same.
var base time.Time

// hourOf is the hour of the day by which the site lives.
func hourOf(t time.Time) float64 { return math.Mod(t.Sub(base).Hours()+19+24*1000, 24) }

// noise is a number from -1 to 1 that follows from a name and a time.
func noise(name string, t time.Time) float64 {
	x := uint64(t.Sub(base)/plantedStep + 1e6)
	for _, c := range name {
		x = x*0x9e3779b97f4a7c15 + uint64(c)
	}
	x ^= x >> 31
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0x94d049bb133111eb
	x ^= x >> 29
	return float64(x>>11)/(1<<52) - 1
}

func fixed(v float64) func(time.Time) float64 { return func(time.Time) float64 { return v } }

// about is a level that the noise moves by one part in fifty.
func about(name string, v float64) func(time.Time) float64 {
	return func(t time.Time) float64 { return v * (1 + 0.02*noise(name, t)) }
}

// between is f, but by a factor in some hours.
func between(f func(time.Time) float64, from, until time.Time, factor float64) func(time.Time) float64 {
	return func(t time.Time) float64 {
		if !t.Before(from) && t.Before(until) {
			return f(t) * factor
		}
		return f(t)
	}
}

// daily is a level with a wave over the day, highest at noon.
func daily(name string, level, swing float64) func(time.Time) float64 {
	return func(t time.Time) float64 {
		return level * (1 + swing*math.Cos(2*math.Pi*(hourOf(t)-12)/24)) * (1 + 0.02*noise(name, t))
	}
}

// fifth is the duty of a load that works in every fifth hour alone.
func fifth(t time.Time) float64 {
	if (t.Sub(base)+5000*time.Hour)/time.Hour%5 == 2 {
		return 1
	}
	return 0
}

func newPlan(now time.Time) *plan {
	hour := now.Truncate(time.Hour)
	base = hour
	ago := func(h float64) time.Time { return hour.Add(-time.Duration(h * float64(time.Hour))) }
	p := &plan{now: now, hour: hour, from: hour.AddDate(0, 0, -plantedDays), gap: [2]time.Time{ago(9 * 24), ago(8 * 24)}}
	machine := func(name string, cores int, memory float64, gpus int, idle, a, b float64) *machineSpec {
		m := &machineSpec{name: name, cores: cores, memory: memory * gib, gpus: gpus, idle: idle, a: a, b: b, from: p.from}
		p.machines = append(p.machines, m)
		return m
	}
	big1, big2 := machine("big1", 64, 256, 0, 100, 120, 40), machine("big2", 64, 256, 0, 100, 120, 40)
	small1, small2 := machine("small1", 8, 32, 0, 12, 20, 4), machine("small2", 8, 32, 0, 12, 20, 4)
	gpu1 := machine("gpu1", 32, 512, 4, 180, 90, 20)
	hush1, new1 := machine("hush1", 16, 64, 0, 30, 40, 0), machine("new1", 16, 64, 0, 30, 40, 0)
	hush1.silent, new1.from = ago(3), now.Add(-40*time.Minute)
	unit := func(m *machineSpec, name string, uid uint32, cores, bytes func(time.Time) float64, limit float64) *load {
		l := &load{path: "/system.slice/" + name + ".service", comm: name, uid: uid, from: m.from, cores: cores, bytes: bytes,
			limit: limit * gib}
		m.loads = append(m.loads, l)
		return l
	}
	unit(big1, "web", 101, daily("web", 4, 0.5), about("webm", 4*gib), 16)
	unit(big1, "fifth", 102, fifth, about("fifthm", 0.5*gib), 0)
	unit(big2, "surge", 103, between(about("surge", 1), ago(8), ago(4), 5), about("surgem", gib), 0)
	unit(big2, "away", 104, between(about("away", 2), ago(14), ago(2), 0.01), about("awaym", gib), 0)
	unit(small1, "leaky", 105, about("leaky", 0.5), func(t time.Time) float64 {
		return (2 + 6*max(t.Sub(ago(48)).Hours(), 0)/48) * gib * (1 + 0.002*noise("leakym", t))
	}, 16)
	unit(small2, "grown", 106, between(about("grown", 1), ago(30), now.AddDate(1, 0, 0), 1.8), about("grownm", gib), 0)
	unit(hush1, "hush", 107, about("hush", 2), about("hushm", 2*gib), 0)
	unit(new1, "fresh", 108, about("fresh", 3), about("freshm", gib), 0)
	for i, m := range []*machineSpec{small1, small2} {
		uid := fmt.Sprintf("11111111-2222-4333-8444-55555555555%d", i)
		id := fmt.Sprintf("%063dc%d", 0, i)[:64]
		pod := &kubelet.Pod{Namespace: "shop", Name: fmt.Sprintf("cart-5d9-%d", i), UID: uid, ReportedUID: uid, Created: p.from,
			Labels: map[string]string{"pod-template-hash": "5d9"}, OwnerKind: "ReplicaSet", OwnerName: "cart-5d9", OwnerUID: "5d9",
			Phase: "Running", QoS: "Burstable",
			Containers: []kubelet.Container{{Name: "app", Image: "cart:1", Type: kubelet.Main, ID: id, Running: true,
				Request: kubelet.Resources{Cores: 2, MemoryBytes: gib}, Limit: kubelet.Resources{MemoryBytes: 2 * gib}}}}
		m.loads = append(m.loads, &load{path: "/kubepods/burstable/pod" + uid + "/" + id, comm: "cart", uid: 1000, from: p.from,
			cores: about("cart"+m.name, 0.5), bytes: about("cartm"+m.name, 0.3*gib), limit: 2 * gib, pod: pod})
	}
	job := func(m *machineSpec, user uint32, name string, start time.Time, length time.Duration, cores, used, memory, peak float64, gpus int) {
		j := &plantedJob{id: uint64(1000 + len(p.jobs)), user: plantedUsers[user], name: name, node: m.name, start: start,
			end: start.Add(length), cores: cores, used: used, memory: memory * gib, peak: peak * gib, gpus: gpus, limit: 12 * time.Hour}
		if j.end.After(now) || j.start.Before(p.from) {
			return
		}
		j.load = &load{path: fmt.Sprintf("/system.slice/slurmstepd.scope/job_%d/step_batch/user/task_0", j.id), comm: name, uid: user,
			from: j.start, until: j.end, cores: fixed(used), bytes: fixed(peak * gib), limit: j.memory, gpus: gpus, busy: 0.5,
			env: map[string]string{"SLURM_JOB_ID": strconv.FormatUint(j.id, 10)}}
		p.jobs, m.loads = append(p.jobs, j), append(m.loads, j.load)
	}
	midnight := p.from.Add(-19 * time.Hour)
	for d := range plantedDays + 1 {
		day := midnight.AddDate(0, 0, d)
		job(big1, 201, "sim", day.Add(2*time.Hour), 3*time.Hour, 16, 4, 32, 6, 0)
		if d%3 == 1 {
			job(big2, 202, "once", day.Add(time.Duration(5+d%7)*time.Hour), 2*time.Hour, 8, 8, 16, 12, 0)
		}
		if d%2 == 0 {
			job(gpu1, 203, "train", day.Add(10*time.Hour), 4*time.Hour, 8, 2, 64, 16, 2)
		}
	}
	return p
}

// of returns the machine with a name.
func (p *plan) of(name string) *machineSpec {
	for _, m := range p.machines {
		if m.name == name {
			return m
		}
	}
	return nil
}

// controller is the batch system of the planted site.
type controller struct {
	*plan
	clock time.Time
}

func (*controller) Kind() workload.Kind { return workload.Slurm }
func (*controller) Name() string        { return "planted" }

func (c *controller) record(j *plantedJob) scheduler.Job {
	zero := 0
	r := scheduler.Job{ID: strconv.FormatUint(j.id, 10), Number: j.id, User: j.user, Account: j.user, Partition: "batch", Name: j.name,
		Submit: j.start, Eligible: j.start, Start: j.start, Cores: j.cores, MemoryBytes: j.memory, GPUs: float64(j.gpus), Nodes: 1,
		Seconds: j.limit.Seconds(), State: "running", NodeList: j.node}
	r.Allocated = scheduler.Allocation{Cores: r.Cores, MemoryBytes: r.MemoryBytes, GPUs: r.GPUs, Nodes: 1}
	if !j.end.After(c.clock) {
		r.State, r.Ended, r.End, r.Exit, r.StepCount = "completed", true, j.end, &zero, 1
		r.Steps = []scheduler.Step{{ID: "batch", Name: "batch", State: "completed", NodeList: j.node, Start: j.start, End: j.end, Exit: &zero}}
	}
	return r
}

func (c *controller) some(ok func(*plantedJob) bool) (out []scheduler.Job, read scheduler.Read, err error) {
	for _, j := range c.jobs {
		if !j.start.After(c.clock) && ok(j) {
			out = append(out, c.record(j))
		}
	}
	return out, scheduler.Read{Records: len(out)}, nil
}

func (c *controller) Jobs(context.Context) ([]scheduler.Job, scheduler.Read, error) {
	return c.some(func(j *plantedJob) bool { return c.clock.Sub(j.end) < plantedStep })
}

func (c *controller) Ended(_ context.Context, since, until time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return c.some(func(j *plantedJob) bool { return !j.end.Before(since) && !j.end.After(until) && !j.end.After(c.clock) })
}

func (c *controller) ByNumber(_ context.Context, numbers []uint64, _ time.Time) ([]scheduler.Job, scheduler.Read, error) {
	asked := map[uint64]bool{}
	for _, n := range numbers {
		asked[n] = true
	}
	return c.some(func(j *plantedJob) bool { return asked[j.id] })
}

func (c *controller) Nodes(context.Context) ([]scheduler.Node, []scheduler.Partition, scheduler.Read, error) {
	var out []scheduler.Node
	for _, name := range []string{"big1", "big2", "gpu1"} {
		m := c.of(name)
		n := scheduler.Node{Name: name, State: "idle", Partitions: []string{"batch"}, Cores: float64(m.cores), MemoryBytes: m.memory,
			GPUs: float64(m.gpus)}
		for _, j := range c.jobs {
			if j.node == name && !j.start.After(c.clock) && j.end.After(c.clock) {
				n.State, n.AllocatedCores, n.AllocatedMemory = "mixed", n.AllocatedCores+j.cores, n.AllocatedMemory+j.memory
			}
		}
		out = append(out, n)
	}
	return out, []scheduler.Partition{{Name: "batch", State: "up", Default: true, Seconds: 4 * 86400}}, scheduler.Read{Records: len(out)}, nil
}

// member is a machine of the site with its agent.
type member struct {
	*planted
	agent *agent.Agent
}

// feed brings the site to a time and hands in what its agents and its batch system export then.
type feed struct {
	*plan
	t      *testing.T
	list   []*member
	ctl    *controller
	poller *scheduler.Poller
	sink   simulation.Sink
}

func newFeed(t *testing.T, p *plan, sink simulation.Sink) *feed {
	f := &feed{plan: p, t: t, ctl: &controller{plan: p, clock: p.from}, sink: sink}
	f.poller = scheduler.NewPoller(f.ctl, scheduler.Options{Clock: func() time.Time { return f.ctl.clock },
		Write: func(ctx context.Context, b *metric.Batch) error { return f.sink.Put(ctx, "", b) }})
	for _, m := range p.machines {
		f.list = append(f.list, &member{planted: newPlanted(m)})
	}
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *feed) step(ctx context.Context, at time.Time) {
	for _, m := range f.list {
		if at.Before(m.spec.from) || !m.spec.silent.IsZero() && at.After(m.spec.silent) {
			continue
		}
		m.advance(at)
		if m.agent == nil {
			var err error
			m.agent, err = agent.OpenMachine(agent.Config{Node: m.spec.name, Root: "/nowhere", Tick: plantedStep, Export: plantedStep,
				Version: "1.0.0"}, m.planted, hardware{m.planted})
			check(f.t, err)
		}
		check(f.t, m.agent.Step())
		if b := m.agent.TakeExport(); at.Before(f.gap[0]) || !at.Before(f.gap[1]) {
			check(f.t, f.sink.Put(ctx, m.spec.name, b))
		}
	}
	f.ctl.clock = at
	f.poller.Step(ctx)
}

// fill takes the planted site up to now through agents, batch system, store and catalogue into a data directory.
func (p *plan) fill(t *testing.T, dir string) *feed {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	series, err := tsdb.Open(tsdb.Options{Dir: dir + "/series", Retention: -1, OutOfOrder: time.Hour, Logger: quiet})
	check(t, err)
	facts, err := database.Open(dir+"/catalogue.db", quiet)
	check(t, err)
	sink := simulation.NewHistory(series, "lab")
	f := newFeed(t, p, sink)
	for at := p.from; !at.After(p.now); {
		check(t, sink.Before(t.Context(), at))
		f.step(t.Context(), at)
		if p.now.Sub(at) > 20*time.Minute {
			at = at.Add(plantedStep)
		} else {
			at = at.Add(15 * time.Second)
		}
	}
	check(t, sink.Flush(t.Context()))
	b := catalogue.NewBuilder(series, facts, catalogue.BuilderOptions{Logger: quiet, Clock: func() time.Time { return p.now }})
	check(t, b.Ready(t.Context()))
	_, err = b.History(t.Context(), [][2]time.Time{{p.from, p.now}})
	check(t, err)
	check(t, facts.Close())
	check(t, series.Close())
	return f
}

// live keeps the site going until ctx ends: its agents push to a server.
func (f *feed) live(ctx context.Context, server, dir string) {
	var names []string
	for _, m := range f.machines {
		names = append(names, m.name)
	}
	out, err := simulation.NewPush(simulation.PushConfig{Endpoints: []push.Endpoint{{URL: server}}, Site: "lab", Nodes: names, Dir: dir,
		UserAgent: "planted", Logger: slog.New(slog.DiscardHandler)})
	check(f.t, err)
	f.sink = out
	defer func() { _ = out.Close(0) }()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		f.step(context.WithoutCancel(ctx), time.Now().UTC())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
