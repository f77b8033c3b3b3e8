package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/query"
	"reckon/store"
	"reckon/workload"
)

// Jobs lists workloads from the catalogue and adds figures over time to a single one.
type Jobs struct {
	Catalogue Catalogue
	Steps     Steps // nil if steps are not stored
	Views     JobViews
	Series    storage.Queryable
	Engine    promql.QueryEngine
	Rates     *Rates  // nil if no rates of emissions and costs are configured
	Outage    *Outage // nil if the series are stored in this process
	Bounds    *Bounds // nil withholds nothing
	Clock     func() time.Time
}

// Catalogue finds workloads; implemented by store.Catalogue.
type Catalogue interface {
	Workloads(ctx context.Context, f store.Filter) ([]store.Workload, int, error)
}

// Steps returns the steps of a run; implemented by store.Steps.
type Steps interface {
	Steps(ctx context.Context, r store.Run) ([]store.Step, error)
}

// JobViews reads the series of one workload; implemented by query.Views.
type JobViews interface {
	NodeCores
	Selector
	Profile(ctx context.Context, s query.Selection, step time.Duration) ([]wire.Profile, error)
	CommandProfile(ctx context.Context, s query.Selection, step time.Duration) ([]wire.Profile, error)
	Commands(ctx context.Context, s query.Selection) ([]wire.Command, error)
	Parts(ctx context.Context, s query.Selection) ([]wire.Part, error)
	DiskWaits(ctx context.Context, s query.Selection) ([]wire.DiskWait, error)
	CoresHistogram(ctx context.Context, s query.Selection) (buckets []wire.Bucket, nodes int, err error)
	Events(ctx context.Context, s query.Selection) ([]wire.Event, error)
	EnergyMethod(ctx context.Context, s query.Selection) (string, error)
	Renames(ctx context.Context, s query.Selection, nodes []string) ([]query.Renamed, error)
	Strain(ctx context.Context, s query.Selection) (query.Strain, error)
	Congestion(ctx context.Context, s query.Selection) (*query.Congestion, error)
	DiskLimit(ctx context.Context, s query.Selection) (*query.DiskLimit, error)
	GPUEngines(ctx context.Context, s query.Selection, nodes []string) (*query.GPUEngines, error)
	Exactness(ctx context.Context, s query.Selection, kind string, nodes []string) (map[string]int, error)
	Daily(ctx context.Context, s query.Selection, kind string, days int) ([]query.Daily, error)
	Resized(ctx context.Context, s query.Selection) (bool, error)
	Watched(ctx context.Context, site string, nodes []string, at time.Time) (bool, error)
	Neighbours(ctx context.Context, s query.Selection, nodes []string) ([]query.Neighbour, error)
}

// Selector returns the selection of a run.
type Selector interface {
	Select(ctx context.Context, site, id string, from, to time.Time) (query.Selection, error)
}

// wholeRun selects the whole run.
func wholeRun(ctx context.Context, v Selector, w *wire.Workload) (query.Selection, error) {
	s, err := v.Select(ctx, w.Site, w.ID, w.Start, lastSampleTime(w))
	if w.Partial {
		s.Owners = w.Users
	}
	return s, err
}

// NodeCores returns the number of cores of nodes at a time, by name.
type NodeCores interface {
	NodeCores(ctx context.Context, site string, nodes []string, at time.Time) (map[string]float64, error)
}

// Workloads returns the workloads that the filter selects. An empty result is not an error.
func (b *Jobs) Workloads(ctx context.Context, f wire.Filter) (wire.WorkloadList, error) {
	rows, used, total, err := b.listRuns(ctx, f)
	if err != nil {
		return wire.WorkloadList{}, err
	}
	list := wire.WorkloadList{Workloads: make([]wire.Workload, len(rows)), Total: total,
		Missing: b.Outage.Missing(ctx, f.Since, cmp.Or(f.Until, farFuture))}
	for i := range rows {
		list.Workloads[i] = toAPI(&rows[i])
		b.Rates.setWorkloadCost(&list.Workloads[i])
		if used != nil {
			list.Workloads[i].Within = &used[i]
		}
	}
	b.Bounds.checkWorkloads(ctx, list.Workloads)
	return list, nil
}

