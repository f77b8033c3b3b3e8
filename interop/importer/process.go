package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"reckon/interop/sonar"
)

// The CPU time of a process, and its bytes read and written, include reaped children. The use of an
// ended process thus reappears as growth of its parent, or of the nearest ancestor, and is deducted
// there (see wait(2), getrusage(2), and wait_task_zombie in kernel/exit.c for the bytes).
//
// A process missing from a reading has ended, or its line was dropped by a filter or because it
// could not be read. A later reading shows which, so its state is kept: if it returns, it grows by
// the difference, and the deduction from its ancestor is reversed.

// procKey identifies a process of a job: by number, or by name and parent if sonar summed several.
type procKey struct {
	PID, PPID uint32
	Cmd       string
}

func toProcKey(p *sonar.Process) procKey {
	if p.PID == 0 {
		return procKey{PPID: p.PPID, Cmd: p.Cmd}
	}
	return procKey{PID: p.PID}
}

func (k procKey) compare(o procKey) int {
	return cmp.Or(cmp.Compare(k.PID, o.PID), cmp.Compare(k.PPID, o.PPID), cmp.Compare(k.Cmd, o.Cmd))
}

// processUse is the use of a process since its start: CPU seconds, bytes read, bytes written; negative if unknown.
type processUse [3]float64

const (
	usedCPU = iota
	usedRead
	usedWritten
)

// procState is a process at its last reading.
type procState struct {
	PPID uint32
	Cmd  string // empty if it is in the key, or unknown
	Seen int64  // time of that reading
	Used processUse

	// Deducted is the part of its use that was deducted from the growth of the ancestor By when later readings lacked this process.
	Deducted processUse
	By       uint32
}

// programName returns the name of a program without the suffix that the kernel adds for a dead process.
func programName(cmd string) string { return strings.TrimSuffix(cmd, " <defunct>") }

// sortedProcs lists processes in a fixed order, because the rounding of sums depends on it.
func sortedProcs[V any](m map[procKey]V) []procKey {
	return slices.SortedFunc(maps.Keys(m), procKey.compare)
}

// growthStep is the growth of the processes of a job from one reading to the next.
type growthStep struct {
	j     *jobState
	t     int64
	now   map[procKey]procState // in this reading
	gone  map[procKey]procState // missing from it, or reaped by another ancestor than assumed
	grown map[procKey]processUse
	has   [3]bool // reported by some process
	// back are the processes of this reading that were missing from earlier ones, by number, with the time of their last reading.
	back map[uint32]int64
	// returned is growth of earlier readings that was deducted from an ancestor, by number, for processes that had not ended.
	returned map[uint32]processUse
}

// computeGrowth computes the growth of each process without changing the job. procs must contain each process once.
func (j *jobState) computeGrowth(t int64, procs []*sonar.Process) *growthStep {
	a := &growthStep{
		j: j, t: t, now: make(map[procKey]procState, len(procs)), grown: make(map[procKey]processUse, len(procs)),
		gone: map[procKey]procState{}, back: map[uint32]int64{}, returned: map[uint32]processUse{},
	}
	for _, p := range procs {
		k := toProcKey(p)
		now := procState{PPID: p.PPID, Seen: t, Used: processUse{p.CPU, p.Read, p.Written}}
		if p.PID != 0 {
			now.Cmd = programName(p.Cmd)
		}
		for i, v := range now.Used {
			a.has[i] = a.has[i] || v >= 0
		}
		before, had := j.Procs[k]
		if had && before.Seen < j.Last {
			if had = before.isSameProcess(k, &now); had && k.PID != 0 {
				a.back[k.PID] = before.Seen
			}
		}
		a.addGrowth(k, &now, before, had, p.Rolled > 0 || p.PID == 0)
		a.now[k] = now
	}
	a.giveBack()
	a.moveUse(procs)
	a.deductMissing()
	return a
}

// isSameProcess reports whether a process that was missing is the one that is present now.
func (s *procState) isSameProcess(k procKey, now *procState) bool {
	more := now.Used[usedCPU] >= s.Used[usedCPU] || now.Used[usedCPU] < 0
	if k.PID == 0 { // a sum may have fewer processes, unless an ancestor reaped all of them
		return more || s.Deducted == processUse{}
	}
	return more && (s.Cmd == "" || s.Cmd == now.Cmd || s.PPID == now.PPID)
}

// addGrowth computes the growth of one process. several is true if sonar summed processes. The ended part is kept as a separate process.
func (a *growthStep) addGrowth(k procKey, now *procState, before procState, had, several bool) {
	var g, ended processUse
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
		case replaced: // the number was reused by another process
			g[i], ended[i] = v, b
		case v >= b:
			g[i] = v - b
		default: // some of several ended
			ended[i] = b - v
		}
	}
	a.grown[k] = g
	if had {
		a.undoDeduction(&before)
	}
	if ended != (processUse{}) {
		a.gone[k.endedKey(&before)] = procState{PPID: before.PPID, Seen: a.j.Last, Used: ended}
	}
}

// endedKey returns the key of the ended part of a process.
func (k procKey) endedKey(s *procState) procKey {
	cmd := k.Cmd
	if k.PID != 0 {
		cmd = s.Cmd
	}
	return procKey{PPID: s.PPID, Cmd: fmt.Sprintf("%s\x00%d/%d", cmd, k.PID, s.Seen)}
}

// chargeJob adds the growth to the totals of the job, and stores the processes.
func (a *growthStep) chargeJob(procs []*sonar.Process) {
	j := a.j
	j.HasCPU = j.HasCPU || a.has[usedCPU]
	j.HasIO = j.HasIO || a.has[usedRead] || a.has[usedWritten]
	add := func(cmd string, g processUse, hasCPU bool) {
		j.Read += g[usedRead]
		j.Written += g[usedWritten]
		if hasCPU {
			j.CPU += g[usedCPU]
			j.addCommand(cmd, g[usedCPU])
		}
	}
	for _, by := range sortedKeys(a.returned) {
		add(j.Procs[procKey{PID: by}].Cmd, a.returned[by], a.returned[by][usedCPU] > 0)
	}
	for _, p := range procs {
		k := toProcKey(p)
		if g, ok := a.grown[k]; ok {
			add(p.Cmd, g, a.now[k].Used[usedCPU] >= 0)
			delete(a.grown, k)
		}
	}
	maps.Copy(j.Procs, a.now)
	maps.Copy(j.Procs, a.gone)
	j.forgetAbsent(a.t)
}

// maxCommands is the number of programs of a job that are distinguished.
const maxCommands = 16

// addCommand adds CPU time to a program of the job.
func (j *jobState) addCommand(cmd string, seconds float64) {
	cmd = programName(cmd)
	if _, ok := j.Commands[cmd]; !ok && (len(j.Commands) >= maxCommands || cmd == "") {
		cmd = "other"
	}
	j.Commands[cmd] += seconds
}
