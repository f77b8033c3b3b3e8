package simulate

import (
	"fmt"
	"io/fs"
	"math"
	"time"

	"reckon/sensor"
)

// simGroup is a simulated control group with its processes.
type simGroup struct {
	path   string
	number uint64
	from   time.Time
	until  time.Time // zero: as long as the machine is up
	over   bool      // its processes have ended
	gone   bool      // it was removed

	place   *placement // of the job
	step    string
	works   bool    // it holds the work of the job, and not only its script
	cores   float64 // of an other task that works less
	unit    service
	session *loginSession
	pod     *simPod

	procs   []*simProcess
	limit   float64 // cores, 0 for no limit
	carry   float64 // short processes that are due, the part below one
	counted processCounts
	traffic processTraffic
	figures sensor.Cgroup

	// The step that is under way.
	wish   groupDemand
	got    float64 // cores, over the whole step
	active float64 // seconds of the step in which it lived
}

// simProcess is a simulated process.
type simProcess struct {
	sensor.Process
	share float64 // share of the use of its group; the first process takes the rest
	gpu   int     // the device that it uses, -1 for none
	dead  bool    // a zombie
}

// systemShare is the kernel's share of CPU time.
const systemShare = 0.04

const (
	haveProcess = sensor.FieldWait | sensor.FieldSwitches | sensor.FieldFaults | sensor.FieldMemory | sensor.FieldSwap | sensor.FieldIO |
		sensor.FieldCgroup | sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent | sensor.FieldCPUSplit
	haveCgroup = sensor.CgroupCPU | sensor.CgroupCPUSplit | sensor.CgroupThrottle | sensor.CgroupMemory | sensor.CgroupSwap |
		sensor.CgroupPeak |
		sensor.CgroupEvents | sensor.CgroupIO | sensor.CgroupPIDs | sensor.CgroupPressure | sensor.CgroupShmem | sensor.CgroupKernel |
		sensor.CgroupRefaults | sensor.CgroupFilled
)

func (n *Node) newGroup(path string, from, until time.Time) *simGroup {
	n.count++
	g := &simGroup{path: path, number: n.count, from: from, until: until}
	g.figures.Have = haveCgroup
	n.groups = append(n.groups, g)
	n.paths[path], n.numbers[g.number] = g, g
	return g
}

// startProcess starts a process in the group.
func (g *simGroup) startProcess(n *Node, comm string, uid, threads uint32) *simProcess {
	n.pid++
	p := &simProcess{gpu: -1}
	p.PID, p.PPID, p.PGID, p.SID, p.UID = n.pid, 1, n.pid, n.pid, uid
	p.Start = uint64(max(g.from.Sub(n.boot), time.Millisecond))
	p.Cgroup, p.Have, p.State, p.Threads = g.number, haveProcess, 'S', threads
	p.Comm = sensor.CommOf([]byte(comm))
	g.procs = append(g.procs, p)
	n.procs[p.PID] = p
	return p
}

// computeDemand determines the use that the group wants in a step.
func (g *simGroup) computeDemand(n *Node, from, to time.Time, span float64) {
	g.wish, g.got, g.active = groupDemand{}, 0, 0
	if g.over {
		return
	}
	if g.from.After(from) {
		from = g.from
	}
	if !g.until.IsZero() && g.until.Before(to) {
		to = g.until
	}
	if g.active = to.Sub(from).Seconds(); g.active <= 0 {
		return
	}
	g.wish = g.demandAt(n, from.Add(to.Sub(from)/2), g.active)
	g.got = g.wish.cores
	if g.wish.most > 0 {
		g.got = min(g.got, g.wish.most)
	}
	if g.limit > 0 {
		g.got = min(g.got, g.limit)
	}
	g.got *= g.active / span
}

