package answer

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/analysis/scaling"
	"reckon/figure/wire"
	"reckon/internal/quantiles"
	"reckon/query"
	"reckon/store"
)

// Scale reports how a workload's speed-up depends on its size. It uses the workload's own series, and other runs in the
// catalogue with the same name and owner.
type Scale struct {
	Catalogue Catalogue
	Views     ScaleViews
	Outage    *Outage // nil if the series are stored in this process
	Bounds    *Bounds // nil withholds nothing
}

// ScaleViews reads the series of one workload; implemented by query.Views.
type ScaleViews interface {
	NodeCores
	Selector
	Profile(ctx context.Context, s query.Selection, step time.Duration) ([]wire.Profile, error)
	Strain(ctx context.Context, s query.Selection) (query.Strain, error)
	Exactness(ctx context.Context, s query.Selection, kind string, nodes []string) (map[string]int, error)
}

// comparedRuns is the number of latest runs of the same name that are compared. Runs shorter than shortest are ignored,
// because start-up and exit dominate them.
const (
	comparedRuns = 500
	shortest     = 10 * time.Second
)

// Scale returns a workload's use of its allocation and the scaling of its runs.
func (s *Scale) Scale(ctx context.Context, w wire.Workload) (wire.Scale, error) {
	out := wire.Scale{Workload: w}
	whole, err := wholeRun(ctx, s.Views, &w)
	cores, _ := w.GivenCores()
	memory, _ := w.GivenMemory()
	gpus, _ := w.GivenGPUs()
	use := scaling.Use{
		WallSeconds: ranSeconds(&w), Given: cores, CoresMean: w.CoresMean, CoresP50: w.CoresP50, CoresP95: w.CoresP95,
		Waits: w.State == "pending", Killed: orZero(w.OOMKills) > 0 || w.State == "out_of_memory", CPUSeconds: w.CPUSeconds,
		WaitSeconds: w.CPUWaitSeconds, CoresWantedP95: w.CoresWantedP95, ThrottledSeconds: w.ThrottledSeconds,
		GPUs: gpus, GPUSeconds: w.GPUSeconds, MemoryNeeded: w.MemoryNeededPeakBytes, Memory: memory, SwapPeak: w.SwapBytes,
	}
	if w.State == "started" && w.CPUSeconds == nil {
		use.Array = w.ID
	}
	if err == nil {
		err = s.addProfiles(ctx, &out, &use, whole)
	}
	if err := s.Outage.addMissing(&out.Missing, "its use over time, except cores", err); err != nil {
		return out, err
	}
	if err := s.addRuns(ctx, &out); err != nil {
		return out, err
	}
	s.addVerdicts(&out, use)
	s.Bounds.checkScale(&out)
	return out, nil
}

// addProfiles fills in the figures read from the series.
func (s *Scale) addProfiles(ctx context.Context, out *wire.Scale, use *scaling.Use, whole query.Selection) error {
	w := &out.Workload
	// The figures of the catalogue come first: they remain when the series are unavailable.
	s.addCores(out, use.Given)
	if use.Given == nil {
		cores, err := impliedCores(ctx, s.Views, w)
		if err != nil {
			return err
		}
		use.Given, use.GivenBy = cores, "of its node"
		if len(w.Nodes) > 1 {
			use.GivenBy = "of its nodes"
		}
	}
	strain, err := s.Views.Strain(ctx, whole)
	if err != nil {
		return err
	}
	use.StorageStalledSeconds, use.MemoryStalledSeconds, use.Threads = strain.StorageStalled, strain.MemoryStalled, strain.Threads
	exact, err := s.Views.Exactness(ctx, whole, w.Kind, w.Nodes)
	if err != nil {
		return err
	}
	use.AtLeast = exact["cpu_seconds"] > 0
	return s.addResources(ctx, out, whole)
}

// addResource adds a resource unless all its figures are unknown.
func addResource(out *wire.Scale, r wire.ScaleResource) {
	if r.Mean != nil || r.P95 != nil || r.Max != nil {
		out.Resources = append(out.Resources, r)
	}
}

func (s *Scale) addCores(out *wire.Scale, held *float64) {
	w := &out.Workload
	addResource(out, wire.ScaleResource{Resource: "cores", Unit: "cores", Held: held, Mean: w.CoresMean, P50: w.CoresP50, P95: w.CoresP95,
		Max: w.CoresMax})
}

