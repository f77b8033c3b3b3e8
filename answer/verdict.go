package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"reckon/access"
	"reckon/analysis/efficiency"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/phrase"
	"reckon/query"
	"reckon/store"
	"reckon/workload"
)

// judgeRun judges a workload. Without a request of cores, the cores of its nodes count as allocated.
func (b *Jobs) judgeRun(ctx context.Context, d *wire.WorkloadDetail) ([]wire.Verdict, error) {
	if workload.Kind(d.Kind).Sum() {
		return nil, nil // no request, and no named run
	}
	if d.Lost {
		key := "last-heard"
		if d.State == "" {
			key = "last-seen"
		}
		s := sentences.Sentence(key, phrase.Words{"state": d.State, "at": runEnd(&d.Workload).UTC().Format(time.RFC3339)})
		return []wire.Verdict{{Kind: "last-heard", Severity: "info", Text: s.String(), Sentence: sentenceOf(s, &d.Workload)}}, nil
	}
	u := efficiency.Usage{Run: runRecord(&d.Workload), Running: d.Running, WallSeconds: ranSeconds(&d.Workload),
		JobSteps: toJudgedSteps(d.Steps, d.End), PerNode: sumByNode(d.Parts), RestSeconds: d.RestSeconds}
	var cores, memory, gpus bool // allocated
	u.Cores, cores = d.GivenCores()
	u.Memory, memory = d.GivenMemory()
	u.GPUs, gpus = d.GivenGPUs()
	u.Batch, u.MemoryRequested = cores || memory || gpus, !memory
	u.MemorySampled = isPeakSampled(&d.Workload)
	u.MemoryOfTask = u.MemorySampled && len(d.Nodes) > 1
	if d.Submit != nil {
		u.Waited = max(runEnd(&d.Workload).Sub(*d.Submit).Seconds(), 0)
	}
	var err error
	if u.Before, err = b.previousRun(ctx, d); err != nil {
		return nil, err
	}
	if u.Cores == nil {
		if u.Cores, err = impliedCores(ctx, b.Views, &d.Workload); err != nil {
			return nil, err
		}
		u.CoresImplied = true
	}
	if err := b.addShortages(ctx, d, &u); err != nil {
		return nil, err
	}
	var out []wire.Verdict
	for _, v := range efficiency.Judge(u) {
		out = append(out, wire.Verdict{Kind: v.Kind, Severity: string(v.Severity), Text: v.Text,
			Sentence: sentenceOf(v.Sentence, &d.Workload),
			Value:    v.Value,
			Unit:     v.Unit})
	}
	renamed, err := b.renamedVerdicts(ctx, d)
	return append(renamed, out...), err
}

// previousRun returns the previous run of a requeued batch job; nil if this is the first one.
func (b *Jobs) previousRun(ctx context.Context, d *wire.WorkloadDetail) (*efficiency.Earlier, error) {
	if !workload.Kind(d.Kind).Scheduled() || d.Submit == nil {
		return nil, nil
	}
	const shown = 50
	rows, _, err := b.Catalogue.Workloads(ctx, store.Filter{IDs: []string{d.ID}, Sites: []string{d.Site}, Until: d.Start,
		Sort: "-start", Limit: shown})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		w := &rows[i]
		if w.Start.Before(d.Start) && !w.End.IsZero() && w.Owner == d.Owner && !w.End.After(d.Start.Add(schedulerSecond)) &&
			d.Start.Sub(w.End) <= maxRequeueDelay {
			return &efficiency.Earlier{State: w.State, WallSeconds: w.End.Sub(w.Start).Seconds()}, nil
		}
	}
	return nil, nil
}

// maxRequeueDelay is the time after a run in which its job may begin again. Job numbers are reused after some weeks at the earliest.
const maxRequeueDelay = 14 * 24 * time.Hour

// isPeakSampled reports whether the memory peak of a workload comes only from sampling by the accounting.
func isPeakSampled(w *wire.Workload) bool {
	return w.MemoryNeededPeakBytes == nil && w.Exactness["memory_peak_bytes"] == figure.Estimated
}

// toJudgedSteps converts the steps of a job for the analysis.
func toJudgedSteps(list []wire.Step, end *time.Time) []efficiency.Step {
	out := make([]efficiency.Step, len(list))
	for i := range list {
		s := &list[i]
		out[i] = efficiency.Step{ID: s.ID, Name: s.Name, State: s.State, ExitCode: s.ExitCode, WallSeconds: orZero(s.WallSeconds),
			Early: end != nil && s.End != nil && end.Sub(*s.End) > 2*schedulerSecond}
	}
	return out
}

