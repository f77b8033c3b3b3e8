package answer

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"reckon/analysis/efficiency"
	"reckon/analysis/rightsize"
	"reckon/figure/wire"
	"reckon/internal/phrase"
	"reckon/store"
	"reckon/workload"
)

// maxAdviceRuns is the number of latest runs of the same name that advice is based on.
const maxAdviceRuns = 20

// recommend returns the recommended request for the next run of a workload. It returns nil for a workload without a
// request, or without a recommendation.
func (b *Jobs) recommend(ctx context.Context, d *wire.WorkloadDetail) (*wire.Advice, error) {
	kind := workload.Kind(d.Kind)
	if !kind.Requests() || d.State == "pending" || d.Lost && !kind.Service() || b.awaitsReport(d) || isUnadvisedGroup(d) {
		return nil, nil
	}
	if kind.Service() {
		if a, err := b.recommendService(ctx, d); a != nil || err != nil || d.Lost {
			return a, err
		}
	}
	var rows []store.Workload
	var err error
	if !kind.Group() { // many programs run under the name of a shell
		if rows, err = sameName(ctx, b.Catalogue, &d.Workload, maxAdviceRuns); err != nil {
			return nil, err
		}
	}
	own, err := b.toRun(ctx, &d.Workload)
	if err != nil {
		return nil, err
	}
	own.Idle = own.Idle || efficiency.Rested(efficiency.Usage{Run: own.Run, WallSeconds: own.Seconds, GPUs: own.GPUs,
		RestSeconds: d.RestSeconds})
	runs := []rightsize.Run{own}
	for i := range rows {
		r := toAPI(&rows[i])
		if r.ID == d.ID && r.Start.Equal(d.Start) {
			continue
		}
		run, err := b.toRun(ctx, &r)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	a := rightsize.Recommend(runs, !kind.Scheduled() && d.RequestCores != nil)
	if a == nil {
		return nil, nil
	}
	nodes := runs[0].Nodes
	out := &wire.Advice{Runs: a.Runs, Cores: a.Cores, MemoryBytes: a.Memory, Seconds: a.Seconds, GPUs: a.GPUs, Nodes: nodes,
		Why: []string{}, Sentences: []wire.Sentence{}}
	for _, why := range a.Why {
		addSentence(out, why, d)
	}
	if nodes > 1 && a.Memory != nil {
		each, uneven := memoryPerNode(d, *a.Memory)
		out.MemoryBytes = &each
		if uneven.Key != "" {
			addSentence(out, uneven, d)
		}
	}
	switch {
	case kind.Scheduled():
		out.Paste = a.Slurm(nodes, out.MemoryBytes, orZero(d.RequestTasks))
	case nodes == 1 && (kind.Pod() || kind.Container()):
		out.Paste = a.Kubernetes()
	}
	return out, nil
}

// noAdviceReason returns why a workload has no advice, and when it will have some.
func (b *Jobs) noAdviceReason(d *wire.WorkloadDetail) *wire.Verdict {
	key, words := "inexact", phrase.Words(nil)
	switch kind := workload.Kind(d.Kind); {
	case !kind.Requests():
		key, words = "kind", phrase.Words{"kind": d.Kind}
	case d.State == "pending":
		key = "pending"
	case kind.Service():
		key = "service"
	case d.Running:
		key = "running"
	case d.Lost:
		key = "lost"
	case b.awaitsReport(d):
		key = "unheard"
	case isUnadvisedGroup(d):
		key = "short"
	}
	s := sentences.Sentence("advice.none."+key, words)
	return &wire.Verdict{Kind: "advice", Severity: "info", Text: s.String(), Sentence: sentenceOf(s, &d.Workload)}
}

// isUnadvisedGroup reports whether d is a process group without advice: it runs, or ran too briefly.
func isUnadvisedGroup(d *wire.WorkloadDetail) bool {
	return workload.Kind(d.Kind).Group() && (d.Running || ranSeconds(&d.Workload) < rightsize.Settled)
}

// awaitsReport reports whether a job has just ended and its batch system has not reported the end yet. The report brings
// limits, steps and OOM kills.
func (b *Jobs) awaitsReport(d *wire.WorkloadDetail) bool {
	return workload.Kind(d.Kind).Scheduled() && d.State == "" && d.End != nil && b.Clock().Sub(*d.End) < accountingDelay
}

// accountingDelay is the time after the end of a job for which the report of its batch system is awaited.
const accountingDelay = time.Minute

// toRun returns a run with the exactness of its figures.
func (b *Jobs) toRun(ctx context.Context, w *wire.Workload) (rightsize.Run, error) {
	cores, _ := w.GivenCores()
	memory, _ := w.GivenMemory()
	gpus, _ := w.GivenGPUs()
	r := rightsize.Run{
		Run: runRecord(w), Seconds: ranSeconds(w), Nodes: requestedNodes(w), Cores: cores, Memory: memory, GPUs: gpus,
		Done:        endedWell(w),
		OutOfMemory: w.State == "out_of_memory" || w.OOMKills != nil && *w.OOMKills > 0,
		Limit:       w.State == "timeout",
		Cut:         workload.Kind(w.Kind).Scheduled() && !endedWell(w) && w.State != "timeout", // such runs may need more yet
		Waited:      w.WaitShare() >= 0.1,
		Service:     workload.Kind(w.Kind).Service() || workload.Kind(w.Kind).Group(), // a shell lasts as long as its user
	}
	r.Idle = efficiency.Idle(efficiency.Usage{Run: r.Run, WallSeconds: r.Seconds, Cores: r.Cores, GPUs: r.GPUs})
	whole, err := wholeRun(ctx, b.Views, w)
	if err != nil {
		return r, err
	}
	exact, err := b.Views.Exactness(ctx, whole, w.Kind, w.Nodes)
	if err != nil {
		return r, err
	}
	peak := "memory_peak_bytes"
	if r.MemoryNeededPeakBytes != nil {
		peak = "memory_needed_peak_bytes"
	}
	if efficiency.MemoryFull(r.Memory, r.MemoryPeakBytes) {
		strain, err := b.Views.Strain(ctx, whole)
		if err != nil {
			return r, err
		}
		r.Squeezed = efficiency.ShortOfMemory(efficiency.Usage{Run: r.Run, WallSeconds: r.Seconds, Memory: r.Memory,
			MemoryStalledSeconds: strain.MemoryStalled, RefaultBytes: strain.Refaults})
	}
	r.CPUInexact, r.GPUInexact, r.MemoryInexact = max(exact["cpu_seconds"], int(w.Exactness["cpu_seconds"])) > 0, exact["gpu_seconds"] > 0,
		exact[peak] > 0 || isPeakSampled(w) && (r.Seconds < efficiency.Sampled || r.Nodes > 1)
	return r, nil
}

// requestedNodes returns the number of nodes to request again: never more than the batch system allocated.
func requestedNodes(w *wire.Workload) int {
	n := max(1, len(w.Nodes))
	if a := orZero(w.AllocatedNodes); a >= 1 {
		n = min(n, int(a))
	}
	return n
}

// memoryPerNode divides a total memory request over nodes and returns the request per node in bytes. Every node gets what the
// node with the largest peak needs. uneven is a sentence about nodes with very different peaks, or empty.
func memoryPerNode(d *wire.WorkloadDetail, total float64) (each float64, uneven phrase.Sentence) {
	n, most, sum := 0.0, 0.0, 0.0
	for _, node := range sumByNode(d.Parts) {
		if node.Memory != nil { // of a node without an agent nothing is in the total
			n, most, sum = n+1, max(most, *node.Memory), sum+*node.Memory
		}
	}
	if sum == 0 {
		return total, sentences.Sentence("advice.whole", nil)
	}
	each = math.Ceil(total * most / sum)
	if share := most / sum * n; share > 1.5 {
		return each, sentences.Sentence("advice.uneven", phrase.Words{"times": phrase.Number(share, "ratio", formatDecimal(share))})
	}
	return each, uneven
}

func formatDecimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// impliedCores returns the total number of cores of the nodes that a workload ran on, as they were at its end. It
// returns nil if the number is unknown for one of the nodes.
func impliedCores(ctx context.Context, views NodeCores, w *wire.Workload) (*float64, error) {
	by, err := views.NodeCores(ctx, w.Site, w.Nodes, lastSampleTime(w))
	if err != nil || len(w.Nodes) == 0 {
		return nil, err
	}
	sum := 0.0
	for _, n := range slices.Compact(slices.Sorted(slices.Values(w.Nodes))) {
		cores, ok := by[n]
		if !ok {
			return nil, nil
		}
		sum += cores
	}
	return &sum, nil
}
