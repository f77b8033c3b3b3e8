package simulate

import (
	"slices"
	"strconv"
	"time"

	"reckon/sensor"
)

// Node is the state of one machine of a simulated site at one moment. An agent reads it like a real machine. Call
// [Node.Advance] before each reading.
type Node struct {
	site *Site
	spec *nodeSpec

	boot, now time.Time
	down      int // the outage that is next or now
	stints    []nodeEvent
	next      int // the stint that begins next
	groups    []*simGroup
	paths     map[string]*simGroup
	numbers   map[uint64]*simGroup
	procs     map[int32]*simProcess
	pods      map[string]*simPod // started pods that were not replaced, by UID
	pid       int32
	count     uint64 // of control groups so far

	exited  []sensor.Process
	machine sensor.Machine
	kernel  *simGroup
	gpus    []gpuState
	figures nodeFigures
	begun   bool
}

// nodeEvent is a job, session or pod that begins and ends on a node.
type nodeEvent struct {
	start, end time.Time
	place      *placement
	session    *loginSession
	pod        *simPod
}

// Node returns machine number i in its state before the simulation begins. Each call returns a new machine.
func (s *Site) Node(i int) *Node {
	n := &Node{site: s, spec: &s.specs[i]}
	for k := range n.spec.places {
		p := &n.spec.places[k]
		n.stints = append(n.stints, nodeEvent{start: p.start, end: p.end, place: p})
	}
	if n.spec.role == login {
		for _, v := range s.drawSessions() {
			n.stints = append(n.stints, nodeEvent{start: v.start, end: v.end, session: v})
		}
	}
	if place, of := s.podNodeIndex(i); of > 0 {
		n.pods = map[string]*simPod{}
		for _, p := range s.podsOfNode(place, of) {
			n.stints = append(n.stints, nodeEvent{start: p.start, end: p.end, pod: p})
		}
	}
	slices.SortStableFunc(n.stints, func(a, b nodeEvent) int { return a.start.Compare(b.start) })
	n.figures = newFigures(n)
	n.bootAt(n.spec.boot)
	return n
}

// Hostname returns the name of the machine.
func (n *Node) Hostname() string { return n.spec.name }

// Booted returns the time when the machine was started last.
func (n *Node) Booted() time.Time { return n.boot }

// Time returns the simulated time of the machine.
func (n *Node) Time() time.Time { return n.now }

// Down reports whether the machine is off now.
func (n *Node) Down() bool {
	return n.down < len(n.spec.outages) && !n.now.Before(n.spec.outages[n.down].from)
}

// bootAt sets the state of the machine to that after a boot.
func (n *Node) bootAt(at time.Time) {
	n.boot, n.now = at, at
	n.groups, n.exited = nil, nil
	n.paths, n.numbers, n.procs = map[string]*simGroup{}, map[uint64]*simGroup{}, map[int32]*simProcess{}
	n.pid = 1
	n.machine = sensor.Machine{Cores: n.site.Cores, MemoryTotal: n.spec.memory}
	n.kernel = n.newGroup("/", at, time.Time{})
	n.kernel.startProcess(n, "kworker/0:1", 0, 1).Kernel = true
	for _, u := range servicesOf(n.spec.role) {
		g := n.newGroup("/system.slice/"+u.unit+".service", at, time.Time{})
		g.unit = u
		g.startProcess(n, u.comm, u.uid, u.threads)
	}
	if n.spec.role == withGPUs && n.gpus == nil {
		n.gpus = make([]gpuState, gpusPerNode)
	}
	for i := range n.gpus {
		n.gpus[i] = gpuState{joules: n.gpus[i].joules, warmth: n.gpus[i].warmth}
	}
}

// maxStep is the longest single step of the simulation of a machine.
const maxStep = 10 * time.Minute

// Advance advances the machine to a time. A time in the past changes nothing.
func (n *Node) Advance(to time.Time) {
	n.exited = n.exited[:0]
	if !n.begun {
		n.begun = true
		n.addServiceUse(n.site.From.Add(-n.site.lead))
	}
	for n.now.Before(to) {
		at := to
		if far := n.now.Add(maxStep); far.Before(at) {
			at = far
		}
		if n.down < len(n.spec.outages) {
			switch o := n.spec.outages[n.down]; {
			case n.now.Before(o.from):
				if o.from.Before(at) {
					at = o.from
				}
			case !to.Before(o.to):
				n.down++
				n.bootAt(o.to)
				for n.next < len(n.stints) && n.stints[n.next].start.Before(o.to) {
					if p := n.stints[n.next].pod; p != nil { // the kubelet gets it when it is back
						n.pods[p.UID] = p
					}
					n.next++
				}
				n.restartPods()
				continue
			default:
				n.now = to // off
				return
			}
		}
		n.advanceStep(at)
	}
}

// addServiceUse adds the use of the services since the machine booted.
func (n *Node) addServiceUse(to time.Time) {
	span := to.Sub(n.now)
	if span <= 0 {
		return
	}
	busy := 0.0
	for _, g := range n.groups {
		d := g.demandAt(n, to, span.Seconds())
		g.addUse(n, d, d.cores, span.Seconds())
		busy += d.cores
	}
	n.addTotals(busy, 0, span.Seconds())
	n.now = to
	n.exited = n.exited[:0]
}

