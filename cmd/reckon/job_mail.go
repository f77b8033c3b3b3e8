package main

import (
	"io"
	"strings"
	"time"

	"reckon/internal/term"
	"reckon/web/client"
)

const mailWidth = 72

// printMail writes a page for the mail of a job epilogue. It uses ASCII, at most 72 columns, and neither charts nor
// colour.
func printMail(w io.Writer, d client.WorkloadDetail, now time.Time) error {
	p := &page{Screen: term.Screen{Width: mailWidth, ASCII: true}}
	p.printHeader(d.Workload, now)
	p.noteOtherRuns(d, now)
	p.printTotals(d)
	p.printRequests(d.Workload)
	p.printVerdicts(d.Verdicts)
	p.printEvents(d, now)
	p.printNextRun(&d)
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimRight(p.b.String(), "\n"), "\n") {
		for _, short := range mailLines(line) {
			b.WriteString(short + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mailLines breaks a line that is too long for mail, preferably between figures, and keeps only printable ASCII.
func mailLines(line string) []string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, line)
	indent := strings.Repeat(" ", 12)
	var out []string
	for len(line) > mailWidth {
		at := strings.LastIndex(line[:mailWidth+1], "   ")
		if at <= len(indent) {
			at = strings.LastIndex(line[:mailWidth+1], " ")
		}
		if at <= len(indent) {
			at = mailWidth
		}
		out = append(out, strings.TrimRight(line[:at], " "))
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return append(out, strings.TrimRight(line, " "))
}
