package importer

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"reckon/internal/sorting"
	"reckon/interop/sonar"
)

// A process counts the CPU time, and the bytes read and written, of the children it has
// waited for. So what a process that ended had used comes again as growth of its parent, or
// of the nearest ancestor above, and is deducted there (see wait(2), getrusage(2), and
// wait_task_zombie in kernel/exit.c for the bytes).
//
// A process that a reading lacks has ended, or its line was dropped: by a filter, or because
// it could not be read. Which of the two shows when it is in a later reading again. Its state
// is kept for that: it then grows by the difference, and what was deducted from its ancestor
// is credited again.

// procKey identifies a process of a job: by number, or by name and parent where sonar
// added several up.
type procKey struct {
	PID, PPID uint32
	Cmd       string
}

func procKeyOf(p *sonar.Process) procKey {
	if p.PID == 0 {
		return procKey{PPID: p.PPID, Cmd: p.Cmd}
	}
	return procKey{PID: p.PID}
}

func (k procKey) compare(o procKey) int {
	return cmp.Or(cmp.Compare(k.PID, o.PID), cmp.Compare(k.PPID, o.PPID), cmp.Compare(k.Cmd, o.Cmd))
}

// used is what a process has used since it began: CPU seconds, bytes read, bytes written;
// negative where unknown.
type used [3]float64

const (
	usedCPU = iota
	usedRead
	usedWritten
)

// procState is a process at the last reading that had it.
type procState struct {
	PPID uint32
	Cmd  string // empty where it is in the key, or unknown
	Seen int64  // time of that reading
	Used used

	// Deducted is what of it was deducted from the growth of the ancestor By when later
	// readings lacked this process.
	Deducted used
	By       uint32
}

// program is the name of a program without what the kernel adds to that of a dead process.
func program(cmd string) string { return strings.TrimSuffix(cmd, " <defunct>") }

// sortedProcs lists processes in a fixed order: sums of fractions depend on it.
func sortedProcs[V any](m map[procKey]V) []procKey {
	return sorting.Collect(maps.Keys(m), procKey.compare)
}

// advance is what the processes of a job grew by from one reading to the next.
type advance struct {
	j     *jobState
	t     int64
	now   map[procKey]procState // in this reading
	gone  map[procKey]procState // no longer in it, or waited for by another ancestor than believed
	grown map[procKey]used
	has   [3]bool // that some process says
	// back are the processes of this reading that earlier ones lacked, by number, with
	// the time when they were last seen.
	back map[uint32]int64
	// returned is growth of earlier readings that was deducted from an ancestor, by number,
	// for what had not ended.
	returned map[uint32]used
}

// growth finds what each process grew by. It changes nothing of the job. procs has each
// process once.
func (j *jobState) growth(t int64, procs []*sonar.Process) *advance {
	a := &advance{
		j: j, t: t, now: make(map[procKey]procState, len(procs)), grown: make(map[procKey]used, len(procs)),
		gone: map[procKey]procState{}, back: map[uint32]int64{}, returned: map[uint32]used{},
	}
	for _, p := range procs {
		k := procKeyOf(p)
		now := procState{PPID: p.PPID, Seen: t, Used: used{p.CPU, p.Read, p.Written}}
		if p.PID != 0 {
			now.Cmd = program(p.Cmd)
		}
		for i, v := range now.Used {
			a.has[i] = a.has[i] || v >= 0
		}
		before, had := j.Procs[k]
		if had && before.Seen < j.Last {
			if had = before.same(k, &now); had && k.PID != 0 {
				a.back[k.PID] = before.Seen
			}
		}
		a.grow(k, &now, before, had, p.Rolled > 0 || p.PID == 0)
		a.now[k] = now
	}
	a.giveBack()
	a.regroup(procs)
	a.absences()
	return a
}

// same reports whether a process that readings lacked since is the one that is there now.
func (s *procState) same(k procKey, now *procState) bool {
	more := now.Used[usedCPU] >= s.Used[usedCPU] || now.Used[usedCPU] < 0
	if k.PID == 0 { // fewer may be left of several, unless an ancestor waited for all of them
		return more || s.Deducted == used{}
	}
	return more && (s.Cmd == "" || s.Cmd == now.Cmd || s.PPID == now.PPID)
}

// grow finds what one process grew by: several says that sonar added processes up. What of
// it ended is kept as a process of its own.
func (a *advance) grow(k procKey, now *procState, before procState, had, several bool) {
	var g, ended used
	replaced := had && !several && now.Used[usedCPU] >= 0 && now.Used[usedCPU] < before.Used[usedCPU]
	for i, v := range now.Used {
		b := before.Used[i]
		switch {
		case v < 0:
			if had {
				now.Used[i] = b // until it is reported again
			}
		case !had || b < 0:
			g[i] = v
		case replaced: // the number was given to another process
			g[i], ended[i] = v, b
		case v >= b:
			g[i] = v - b
		default: // of several some ended
			ended[i] = b - v
		}
	}
	a.grown[k] = g
	if had {
		a.undo(&before)
	}
	if ended != (used{}) {
		a.gone[k.ghost(&before)] = procState{PPID: before.PPID, Seen: a.j.Last, Used: ended}
	}
}

// ghost is the key of what ended of a process.
func (k procKey) ghost(s *procState) procKey {
	cmd := k.Cmd
	if k.PID != 0 {
		cmd = s.Cmd
	}
	return procKey{PPID: s.PPID, Cmd: fmt.Sprintf("%s\x00%d/%d", cmd, k.PID, s.Seen)}
}

// charge adds the growth to the totals of the job, and takes the processes over.
func (a *advance) charge(procs []*sonar.Process) {
	j := a.j
	j.HasCPU = j.HasCPU || a.has[usedCPU]
	j.HasIO = j.HasIO || a.has[usedRead] || a.has[usedWritten]
	add := func(cmd string, g used, hasCPU bool) {
		j.Read += g[usedRead]
		j.Written += g[usedWritten]
		if hasCPU {
			j.CPU += g[usedCPU]
			j.command(cmd, g[usedCPU])
		}
	}
	for _, by := range sortedKeys(a.returned) {
		add(j.Procs[procKey{PID: by}].Cmd, a.returned[by], a.returned[by][usedCPU] > 0)
	}
	for _, p := range procs {
		k := procKeyOf(p)
		if g, ok := a.grown[k]; ok {
			add(p.Cmd, g, a.now[k].Used[usedCPU] >= 0)
			delete(a.grown, k)
		}
	}
	maps.Copy(j.Procs, a.now)
	maps.Copy(j.Procs, a.gone)
	j.forgetAbsent(a.t)
}

// maxCommands is how many programs of a job are distinguished.
const maxCommands = 16

// command adds CPU time to one of the programs of the job.
func (j *jobState) command(cmd string, seconds float64) {
	cmd = program(cmd)
	if _, ok := j.Commands[cmd]; !ok && (len(j.Commands) >= maxCommands || cmd == "") {
		cmd = "other"
	}
	j.Commands[cmd] += seconds
}
