// Package report writes the use of a site as one self-contained HTML page:
// plots are inline SVG, and there are no scripts, fonts or images to fetch. It
// follows the light or dark colours of the reader's system and prints in black on
// white. Every text is escaped (html/template); an unmeasured figure is a dash.
//
// Figures are the fields of client.Report, in SI base units. Functions are pure and safe for
// concurrent use.
package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"reckon/answer/invariant"
	"reckon/figure"
	"reckon/figure/format"
	"reckon/web/client"
)

//go:embed page.html owner.html
var files embed.FS

// Write writes the page. site is its heading, omitted in public reports.
func Write(w io.Writer, r *client.Report, site string) error {
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"hours": formatWith(format.Hours), "percent": formatWith(format.Percent), "energy": formatWith(format.Energy),
		"bytes": formatWith(format.Bytes),
		"count": formatWith(format.Count), "span": formatWith(format.Duration), "dash": orDash, "is": withMark, "marks": marksLegend,
		"bars": stepBars, "week": weekSquares, "over": figure.Ratio,
		"date": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"top":  firstRows, "minus": subtractKnown, "of": formatUsedShare, "unheld": hasUnallocated, "allocated": exceedsNodes,
	}).ParseFS(files, "page.html")
	if err != nil {
		return err
	}
	if r.Public {
		site = ""
	}
	return t.Execute(w, struct {
		*client.Report
		SiteName string
	}{r, site})
}

func orDash(s string) string { return cmp.Or(s, "–") }

// formatWith applies a format to a known figure; an unknown one is a dash.
func formatWith(write func(float64) string) func(*float64) string {
	return func(v *float64) string {
		if v == nil {
			return "–"
		}
		return write(*v)
	}
}

// withMark marks the text of a figure that is not exact.
func withMark(u client.Usage, key, text string) string {
	e := u.Exactness[key]
	if e == figure.Exact || text == "–" {
		return text
	}
	return format.Marked(e, text)
}

// marksLegend explains the marks in the report; empty if it has none.
func marksLegend(r *client.Report) string {
	met := map[figure.Exactness]bool{}
	for _, rows := range [][]client.Usage{{r.Total}, r.Owners, r.Accounts, r.Commands, r.Kinds, r.Nodes} {
		for i := range rows {
			for _, e := range rows[i].Exactness {
				met[e] = true
			}
		}
	}
	return format.Marks(met)
}

// exceedsAllocation reports whether a row used more CPU time than its allocation. That is possible because a row may include
// work without an allocation.
func exceedsAllocation(u *client.Usage) bool {
	share := figure.Ratio(u.CPUSeconds, u.HeldCoreSeconds)
	return share != nil && *share > 1+invariant.Tolerance
}

// formatUsedShare formats the used share of an allocation. The share is never above 100 %. A row with more use than allocation
// is marked with *, because it includes work without an allocation.
func formatUsedShare(u client.Usage) string {
	share := figure.Ratio(u.CPUSeconds, u.HeldCoreSeconds)
	if exceedsAllocation(&u) {
		return "all *"
	}
	if share != nil {
		share = new(min(*share, 1))
	}
	return withMark(u, "cpu_seconds", formatWith(format.Percent)(share))
}

// hasUnallocated reports whether a row of the tables bears that mark.
func hasUnallocated(tables ...[]client.Usage) bool {
	return slices.ContainsFunc(slices.Concat(tables...), func(u client.Usage) bool { return exceedsAllocation(&u) })
}

func subtractKnown(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	v := *a - *b
	return &v
}

// firstRows returns the first n rows.
func firstRows(n int, rows []client.Usage) []client.Usage { return rows[:min(n, len(rows))] }

// LabelX returns the start of the label: under the bar, but within the plot.
func (b bar) LabelX() float64 { return min(b.X, 705) }

// bar is one column of the plot of utilisation. A time without figures has none.
type bar struct {
	X, W       float64
	Top, Up    float64 // capacity that was up
	Y, H       float64 // cores in use
	Label, Tip string
}