// lastSampleTime returns the latest possible time of a sample of a workload.
func lastSampleTime(w *wire.Workload) time.Time {
	t := w.Seen
	if w.End != nil && w.End.After(t) {
		t = *w.End
	}
	return t.Add(time.Millisecond)
}

// addResources returns the use of the allocation of each resource except cores.
func (s *Scale) addResources(ctx context.Context, out *wire.Scale, whole query.Selection) error {
	w := &out.Workload
	if !whole.To.After(whole.From) {
		return nil
	}
	step := stepFor(whole.To.Sub(whole.From))
	out.StepSeconds = step.Seconds()
	lines, err := s.Views.Profile(ctx, whole, step)
	if err != nil {
		return err
	}
	memory, _ := w.GivenMemory()
	gpus, _ := w.GivenGPUs()
	by := map[string][]wire.Point{}
	for _, l := range query.Combine(lines, "total") {
		by[l.Metric] = l.Points
	}
	for _, r := range []struct {
		name, unit string
		held, max  *float64
		metrics    []string
	}{
		{"memory", "bytes", memory, w.MemoryPeakBytes, []string{"memory_bytes"}},
		{"gpus", "gpus", gpus, nil, []string{"gpus"}},
		{"gpu_memory", "bytes", nil, w.GPUMemoryPeak, []string{"gpu_memory_bytes"}},
		{"disk", "bytes_per_second", nil, nil, []string{"io_read_bytes_per_second", "io_write_bytes_per_second"}},
		{"network", "bytes_per_second", nil, nil, []string{"network_bytes_per_second"}},
	} {
		one := describeDistribution(by, r.metrics)
		one.Resource, one.Unit, one.Held = r.name, r.unit, r.held
		if r.max != nil {
			one.Max = r.max
		}
		addResource(out, one)
	}
	return nil
}

// describeDistribution returns the mean, quantiles and maximum of a sum of lines over their steps.
func describeDistribution(by map[string][]wire.Point, metrics []string) wire.ScaleResource {
	sums := map[int64]float64{}
	for _, m := range metrics {
		for _, p := range by[m] {
			if p.Value != nil {
				sums[p.Time.UnixMilli()] += *p.Value
			}
		}
	}
	if len(sums) == 0 {
		return wire.ScaleResource{}
	}
	values := make([]float64, 0, len(sums))
	total := 0.0
	for _, v := range sums {
		values = append(values, v)
	}
	slices.Sort(values)
	for _, v := range values {
		total += v
	}
	quantile := func(q float64) *float64 { return new(quantiles.Nearest(values, q)) }
	return wire.ScaleResource{Mean: new(total / float64(len(values))), P50: quantile(0.5), P95: quantile(0.95),
		Max: new(values[len(values)-1])}
}

