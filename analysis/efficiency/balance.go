package efficiency

import (
	"math"

	"reckon/figure"
	"reckon/internal/phrase"
)

// reportBalance reports uneven work, memory or GPU use among the nodes.
func (j *judge) reportBalance() {
	if j.u.Exactness["cpu_seconds"] == figure.Exact {
		j.compareNodes()
		j.reportTasks()
	}
	if low, _, mean, ok := j.extremes(func(n *Node) *float64 { return n.GPUSeconds }); ok && mean >= settled &&
		j.u.Exactness["gpu_seconds"] == figure.Exact {
		if share := *low.GPUSeconds / mean; share < uneven {
			j.addVerdict("gpu_balance", Warning, share, "ratio", "balance.gpus",
				phrase.Words{"node": low.Name, "share": phrase.Percent(share), "nodes": j.nodeCount()})
		}
	}
	if _, high, mean, ok := j.extremes(func(n *Node) *float64 { return n.Memory }); ok && mean >= 1<<30 &&
		j.u.memoryExact() == figure.Exact {
		if times := *high.Memory / mean; times > 2 {
			j.addVerdict("memory_balance", Info, times, "ratio", "balance.memory",
				phrase.Words{"node": high.Name, "times": cores(times), "nodes": j.nodeCount()})
		}
	}
}

func (j *judge) nodeCount() phrase.Text { return phrase.Count(float64(len(j.u.PerNode))) }

// compareNodes compares the nodes of a workload with their mean.
func (j *judge) compareNodes() {
	least, _, mean, ok := j.extremes(func(n *Node) *float64 { return n.CPUSeconds })
	if !ok || mean < settled {
		return
	}
	share := *least.CPUSeconds / mean
	words := phrase.Words{"node": least.Name, "share": phrase.Percent(share), "nodes": j.nodeCount()}
	if share < uneven {
		j.addVerdict("balance", Warning, share, "ratio", "balance.uneven", words)
		return
	}
	j.addVerdict("balance", Good, share, "ratio", "balance.even", words)
}

// reportTasks reports the step with the most uneven tasks on a node, compared with its busiest task.
func (j *judge) reportTasks() {
	var worst *TaskUse
	least := uneven
	for i := range j.u.Tasks {
		t := &j.u.Tasks[i]
		if t.Tasks < 2 || t.Busiest < worth {
			continue
		}
		if share := t.otherMean() / t.Busiest; share < least {
			worst, least = t, share
		}
	}
	if worst == nil {
		return
	}
	step := Step{ID: worst.Step}
	for i := range j.u.JobSteps {
		if s := &j.u.JobSteps[i]; s.ID == worst.Step {
			step = *s
		}
	}
	words := phrase.Words{
		"tasks": phrase.Count(worst.Tasks), "step": step.describe(), "node": worst.Node,
		"busiest": phrase.Time(worst.Busiest), "rest": phrase.Time(worst.otherMean()),
	}
	key := "balance.tasks"
	if worst.Tasks == 2 {
		key = "balance.two-tasks"
	}
	j.addVerdict("task_balance", Warning, least, "ratio", key, words)
}

// otherMean returns the mean CPU time of the tasks other than the busiest, seconds.
func (t *TaskUse) otherMean() float64 { return max(t.CPUSeconds-t.Busiest, 0) / (t.Tasks - 1) }

// extremes returns the nodes with the lowest and the highest value of a figure, and the mean over nodes. ok is false if
// a node has no measurement, because such a node was not necessarily idle.
func (j *judge) extremes(of func(*Node) *float64) (low, high Node, mean float64, ok bool) {
	least, most := math.Inf(1), math.Inf(-1)
	for i := range j.u.PerNode {
		n := &j.u.PerNode[i]
		v, measured := figure.Known(of(n))
		if !measured {
			return low, high, 0, false
		}
		mean += v / float64(len(j.u.PerNode))
		if v < least {
			least, low = v, *n
		}
		if v > most {
			most, high = v, *n
		}
	}
	return low, high, mean, len(j.u.PerNode) > 1
}