// Workload returns the details of one run from Workloads, with its profile.
func (b *Jobs) Workload(ctx context.Context, w wire.Workload, r wire.Range) (wire.WorkloadDetail, error) {
	d := wire.WorkloadDetail{Workload: w}
	whole, err := wholeRun(ctx, b.Views, &w)
	waits := !w.Running && !w.Lost && w.End == nil // activity of its processes belongs to the previous run
	if waits {
		d.StepSeconds = r.Step.Seconds()
	} else if err == nil {
		err = b.addProfiles(ctx, &d, whole, r)
	}
	if err := b.Outage.addMissing(&d.Missing, "its profile", err); err != nil {
		return wire.WorkloadDetail{}, err
	}
	if !waits {
		if err := b.addSteps(ctx, &d); err != nil {
			return wire.WorkloadDetail{}, err
		}
	}
	d.Advice, err = b.recommend(ctx, &d)
	if d.Advice == nil && err == nil {
		d.NoAdvice = b.noAdviceReason(&d)
	}
	if err := b.Outage.addMissing(&d.Missing, "advice", err); err != nil {
		return wire.WorkloadDetail{}, err
	}
	d.Verdicts, err = b.judgeRun(ctx, &d)
	if err := b.Outage.addMissing(&d.Missing, "remarks on it", err); err != nil {
		return wire.WorkloadDetail{}, err
	}
	b.Outage.addToDetail(ctx, &d, whole.From, whole.To)
	return d, nil
}

// addSteps fills in the steps of a batch job.
func (b *Jobs) addSteps(ctx context.Context, d *wire.WorkloadDetail) error {
	if !workload.Kind(d.Kind).Scheduled() {
		return nil
	}
	var accounted []store.Step
	if b.Steps != nil {
		var err error
		if accounted, err = b.Steps.Steps(ctx, store.Run{Site: d.Site, ID: d.ID, Start: d.Start}); err != nil {
			return err
		}
	}
	d.Steps = query.Steps(accounted, d.Parts)
	return nil
}

// addProfiles fills in the figures read from the series.
func (b *Jobs) addProfiles(ctx context.Context, d *wire.WorkloadDetail, whole query.Selection, r wire.Range) (err error) {
	lines, err := b.addProfile(ctx, d, whole, r)
	if err != nil {
		return err
	}
	if d.Commands, err = b.Views.Commands(ctx, whole); err != nil {
		return err
	}
	if d.Parts, err = b.Views.Parts(ctx, whole); err != nil {
		return err
	}
	if d.DiskWaits, err = b.Views.DiskWaits(ctx, whole); err != nil {
		return err
	}
	b.Bounds.checkParts(ctx, d)
	nodes := 0
	if d.CoresHistogram, nodes, err = b.Views.CoresHistogram(ctx, whole); err != nil {
		return err
	}
	if nodes > 1 { // each node counts only its own cores: the whole is computed from its steps
		d.CoresHistogram = nil
	}
	if r.From.IsZero() && r.To.IsZero() {
		if r.Step <= 0 { // its activity does not depend on the request
			d.RestSeconds = idleTail(lines, len(d.Nodes), d.StepSeconds)
		}
		b.Rates.setDetailCost(d)
		if nodes > 1 {
			d.CoresHistogram, d.CoresHistogramStep = query.Distribution(lines, "cores", time.Duration(d.StepSeconds*float64(time.Second))),
				&d.StepSeconds
		}
	}
	if d.Events, err = b.Views.Events(ctx, whole); err != nil {
		return err
	}
	if d.EnergyJoules != nil {
		d.EnergyMethod, err = b.Views.EnergyMethod(ctx, whole)
	}
	return err
}

// restingLimits are the most that a workload uses of the figures of its profile while it does nothing.
var restingLimits = map[string]float64{"cores": 0.01, "gpus": 0.01, "io_read_bytes_per_second": 1e3, "io_write_bytes_per_second": 1e3,
	"network_bytes_per_second": 1e3}

