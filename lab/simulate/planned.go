package simulate

import (
	"fmt"
	"strconv"
	"time"

	"reckon/sensor"
)

// Planned is a job with given properties instead of random ones, for tests that depend on its outcome. It waits in the
// queue like any other job.
type Planned struct {
	User, Name, Program string
	Nodes, Cores        int // cores on each node; the default of both is 1
	MemoryBytes         uint64
	GPUs                int // on each node
	Limit               time.Duration
	Submit              time.Duration // after the site begins
	Length              time.Duration // run time if nothing ends it earlier
	// Outcome is the final state, completed if empty, with an exit code. A cancelled job names who cancelled it.
	Outcome     string
	Exit        int
	CancelledBy string
	// Stuck is the reason for which it never starts; empty for a job that does.
	Stuck string
	// Steps are its consecutive steps, without the script's. Without steps, the work is in the script.
	Steps []PlannedStep
	Does  Does
}

// PlannedStep is one step of a planned job.
type PlannedStep struct {
	Name    string
	Length  time.Duration // 0 is the rest of the job
	Outcome string        // completed if empty
	Exit    int
}

// Does is the behaviour of a planned job on each of its nodes while it runs.
type Does struct {
	Cores   float64 // in use
	Wants   float64 // cores that its threads are ready for, if it gets fewer
	Threads int     // 0 is the number of its cores

	Needed, Cache, Swap uint64 // bytes of memory

	GPU      float64 // busy share of each of its devices
	GPUBytes uint64  // memory that it holds of each; without either it never opens one

	Read, Write     float64 // bytes a second
	ReadLimit       float64 // bytes a second that its control group may read from the disk nvme0n1, 0 for no limit
	Storage, Memory float64 // share of the time in which it is stalled on them
	Refaults        float64 // bytes a second
	Faults          float64 // major page faults a second
	Throttled       float64 // share of the time
	FirstNodeOnly   bool    // the other nodes do nothing
	OtherTasks      int     // idle tasks per step and node, in addition to the busy one
	OtherCores      float64 // use of each of OtherTasks
	Ends            time.Duration
	Zombies         int

	IPC        float64 // instructions in a cycle; 0 if its processors have no counters
	Traffic    float64 // bytes of memory that move in a second of CPU time
	FP, Scalar float64 // share of instructions that are floating-point, and of these of scalars

	// Bytes a second of TCP that it receives from and sends to other machines, and segments a second that it sends again.
	Receives, Sends, Resends float64

	// Ends, if not 0, is after how long its processes end, though the job holds on.
}

// PlannedSession is a login session on the login node.
type PlannedSession struct {
	User, Program string
	From, For     time.Duration // after the site begins
	Cores, Wants  float64
	MemoryBytes   uint64
	Zombies       int
}

// addPlanned adds the planned jobs and sessions to those that were drawn.
func (s *Site) addPlanned() error {
	for i := range s.Config.Plan {
		p := &s.Config.Plan[i]
		j := &Job{User: s.ensureUser(p.User), Name: p.Name, Program: p.Program, Partition: "batch", Nodes: max(p.Nodes, 1),
			Cores: max(p.Cores, 1), MemoryBytes: p.MemoryBytes,
			GPUs: p.GPUs, Limit: p.Limit, Submit: s.From.Add(p.Submit), Outcome: p.Outcome, Exit: p.Exit, CancelledBy: p.CancelledBy,
			Stuck: p.Stuck,
			plan:  p, length: p.Length, seed: uint64(i), kind: &programKind{ranks: 1, phases: []programPhase{{1, 1, 1, 0, 0, 0}}}}
		if j.Program == "" {
			j.Program = "work"
		}
		if j.Name == "" {
			j.Name = fmt.Sprintf("planned-%d", i)
		}
		if j.MemoryBytes == 0 {
			j.MemoryBytes = 1 << 30
		}
		if j.GPUs > 0 {
			j.Partition = "gpu"
		}
		if j.Outcome == "" {
			j.Outcome = completed
		}
		if j.Limit == 0 {
			j.Limit = max(2*j.length, time.Minute)
		}
		if j.Cores > s.Cores || p.Length <= 0 && p.Stuck == "" {
			return fmt.Errorf("planned job %s: %d cores for %v", j.Name, j.Cores, p.Length)
		}
		s.Jobs = append(s.Jobs, j)
	}
	return nil
}

// ensureUser returns a user by name and creates it if needed.
func (s *Site) ensureUser(name string) *User {
	for _, u := range s.Users {
		if u.Name == name {
			return u
		}
	}
	u := &User{Name: name, UID: uint32(2000 + len(s.Users)), Account: accounts[len(s.Users)%len(accounts)]}
	s.Users = append(s.Users, u)
	return u
}

// plannedSessions returns the sessions of the plan, with numbers behind those that were drawn.
func (s *Site) plannedSessions(after int) (out []*loginSession) {
	for i := range s.Config.Sessions {
		p := &s.Config.Sessions[i]
		from := s.From.Add(p.From)
		out = append(out, &loginSession{number: after + i + 1, user: s.ensureUser(p.User), start: from, end: from.Add(p.For),
			program: p.Program, plan: p})
	}
	return out
}