// addRuns adds the successful runs of the same work.
func (s *Scale) addRuns(ctx context.Context, out *wire.Scale) error {
	rows, err := sameName(ctx, s.Catalogue, &out.Workload, comparedRuns)
	if err != nil {
		return err
	}
	from := "used"
	if given, _ := out.GivenCores(); given != nil {
		from = "requested"
	}
	out.SizeUnit = "cores"
	if gpus, _ := out.GivenGPUs(); gpus != nil && *gpus > 0 {
		out.SizeUnit, from = "gpus", "requested"
	}
	for i := range rows {
		r := toAPI(&rows[i])
		if r.Running {
			continue
		}
		cores, _ := r.GivenCores()
		if from == "used" && cores == nil && r.CoresP95 != nil {
			cores = new(math.Max(1, math.Round(*r.CoresP95)))
		} else if from == "used" {
			cores = nil
		}
		// If a run waited for cores, its use reflects the available cores, not its design.
		if from == "used" && r.WaitShare() >= 0.2 {
			out.LeftOut++
			continue
		}
		one := wire.ScaleRun{ID: r.ID, Start: r.Start, CoresFrom: from, Seconds: ranSeconds(&r), CPUSeconds: r.CPUSeconds}
		if cores != nil {
			one.Cores = *cores
		}
		if out.SizeUnit == "gpus" {
			one.GPUs, _ = r.GivenGPUs()
			one.GPUSeconds = r.GPUSeconds
		}
		if !endedWell(&r) || ranSeconds(&r) < shortest.Seconds() || one.Size(out.SizeUnit) < 1 || out.SizeUnit == "gpus" &&
			one.GPUs == nil {
			out.LeftOut++
			continue
		}
		if r.WaitShare() >= 0.2 {
			out.Waited++
			one.Waited = true
		}
		out.Runs = append(out.Runs, one)
	}
	slices.SortStableFunc(out.Runs, func(a, b wire.ScaleRun) int {
		return cmp.Or(cmp.Compare(a.Size(out.SizeUnit), b.Size(out.SizeUnit)), a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
	return nil
}

// endedWell reports whether a run ended by itself and without a fault, as far as known.
func endedWell(w *wire.Workload) bool {
	killed := w.OOMKills != nil && *w.OOMKills > 0
	return !w.Running && !killed && (w.State == "" || w.State == "completed") && (w.ExitCode == nil || *w.ExitCode == 0)
}

// sameName returns the latest workloads with the site, kind, name and owner of w, including w. A workload without a
// name, or with its id as the name, is compared only with its own runs.
func sameName(ctx context.Context, facts Catalogue, w *wire.Workload, limit int) ([]store.Workload, error) {
	f := store.Filter{Owners: []string{w.Owner}, Name: literalPattern(w.Name), Sort: "-start", Limit: limit}
	if strings.HasSuffix(w.ID, "/"+w.Name) || w.Name == "" {
		f = store.Filter{IDs: []string{w.ID}, Owners: []string{w.Owner}, Sort: "-start", Limit: limit}
	}
	rows, _, err := facts.Workloads(ctx, f)
	return slices.DeleteFunc(rows, func(r store.Workload) bool {
		return r.Site != w.Site || r.Kind != w.Kind || r.Name != w.Name || r.Owner != w.Owner || r.State == "pending"
	}), err
}

// literalPattern returns a shell pattern that matches s literally. It replaces a backslash by ?, because pattern
// implementations differ in their treatment of backslashes.
func literalPattern(s string) string {
	return strings.NewReplacer(`\`, `?`, `*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(s)
}

// addVerdicts adds the verdicts on the runs.
func (s *Scale) addVerdicts(out *wire.Scale, use scaling.Use) {
	unit := scaling.Cores
	if out.SizeUnit == "gpus" {
		unit = scaling.GPUs
	}
	runs := make([]scaling.Run, len(out.Runs))
	for i := range out.Runs {
		r := &out.Runs[i]
		runs[i] = scaling.Run{Size: r.Size(out.SizeUnit), Seconds: r.Seconds, Used: r.CPUSeconds, Waited: r.Waited}
		if unit == scaling.GPUs {
			runs[i].Used = r.GPUSeconds
		}
	}
	found := scaling.Compare(use, runs, unit)
	if w := found.Weak; w != nil {
		out.Weak = &wire.ScaleWeak{FromCores: w.From, ToCores: w.To, CPUGrowth: w.Growth, Efficiency: w.Efficiency, Sizes: w.Sizes,
			Runs: w.Runs}
	}
	out.Amdahl, out.USL = fitToWire(found.Amdahl, len(runs)), fitToWire(found.USL, len(runs))
	if found.Law != nil {
		for i := range out.Runs {
			out.Runs[i].Speedup = new(found.Law.OneCore / out.Runs[i].Seconds)
		}
	}
	for _, v := range found.Verdicts {
		out.Verdicts = append(out.Verdicts, wire.Verdict{Kind: v.Kind, Severity: v.Severity, Text: v.Text,
			Sentence: sentenceOf(v.Sentence, &out.Workload), Value: v.Value, Unit: v.Unit})
	}
}

func fitToWire(f *scaling.Fit, runs int) *wire.ScaleFit {
	if f == nil {
		return nil
	}
	finite := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	speed, cores := f.Limit()
	return &wire.ScaleFit{
		Serial: f.Serial, Crosstalk: f.Crosstalk, OneCore: f.OneCore, Sizes: f.Sizes, Runs: runs,
		Error: finite(f.Error), SerialLow: finite(f.SerialLow), SerialHigh: finite(f.SerialHigh),
		SpeedupLimit: finite(speed), BestCores: finite(cores),
	}
}
