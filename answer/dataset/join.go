package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"reckon/metric"
)

// Grid defines the steps and the method for joining series.
type Grid struct {
	// Start and End are the first and last times, Step the spacing, in milliseconds.
	// A row at t covers the step that ends at t.
	Start, End, Step int64
	// By lists the labels that become columns and distinguish rows, such as "workload" or "node".
	// All other labels become part of the value columns' names.
	By []string
	// Gap is the longest time without a sample that is bridged, in milliseconds. 0 means the larger
	// of five steps and five times the usual spacing of the series.
	Gap int64
}

// maxRows limits a grid: about a year of seconds.
const maxRows = 40_000_000

// Join aligns series to one grid. For a gauge, a step has the mean of its samples in the step, or the last sample if
// that is not older than the gap of the grid. A counter becomes a rate. A series that cannot be used is omitted with a
// warning.
func Join(series []Series, g Grid) (*Frame, []string, error) {
	switch {
	case g.Step <= 0:
		return nil, nil, fmt.Errorf("step of %d ms: want more than 0: %w", g.Step, ErrData)
	case g.End < g.Start:
		return nil, nil, fmt.Errorf("end %d is before start %d: %w", g.End, g.Start, ErrData)
	}
	steps := int((g.End-g.Start)/g.Step) + 1
	var warnings []string
	rows := make(map[string]int) // first row of each set of row labels
	f := &Frame{StepSeconds: float64(g.Step) / 1000}
	var sets [][]string
	type placed struct {
		s     *Series
		block string
	}
	var all []placed
	for i := range series {
		s := &series[i]
		if len(s.Points) == 0 {
			warnings = append(warnings, fmt.Sprintf("series %s has no samples", s.formatLabels(nil)))
			continue
		}
		if s.Kind == metric.NativeHistogram {
			warnings = append(warnings, fmt.Sprintf("series %s is a distribution and is left out", s.formatLabels(nil)))
			continue
		}
		set := s.labelValues(g.By)
		block := strings.Join(set, "\x00")
		if _, ok := rows[block]; !ok {
			rows[block] = -1
			sets = append(sets, set)
		}
		all = append(all, placed{s, block})
	}
	if steps > maxRows/max(1, len(sets)) {
		return nil, nil, fmt.Errorf("%d steps of %d sets of labels are more than %d rows; take a longer step: %w", steps, len(sets),
			maxRows, ErrData)
	}
	slices.SortFunc(sets, slices.Compare)
	for k, set := range sets {
		rows[strings.Join(set, "\x00")] = k * steps
	}
	f.Time = make([]int64, 0, steps*len(sets))
	for i := range g.By {
		f.Labels = append(f.Labels, LabelColumn{Name: g.By[i]})
	}
	for _, set := range sets {
		for k := range steps {
			f.Time = append(f.Time, g.Start+int64(k)*g.Step)
			for i := range g.By {
				f.Labels[i].Values = append(f.Labels[i].Values, set[i])
			}
		}
	}
	index := make(map[string]int)
	used := make(map[string]bool)
	for _, p := range all {
		name := p.s.columnName(g.By)
		c, ok := index[name]
		if !ok {
			c = len(f.Columns)
			index[name] = c
			f.Columns = append(f.Columns, p.s.newColumn(name, g.By, f.Rows()))
		}
		if key := fmt.Sprint(c, p.block); used[key] {
			warnings = append(warnings, fmt.Sprintf("series %s occurs twice; the first is kept", p.s.formatLabels(nil)))
			continue
		} else {
			used[key] = true
		}
		points, w := p.s.cleanPoints()
		warnings = append(warnings, w...)
		at := rows[p.block]
		fillColumn(f.Columns[c].Values[at:at+steps], points, p.s.Kind, g)
	}
	slices.SortFunc(f.Columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	return f, warnings, f.checkShape()
}

// labelValues returns the values of the row labels, or "" if the series lacks a label.
func (s *Series) labelValues(by []string) []string {
	out := make([]string, len(by))
	for i, n := range by {
		for _, l := range s.Labels {
			if l.Name == n {
				out[i] = l.Value
			}
		}
	}
	return out
}

// formatLabels formats the series as Prometheus does, without the labels in but.
func (s *Series) formatLabels(but []string) string {
	ls := slices.Clone(s.Labels)
	slices.SortFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	var parts []string
	for _, l := range ls {
		if l.Value != "" && !slices.Contains(but, l.Name) {
			parts = append(parts, fmt.Sprintf("%s=%q", l.Name, l.Value))
		}
	}
	if len(parts) == 0 {
		return s.Name
	}
	return s.Name + "{" + strings.Join(parts, ",") + "}"
}

// columnName returns the name of the series' column. A counter becomes a rate, so its column is named after the rate.
func (s *Series) columnName(by []string) string {
	d := s.formatLabels(by)
	if s.Kind != metric.Counter {
		return d
	}
	name, rest, _ := strings.Cut(d, "{")
	if rest != "" {
		rest = "{" + rest
	}
	return strings.TrimSuffix(name, "_total") + "_per_second" + rest
}

func (s *Series) newColumn(name string, by []string, rows int) Column {
	c := Column{Name: name, Unit: string(s.Unit), Help: s.Help, Source: s.formatLabels(by), Values: make([]float64, rows)}
	for i := range c.Values {
		c.Values[i] = math.NaN()
	}
	if s.Kind == metric.Counter {
		c.Rate = true
		c.Unit = strings.TrimPrefix(c.Unit+"/second", "/")
	}
	return c
}

// cleanPoints returns the finite samples in order of time, one per time.
func (s *Series) cleanPoints() (out []Point, warnings []string) {
	blank := 0
	for _, p := range s.Points {
		if math.IsNaN(p.V) || math.IsInf(p.V, 0) {
			blank++
			continue
		}
		out = append(out, p)
	}
	byTime := func(a, b Point) int {
		switch {
		case a.T < b.T:
			return -1
		case a.T > b.T:
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(out, byTime) {
		warnings = append(warnings, fmt.Sprintf("series %s is not in order of time and was sorted", s.formatLabels(nil)))
		slices.SortStableFunc(out, byTime)
	}
	n := len(out)
	out = slices.CompactFunc(out, func(a, b Point) bool { return a.T == b.T })
	if len(out) < n {
		warnings = append(warnings, fmt.Sprintf("series %s has %d samples at a time that it had already", s.formatLabels(nil), n-len(out)))
	}
	if blank > 0 {
		warnings = append(warnings, fmt.Sprintf("series %s has %d samples that are not numbers: gaps", s.formatLabels(nil), blank))
	}
	return out, warnings
}

// fillColumn writes the series to its part of a column.
func fillColumn(out []float64, points []Point, kind metric.Kind, g Grid) {
	if len(points) == 0 {
		return
	}
	gap := g.Gap
	if gap <= 0 {
		gap = max(5*g.Step, 5*medianSpacing(points))
	}
	if kind == metric.Counter {
		fillRate(out, points, g, gap)
		return
	}
	i := 0
	for k := range out {
		end := g.Start + int64(k)*g.Step
		for i < len(points) && points[i].T <= end-g.Step {
			i++
		}
		sum, n := 0.0, 0
		for j := i; j < len(points) && points[j].T <= end; j++ {
			sum, n = sum+points[j].V, n+1
		}
		switch {
		case n > 0:
			out[k] = sum / float64(n)
		case i > 0 && end-points[i-1].T <= gap:
			out[k] = points[i-1].V
		}
	}
}

// fillRate writes the rate of a counter in each step of g: its increase over the step, interpolated linearly between
// samples. After a decrease, the counter is taken to have restarted at zero. A step is unknown if any part of it lies
// between samples further apart than gap milliseconds.
func fillRate(out []float64, points []Point, g Grid, gap int64) {
	rise := make([]float64, len(points)) // since the first sample
	hole := make([]int, len(points))     // holes before this sample
	for i := 1; i < len(points); i++ {
		d := points[i].V - points[i-1].V
		if d < 0 {
			d = points[i].V
		}
		rise[i], hole[i] = rise[i-1]+d, hole[i-1]
		if points[i].T-points[i-1].T > gap {
			hole[i]++
		}
	}
	// at returns the increase up to t, and the number of the hole-free stretch that contains t.
	at := func(t int64) (float64, int, bool) {
		i, exact := slices.BinarySearchFunc(points, t, func(p Point, t int64) int {
			switch {
			case p.T < t:
				return -1
			case p.T > t:
				return 1
			}
			return 0
		})
		if exact {
			return rise[i], hole[i], true
		}
		if i == 0 || i == len(points) || hole[i] != hole[i-1] {
			return 0, 0, false
		}
		share := float64(t-points[i-1].T) / float64(points[i].T-points[i-1].T)
		return rise[i-1] + share*(rise[i]-rise[i-1]), hole[i], true
	}
	for k := range out {
		end := g.Start + int64(k)*g.Step
		a, ha, oka := at(end - g.Step)
		b, hb, okb := at(end)
		if oka && okb && ha == hb {
			out[k] = (b - a) * 1000 / float64(g.Step)
		}
	}
}

// medianSpacing returns the median time between samples.
func medianSpacing(points []Point) int64 {
	var d []int64
	for i := 1; i < len(points); i++ {
		d = append(d, points[i].T-points[i-1].T)
	}
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}
