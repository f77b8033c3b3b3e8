package main

import (
	"fmt"
	"math"
	"strings"
)

// result is one load under one source.
type result struct {
	load      string
	want, got float64
}

// report is what one machine said.
type report struct {
	machine  machine
	kernel   string
	results  map[string][]result // by mode
	reading  map[string]string
	refused  map[string]string // why a mode could not be
	problems []string
	tests    []string
	ended    bool
	last     string
}

func (r *report) problem(text string) { r.problems = append(r.problems, text) }

// take takes in a line of the machine's console.
func (r *report) take(line string) {
	if strings.TrimSpace(line) != "" {
		r.last = line
	}
	_, said, ok := strings.Cut(line, "GUEST ")
	if !ok {
		if strings.Contains(line, "soft lockup") || strings.Contains(line, "Kernel panic") || strings.Contains(line, "BUG:") {
			r.problem("the kernel says " + strings.TrimSpace(line))
		}
		return
	}
	what, rest, _ := strings.Cut(said, " ")
	f := strings.Fields(rest)
	if r.results == nil {
		r.results, r.reading, r.refused = map[string][]result{}, map[string]string{}, map[string]string{}
	}
	switch {
	case what == "kernel":
		r.kernel = rest
	case what == "end":
		r.ended = true
	case what == "error":
		r.problem(rest)
	case what == "reading" && len(f) > 2:
		r.reading[f[1]] = strings.Join(f[2:], " ")
	case what == "failed" && len(f) > 2:
		r.refused[f[1]] = strings.Join(f[2:], " ")
	case what == "said" && len(f) > 2:
		_, why, _ := strings.Cut(strings.Join(f[2:], " "), "not available: ")
		if r.refused[f[1]] == "" {
			r.refused[f[1]] = why
		}
	case what == "tests":
		r.tests = append(r.tests, rest)
		if !strings.HasSuffix(rest, "failed=") {
			r.problem("tests: " + rest)
		}
	case what == "result" && len(f) == 5:
		var v result
		v.load = f[2]
		if n, _ := fmt.Sscanf(f[3]+" "+f[4], "want=%g got=%g", &v.want, &v.got); n != 2 {
			r.problem("not understood: " + line)
			return
		}
		r.results[f[1]] = append(r.results[f[1]], v)
		if limit := allowed(f[1], v); math.Abs(v.off()) > limit {
			r.problem(fmt.Sprintf("%s, %s: %.4g of %.4g (%+.2f %%, allowed %.1f)", f[1], v.load, v.got, v.want, 100*v.off(), 100*limit))
		}
	}
}

func (v result) off() float64 { return v.got/v.want - 1 }

// allowed is how far a mode may be off, as a part of what is right. The floor is two
// milliseconds: what a load uses between its fork and the change of its user is the guest's.
func allowed(mode string, v result) float64 {
	if v.load == "memory" {
		return 0.15 // beside the 64 MiB a Go program has some of its own
	}
	floor := 0.002 / v.want
	if v.load == "unit" || v.load == "pod" {
		return max(0.03, floor) // a control group counts the last steps of each process, too
	}
	if strings.HasSuffix(mode, "ebpf") {
		return max(0.01, floor)
	}
	if v.load == "daemons" {
		return 1 // nobody waits for them: at least
	}
	return max(0.03, floor)
}

func columns() []string {
	return []string{"ebpf", "container-ebpf", "taskstats", "unprivileged", "container-unprivileged"}
}

// table is the result as Markdown.
func table(all []*report) string {
	var b strings.Builder
	b.WriteString("| kernel | control groups | eBPF, root | eBPF, capabilities, in a container | procfs and taskstats, CAP_NET_ADMIN | procfs, no privilege | the same in a container | tests |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s %s | %s |", r.kernel, r.machine.arch, r.machine.layout)
		for _, mode := range columns() {
			fmt.Fprintf(&b, " %s |", r.cell(mode))
		}
		tests := "-"
		if len(r.tests) > 0 {
			tests = fmt.Sprintf("%d programs", len(r.tests))
			for _, t := range r.tests {
				if !strings.HasSuffix(t, "failed=") {
					tests = t
				}
			}
		}
		fmt.Fprintf(&b, " %s |\n", tests)
	}
	return b.String()
}

// cell tells the worst load of a mode, memory and daemons apart.
func (r *report) cell(mode string) string {
	rs := r.results[mode]
	if len(rs) == 0 {
		if r.reading[mode] == "" && r.refused[mode] == "" {
			return "-"
		}
		return "no: " + strings.ReplaceAll(r.refused[mode], "|", "/")
	}
	var worst result
	rest := ""
	for _, v := range rs {
		switch {
		case v.load == "memory":
			rest += fmt.Sprintf("; memory %+.1f %%", 100*v.off())
		case v.load == "daemons" && !strings.HasSuffix(mode, "ebpf"):
			rest += fmt.Sprintf("; daemons %+.1f %%", 100*v.off())
		case worst.load == "" || math.Abs(v.off()) > math.Abs(worst.off()):
			worst = v
		}
	}
	return fmt.Sprintf("%+.2f %% (%s)%s", 100*worst.off(), worst.load, rest)
}
