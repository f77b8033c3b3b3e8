package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/web/client"
	"reckon/workload"
)

// WriteOwner writes the report on one owner as an HTML page.
func WriteOwner(w io.Writer, r *client.OwnerReport) error {
	t, err := template.New("owner.html").Funcs(template.FuncMap{
		"hours": formatWith(format.Hours), "energy": formatWith(format.Energy), "span": formatWith(format.Duration),
		"seconds": func(v float64) string { return format.Duration(v) },
		"is":      withMark, "date": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"unused":    client.UnusedCoreSeconds,
		"unusedGPU": client.UnusedGPUSeconds,
		"advice":    formatAdvice, "link": func(id string) string { return r.Server + "/workload?" + url.Values{"id": {id}}.Encode() },
		"page": r.Page, "name": displayName, "rule": ruleTitle, "bars": drawDays,
	}).ParseFS(files, "owner.html")
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// Subject returns the report in one line, for the subject of a mail.
func Subject(r *client.OwnerReport) string {
	hours := formatWith(format.CoreHours)
	text := withMark(r.Used, "cpu_seconds", hours(r.Used.CPUSeconds)) + " used"
	if lost := client.UnusedCoreSeconds(&r.Used); lost != nil {
		text += ", " + format.Hours(*lost) + " allocated and not used"
	}
	if r.FailedTotal > 0 {
		text += ", " + format.Plural(float64(r.FailedTotal), "job") + " failed"
	}
	return asciiDashes(text)
}

func displayName(w client.Workload) string {
	return cmp.Or(workload.Kind(w.Kind).Title(), w.Name, w.Command, w.ID)
}

func ruleTitle(rule string) string { return strings.ReplaceAll(rule, "-", " ") }

// formatAdvice returns the recommended request in a few words.
func formatAdvice(a *client.Advice) string {
	if a == nil {
		return ""
	}
	var words []string
	add := func(v *float64, write func(float64) string) {
		if v != nil {
			words = append(words, write(*v))
		}
	}
	add(a.Cores, func(v float64) string { return format.Plural(v, "core") })
	add(a.GPUs, func(v float64) string { return format.Plural(v, "GPU") })
	add(a.MemoryBytes, func(v float64) string { return format.Bytes(v) })
	add(a.Seconds, format.Duration)
	return strings.Join(words, ", ")
}

// Text returns the report as plain text for terminals and mail, without colours and control characters. A line has no
// more than 76 columns, unless a name is longer.
func Text(r *client.OwnerReport) string {
	var b strings.Builder
	line := func(text string, args ...any) { fmt.Fprintf(&b, text+"\n", args...) }
	line("%s, %s to %s UTC", withoutControl(r.Owner), r.Since.UTC().Format("2006-01-02 15:04"), r.Until.UTC().Format("2006-01-02 15:04"))
	line("")
	line("%-22s %14s %16s", "", "in this time", "the time before")
	row := func(what string, now, before string) {
		if now != "–" {
			line("%-22s %14s %16s", what, asciiDashes(now), asciiDashes(before))
		}
	}
	hours, energy := formatWith(format.Hours), formatWith(format.Energy)
	u, p := r.Used, r.Before
	row("Core-hours used", withMark(u, "cpu_seconds", hours(u.CPUSeconds)), withMark(p, "cpu_seconds", hours(p.CPUSeconds)))
	row("  allocated", withMark(u, "held_core_seconds", hours(u.HeldCoreSeconds)), withMark(p, "held_core_seconds",
		hours(p.HeldCoreSeconds)))
	row("  allocated, not used", hours(client.UnusedCoreSeconds(&u)), hours(client.UnusedCoreSeconds(&p)))
	row("GPU-hours used", withMark(u, "gpu_seconds", hours(u.GPUSeconds)), withMark(p, "gpu_seconds", hours(p.GPUSeconds)))
	row("GPU-hours allocated", hours(u.HeldGPUSeconds), hours(p.HeldGPUSeconds))
	row("Energy", withMark(u, "energy_joules", energy(u.EnergyJoules)), withMark(p, "energy_joules", energy(p.EnergyJoules)))
	row("Started work", formatWith(format.Count)(u.Started), formatWith(format.Count)(p.Started))
	row("  mean wait", formatWith(format.Duration)(figure.Ratio(u.WaitSeconds, u.StartedWithSubmit)),
		formatWith(format.Duration)(figure.Ratio(p.WaitSeconds, p.StartedWithSubmit)))
	if of := drawDays(r); len(of) > 0 {
		line("\nCore-hours by day: # used, . allocated and not used")
		line("  %s", asciiDashes(strings.Join(of, "\n  ")))
	}
	works := func(title string, list []client.Workload, total int, tail func(*client.Workload) string) {
		if total == 0 {
			return
		}
		line("\n%s (%d)", title, total)
		wide := 22 // columns of the ids, so that what follows stays in line
		for i := range list {
			wide = max(wide, min(utf8.RuneCountInString(withoutControl(list[i].ID)), 40))
		}
		for i := range list {
			w := &list[i]
			line("  %-20s %-*s %s", truncate(displayName(*w), 20), wide, withoutControl(w.ID), tail(w))
		}
		if more := total - len(list); more > 0 {
			line("  and %d more", more)
		}
	}
	works("Running", r.Running, r.RunningTotal, func(w *client.Workload) string {
		since := "since " + w.Start.UTC().Format("Jan 02 15:04")
		if w.CoresMean == nil {
			return since
		}
		return since + ", " + format.Number(*w.CoresMean) + " cores"
	})
	works("Waiting", r.Waiting, r.WaitingTotal, func(w *client.Workload) string { return withoutControl(cmp.Or(w.Reason, w.State)) })
	works("Failed", r.Failed, r.FailedTotal, func(w *client.Workload) string {
		at := w.Seen
		if w.End != nil {
			at = *w.End
		}
		return strings.ReplaceAll(withoutControl(w.State), "_", " ") + " " + at.UTC().Format("Jan 02 15:04")
	})
	if len(r.Lost) > 0 {
		line("\nAllocated and unused, by name, with recommended requests")
		for i := range r.Lost {
			l := &r.Lost[i]
			lost := hours(l.CoreSeconds) + " core-hours"
			if l.GPUSeconds != nil {
				lost += ", " + hours(l.GPUSeconds) + " GPU-hours"
			}
			line("  %-20s %s in %s", truncate(l.Name, 20), asciiDashes(lost), format.Plural(float64(l.Runs), "run"))
			if a := formatAdvice(l.Advice); a != "" {
				line("  %-20s ask for %s", "", a)
			}
		}
	}
	if len(r.Findings) > 0 {
		line("\nFound (%d)", len(r.Findings))
		for i := range r.Findings[:min(len(r.Findings), maxFindings)] {
			for k, part := range wrapText(withoutControl(r.Findings[i].Text), 72) {
				line("  %s%s", map[bool]string{true: "- ", false: "  "}[k == 0], part)
			}
		}
		if more := len(r.Findings) - maxFindings; more > 0 {
			line("  and %d more", more)
		}
	}
	if r.Server != "" {
		line("\n%s", r.Page())
	}
	return b.String()
}

const maxFindings = 8

// drawDays draws core-hours by day in characters that every mail program shows, in lines of at most 76 columns.
func drawDays(r *client.OwnerReport) (lines []string) {
	const wide = 36
	most, hours := 0.0, formatWith(format.Hours)
	value := func(v *float64) float64 { return *cmp.Or(v, new(float64)) }
	for i := range r.Days {
		most = max(most, value(r.Days[i].CPUSeconds), value(r.Days[i].HeldCoreSeconds))
	}
	for i := range r.Days {
		u := &r.Days[i]
		figures := withMark(*u, "cpu_seconds", hours(u.CPUSeconds)) + " used"
		if u.HeldCoreSeconds != nil {
			figures += ", " + withMark(*u, "held_core_seconds", hours(u.HeldCoreSeconds)) + " allocated"
		}
		cells := func(v *float64) int { return int(math.Round(wide * value(v) / max(most, 1))) }
		lines = append(lines, fmt.Sprintf("%s  %-*s  %s", u.From.UTC().Format("Mon Jan 02"), wide,
			strings.Repeat("#", cells(u.CPUSeconds))+strings.Repeat(".", cells(client.UnusedCoreSeconds(u))), figures))
	}
	return lines
}

func asciiDashes(s string) string { return strings.ReplaceAll(s, "–", "-") }

// withoutControl removes control characters from untrusted text.
func withoutControl(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

func truncate(s string, n int) string {
	r := []rune(withoutControl(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "~"
}

// wrapText breaks a text between words.
func wrapText(text string, width int) (lines []string) {
	now := ""
	for _, word := range strings.Fields(text) {
		if now != "" && len(now)+1+len(word) > width {
			lines, now = append(lines, now), ""
		}
		if now != "" {
			now += " "
		}
		now += word
	}
	return append(lines, now)
}