// idleTail returns the length in seconds of the unused time at the end of a profile; step is the length of its steps.
// It returns nil if there is none, or if CPU time was not measured in the last two steps on every node.
func idleTail(lines []wire.Profile, nodes int, step float64) *float64 {
	after := math.MaxInt // steps behind the last one that was measured
	for _, p := range query.Combine(lines, "node") {
		if p.Metric != "cores" {
			continue
		}
		n := 0
		for n < len(p.Points) && p.Points[len(p.Points)-1-n].Value == nil {
			n++
		}
		if nodes--; n > 2 {
			return nil
		}
		after = min(after, n)
	}
	if after == math.MaxInt || nodes > 0 {
		return nil
	}
	n := math.MaxInt
	for _, p := range query.Combine(lines, "total") {
		if most, counts := restingLimits[p.Metric]; counts {
			end := len(p.Points) - after
			n = min(n, end)
			for j := end - 1; j >= end-n; j-- {
				if v := p.Points[j].Value; v != nil && *v > most || v == nil && p.Metric == "cores" {
					n = end - 1 - j
				}
			}
		}
	}
	if n == 0 {
		return nil
	}
	return new(float64(n) * step)
}

// addProfile fills in the figures over time, and returns them per part and node.
func (b *Jobs) addProfile(ctx context.Context, d *wire.WorkloadDetail, whole query.Selection, r wire.Range) (lines []wire.Profile,
	err error) {
	shown := whole
	if !r.From.IsZero() {
		shown.From = r.From
	}
	if !r.To.IsZero() {
		shown.To = r.To
	}
	if !shown.To.After(shown.From) && (!r.From.IsZero() || !r.To.IsZero()) {
		return nil, Invalid("give from and to within its life, or leave them out",
			fmt.Errorf("the profile of %s would end at %s, before its start at %s; the workload ran from %s to %s", d.ID,
				shown.To.UTC().Format(time.RFC3339), shown.From.UTC().Format(time.RFC3339), whole.From.UTC().Format(time.RFC3339),
				whole.To.UTC().Format(time.RFC3339)))
	}
	if !shown.To.After(shown.From) { // the clock of its node is ahead of the server's
		return nil, nil
	}
	step := r.Step
	if step <= 0 {
		step = stepFor(shown.To.Sub(shown.From))
	}
	d.StepSeconds = step.Seconds()
	if d.Profile, err = b.Views.Profile(ctx, shown, step); err != nil {
		return nil, refuseSteps(err)
	}
	// Figures sampled every few minutes have no point in most of the shorter steps. Of a long run one rare figure sets no step.
	gap, length := medianGap(d.Profile), shown.To.Sub(shown.From)
	if r.Step <= 0 && gap > step && (length >= 4*gap || length >= 2*gap && gap <= 5*time.Minute) {
		step = gap
		d.StepSeconds = step.Seconds()
		if d.Profile, err = b.Views.Profile(ctx, shown, step); err != nil {
			return nil, refuseSteps(err)
		}
	}
	// A workload that is older than its agent has no figures before the agent started.
	if from := firstPoint(d.Profile).Add(-step); r.From.IsZero() && from.Sub(shown.From) > length/10 {
		shown.From = from
		if r.Step <= 0 {
			step = stepFor(shown.To.Sub(shown.From))
		}
		d.StepSeconds = step.Seconds()
		if d.Profile, err = b.Views.Profile(ctx, shown, step); err != nil {
			return nil, refuseSteps(err)
		}
	}
	lines = d.Profile
	if r.By != "command" {
		d.Profile = query.Combine(lines, r.By)
		return lines, nil
	}
	commands, err := b.Views.CommandProfile(ctx, shown, step)
	if err != nil {
		return nil, err
	}
	d.Profile = append(query.Combine(lines, "total"), commands...)
	return lines, nil
}

