package jobs

import (
	"strings"

	core "k8s.io/api/core/v1"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
)

// Marker lines that delimit the output of programs in logs of the metrics-operator.
const (
	markStart = "METRICS OPERATOR COLLECTION START"
	markPoint = "METRICS OPERATOR TIMEPOINT"
	markEnd   = "METRICS OPERATOR COLLECTION END"
)

// script is a bash script: the part before the command, the command, and the part after it.
type script struct{ pre, command, post string }

// render returns the whole script. Its exit code is the command's.
func (s *script) render(interactive bool) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n" + strings.Trim(s.pre, "\n") + "\n")
	b.WriteString(strings.Trim(s.command, "\n") + "\nreckon_status=$?\n")
	if post := strings.Trim(s.post, "\n"); post != "" {
		b.WriteString(post + "\n")
	}
	if interactive {
		b.WriteString("sleep infinity\n")
	}
	b.WriteString("exit $reckon_status\n")
	return b.String()
}

const printMetadata = `printf 'METADATA START %s\nMETADATA END\n' "$RECKON_METADATA"`

func echo(mark string) string { return `echo "` + mark + `"` }

func joinLines(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p = strings.Trim(p, "\n"); p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "\n")
}

// editScript lets the add-ons of a metric edit the script of a part.
func (b *builder) editScript(m *metricset.Measure, p *jobPart, pod *core.PodSpec, items map[string]string,
	security *v1alpha2.SecurityContext) {
	for i := range m.Addons {
		e := &m.Addons[i]
		if t := e.Values["target"]; t != "" && t != p.target && t != p.job {
			continue
		}
		named := e.Values["containerTarget"]
		command := named == "" || named == p.main.name
		switch e.Name {
		case "perf-commands", "commands":
			if command {
				p.main.script.wrapCommand(e)
			}
			if command && e.Name == "perf-commands" {
				security.AllowPtrace, security.AllowAdmin = true, true
			}
		case "perf-hpctoolkit", "perf-mpitrace", "workload-flux":
			b.addView(m, e, p, pod, items, command)
		}
	}
}

// wrapCommand puts the texts of the add-on commands before, around and after the command.
func (s *script) wrapCommand(e *metricset.Extra) {
	s.pre = joinLines(s.pre, e.Values["preBlock"])
	s.command = joinWords(e.Values["prefix"], s.command, e.Values["suffix"])
	s.post = joinLines(s.post, e.Values["postBlock"])
}

// joinWords puts the words of a command on one line.
func joinWords(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}
