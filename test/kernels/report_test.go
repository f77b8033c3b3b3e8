package main

import (
	"slices"
	"strings"
	"testing"
)

// A machine is red for a figure outside its limit, a mark that is missing, a mode that was not measured to its end, and what the kernel complains
// of; not for a source that its kernel is known not to have.
func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		want  []string // the problems begin so
	}{
		"right": {`GUEST kernel 6.1.0-56-amd64
GUEST said v2 ebpf reckon-agent: not available: traffic: no BPF tracing of it (use Linux 6.3)
GUEST reading v2 ebpf processes by ebpf, their ends by ebpf
GUEST result v2 ebpf busy want=2.5 got=2.49 mark=exact
GUEST result v2 ebpf oom want=2.5 got=2.5 mark=exact
GUEST result v2 ebpf oom-peak want=6.71089e+07 got=6.71089e+07 mark=exact
GUEST result v2 ebpf oom-kills want=1 got=1 mark=exact
GUEST nobody v2 ebpf 0.0000`, nil},
		"marked at least for what is nobody's": {`GUEST kernel 6.1.0-56-amd64
GUEST result v2 unprivileged busy want=2.5 got=2.49 mark=at-least
GUEST nobody v2 unprivileged 0.0500`, nil},
		"marked without a cause": {`GUEST kernel 6.1.0-56-amd64
GUEST result v2 unprivileged busy want=2.5 got=2.49 mark=at-least
GUEST nobody v2 unprivileged 0.0001`, []string{"unprivileged, busy: "}},
		"too little": {`GUEST kernel 6.1.0-56-amd64
GUEST result v2 ebpf busy want=2.5 got=2.4 mark=exact
GUEST nobody v2 ebpf 0.0500`, []string{"ebpf, busy: "}},
		"orphans not marked": {`GUEST kernel 6.1.0-56-amd64
GUEST result v2 unprivileged daemons want=2.5 got=1 mark=exact
GUEST nobody v2 unprivileged 0.0500`, []string{"unprivileged, daemons: "}},
		"forks beyond the machine": {`GUEST kernel 6.1.0-56-amd64
GUEST result v2 unprivileged forks want=4e7 got=2e9 mark=at-most
GUEST nobody v2 unprivileged 0.0500`, []string{"unprivileged, forks: "}},
		"a kill that was not counted": {`GUEST kernel 6.1.0-56-amd64
GUEST result v2 ebpf oom-peak want=6.71089e+07 got=6e+07 mark=exact
GUEST result v2 ebpf oom-kills want=1 got=0 mark=exact
GUEST nobody v2 ebpf 0.0000`, []string{"ebpf, oom-peak: ", "ebpf, oom-kills: "}},
		"refused on 5.10": {`GUEST kernel 5.10.0-46-amd64
GUEST said hybrid ebpf reckon-agent: not available: ebpf: eBPF is not used on Linux 5.10, on which a test machine locked up with it (use Linux 6.1 or later)
GUEST failed hybrid ebpf it reads processes by procfs, no exit records
GUEST failed hybrid taskstats the agent has ended: reckon-agent: exit records of taskstats: the kernel's exit records (version 10) do not name the process of a thread (use Linux 5.19 or later)`, nil},
		"refused on another kernel": {`GUEST kernel 6.1.0-56-amd64
GUEST said v2 ebpf reckon-agent: not available: ebpf: the verifier of this kernel rejects the BPF programs: program walk: no
GUEST failed v2 ebpf it reads processes by procfs, no exit records`, []string{"ebpf: ebpf: the verifier of this kernel rejects the BPF programs: program walk: no; it reads"}},
		"cut short": {`GUEST kernel 5.10.0-46-amd64
GUEST result hybrid unprivileged busy want=2.5 got=2.5 mark=exact
GUEST failed hybrid unprivileged load tree does not end`, []string{"unprivileged: load tree does not end"}},
		"soft lockup": {`GUEST kernel 6.1.0-56-amd64
[   61.1] watchdog: BUG: soft lockup - CPU#1 stuck for 22s!`, []string{"the kernel says "}},
	} {
		r := &report{}
		for line := range strings.Lines(c.lines) {
			r.addLine(strings.TrimSuffix(line, "\n"))
		}
		if !slices.EqualFunc(r.problems, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, r.problems, c.want)
		}
	}
}

// A cell has no figure for a kind of loads that was not run.
func TestCell(t *testing.T) {
	r := &report{}
	for line := range strings.Lines(`GUEST kernel 6.1.0-56-amd64
GUEST result v2 ebpf busy want=2.5 got=2.49 mark=exact
GUEST result v2 container-ebpf pod want=2.5 got=2.5 mark=exact
GUEST result v2 container-ebpf oom-kills want=1 got=1 mark=exact`) {
		r.addLine(strings.TrimSuffix(line, "\n"))
	}
	for mode, want := range map[string]string{"ebpf": "-0.40 % (busy)", "container-ebpf": "+0.00 % (pod); oom-kills +0.0 %", "taskstats": "-"} {
		if got := r.worstCell(mode); got != want {
			t.Errorf("%s: %q, want %q", mode, got, want)
		}
	}
}