// demand returns the demand of a planned session.
func (p *PlannedSession) demand() groupDemand {
	return groupDemand{cores: max(p.Wants, p.Cores), most: p.Cores, anon: p.MemoryBytes}
}

// beginPlanned starts a planned job on the machine: its script and the processes in it or in its steps.
func (n *Node) beginPlanned(p *placement, base string) {
	j := p.job
	d := &j.plan.Does
	if d.Ends < 0 {
		return // not even its script
	}
	group := func(step string, task int, from, until time.Time) *simGroup {
		g := n.newGroup(base+step+"/user/task_"+strconv.Itoa(task), from, until)
		g.place, g.step = p, step
		g.limit, g.figures.MemoryMax = float64(j.Cores), j.MemoryBytes
		return g
	}
	batch := group("batch", 0, p.start, p.end)
	batch.startProcess(n, "slurm_script", j.User.UID, 1)
	batch.addZombies(n, d.Zombies, j.User.UID)
	if len(j.plan.Steps) == 0 {
		batch.startWorkers(n, p)
		return
	}
	at := p.start
	for i, step := range j.plan.Steps {
		end := p.end
		if step.Length > 0 && at.Add(step.Length).Before(end) {
			end = at.Add(step.Length)
		}
		group(strconv.Itoa(i), 0, at, end).startWorkers(n, p)
		for k := range d.OtherTasks {
			other := group(strconv.Itoa(i), k+1, at, end)
			other.cores = d.OtherCores
			other.startProcess(n, j.Program, j.User.UID, 1)
		}
		at = end
	}
}

// startWorkers starts the working processes, one for each device.
func (g *simGroup) startWorkers(n *Node, p *placement) {
	j := p.job
	g.works = true
	ranks := max(len(p.gpus), 1)
	for r := range ranks {
		q := g.startProcess(n, j.Program, j.User.UID, uint32(max(j.plan.Does.Threads/ranks, j.Cores/ranks, 1)))
		q.share = 1 / float64(ranks)
		if r < len(p.gpus) {
			q.gpu = p.gpus[r]
		}
	}
}

// endPlanned ends the processes of planned jobs that outlive the job.
func (n *Node) endPlanned(at time.Time) {
	for _, g := range n.groups {
		if g.place == nil || g.place.job.plan == nil || g.place.job.plan.Does.Ends <= 0 ||
			at.Sub(g.place.job.Start) < g.place.job.plan.Does.Ends {
			continue
		}
		for _, p := range g.procs {
			p.Anon, p.File, p.Shmem = 0, 0, 0
			n.exited = append(n.exited, p.Process)
			delete(n.procs, p.PID)
		}
		g.procs = nil
	}
}

// isWorking reports whether a planned job uses a node at the given time.
func (g *simGroup) isWorking(at time.Time) bool {
	j := g.place.job
	d := &j.plan.Does
	return (!d.FirstNodeOnly || g.place.first) && (d.Ends == 0 || at.Sub(j.Start) < d.Ends)
}

// plannedDemandAt returns the demand of a planned job on one node.
func (g *simGroup) plannedDemandAt(at time.Time) groupDemand {
	j := g.place.job
	d := &j.plan.Does
	if !g.isWorking(at) {
		return groupDemand{anon: 1 << 20}
	}
	out := groupDemand{
		cores: max(d.Wants, d.Cores), most: d.Cores, anon: d.Needed, file: d.Cache, read: d.Read, write: d.Write, gpu: d.GPU,
		gpuBytes: d.GPUBytes, planned: d,
	}
	if j.Outcome == outOfMemory && j.End.Sub(at) < 20*time.Second {
		out.killed, out.anon = true, j.MemoryBytes
	}
	return out
}

// addPressure adds the pressure on a planned job over some seconds to its control group and process.
func (g *simGroup) addPressure(d *Does, seconds float64) {
	if d == nil {
		return
	}
	c := &g.figures
	nanos := func(share float64) uint64 { return uint64(share * seconds * 1e9) }
	c.IOStallNanos += nanos(d.Storage)
	c.MemoryStallNanos += nanos(d.Memory)
	c.ThrottledNanos += nanos(d.Throttled)
	c.RefaultFile += uint64(d.Refaults * seconds)
	c.Swap = d.Swap
	if d.ReadLimit > 0 {
		c.IOLimits = &[]sensor.IOLimit{{Device: "nvme0n1", Bytes: [2]uint64{uint64(d.ReadLimit)}}}
		c.Have |= sensor.CgroupIOLimits
	}
	if len(g.procs) > 0 {
		p := g.procs[len(g.procs)-1]
		p.MajorFaults += uint64(d.Faults * seconds)
		p.Swap = d.Swap
		if d.Threads > 0 {
			p.Threads = uint32(d.Threads)
		}
	}
}

// addZombies adds ended processes that are never reaped.
func (g *simGroup) addZombies(n *Node, count int, uid uint32) {
	for range count {
		p := g.startProcess(n, "defunct", uid, 1)
		p.State, p.dead = 'Z', true
	}
}
