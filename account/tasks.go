package account

import "reckon/metric"

// A step of a batch job often has several tasks on a node. If the batch system distinguishes them, their number and the
// CPU time of the busiest task show how balanced the step is. These are two series per step for any number of tasks.
var (
	taskCount = metric.NewDesc("reckon_workload_tasks", metric.Gauge, metric.None, chargedLabels(),
		"Tasks that the batch system started in the part on the node; absent where it has fewer than two, or they cannot be distinguished.")
	busiestTask = metric.NewDesc("reckon_workload_busiest_task_cpu_seconds_total", metric.Counter, metric.Seconds, chargedLabels(),
		"CPU time of the part's busiest task on the node; a lower bound. Tasks with equal work use reckon_workload_cpu_seconds_total "+
			"/ reckon_workload_tasks each.")
)

// maxTasks is the maximum number of tasks of a part that are distinguished. A part with more exports no task series.
const maxTasks = 4096

// tasks is the CPU time of the tasks of a part.
type tasks struct {
	names    []string
	nanos    []uint64
	overflow bool
	script   *script // nil for processes that belong to no batch script step
	count    *metric.Series
	busiest  *metric.Series
}

// taskNumber returns the number of a task by its name, counted from 1. It returns 0 for a process without a task.
func (p *Part) taskNumber(name string) int16 {
	if name == "" {
		return 0
	}
	t := p.ensureTasks()
	for i := range t.names {
		if t.names[i] == name {
			return int16(i + 1)
		}
	}
	if len(t.names) == maxTasks {
		t.overflow = true
		return 0
	}
	t.names, t.nanos = append(t.names, name), append(t.nanos, 0)
	return int16(len(t.names))
}

func (p *Part) ensureTasks() *tasks {
	if p.byTask == nil {
		p.byTask = new(tasks)
	}
	return p.byTask
}

// exportTasks appends the task balance of a part.
func (p *Part) exportTasks(b *metric.Batch) {
	t := p.byTask
	if t == nil || len(t.nanos) < 2 || t.overflow {
		return
	}
	if t.count == nil {
		t.count, t.busiest = p.newSeries(taskCount), p.newSeries(busiestTask)
	}
	most := uint64(0)
	for _, n := range t.nanos {
		most = max(most, n)
	}
	b.Add(t.count, float64(len(t.nanos)))
	b.Add(t.busiest, toSeconds(most))
}

// taskState returns the serialized CPU nanoseconds of a part's tasks by name.
func (p *Part) taskState() map[string]uint64 {
	if p.byTask == nil || p.byTask.overflow {
		return nil
	}
	out := make(map[string]uint64, len(p.byTask.names))
	for i, name := range p.byTask.names {
		out[name] = p.byTask.nanos[i]
	}
	return out
}

func (p *Part) restoreTasks(byName map[string]uint64) {
	for name, nanos := range byName {
		if i := p.taskNumber(name); i > 0 {
			p.byTask.nanos[i-1] = nanos
		}
	}
}
