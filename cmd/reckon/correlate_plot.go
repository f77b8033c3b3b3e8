package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"

	"reckon/analysis/correlate"
	"reckon/internal/term"
)

// The plots use no scripts, fonts or external files: each is a self-contained SVG with a page
// around it. Colour is never the only cue. Each cell contains its number, and blue and orange are
// distinguishable with all common kinds of colour blindness (Wong, Nature Methods 8, 441, 2011).

const plotStyle = `<style>
.t{font:12px system-ui,sans-serif;fill:#1b1f24}.s{font:10px system-ui,sans-serif;fill:#1b1f24}.q{fill:#57606a}
.bg{fill:#fff}.gap{fill:#f0f1f3}.ax{stroke:#8c959f;stroke-width:1;fill:none}.dot{fill:#0072b2;fill-opacity:.45}
@media(prefers-color-scheme:dark){.t,.s{fill:#e6edf3}.q{fill:#9da7b1}.bg{fill:#0d1117}.gap{fill:#1c2128}.dot{fill:#56b4e9}}
</style>`

// cellColour returns a colour from orange (-1) through transparent (0) to blue (+1). The opacity is the magnitude of v.
func cellColour(v float64) string {
	colour := "#0072b2"
	if v < 0 {
		colour = "#d55e00"
	}
	return fmt.Sprintf(`fill=%q fill-opacity="%.2f"`, colour, 0.06+0.44*math.Min(math.Abs(v), 1))
}

const (
	cellWidth, cellHeight = 74, 46
	nameWidth             = 190
	top                   = 110
)

// writeMatrixSVG draws a table of all pairs of columns. Each cell has the coefficient, the lag of the strongest correlation,
// and the number of points.
func writeMatrixSVG(w io.Writer, m *correlate.Matrix) error {
	n := len(m.Names)
	width, height := max(nameWidth+n*cellWidth+60, 340), top+n*cellHeight+64
	var b strings.Builder
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-label="Correlation of every pair of `+
			`%d columns">`, width, height, width, n)
	b.WriteString(plotStyle)
	fmt.Fprintf(&b, `<rect class="bg" width="%d" height="%d"/>`, width, height)
	for i, name := range m.Names {
		x, y := nameWidth+i*cellWidth+cellWidth/2, top-8
		fmt.Fprintf(&b, `<text class="t" transform="translate(%d %d) rotate(-35)">%s</text>`, x, y, escapePlot(name, 22))
		fmt.Fprintf(&b, `<text class="t" x="%d" y="%d" text-anchor="end">%s</text>`, nameWidth-8, top+i*cellHeight+cellHeight/2+4,
			escapePlot(name, 26))
	}
	for i := range n {
		for j := range n {
			x, y := nameWidth+j*cellWidth, top+i*cellHeight
			if i == j {
				fmt.Fprintf(&b, `<rect class="gap" x="%d" y="%d" width="%d" height="%d"/>`, x+1, y+1, cellWidth-2, cellHeight-2)
				continue
			}
			p := m.At(i, j)
			if math.IsNaN(p.Pearson) {
				fmt.Fprintf(
					&b, `<rect class="gap" x="%d" y="%d" width="%d" height="%d"/><text class="s q" x="%d" y="%d" `+
						`text-anchor="middle">%d points</text>`,
					x+1, y+1, cellWidth-2, cellHeight-2, x+cellWidth/2, y+cellHeight/2+4, p.Points)
				continue
			}
			fmt.Fprintf(&b, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" %s/>`, escapePlot(describePair(p), 300), x+1,
				y+1,
				cellWidth-2, cellHeight-2, cellColour(p.Pearson))
			fmt.Fprintf(&b, `<text class="t" x="%d" y="%d" text-anchor="middle">%s</text>`, x+cellWidth/2, y+17, formatCoef(p.Pearson))
			fmt.Fprintf(&b, `<text class="s" x="%d" y="%d" text-anchor="middle">lag %s</text>`, x+cellWidth/2, y+29,
				html.EscapeString(formatLag(p, p.A == m.Names[i])))
			fmt.Fprintf(&b, `<text class="s" x="%d" y="%d" text-anchor="middle">n %d</text></g>`, x+cellWidth/2, y+40, p.Points)
		}
	}
	for i, line := range []string{"Pearson's coefficient, the lag at which they agree best",
		"(how much later the column follows the row), and the points.", "Blue: they rise together. Orange: one falls as the other rises."} {
		fmt.Fprintf(&b, `<text class="s q" x="8" y="%d">%s</text>`, height-44+15*i, line)
	}
	b.WriteString(`</svg>`)
	_, err := io.WriteString(w, b.String())
	return err
}

// formatLag formats the lag of a pair as seen from one of its columns.
func formatLag(pair correlate.Pair, forward bool) string {
	if math.IsNaN(pair.LagPearson) {
		return term.Unknown
	}
	sign := 1.0
	if !forward {
		sign = -1
	}
	if pair.LagSeconds != 0 {
		return strconv.FormatFloat(sign*pair.LagSeconds+0, 'g', 4, 64) + " s"
	}
	if pair.Lag == 0 {
		return "0"
	}
	return strconv.Itoa(int(sign)*pair.Lag) + " rows"
}

