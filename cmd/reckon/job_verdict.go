package main

import (
	"cmp"
	"strings"

	"reckon/internal/term"
	"reckon/web/client"
)

// formatEvents formats the events of a workload; events that did not occur are omitted.
func formatEvents(w client.Workload) []string {
	var out []string
	some := func(v *float64) bool { return v != nil && *v > 0 }
	if some(w.OOMKills) {
		out = append(out, "killed for lack of memory "+term.Number(w.OOMKills))
	}
	if some(w.ThrottledSeconds) {
		out = append(out, "throttled "+term.Seconds(w.ThrottledSeconds))
	}
	if some(w.MajorFaults) {
		out = append(out, "major faults "+term.Number(w.MajorFaults))
	}
	if some(w.SwapBytes) {
		out = append(out, "swap peak "+term.Bytes(w.SwapBytes))
	}
	return out
}

// severityMark returns the mark in front of a verdict, which shows its severity without colour.
func severityMark(severity string) (string, term.Style) {
	switch severity {
	case "critical":
		return "!!", term.Red
	case "warning":
		return "! ", term.Yellow
	case "good":
		return "ok", term.Green
	}
	return "- ", term.Cyan
}

// printVerdicts prints the verdicts, wrapped to the screen.
func (p *page) printVerdicts(list []client.Verdict) {
	if len(list) == 0 {
		return
	}
	width := cmp.Or(p.Width, 80)
	p.printf("\n%s", p.Paint(term.Bold, "Verdict"))
	for _, v := range list {
		sign, style := severityMark(v.Severity)
		for i, text := range wrapText(term.Safe(v.Text), min(width, 100)-3) {
			if i == 0 {
				p.printf("%s %s", p.Paint(style, sign), text)
				continue
			}
			p.printf("   %s", text)
		}
	}
}

// wrapText breaks text between words into lines of at most width; a longer word stays whole.
func wrapText(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case term.Width(line)+1+term.Width(word) <= width:
			line += " " + word
		default:
			out, line = append(out, line), word
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}