// advanceStep advances the machine over a period in which no outage begins or ends.
func (n *Node) advanceStep(at time.Time) {
	from, span := n.now, at.Sub(n.now).Seconds()
	for n.next < len(n.stints) && !n.stints[n.next].start.After(at) {
		switch st := &n.stints[n.next]; {
		case st.place != nil:
			n.startJob(st.place)
		case st.pod != nil:
			n.beginPod(st.pod)
		default:
			n.logIn(st.session)
		}
		n.next++
	}
	for i := range n.gpus {
		n.gpus[i].beginStep()
	}
	n.endPlanned(at)
	// the demand, then the capacity
	wanted, capacity := 0.0, float64(n.site.Cores)
	for _, g := range n.groups {
		g.computeDemand(n, from, at, span)
		wanted += g.got
	}
	scale := 1.0
	if wanted > capacity {
		scale = capacity / wanted
	}
	busy, waiting := 0.0, 0.0
	for _, g := range n.groups {
		if g.active <= 0 {
			continue
		}
		got := g.got * scale
		g.addUse(n, g.wish, got*span/g.active, g.active)
		busy += got
		waiting += max(g.wish.cores*g.active/span-got, 0)
	}
	n.addTotals(busy, waiting, span)
	n.now = at
	n.endGroups(at)
}

// endGroups ends the groups that have reached their end, and removes those that ended one step ago.
func (n *Node) endGroups(at time.Time) {
	gone := false
	for _, g := range n.groups {
		switch {
		case g.over:
			g.gone, gone = true, true
			delete(n.paths, g.path)
			delete(n.numbers, g.number)
		case !g.until.IsZero() && !g.until.After(at):
			g.over = true
			for _, p := range g.procs {
				p.Anon, p.File, p.Shmem = 0, 0, 0
				n.exited = append(n.exited, p.Process)
				delete(n.procs, p.PID)
			}
			g.procs = nil
			g.figures.Anon, g.figures.Shmem, g.figures.PIDs = 0, 0, 0
		}
	}
	if gone {
		n.groups = slices.DeleteFunc(n.groups, func(g *simGroup) bool { return g.gone })
	}
}

// addTotals adds to the totals of the machine.
func (n *Node) addTotals(busy, waiting, span float64) {
	m := &n.machine
	nanos := func(cores float64) uint64 { return uint64(max(cores, 0) * span * 1e9) }
	all := nanos(float64(n.site.Cores))
	system := nanos(busy * systemShare)
	user := nanos(busy) - system
	m.User += user
	m.System += system
	m.Idle += all - min(user+system, all)
	used := uint64(1 << 30)
	for _, g := range n.groups {
		used += g.figures.Anon + g.figures.Shmem
	}
	m.MemoryAvailable = n.spec.memory - min(used, n.spec.memory*99/100)
	n.figures.advance(n, busy, waiting, span)
}

// startJob starts a job on the machine.
func (n *Node) startJob(p *placement) {
	j := p.job
	if !p.end.After(n.now) {
		return
	}
	base := "/system.slice/slurmstepd.scope/job_" + strconv.FormatUint(uint64(j.Raw), 10) + "/step_"
	if j.plan != nil {
		n.beginPlanned(p, base)
		return
	}
	batch := n.newGroup(base+"batch/user/task_0", p.start, p.end)
	batch.place, batch.step = p, "batch"
	batch.limit, batch.figures.MemoryMax = float64(j.Cores), j.MemoryBytes
	shell := batch.startProcess(n, "slurm_script", j.User.UID, 1)
	work := batch
	if j.kind.steps {
		work = n.newGroup(base+"0/user/task_0", p.start, p.end)
		work.place, work.step = p, "0"
		work.limit, work.figures.MemoryMax = float64(j.Cores), j.MemoryBytes
	}
	work.works = true
	ranks := min(max(j.kind.ranks, j.GPUs, 1), j.Cores)
	for r := range ranks {
		q := work.startProcess(n, j.Program, j.User.UID, uint32(max(j.Cores/ranks, 1)))
		q.share = 1 / float64(ranks)
		q.gpu = -1
		if r < len(p.gpus) {
			q.gpu = p.gpus[r]
		}
		if work == batch {
			q.PPID, q.PGID, q.SID = shell.PID, shell.PID, shell.PID
		}
	}
}

// logIn starts a login session.
func (n *Node) logIn(v *loginSession) {
	if !v.end.After(n.now) {
		return
	}
	uid := strconv.FormatUint(uint64(v.user.UID), 10)
	g := n.newGroup("/user.slice/user-"+uid+".slice/session-"+strconv.Itoa(v.number)+".scope", v.start, v.end)
	g.session = v
	shell := g.startProcess(n, "bash", v.user.UID, 1)
	if v.program != "" {
		q := g.startProcess(n, v.program, v.user.UID, max(uint32(v.cores), 1))
		q.PPID, q.SID, q.share = shell.PID, shell.PID, 1
	}
	if v.plan != nil {
		g.addZombies(n, v.plan.Zombies, v.user.UID)
	}
}

// Name returns the word for the source in flags and reports.
func (n *Node) Name() string { return "simulated" }

// Live and Exits name the sources of processes and of their ends.
func (n *Node) Live() string { return "simulated" }

// Exits returns the source of ends.
func (n *Node) Exits() string { return "simulated" }

// Close does nothing, because a simulated machine has no open resources.
func (n *Node) Close() error { return nil }

// Read implements [sensor.TaskSource].
func (n *Node) Read(p *sensor.Pass) error {
	p.Boot = uint64(n.now.Sub(n.boot))
	p.Exited = append(p.Exited, n.exited...)
	n.exited = n.exited[:0]
	for _, g := range n.groups {
		for _, q := range g.procs {
			p.Live = append(p.Live, q.Process)
		}
	}
	return nil
}

// ReadMachine implements [sensor.MachineReader].
func (n *Node) ReadMachine(m *sensor.Machine) error {
	*m = n.machine
	m.Boot = uint64(n.now.Sub(n.boot))
	return nil
}