// refuseSteps turns the error for too fine a step into an invalid question.
func refuseSteps(err error) error {
	if errors.Is(err, query.ErrSteps) {
		return Invalid("give a longer step, or from and to that are nearer", err)
	}
	return err
}

// medianGap returns the median time between two known points of a line, for the line with the longest one, rounded up to a
// common step. It is 0 if no line has three points.
func medianGap(lines []wire.Profile) (longest time.Duration) {
	for _, l := range lines {
		var gaps []time.Duration
		var last time.Time
		for _, p := range l.Points {
			if p.Value == nil {
				continue
			}
			if !last.IsZero() {
				gaps = append(gaps, p.Time.Sub(last))
			}
			last = p.Time
		}
		if len(gaps) < 2 {
			continue
		}
		slices.Sort(gaps)
		longest = max(longest, gaps[len(gaps)/2])
	}
	if i := slices.IndexFunc(stepLengths, func(s time.Duration) bool { return s >= longest }); i >= 0 && longest > 0 {
		return stepLengths[i]
	}
	return longest
}

// firstPoint returns the time of the first step with a figure; zero if there is none.
func firstPoint(lines []wire.Profile) (first time.Time) {
	for _, l := range lines {
		for _, p := range l.Points {
			if p.Value != nil {
				if first.IsZero() || p.Time.Before(first) {
					first = p.Time
				}
				break
			}
		}
	}
	return first
}

// stepLengths are readable step lengths.
var stepLengths = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// stepFor returns a step for a few hundred points, no finer than the sampling interval.
func stepFor(span time.Duration) time.Duration {
	for _, s := range stepLengths[3:] {
		if span/s <= 400 {
			return s
		}
	}
	return (span / 400).Truncate(24*time.Hour) + 24*time.Hour
}

// runRecord returns the record of a run of an answer, for analyses.
func runRecord(w *wire.Workload) figure.Run {
	return figure.Run{Site: w.Site, ID: w.ID, Kind: w.Kind, Name: w.Name, Owner: w.Owner, Account: w.Account, Partition: w.Partition,
		Command: w.Command,
		State:   w.State, Reason: w.Reason, EndedBy: w.EndedBy, EndedByUser: w.EndedByUser, QOS: w.QOS, Nodes: w.Nodes, Start: w.Start,
		Seen: w.Seen,
		Lost: w.Lost, ExitCode: w.ExitCode, Row: w.Row}
}

// toAPI converts a row of the catalogue to the type of the API.
func toAPI(w *store.Workload) wire.Workload {
	c := wire.Workload{
		ID: w.ID, Kind: w.Kind, Name: w.Name, Owner: w.Owner, Site: w.Site,
		Account: w.Account, Partition: w.Partition, Command: w.Command, Nodes: w.Nodes,
		Start: w.Start.UTC(), Seen: w.Seen.UTC(), Running: w.End.IsZero() && !w.Waits(), ExitCode: w.ExitCode,
		Row: w.Row,

		State: w.State, Reason: w.Reason, EndedBy: w.EndedBy, EndedByUser: w.EndedByUser, QOS: w.QOS, Lost: w.Lost,
		Users: slices.Sorted(maps.Keys(w.Shares)), Partial: w.Partial,
	}
	if c.Nodes == nil {
		c.Nodes = []string{}
	}
	switch {
	case len(c.Nodes) < 2 || c.CoresP95 == nil:
	case c.Exactness["cores_p95"] == figure.AtMost || c.Exactness["cores_p95"] == figure.Estimated && c.Running:
		c.CoresP95Method = "upper bound"
	default:
		c.CoresP95Method = "joint"
	}
	if !w.Submit.IsZero() {
		at := w.Submit.UTC()
		c.Submit = &at
	}
	until := c.Seen
	if w.Waits() {
		until = c.Start
	}
	if !w.End.IsZero() {
		if until = w.End.UTC(); !w.Lost {
			c.End = &until
		}
	}
	if c.WallSeconds = until.Sub(c.Start).Seconds(); c.WallSeconds < 0 {
		c.WallSeconds = 0
	}
	return c
}
