package catalogue

import (
	"maps"
	"slices"

	"reckon/figure"
	"reckon/internal/series"
)

// slot is a kind of series: all series of a metric, or those with one value of a label. Slots are numbered when the
// program starts, so saved states store their names.
type slot uint16

// The slots of facts come first in the registry of runs.
const (
	infoSlot slot = iota
	stateSlot
	nodesSlot
	startSlot
	endSlot
	submitSlot
	exitSlot
	accountedExitSlot
	qosSlot
	endedBySlot
	stepSlot
	stepStartSlot
	stepEndSlot
	stepExitSlot
	stepCPUSlot
	stepMemorySlot
	stepCoresSlot
	restartsSlot
	waitingSlot
	containerExitSlot
	unscheduledSlot
	firstFigure // the slots of figures follow
)

// metricSources returns all series of the metrics.
func metricSources(metrics ...string) []figure.Source {
	out := make([]figure.Source, len(metrics))
	for i, name := range metrics {
		out[i].Metric = name
	}
	return out
}

// accountedExit are the exit codes that accounting alone reports.
var accountedExit = figure.Source{Metric: figure.ExitCode, Label: "by", Value: figure.Accounting}

// Slots that roll-ups need besides figures.
const (
	commandSlot slot = iota
	nodeCPUSlot
	nodeEnergySlot
	firstHourFigure
)

// runSlots are the series of runs, hourSlots the counters of hours.
var (
	runFigures = figure.InScope(figure.Runs)
	runSlots   = newRegistry(runFigures, nil, slices.Concat(
		metricSources(figure.Info, figure.State, figure.NodesInfo, figure.StartTime, figure.EndTime, figure.SubmitTime, figure.ExitCode),
		[]figure.Source{accountedExit},
		metricSources(figure.QOSInfo, figure.EndedByInfo, figure.StepInfo, figure.StepStart, figure.StepEnd, figure.StepExit,
			figure.StepCPU,
			figure.StepMemory, figure.StepCores, figure.ContainerRestarts, figure.ContainerWaiting, figure.ContainerExit,
			figure.Unscheduled)))
	runLabels = append(runSlots.labels, "name", "account", "partition", "command", "state", "reason", "nodes", "qos", "user", "run",
		"message")

	hourFigures = figure.InScope(figure.Hours)
	hourSlots   = newRegistry(hourFigures, func(f *figure.Figure) figure.Source { return f.Except },
		metricSources(figure.CommandCPU, figure.NodeCPU, figure.NodeEnergy))
	hourLabels = append(hourSlots.labels, "mode", "cpu", "command", "account", "partition", "figure")

	gpuMemorySlot = runSlots.byMetric[figure.GPUMemory][0]
	gpuPeakSlot   = runSlots.byMetric[figure.GPUMemoryPeak][0]

	cpuFigure    = figure.Index(figure.Runs, "cpu_seconds")
	memoryFigure = figure.Index(figure.Runs, "memory_byte_seconds")
)

// slotEntry is one slot.
type slotEntry struct {
	source  figure.Source
	figures []int // that the series counts in
	counter bool
}

// registry finds the slot of a series.
type registry struct {
	list     []slotEntry
	byMetric map[string][]slot // slots of label values first
	except   map[string]figure.Source
	labels   []string // that decide
}

// newRegistry numbers facts, then the sources of figures.
func newRegistry(figures []figure.Figure, except func(*figure.Figure) figure.Source, facts []figure.Source) *registry {
	r := &registry{byMetric: map[string][]slot{}, except: map[string]figure.Source{}}
	for _, s := range facts {
		r.addSource(s)
	}
	for i := range figures {
		f := &figures[i]
		for _, s := range f.From {
			r.addSource(s)
		}
		if except != nil {
			if s := except(f); s.Metric != "" {
				r.except[s.Metric] = s
				r.addLabel(s.Label)
			}
		}
	}
	for at := range r.list {
		e := &r.list[at]
		for i := range figures {
			for _, s := range figures[i].From {
				if s.Metric == e.source.Metric && (s.Label == "" || s == e.source) {
					e.figures = append(e.figures, i)
					e.counter = e.counter || figures[i].How.Value == figure.Total
				}
			}
		}
	}
	for _, of := range r.byMetric {
		slices.SortStableFunc(of, func(a, b slot) int { return len(r.list[b].source.Label) - len(r.list[a].source.Label) })
	}
	return r
}

func (r *registry) addSource(s figure.Source) {
	if slices.ContainsFunc(r.list, func(e slotEntry) bool { return e.source == s }) {
		return
	}
	r.byMetric[s.Metric] = append(r.byMetric[s.Metric], slot(len(r.list)))
	r.list = append(r.list, slotEntry{source: s})
	if s.Label != "" {
		r.addLabel(s.Label)
	}
}

func (r *registry) addLabel(label string) {
	if !slices.Contains(r.labels, label) {
		r.labels = append(r.labels, label)
	}
}

// metricNames returns the names of all series.
func (r *registry) metricNames() []string {
	return slices.Sorted(maps.Keys(r.byMetric))
}

// splitNames separates the names of the series of slots before first from all other names.
func (r *registry) splitNames(first slot) (before, others []string) {
	for _, name := range r.metricNames() {
		if slices.Min(r.byMetric[name]) < first {
			before = append(before, name)
		} else {
			others = append(others, name)
		}
	}
	return before, others
}

// slotNames returns the names of slots in a saved state, by number.
func (r *registry) slotNames() []string {
	out := make([]string, len(r.list))
	for i, e := range r.list {
		out[i] = e.source.String()
	}
	return out
}

// findSlot returns the slot of a series, or false if there is none.
func (r *registry) findSlot(n *series.Labels) (slot, bool) {
	if x, ok := r.except[n.Metric]; ok && n.Rest[x.Label] == x.Value {
		return 0, false
	}
	for _, s := range r.byMetric[n.Metric] {
		if src := &r.list[s].source; src.Label == "" || n.Rest[src.Label] == src.Value {
			return s, true
		}
	}
	return 0, false
}

// isCounter reports whether the series of a slot only grow.
func (s slot) isCounter() bool { return runSlots.list[s].counter }

// isUsedBy reports whether the series of a slot count in a figure of runs.
func (s slot) isUsedBy(i int) bool { return slices.Contains(runSlots.list[s].figures, i) }