func describePair(pair correlate.Pair) string {
	return fmt.Sprintf("%s with %s: %s (95 %% between %s and %s), Spearman %s, %d points worth %s independent ones; at a lag of %s: %s",
		pair.A, pair.B, formatCoef(pair.Pearson), formatCoef(pair.Low), formatCoef(pair.High), formatCoef(pair.Spearman), pair.Points,
		formatWhole(pair.Effective),
		formatLag(pair, true), formatCoef(pair.LagPearson))
}

// escapePlot makes text safe for a plot: sanitized, escaped, and cut.
func escapePlot(s string, width int) string {
	return html.EscapeString(term.Cut(term.Safe(s), width, false))
}

// writeScatterSVG draws the points of one pair.
func writeScatterSVG(b *strings.Builder, pair correlate.Pair, x, y []float64) {
	const w, h, pad = 300, 220, 58
	low := func(v []float64) (float64, float64) {
		lo, hi := math.Inf(1), math.Inf(-1)
		for i := range v {
			if !math.IsNaN(x[i]) && !math.IsNaN(y[i]) {
				lo, hi = math.Min(lo, v[i]), math.Max(hi, v[i])
			}
		}
		return lo, hi
	}
	x0, x1 := low(x)
	y0, y1 := low(y)
	fmt.Fprintf(
		b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-label="%s">%s<rect class="bg" `+
			`width="%d" height="%d"/>`, w, h, w, escapePlot(describePair(pair), 300), plotStyle, w, h)
	fmt.Fprintf(b, `<path class="ax" d="M%d 10V%dH%d"/>`, pad, h-pad, w-8)
	// At most a few thousand points: more would overlap.
	step := max(1, len(x)/2000)
	for i := 0; i < len(x); i += step {
		if math.IsNaN(x[i]) || math.IsNaN(y[i]) || x1 <= x0 || y1 <= y0 {
			continue
		}
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="2"/>`, pad+4+(x[i]-x0)/(x1-x0)*(w-pad-18),
			h-pad-4-(y[i]-y0)/(y1-y0)*(h-pad-20))
	}
	fmt.Fprintf(b, `<text class="s" x="%d" y="%d" text-anchor="middle">%s</text>`, w/2, h-4, escapePlot(pair.A, 40))
	fmt.Fprintf(b, `<text class="s" transform="translate(11 %d) rotate(-90)" text-anchor="middle">%s</text>`, h/2-10,
		escapePlot(pair.B, 30))
	for _, l := range []struct {
		x, y   int
		anchor string
		v      float64
	}{{pad, h - 20, "start", x0}, {w - 8, h - 20, "end", x1}, {pad - 2, h - pad, "end", y0}, {pad - 2, 18, "end", y1}} {
		fmt.Fprintf(b, `<text class="s q" x="%d" y="%d" text-anchor="%s">%s</text>`, l.x, l.y, l.anchor,
			strconv.FormatFloat(l.v, 'g', 3, 64))
	}
	b.WriteString(`</svg>`)
}

// writePairsHTML writes a self-contained page with the matrix, scatter plots of the strongest pairs, and
// a table of all pairs.
func writePairsHTML(w io.Writer, title string, m *correlate.Matrix, pairs []correlate.Pair, columns []correlate.Column) error {
	values := map[string][]float64{}
	for _, c := range columns {
		values[c.Name] = c.Values
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Correlations of %s</title><style>
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:76rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse}th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #d0d7de}th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
.wide{overflow-x:auto}.grid{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;max-width:300px;min-width:0}figcaption{font-size:13px}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}}
</style></head><body><h1>Correlations of %s</h1>`, html.EscapeString(term.Safe(title)), html.EscapeString(term.Safe(title)))
	b.WriteString(
		`<p>Correlation is not causation. A coefficient based on few independent points means little: look at its confidence ` +
			`band.</p><div class="wide">`)
	if err := writeMatrixSVG(&b, m); err != nil {
		return err
	}
	b.WriteString(`</div>`)
	for _, warning := range m.Warnings {
		fmt.Fprintf(&b, `<p>Note: %s</p>`, html.EscapeString(term.Safe(warning)))
	}
	b.WriteString(`<h2>The strongest pairs</h2><div class="grid">`)
	for i, p := range pairs {
		if i == 12 {
			break
		}
		b.WriteString(`<figure>`)
		writeScatterSVG(&b, p, values[p.A], values[p.B])
		fmt.Fprintf(&b, `<figcaption>%s, at lag %s %s; %d points</figcaption></figure>`, formatCoef(p.Pearson),
			html.EscapeString(formatLag(p, true)), formatCoef(p.LagPearson), p.Points)
	}
	b.WriteString(
		`</div><h2>All pairs</h2><div class="wide"><table><thead><tr><th>Column<th>with<th>Pearson<th>95 % ` +
			`band<th>Spearman<th>Points<th>Effective<th>Lag<th>At lag</tr></thead><tbody>`)
	for _, p := range pairs {
		fmt.Fprintf(&b, `<tr><td>%s<td>%s<td>%s<td>%s to %s<td>%s<td>%d<td>%s<td>%s<td>%s</tr>`, escapePlot(p.A, 60), escapePlot(p.B, 60),
			formatCoef(p.Pearson), formatCoef(p.Low), formatCoef(p.High),
			formatCoef(p.Spearman), p.Points, formatWhole(p.Effective), html.EscapeString(formatLag(p, true)), formatCoef(p.LagPearson))
	}
	b.WriteString("</tbody></table></div></body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
