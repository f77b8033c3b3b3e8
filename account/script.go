package account

import (
	"reckon/metric"
	"reckon/sensor"
)

var processesLeft = metric.NewDesc("reckon_workload_processes_left", metric.Gauge, metric.None, chargedLabels(),
	"Processes of a batch script that were still running when the script ended; absent while it runs, and where there were none.")

// script is the process of a job's batch script on this node: the first process of the batch step.
type script struct {
	pid        int32
	start, end uint64 // boot times, end 0 while it runs
	tick       uint64 // of its exit record
	at         int    // its place among the records of that tick
	left       uint32 // processes alive at its end
	row        *metric.Series
}

func (p *Part) script() *script {
	if p.byTask == nil {
		return nil
	}
	return p.byTask.script
}

// recordScript records e as the batch script of its step if it is the oldest process of the step. parent is the part of the
// parent process, or nil. If start times are inexact and two processes have about the same age, the lower process id
// decides. That does not apply to children of the step, because process ids wrap around.
func (tab *table) recordScript(e *process, parent *Part) {
	switch s, p := e.part.script(), e.part; {
	case p.part != "batch" || !p.kind.Scheduled():
	case s == nil:
		p.ensureTasks().script = &script{pid: e.pid, start: e.start}
	case s.end != 0:
	case (tab.exact || !sensor.SameStart(e.start, s.start)) && e.start < s.start,
		!tab.exact && sensor.SameStart(e.start, s.start) && e.pid < s.pid && parent != p:
		s.pid, s.start = e.pid, e.start
	}
}

// endScripts finds the scripts that ended in a pass and counts the processes that outlived them.
// Joined records have exact times; taskstats records are compared by their order.
func (tab *table) endScripts(pass *sensor.Pass) {
	tab.scripts = false
	for _, counts := range [...]bool{false, true} {
		for i := range pass.Exited {
			p := &pass.Exited[i]
			e := tab.byID[p.PID]
			if e == nil || e.part.script() == nil || !sensor.SameStart(e.start, p.Start) {
				continue
			}
			switch s := e.part.script(); {
			case e.pid == s.pid && sensor.SameStart(e.start, s.start):
				if s.end == 0 && sensor.SameStart(s.start, e.part.start) { // else it ended unseen
					s.end, s.tick, s.at = max(e.start+p.Life, 1), tab.tick, i
				}
			case !counts || s.end == 0 || e.start >= s.end:
			case pass.Joined && e.start+p.Life > s.end, !pass.Joined && (s.tick != tab.tick || i > s.at):
				s.left++
			}
		}
	}
}
