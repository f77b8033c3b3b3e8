package answer

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/access"
	"reckon/analysis/misuse"
	"reckon/analysis/move"
	"reckon/analysis/scaling"
	"reckon/answer/findings"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/query"
	"reckon/store"
	"reckon/workload"
)

// Moves recommends moves of work to another partition or cluster.
type Moves struct {
	Catalogue  Catalogue
	Rollups    NodeUse
	Partitions *Partitions // nil for a site without a batch system
	Views      MoveViews
	Findings   store.Findings // scores for more than a fair share, and agreed findings; nil: unknown
	Policy     []byte         // of the findings
	Shapes     []byte         // file of shapes; empty for none
	Outage     *Outage
	Bounds     *Bounds // nil withholds nothing
	Clock      func() time.Time
}

// MoveViews reads series; implemented by query.Views.
type MoveViews interface {
	NodeLists
	Selector
	GPUBursts(ctx context.Context, s query.Selection, share float64, take func(at time.Time, seconds float64)) error
	GPUNodes(ctx context.Context, from, to time.Time, take func(query.NodeGPUs)) error
	PartitionLimits(ctx context.Context, at time.Time, take func(site, partition string, seconds float64)) error
}

const (
	movePeriod = 30 * 24 * time.Hour // judged by default; waits are from this time in any case
	leastGroup = 360                 // CPU seconds of process groups that are read: hundreds of thousands a day used less
	burstRuns  = 30                  // of a work with hours of GPU use that are read
)

type workKey struct{ owner, name string }

// moveQuestion is the data read for one question.
type moveQuestion struct {
	*Moves
	moveShapes
	from, until time.Time
	works       map[workKey]*move.Work
	gpuRuns     map[workKey][]wire.Workload // the runs with most GPU time
	exempt      func(owner string) bool
}

// Move judges the work of owners in a period. Viewers who do not see all get only their own.
func (m *Moves) Move(ctx context.Context, q wire.MoveQuery) (wire.MoveList, error) {
	if q.Until.IsZero() {
		q.Until = m.Clock()
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-movePeriod)
	}
	list := wire.MoveList{Since: q.Since.UTC(), Until: q.Until.UTC(), Moves: []wire.Move{},
		Missing: m.Outage.Missing(ctx, q.Since, q.Until)}
	policy, err := findings.ReadPolicy(m.Policy)
	if err != nil {
		return list, err
	}
	g := &moveQuestion{Moves: m, from: q.Since, until: q.Until, works: map[workKey]*move.Work{}, gpuRuns: map[workKey][]wire.Workload{},
		exempt: policy.For("", nil).OverShare.Exempts}
	file, err := ReadShapes([]byte(cmp.Or(q.Shapes, string(m.Shapes))))
	if err != nil {
		return list, Invalid("see `reckon docs file of shapes` for its form", err)
	}
	err = g.readShapes(ctx, file)
	if err := m.Outage.addMissing(&list.Missing, "the sizes of the nodes", err); err != nil {
		return list, err
	}
	if err := g.readRuns(ctx); err != nil {
		return list, err
	}
	g.setRunFigures()
	list.Places = len(g.shapes)
	agreed, contended, err := g.readFindings(ctx)
	if err != nil {
		return list, err
	}
	viewer := access.From(ctx)
	for k, w := range g.works {
		if !viewer.All() && !viewer.Sees(k.owner) || len(q.Owners) > 0 && !slices.Contains(q.Owners, k.owner) {
			continue
		}
		w.Contended, w.Scales = contended[k.owner], continuesToScale
		w.Bursts = func() (int, error) { return g.countBusyDays(ctx, k) }
		r, err := move.Judge(w, g.shapes, g.medianWait, g.from, g.until)
		if err := m.Outage.addMissing(&list.Missing, "in which hours GPUs were busy", err); err != nil {
			return list, err
		}
		if err != nil || r.Why == "few" {
			continue
		}
		list.Judged++
		if r.To >= 0 && agreed(k.owner, w) {
			r.To, r.Why = -1, "agreed"
		}
		one := g.toWireMove(w, &r)
		switch {
		case len(q.Sites) > 0 && !slices.Contains(q.Sites, one.Site):
		case r.To >= 0:
			list.Moves = append(list.Moves, one)
		case q.All:
			list.Stays = append(list.Stays, one)
		}
	}
	for _, moves := range [][]wire.Move{list.Moves, list.Stays} {
		slices.SortFunc(moves, func(a, b wire.Move) int {
			const gpu = move.LeastCoreHours / move.LeastGPUHours
			return cmp.Or(cmp.Compare(b.FreedCoreHours+gpu*b.FreedGPUHours, a.FreedCoreHours+gpu*a.FreedGPUHours),
				cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Name, b.Name))
		})
	}
	return list, nil
}