// exceedsNodes reports whether the jobs of some row were allocated more than the measured nodes have, as in imported
// time.
func exceedsNodes(rows []client.Usage) bool {
	return slices.ContainsFunc(rows, func(u client.Usage) bool {
		return u.HeldCoreSeconds != nil && (u.CoreSeconds == nil || *u.HeldCoreSeconds > *u.CoreSeconds*(1+invariant.Tolerance))
	})
}

// coreTimes returns the available and the used core time. If nodes were not measured, these are the allocation and use of jobs.
func coreTimes(u *client.Usage) (whole, used *float64, words string) {
	if exceedsNodes([]client.Usage{*u}) {
		return u.HeldCoreSeconds, u.CPUSeconds, "allocated were used"
	}
	return u.CoreSeconds, u.CoreUsedSeconds, "in use"
}

// maxCoreTime returns the largest core time of a row.
func maxCoreTime(rows []client.Usage) (v float64) {
	for i := range rows {
		if whole, _, _ := coreTimes(&rows[i]); whole != nil {
			v = max(v, *whole)
		}
	}
	return v
}

// stepBars returns one column per step for the chart of a report. The height is the core time in use, relative to the
// largest capacity of any step. The background of a column is the capacity of nodes that were up.
func stepBars(r *client.Report) []bar {
	most := maxCoreTime(r.Steps)
	out := make([]bar, 0, len(r.Steps))
	whole := max(r.Until.Sub(r.Since).Hours(), 1)
	wide := map[string]float64{"hour": 1, "day": 24, "week": 7 * 24, "month": 30 * 24}[r.Step]
	for i := range r.Steps {
		s := &r.Steps[i]
		b := bar{X: 40, W: max(700*wide/whole*0.85, 1)}
		if s.From != nil {
			b.X += 700 * max(s.From.Sub(r.Since).Hours(), 0) / whole
			b.W = min(b.W, 745-b.X)
			layout := map[string]string{"hour": "15:04", "month": "2006-01"}[r.Step]
			b.Label = s.From.UTC().Format(cmp.Or(layout, "2 Jan"))
			if every := (len(r.Steps) + 9) / 10; i%every != 0 {
				b.Label = ""
			}
			b.Tip = s.From.UTC().Format("2006-01-02 15:04") + ": "
		}
		if up, used, words := coreTimes(s); up != nil && most > 0 {
			b.Up = 140 * *up / most
			if used != nil {
				b.H = min(140**used/most, b.Up)
			}
			b.Tip += formatWith(format.Hours)(used) + " of " + formatWith(format.CoreHours)(up) + " " + words
		}
		b.Top, b.Y = 170-b.Up, 170-b.H
		out = append(out, b)
	}
	return out
}

// square is one hour of the week.
type square struct {
	X, Y    float64
	Opacity float64
	Tip     string
}

func weekSquares(r *client.Report) []square {
	var out []square
	held, most := exceedsNodes(r.Week), maxCoreTime(r.Week)
	days := []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	for i := range r.Week {
		u := &r.Week[i]
		if u.From == nil {
			continue
		}
		at := int(u.From.Sub(time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)) / time.Hour)
		busy := figure.Ratio(u.CoreUsedSeconds, u.CoreSeconds)
		words := formatWith(format.Percent)(busy) + " in use"
		if held {
			busy, words = figure.Ratio(u.HeldCoreSeconds, &most), formatWith(format.CoreHours)(u.HeldCoreSeconds)+" allocated"
		}
		if at < 0 || at >= 7*24 || busy == nil {
			continue
		}
		out = append(out, square{X: 60 + float64(at%24)*27, Y: 20 + float64(at/24)*22, Opacity: min(max(*busy, 0.02), 1),
			Tip: fmt.Sprintf("%s %02d:00 UTC: %s", days[at/24], at%24, words)})
	}
	return out
}