// joinTasks joins the balance of the tasks of steps with the use of the steps.
func joinTasks(list []query.TaskUse, parts []wire.Part) (out []efficiency.TaskUse) {
	for _, t := range list {
		for i := range parts {
			if p := &parts[i]; p.Node == t.Node && p.Part == t.Part && p.CPUSeconds != nil {
				out = append(out, efficiency.TaskUse{Node: t.Node, Step: t.Part, Tasks: t.Tasks, Busiest: t.Busiest,
					CPUSeconds: *p.CPUSeconds})
			}
		}
	}
	return out
}

// minCongestingRate is a rate in bytes per second. A workload with a lower mean rate cannot have filled a tenth of a 100 Mb/s
// link for a tenth of its time.
const minCongestingRate = 1e5

// addShortages sets the resource shortages of a workload and the exactness of its figures in u. If the workload waited for
// cores, it also adds the other users of its nodes.
func (b *Jobs) addShortages(ctx context.Context, d *wire.WorkloadDetail, u *efficiency.Usage) error {
	whole, err := wholeRun(ctx, b.Views, &d.Workload)
	if err != nil {
		return err
	}
	if u.Batch {
		if u.Resized, err = b.Views.Resized(ctx, whole); err != nil {
			return err
		}
	}
	strain, err := b.Views.Strain(ctx, whole)
	if err != nil {
		return err
	}
	u.MemoryStalledSeconds, u.StorageStalledSeconds = strain.MemoryStalled, strain.StorageStalled
	u.RefaultBytes, u.MostThreads = strain.Refaults, strain.Threads
	u.Resent, u.Sent, u.SentCalls = strain.Resent, strain.Sent, strain.SentCalls
	u.Tasks = joinTasks(strain.Tasks, d.Parts)
	if orZero(d.NetworkBytes) >= minCongestingRate*u.WallSeconds {
		congestion, err := b.Views.Congestion(ctx, whole)
		if err != nil {
			return err
		}
		u.Congestion = (*efficiency.Congestion)(congestion)
	}
	limit, err := b.Views.DiskLimit(ctx, whole)
	if err != nil {
		return err
	}
	u.DiskLimit = (*efficiency.DiskLimit)(limit)
	if u.EmptySeconds, err = b.emptySeconds(ctx, &d.Workload, strain.LastProcess); err != nil {
		return err
	}
	if orZero(u.GPUSeconds) > 0 {
		engines, err := b.Views.GPUEngines(ctx, whole, d.Nodes)
		if err != nil {
			return err
		}
		if engines != nil {
			u.GPUEngines, d.GPUEngines = (*efficiency.GPUEngines)(engines), engines.Shares
		}
	}
	exact, err := b.Views.Exactness(ctx, whole, d.Kind, d.Nodes)
	if err != nil {
		return err
	}
	u.Exactness = nil
	for _, key := range []string{figure.ExitKey, "cpu_seconds"} { // which facts of the batch system decide
		u.Exactness.Add(key, d.Exactness[key])
	}
	for key, e := range exact {
		u.Exactness.Add(key, figure.Exactness(e))
	}
	if d.WaitShare() < 0.1 {
		return nil
	}
	list, err := b.Views.Neighbours(ctx, whole, d.Nodes)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Owner == d.Owner {
			list[i].Owner = "other work of " + d.Owner
		}
	}
	u.Neighbours = visibleNeighbours(access.From(ctx), list)
	return nil
}

// emptySeconds returns the time in seconds for which a running job has had no process, up to its latest report. last is the
// time of its last process. It returns nil if the job's nodes do not report.
func (b *Jobs) emptySeconds(ctx context.Context, w *wire.Workload, last time.Time) (*float64, error) {
	if !w.Running || !workload.Kind(w.Kind).Scheduled() || w.State != "running" {
		return nil, nil
	}
	watched, err := b.Views.Watched(ctx, w.Site, w.Nodes, w.Seen)
	if err != nil || !watched {
		return nil, err
	}
	if last.Before(w.Start) {
		last = w.Start
	}
	return new(max(w.Seen.Sub(last).Seconds(), 0)), nil
}