// readRuns reads the runs of the period day by day, so that a year does not lie in memory as rows.
func (g *moveQuestion) readRuns(ctx context.Context) error {
	batch := workload.KindNames(workload.KindsWith(workload.Kind.Batch))
	for at := g.from; at.Before(g.until); at = at.AddDate(0, 0, 1) {
		to := store.Earlier(at.AddDate(0, 0, 1), g.until)
		for _, f := range []store.Filter{{Kinds: batch, Since: at, Until: to},
			{Kinds: []string{string(workload.Group)}, MinCPU: leastGroup, Since: at, Until: to}} {
			rows, _, err := g.Catalogue.Workloads(ctx, f)
			if err != nil {
				return err
			}
			g.Bounds.Runs(ctx, rows)
			for i := range rows {
				// A run that began earlier was read with the day of its start.
				if r := &rows[i]; !r.Waits() && (at.Equal(g.from) || !r.Start.Before(at)) {
					g.addRun(r)
				}
			}
		}
	}
	return nil
}

// addRun adds a run to its work and to the use of its shape.
func (g *moveQuestion) addRun(r *store.Workload) {
	run, batch := g.toMoveRun(r), workload.Kind(r.Kind).Batch()
	if run.Seconds <= 0 || run.Hours <= 0 && batch {
		return
	}
	if run.Shape >= 0 {
		g.countRun(r, &run)
	}
	k := workKey{r.Owner, cmp.Or(r.Name, r.Command)}
	if !batch {
		k.name = cmp.Or(r.Command, r.Name)
	}
	if r.Owner == "" || r.Owner == "root" || g.exempt(r.Owner) || isInteractive(strings.ToLower(k.name)) {
		return
	}
	w := g.works[k]
	if w == nil {
		w = &move.Work{Owner: k.owner, Name: k.name}
		g.works[k] = w
	}
	w.Account, w.Runs = cmp.Or(r.Account, w.Account), append(w.Runs, run)
	if orZero(r.GPUSeconds) > 0 {
		list := append(g.gpuRuns[k], toAPI(r))
		slices.SortFunc(list, func(a, b wire.Workload) int { return cmp.Compare(orZero(b.GPUSeconds), orZero(a.GPUSeconds)) })
		g.gpuRuns[k] = list[:min(len(list), burstRuns)]
	}
}

// toMoveRun returns the figures of a run while it was in the period.
func (g *moveQuestion) toMoveRun(r *store.Workload) move.Run {
	wall := cmp.Or(r.End, r.Seen).Sub(r.Start).Seconds()
	ran := max(wall-orZero(r.SuspendedSeconds), 0)
	inside := g.durationInPeriod(r).Seconds() * ran / max(wall, 1)
	given, _ := r.GivenCores()
	gpus, _ := r.GivenGPUs()
	batch := workload.Kind(r.Kind).Batch()
	run := move.Run{ID: r.ID, Shape: g.runShape(r), Start: r.Start, Seconds: ran, Given: given, GPUs: orZero(gpus), Cores: r.CoresP95,
		Nodes: cmp.Or(orZero(r.AllocatedNodes), float64(max(len(r.Nodes), 1))), Ended: !r.End.IsZero() && !r.Lost,
		GPUMemory: r.GPUMemoryPeak, CPUSeconds: r.CPUSeconds, GPUBusy: g.busyGPUs(r, ran)}
	if run.Cores == nil && r.CPUSeconds != nil && ran > 0 {
		run.Cores = new(*r.CPUSeconds / ran)
	}
	if !batch {
		run.Given = nil
	}
	run.Hours = orZero(cmp.Or(run.Given, run.Cores)) * inside / 3600
	run.Well = run.Ended && (r.State == "" || r.State == "completed") && *cmp.Or(r.ExitCode, new(int)) == 0
	need := cmp.Or(r.MemoryNeededMostBytes, r.MemoryNeededPeakBytes, r.MemoryPeakBytes)
	if memory, _ := r.GivenMemory(); memory != nil && orZero(r.OOMKills) > 0 {
		need = new(max(orZero(need), *memory)) // it needed more than its allocation
	}
	if need != nil {
		run.Memory = new(*need / run.Nodes)
	}
	if batch && !r.Submit.IsZero() && !r.Submit.After(r.Start) {
		run.Wait = new(r.Start.Sub(r.Submit).Seconds())
	}
	if r.State == "timeout" || r.EndedBy == "time_limit" {
		run.CutAt = cmp.Or(r.RequestSeconds, &wall)
	}
	if r.EnergyJoules != nil && r.Exactness["energy_joules"] == figure.Exact && run.Given != nil && *run.Given*ran > 0 {
		run.JoulesPerCoreHour = new(*r.EnergyJoules / (*run.Given * ran / 3600))
	}
	return run
}

