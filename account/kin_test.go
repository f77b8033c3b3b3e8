package account

import (
	"slices"

	"reckon/sensor"
)

// kin is a machine of processes with the kernel's rules of waiting: the use of a child and
// of its own children is added to the child times of the parent that waits for it, and
// /proc shows those in clock ticks of 10 ms. It also keeps the true values.
type kin struct {
	procs map[int32]*kinProc
	next  int32
	used  uint64           // by all
	forks uint64           // so far
	truth map[int32]uint64 // by process group
	given map[int32]bool   // ids that were given out
	turns bool             // readings show how often a process got a processor: once more when it waits for a child
}

type kinProc struct {
	pid, ppid, pgid   int32
	start, cpu, child uint64
	dead              bool
	turns             uint64
}

func newKin(boot uint64) *kin {
	k := &kin{procs: map[int32]*kinProc{}, next: 100, truth: map[int32]uint64{}, given: map[int32]bool{}}
	k.procs[1] = &kinProc{pid: 1, pgid: 1, start: boot}
	return k
}

// fork creates a child, in its parent's group or in one of its own.
func (k *kin) fork(parent int32, own bool, now uint64) int32 {
	k.forks++
	k.next++
	for k.procs[k.next] != nil || k.given[k.next] {
		k.next++
	}
	k.given[k.next] = true
	p := &kinProc{pid: k.next, ppid: parent, pgid: k.procs[parent].pgid, start: now - now%1e7}
	if own {
		p.pgid = p.pid
	}
	k.procs[p.pid] = p
	return p.pid
}

func (k *kin) run(pid int32, nanos uint64) {
	p := k.procs[pid]
	p.cpu += nanos
	k.used += nanos
	k.truth[p.pgid] += nanos
}

// exit ends a process; its children become children of process 1, or of reaper.
func (k *kin) exit(pid, reaper int32) {
	k.procs[pid].dead = true
	for _, q := range k.procs {
		if q.ppid == pid {
			q.ppid = reaper
		}
	}
}

// wait lets the parent wait for a dead child.
func (k *kin) wait(pid int32) {
	p := k.procs[pid]
	k.procs[p.ppid].child += p.cpu + p.child
	k.procs[p.ppid].turns++
	delete(k.procs, pid)
}

// end ends a process and lets its parent wait for it.
func (k *kin) end(pid int32) { k.exit(pid, 1); k.wait(pid) }

// torn is a pass during which something happens: ids below cut show the state before, the
// others the state after.
func torn(before, after []sensor.Process, cut int32) (out []sensor.Process) {
	for _, p := range before {
		if p.PID < cut {
			out = append(out, p)
		}
	}
	for _, p := range after {
		if p.PID >= cut {
			out = append(out, p)
		}
	}
	return out
}

// live is a pass of a source without exit records.
func (k *kin) live() []sensor.Process {
	var out []sensor.Process
	for _, p := range k.procs {
		q := proc(p.pid, p.pgid, p.start, p.cpu)
		q.PPID = p.ppid
		q.Have |= sensor.FieldChildren
		q.ChildUserNanos = p.child - p.child%1e7
		if k.turns {
			q.Have |= sensor.FieldTurns
			q.Turns, q.State = 1+p.turns, 'S'
		}
		if p.dead {
			q.State = 'Z'
		}
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b sensor.Process) int { return int(a.PID - b.PID) })
	return out
}

// zombies returns the dead processes that were not waited for yet, the youngest first.
func (k *kin) zombies() (out []int32) {
	for pid, p := range k.procs {
		if p.dead {
			out = append(out, pid)
		}
	}
	slices.SortFunc(out, func(a, b int32) int { return int(b - a) })
	return out
}

func (k *kin) hasChildren(pid int32) bool {
	for _, p := range k.procs {
		if p.ppid == pid {
			return true
		}
	}
	return false
}