// visibleNeighbours returns the owners that the viewer may see by name, and the sum of all others without a name.
func visibleNeighbours(v access.Viewer, list []query.Neighbour) (out []efficiency.Neighbour) {
	hidden, cores := 0, 0.0
	for _, n := range list {
		if v.Sees(n.Owner) {
			out = append(out, efficiency.Neighbour(n))
			continue
		}
		hidden, cores = hidden+1, cores+n.Cores
	}
	switch {
	case hidden == 1:
		out = append(out, efficiency.Neighbour{Owner: "another user", Cores: cores})
	case hidden > 1:
		out = append(out, efficiency.Neighbour{Owner: fmt.Sprintf("%d other users", hidden), Cores: cores})
	}
	slices.SortStableFunc(out, func(a, b efficiency.Neighbour) int { return cmp.Compare(b.Cores, a.Cores) })
	return out
}

// runEnd returns when a workload ended, or was last reported.
func runEnd(w *wire.Workload) time.Time {
	if w.End != nil {
		return *w.End
	}
	return w.Seen
}

// renamedVerdicts returns a verdict if two nodes of a workload are one machine that changed its name. Its use may count twice,
// because the agent under the new name counts again from the start of the processes.
func (b *Jobs) renamedVerdicts(ctx context.Context, d *wire.WorkloadDetail) ([]wire.Verdict, error) {
	list, err := b.Views.Renames(ctx, query.Selection{Site: d.Site, ID: d.ID, From: d.Start, To: lastSampleTime(&d.Workload)}, d.Nodes)
	if err != nil {
		return nil, err
	}
	var out []wire.Verdict
	for _, r := range list {
		twice := 0.0
		for _, p := range d.Parts {
			for _, q := range d.Parts {
				if p.Node == r.From && q.Node == r.To && p.Part == q.Part && p.CPUSeconds != nil && q.CPUSeconds != nil &&
					*q.CPUSeconds >= *p.CPUSeconds {
					twice += *p.CPUSeconds
				}
			}
		}
		if twice == 0 {
			continue
		}
		text := sentences.Sentence("renamed", phrase.Words{"to": r.To, "from": r.From, "at": r.At.Format(time.RFC3339),
			"twice": phrase.Number(twice, "seconds", fmt.Sprintf("%.0f s", twice))})
		out = append(out, wire.Verdict{Kind: "renamed", Severity: "warning", Value: twice, Unit: "seconds", Text: text.String(),
			Sentence: sentenceOf(text, &d.Workload)})
	}
	return out, nil
}

// sumByNode sums the parts of each node. If a figure is unknown for one part, it is unknown for the node. Consecutive
// parts on a node reuse its memory, so the memory of a node is the largest peak, a lower bound.
func sumByNode(parts []wire.Part) []efficiency.Node {
	var out []efficiency.Node
	at := map[string]int{}
	for _, p := range parts {
		if p.Part == "" && p.CPUSeconds == nil && neededMemory(&p) == nil &&
			slices.ContainsFunc(parts, func(q wire.Part) bool { return q.Node == p.Node && q.Part != "" }) {
			continue // series of the job as a whole, beside its steps
		}
		i, ok := at[p.Node]
		if !ok {
			at[p.Node] = len(out)
			out = append(out, efficiency.Node{Name: p.Node, CPUSeconds: p.CPUSeconds, Memory: neededMemory(&p), GPUSeconds: p.GPUSeconds})
			continue
		}
		n := &out[i]
		n.CPUSeconds = combineKnown(n.CPUSeconds, p.CPUSeconds, func(a, b float64) float64 { return a + b })
		if p.GPUSeconds != nil && n.GPUSeconds != nil {
			n.GPUSeconds = combineKnown(n.GPUSeconds, p.GPUSeconds, func(a, b float64) float64 { return a + b })
		} else if n.GPUSeconds == nil {
			n.GPUSeconds = p.GPUSeconds // a part without a GPU has no such figure
		}
		n.Memory = combineKnown(n.Memory, neededMemory(&p), func(a, b float64) float64 { return max(a, b) })
	}
	return out
}

// neededMemory returns the memory that a part needed, or its peak if page cache is not known separately.
func neededMemory(p *wire.Part) *float64 {
	if p.MemoryNeededPeakBytes != nil {
		return p.MemoryNeededPeakBytes
	}
	return p.MemoryPeakBytes
}

// combineKnown combines two figures; nil when either is unknown.
func combineKnown(a, b *float64, f func(a, b float64) float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	v := f(*a, *b)
	return &v
}