// addUse adds the use during the given seconds.
func (g *simGroup) addUse(n *Node, d groupDemand, cores, seconds float64) {
	c := &g.figures
	used := cores * seconds * 1e9
	c.UsageNanos += uint64(used)
	c.SystemNanos += uint64(used * systemShare)
	c.UserNanos = c.UsageNanos - c.SystemNanos
	wait := max(d.cores-cores, 0) * seconds * 1e9
	c.CPUWaitNanos += uint64(min(wait, seconds*1e9))
	c.ReadBytes += uint64(d.read * seconds)
	c.WriteBytes += uint64(d.write * seconds)
	if d.planned == nil {
		c.IOStallNanos += uint64(min((d.read+d.write)/(400*mb), 0.9) * seconds * 1e9)
	}
	if d.anon > c.Anon {
		c.Filled += d.anon - c.Anon
	}
	c.Anon, c.File, c.Shmem = d.anon, d.file, d.shmem
	c.Current = d.anon + d.file + d.shmem
	c.Peak = max(c.Peak, c.Current)
	if c.MemoryMax > 0 {
		c.Have |= sensor.CgroupMemoryMax
	}
	if d.killed && c.OOMKills == 0 {
		c.OOMKills, c.MaxEvents, c.Peak = 1, c.MaxEvents+200, c.MemoryMax
	}
	short := 0.0
	if d.shorts > 0 && seconds > 0 {
		short = g.simulateShort(n, d, used)
	}
	c.PIDs = uint64(len(g.procs))
	g.distribute(used-short, wait, d, seconds)
	g.addPressure(d.planned, seconds)
	g.countProcessor(d.planned, used)
	g.addTraffic(d.planned, seconds)
	for _, p := range g.procs {
		if p.gpu >= 0 && p.gpu < len(n.gpus) && (d.planned == nil || d.gpu > 0 || d.gpuBytes > 0) {
			n.gpus[p.gpu].addUse(p.PID, d.gpu*seconds, d.gpuBytes)
		}
	}
}

// distribute distributes the use of the group to its processes.
func (g *simGroup) distribute(used, wait float64, d groupDemand, seconds float64) {
	rest := 1.0
	for _, p := range g.procs[min(1, len(g.procs)):] {
		rest -= p.share
	}
	for i, p := range g.procs {
		if p.dead {
			continue
		}
		s := p.share
		if i == 0 {
			s = max(rest, 0)
		}
		p.State = 'S'
		if used*s > seconds*1e8 {
			p.State = 'R'
		}
		system := uint64(used * s * systemShare)
		p.SystemNanos += system
		p.UserNanos += uint64(used*s) - system
		p.WaitNanos += uint64(wait * s)
		p.Voluntary += uint64(seconds*2 + (d.read+d.write)*s*seconds/65536)
		p.Involuntary += uint64(wait*s/4e6 + used*s/1e8)
		p.MinorFaults += uint64(used * s / 1e6)
		p.ReadBytes += uint64(d.read * s * seconds)
		p.WriteBytes += uint64(d.write * s * seconds)
		p.Anon, p.File, p.Shmem = uint64(float64(d.anon)*s), uint64(float64(d.file)*s/4), uint64(float64(d.shmem)*s)
		p.PeakBytes = max(p.PeakBytes, p.Anon+p.File+p.Shmem)
	}
}

// simulateShort simulates short processes within the step. It returns the CPU time that they used together in nanoseconds.
func (g *simGroup) simulateShort(n *Node, d groupDemand, used float64) float64 {
	const share, most = 0.6, 60
	g.carry += d.shorts
	count := min(int(g.carry), most)
	g.carry -= math.Floor(g.carry)
	if count == 0 || len(g.procs) == 0 {
		return 0
	}
	parent := g.procs[len(g.procs)-1]
	each := uint64(used * share / float64(count))
	for i := range count {
		n.pid++
		p := sensor.Process{PID: n.pid, PPID: parent.PID, PGID: parent.PGID, SID: parent.SID, UID: parent.UID}
		p.Start = uint64(n.now.Sub(n.boot)) + uint64(i+1)*uint64(time.Millisecond)
		p.Cgroup, p.Have, p.State, p.Threads = g.number, haveProcess, 'X', 1
		p.Comm = sensor.CommOf([]byte(d.tools[(int(n.pid)+i)%len(d.tools)]))
		p.SystemNanos = each / 10
		p.UserNanos = each - p.SystemNanos
		n.exited = append(n.exited, p)
	}
	return float64(each) * float64(count)
}

// Groups returns the machine as a reader of control groups.
func (n *Node) Groups() sensor.CgroupReader { return groupReader{n} }

type groupReader struct{ n *Node }

// Open implements [sensor.CgroupReader]. The group of a step is the parent of its task.
func (r groupReader) Open(paths []sensor.CgroupPath) (sensor.CgroupHandle, error) {
	for _, p := range paths {
		for _, name := range []string{p.Path, p.Path + "/task_0"} {
			if g := r.n.paths[name]; g != nil {
				return groupHandle{g}, nil
			}
		}
	}
	return nil, fmt.Errorf("control group %v: %w", paths, fs.ErrNotExist)
}

func (r groupReader) Close() error { return nil }

type groupHandle struct{ g *simGroup }

// Read implements [sensor.CgroupHandle].
func (h groupHandle) Read(c *sensor.Cgroup) error {
	if h.g.gone {
		return fs.ErrNotExist
	}
	*c = h.g.figures
	return nil
}

func (groupHandle) Close() error { return nil }
