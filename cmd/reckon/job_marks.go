package main

import (
	"strings"

	"reckon/internal/term"
	"reckon/web/client"
)

// eventSigns lists the marks of events below a chart. Of several marks in one column, the last in this list is visible, so
// it is in order of importance.
var eventSigns = []struct {
	kind, text string
	sign       rune
	ascii      rune
	style      term.Style
}{
	{"throttled", "throttled", '~', '~', term.Yellow},
	{"start", "started", '▲', '^', term.Green},
	{"end", "ended", '▼', 'v', term.Cyan},
	{"oom_kill", "killed for lack of memory", '✗', 'x', term.Red},
}

// chart draws a figure over time, with the start, the end and the events below. It adds the kinds of events that it
// drew to drawn, for the legend.
func (p *page) chart(c term.Chart, d client.WorkloadDetail, drawn map[string]bool) {
	p.b.WriteString("\n" + p.Draw(c))
	at := map[string][]term.Mark{"start": {{From: d.Start, To: d.Start}}}
	if d.End != nil {
		at["end"] = []term.Mark{{From: *d.End, To: *d.End}}
	}
	for _, e := range d.Events {
		if e.Kind == "throttled" && strings.HasPrefix(c.Title, memoryTitle) {
			continue
		}
		m := term.Mark{From: e.From, To: e.To}
		if e.Kind == "oom_kill" {
			m.From = e.To // when it was observed: one moment, as one process is one kill
		}
		at[e.Kind] = append(at[e.Kind], m)
	}
	var marks []term.Mark
	for _, s := range eventSigns {
		for _, m := range at[s.kind] {
			m.Sign, m.ASCII, m.Style = s.sign, s.ascii, s.style
			if p.Marks(c, []term.Mark{m}) != "" {
				drawn[s.kind] = true
				marks = append(marks, m)
			}
		}
	}
	p.b.WriteString(p.Marks(c, marks))
}

// legend explains the marks that were drawn.
func (p *page) legend(drawn map[string]bool) {
	var out []string
	for _, kind := range []string{"start", "throttled", "oom_kill", "end"} {
		for _, s := range eventSigns {
			if s.kind != kind || !drawn[kind] {
				continue
			}
			sign := s.sign
			if p.ASCII {
				sign = s.ascii
			}
			out = append(out, p.Paint(s.style, string(sign))+" "+s.text)
		}
	}
	if len(out) > 0 {
		p.printWrapped(0, "%s", strings.Join(out, "   "))
	}
}
