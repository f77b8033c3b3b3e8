package term

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// Mark is an event on the line below a chart. If two fall into one column, the later one in the list is shown.
type Mark struct {
	From, To time.Time // To equals From for a moment; a range is drawn from end to end
	Sign     rune      // one column wide
	ASCII    rune      // its replacement on a screen with ASCII only
	Style    Style
}

// Marks returns the line of marks below a chart drawn by Draw, ending in a newline. It returns "" if no mark lies
// within the time of the chart.
func (s Screen) Marks(c Chart, marks []Mark) string {
	margin, plot := c.layout()
	type cell struct {
		sign  rune
		style Style
	}
	cells := make([]cell, plot)
	some := false
	for _, m := range marks {
		from, to, ok := columnRange(c.Points, plot, m.From, m.To)
		if !ok {
			continue
		}
		sign := m.Sign
		if s.ASCII {
			sign = m.ASCII
		}
		for i := from; i <= to; i++ {
			cells[i], some = cell{sign, m.Style}, true
		}
	}
	if !some {
		return ""
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", margin+2))
	for i := 0; i < len(cells); {
		j := i
		var run strings.Builder
		for ; j < len(cells) && cells[j].style == cells[i].style && (cells[j].sign == 0) == (cells[i].sign == 0); j++ {
			if cells[j].sign == 0 {
				run.WriteByte(' ')
			} else {
				run.WriteRune(cells[j].sign)
			}
		}
		if cells[i].sign == 0 {
			b.WriteString(run.String())
		} else {
			b.WriteString(s.Paint(cells[i].style, run.String()))
		}
		i = j
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// columnRange returns the first and the last column of a chart that a time range covers. n is the number of columns. A
// point stands for the time since the previous point. ok is false if the range is outside the chart.
func columnRange(points []Point, n int, from, to time.Time) (first, last int, ok bool) {
	if len(points) == 0 || to.Before(from) {
		return 0, 0, false
	}
	step := time.Duration(0)
	if len(points) > 1 {
		step = points[1].Time.Sub(points[0].Time)
	}
	end := points[len(points)-1].Time.Add(step) // an event a moment after the last point is shown
	if to.Before(points[0].Time.Add(-step)) || from.After(end) {
		return 0, 0, false
	}
	column := func(t time.Time) int {
		i := sort.Search(len(points), func(i int) bool { return !points[i].Time.Before(t) })
		if i == len(points) {
			return n - 1
		}
		share := 1.0 // of the step that ends at the point
		if i > 0 {
			if d := points[i].Time.Sub(points[i-1].Time); d > 0 {
				share = float64(t.Sub(points[i-1].Time)) / float64(d)
			}
		} else if step > 0 {
			share = 1 - min(float64(points[0].Time.Sub(t))/float64(step), 1)
		}
		return min(max(int((float64(i)+share)*float64(n)/float64(len(points))-1e-9), 0), n-1)
	}
	return column(from), column(to), true
}

// layout divides the width of a chart between the labels and the columns.
func (c *Chart) layout() (margin, columns int) {
	labels, _ := c.axisLabels()
	for _, l := range labels {
		margin = max(margin, textWidth(l))
	}
	return margin, max(max(c.Width, 20)-margin-2, 4)
}

// axisLabels returns the numbers at the axis from the top to the bottom, and the value at the top.
func (c *Chart) axisLabels() (numbers []string, highest float64) {
	height, top := max(c.Height, 1), 0.0
	for _, p := range c.Points {
		if !isUnknown(p.Value) {
			top = max(top, *p.Value)
		}
	}
	if c.Limit != nil && *c.Limit > top && *c.Limit < 4*top {
		top = *c.Limit
	}
	if top <= 0 {
		top = 1
	}
	labels := make([]string, height+1)
	labels[0] = c.Format(&top)
	half := top / 2
	if text := c.Format(&half); height >= 4 && text != labels[0] { // both may be "< 0.001"
		labels[height/2] = text
	}
	zero := 0.0
	labels[height] = c.Format(&zero)
	return labels, top
}

// hasValues reports whether a chart has any value.
func (c *Chart) hasValues() bool {
	return slices.ContainsFunc(c.Points, func(p Point) bool { return !isUnknown(p.Value) })
}
