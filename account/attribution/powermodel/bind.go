package powermodel

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxLag is the maximum history of a Tracker, in steps.
const maxLag = 60

// Fits returns nil if the model applies to machine, and otherwise an error that lists every
// difference. Fields unknown on either side are not compared.
func (m *Model) Fits(machine Machine) error {
	var diff []string
	text := func(what, ours, theirs string) {
		if ours != "" && theirs != "" && !strings.EqualFold(simplifyName(ours), simplifyName(theirs)) {
			diff = append(diff, fmt.Sprintf("%s %q, here %q", what, ours, theirs))
		}
	}
	num := func(what string, ours, theirs, tolerance float64) {
		if ours > 0 && theirs > 0 && math.Abs(ours-theirs) > tolerance*ours {
			diff = append(diff, fmt.Sprintf("%s %g, here %g", what, ours, theirs))
		}
	}
	text("arch", m.Machine.Arch, machine.Arch)
	text("cpu", m.Machine.CPU, machine.CPU)
	text("product", m.Machine.Product, machine.Product)
	num("sockets", float64(m.Machine.Sockets), float64(machine.Sockets), 0)
	num("cores", float64(m.Machine.Cores), float64(machine.Cores), 0)
	num("threads", float64(m.Machine.Threads), float64(machine.Threads), 0)
	num("memory bytes", m.Machine.Memory, machine.Memory, 0.1)
	if len(diff) == 0 {
		return nil
	}
	return fmt.Errorf("power model %q was made for %s: %w", m.Name, strings.Join(diff, "; "), ErrMachine)
}

// simplifyName removes the parts of a name that vendors change between releases.
func simplifyName(s string) string {
	s = strings.NewReplacer("(R)", "", "(r)", "", "(TM)", "", "(tm)", "", " CPU", "", " Processor", "").Replace(s)
	if i := strings.Index(s, " @"); i > 0 {
		s = s[:i]
	}
	return strings.Join(strings.Fields(s), " ")
}

// Tracker evaluates a model on a stream of readings. It finds each feature among the caller's values and keeps the past
// readings that lagged features need. It allocates only on creation and is not safe for concurrent use.
type Tracker struct {
	m *Model
	// from is, for each feature, its index among the caller's values.
	from []int
	// past holds the last readings of the caller, newest at at.
	past [][]float64
	at   int
	seen int
	x    []float64
}

// NewTracker returns a tracker of m. names lists the values that the caller will pass to Observe, in that order. The
// error lists all features of m that are not in names.
func NewTracker(m *Model, names []string) (*Tracker, error) {
	t := &Tracker{m: m, x: make([]float64, len(m.Features))}
	var unknown []string
	depth := 1
	for _, f := range m.Features {
		i := slices.Index(names, f.Name)
		if i < 0 && !slices.Contains(unknown, f.Name) {
			unknown = append(unknown, f.Name)
		}
		t.from = append(t.from, i)
		depth = max(depth, f.Lag+1)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("power model %q needs %s, which this machine does not measure; it measures %s: %w",
			m.Name, strings.Join(unknown, ", "), strings.Join(names, ", "), ErrFeature)
	}
	for range depth {
		t.past = append(t.past, make([]float64, len(names)))
	}
	return t, nil
}

// Observe records the newest readings and returns the predicted power. While the history is shorter
// than a lag, the oldest reading stands in.
func (t *Tracker) Observe(values []float64) Prediction {
	if len(values) != len(t.past[0]) {
		return t.m.Predict(nil)
	}
	t.at = (t.at + 1) % len(t.past)
	copy(t.past[t.at], values)
	t.seen = min(t.seen+1, len(t.past))
	for i, f := range t.m.Features {
		lag := min(f.Lag, t.seen-1)
		t.x[i] = t.past[(t.at-lag+len(t.past))%len(t.past)][t.from[i]]
	}
	return t.m.Predict(t.x)
}

// Explain is [Model.Explain] for the last observed readings.
func (t *Tracker) Explain(watts []float64) (base float64) { return t.m.Explain(t.x, watts) }

// Reset forgets the history, as after a gap in the readings.
func (t *Tracker) Reset() { t.seen = 0 }