// durationInPeriod returns the time that a run was within the period.
func (g *moveQuestion) durationInPeriod(r *store.Workload) time.Duration {
	return store.Earlier(cmp.Or(r.End, r.Seen), g.until).Sub(store.Later(r.Start, g.from))
}

// isInteractive reports whether a job of this name is an interactive session.
func isInteractive(name string) bool {
	return slices.Contains(strings.Fields("interactive bash sh zsh fish csh tcsh ksh salloc srun qlogin stdin vscode code-server ipython"),
		name) ||
		strings.HasPrefix(name, "sys/dashboard") || strings.HasPrefix(name, "jupyter") || strings.HasPrefix(name, "rstudio")
}

// busyGPUs returns the mean number of computing GPUs. It is 0 if GPU use was measured on all nodes and none belonged to the run.
func (g *moveQuestion) busyGPUs(r *store.Workload, ran float64) *float64 {
	if r.GPUSeconds != nil {
		return new(*r.GPUSeconds / max(ran, 1))
	}
	for _, n := range r.Nodes {
		if node := g.nodes[nodeName{r.Site, n}]; node == nil || !node.measured {
			return nil
		}
	}
	if r.CPUSeconds == nil || len(r.Nodes) == 0 || r.Exactness["gpu_seconds"] != figure.Exact {
		return nil
	}
	return new(float64)
}

// continuesToScale reports whether runs of several sizes show that doubling the largest number of cores would help.
func continuesToScale(runs []move.Run) bool {
	const grows = 1.4
	var list []scaling.Run
	most := 0.0
	for i := range runs {
		r := &runs[i]
		size := r.Given
		if size == nil && r.Cores != nil {
			size = new(max(math.Round(*r.Cores), 1))
		}
		if r.Well && size != nil && r.Seconds >= shortest.Seconds() {
			most = max(most, *size)
			list = append(list, scaling.Run{Size: *size, Seconds: r.Seconds, Used: r.CPUSeconds})
		}
	}
	found := scaling.Compare(scaling.Use{}, list, scaling.Cores)
	return found.Law != nil && found.Law.Speedup(2*most) >= grows*found.Law.Speedup(most)
}

// countBusyDays returns the number of days on which some GPU was busy for most of twenty minutes or more.
func (g *moveQuestion) countBusyDays(ctx context.Context, k workKey) (n int, err error) {
	const busy, least = 0.5, 20 * 60
	days := map[string]float64{}
	for i := range g.gpuRuns[k] {
		s, err := wholeRun(ctx, g.Views, &g.gpuRuns[k][i])
		if err == nil {
			err = g.Views.GPUBursts(ctx, s, busy, func(at time.Time, seconds float64) { days[at.Format(time.DateOnly)] += seconds })
		}
		if err != nil {
			return 0, err
		}
	}
	for _, seconds := range days {
		if seconds >= least {
			n++
		}
	}
	return n, nil
}

// readFindings reads findings: agreed (muted) ones, and owners with a score for more than a fair share of CPU.
func (g *moveQuestion) readFindings(ctx context.Context) (agreed func(string, *move.Work) bool, contended map[string]bool, err error) {
	muted, contended := map[workKey]bool{}, map[string]bool{} // of an owner, and a run or all
	if g.Findings != nil {
		list, _, err := g.Findings.Findings(ctx, store.FindingFilter{Since: g.from})
		if err != nil {
			return nil, nil, err
		}
		for i := range list {
			switch f := &list[i]; {
			case f.MutedUntil.After(g.until) && f.Rule != misuse.Anomaly:
				muted[workKey{f.Owner, f.Workload}] = true
			case f.Rule == misuse.OverShare && f.Part == "cpu":
				contended[f.Owner] = true
			}
		}
	}
	return func(owner string, w *move.Work) bool {
		return muted[workKey{owner, ""}] || slices.ContainsFunc(w.Runs, func(r move.Run) bool { return muted[workKey{owner, r.ID}] })
	}, contended, nil
}
