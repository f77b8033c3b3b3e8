package term

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// Point is one value of a chart; nil is a gap.
type Point struct {
	Time  time.Time
	Value *float64
}

// Chart is one figure over time.
type Chart struct {
	Title  string
	Points []Point               // in order of time
	Format func(*float64) string // formats the numbers at the axis, such as Bytes
	Limit  *float64              // included in the scale and labelled, such as the amount requested
	Of     string                // label of the limit; empty is "requested"
	Width  int                   // columns, axis included; at least 20
	Height int                   // lines of the plot itself, without title and time axis; at least 1
	// Start and end of the time axis; by default the first and the last point.
	From, To time.Time
}

var blockRunes = []rune(" ▁▂▃▄▅▆▇█")

// Draw returns the chart as lines of text, each ending in a newline. Each column shows the mean of its points. A column
// without values shows a dot on the base line, because an empty column would look like zero.
func (s Screen) Draw(c Chart) string {
	if !c.hasValues() {
		return c.Title + ": nothing was measured\n"
	}
	height := max(c.Height, 1)
	labels, top := c.axisLabels()
	margin, plot := c.layout()
	cols := columnMeans(c.Points, plot)

	var b strings.Builder
	if c.Title != "" {
		title := c.Title
		if c.Limit != nil {
			title += fmt.Sprintf(" (%s %s)", cmp.Or(c.Of, "requested"), c.Format(c.Limit))
		}
		b.WriteString(s.Paint(Bold, title) + "\n")
	}
	axis, corner, dot := "┤", "└", '·'
	if s.ASCII {
		axis, corner, dot = "|", "+", '.'
	}
	for row := range height {
		label := labels[row]
		b.WriteString(strings.Repeat(" ", margin-textWidth(label)) + s.Paint(Quiet, label+" "+axis))
		var line strings.Builder
		for _, v := range cols {
			low := float64(height-1-row) / float64(height) * top
			line.WriteRune(s.blockRune(v, low, top/float64(height), row == height-1, dot))
		}
		b.WriteString(s.Paint(Cyan, strings.TrimRight(line.String(), " ")) + "\n")
	}
	b.WriteString(strings.Repeat(" ", margin-textWidth(labels[height])) + s.Paint(Quiet, labels[height]+" "+corner+c.axisLine(plot)) + "\n")
	return b.String()
}

// blockRune returns the character of one cell of a chart. low is the value at the lower edge of the cell, and h the height of the cell.
func (s Screen) blockRune(v *float64, low, h float64, ground bool, dot rune) rune {
	if v == nil {
		if ground {
			return dot
		}
		return ' '
	}
	n := int(math.Round((*v - low) / h * 8))
	if ground && *v > 0 {
		n = max(n, 1)
	}
	n = min(max(n, 0), 8)
	if s.ASCII {
		if n >= 4 || (ground && n > 0) {
			return '#'
		}
		return ' '
	}
	return blockRunes[n]
}

// columnMeans divides points into n columns and returns the mean value of each, or nil for a column without values. If
// there are fewer points than columns, each point fills several columns.
func columnMeans(points []Point, n int) []*float64 {
	out := make([]*float64, n)
	for i := range n {
		from := i * len(points) / n
		to := max((i+1)*len(points)/n, from+1)
		sum, count := 0.0, 0
		for _, p := range points[from:min(to, len(points))] {
			if !isUnknown(p.Value) {
				sum += *p.Value
				count++
			}
		}
		if count > 0 {
			mean := sum / float64(count)
			out[i] = &mean
		}
	}
	return out
}

// axisLine returns the line with the first and the last time, and one time in between if there is room.
func (c *Chart) axisLine(width int) string {
	first, last := c.Points[0].Time, c.Points[len(c.Points)-1].Time
	if !c.From.IsZero() {
		first = c.From
	}
	if !c.To.IsZero() {
		last = c.To
	}
	layout := "15:04:05"
	switch span := last.Sub(first); {
	case span >= 48*time.Hour:
		layout = "Jan 02 15:04"
	case span >= 2*time.Hour:
		layout = "15:04"
	}
	a, z := first.Format(layout), last.Format(layout)
	if last.Sub(first) < time.Second {
		return a
	}
	if width < len(a)+len(z)+2 {
		return a[:min(len(a), width)]
	}
	middle := first.Add(last.Sub(first) / 2).Format(layout)
	gap := width - len(a) - len(z)
	if gap < len(middle)+4 {
		return a + strings.Repeat(" ", gap) + z
	}
	left := max((width-len(middle))/2-len(a), 1)
	return a + strings.Repeat(" ", left) + middle + strings.Repeat(" ", gap-left-len(middle)) + z
}

// Spark draws values as one line of blocks. A gap is a dot.
func (s Screen) Spark(values []*float64, width int) string {
	if len(values) == 0 || width <= 0 {
		return ""
	}
	top := 0.0
	for _, v := range values {
		if !isUnknown(v) {
			top = max(top, *v)
		}
	}
	return s.SparkTo(values, width, top)
}

// SparkTo is Spark with a given top, so that several lines can be compared.
func (s Screen) SparkTo(values []*float64, width int, top float64) string {
	if len(values) == 0 || width <= 0 {
		return ""
	}
	points := make([]Point, len(values))
	for i, v := range values {
		points[i].Value = v
	}
	if !(top > 0) {
		top = 1
	}
	dot := '·'
	if s.ASCII {
		dot = '.'
	}
	var b strings.Builder
	for _, v := range columnMeans(points, width) {
		b.WriteRune(s.blockRune(v, 0, top, true, dot))
	}
	return b.String()
}
