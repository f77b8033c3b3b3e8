package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// loadResult is the result of one load with one source.
type loadResult struct {
	load      string
	want, got float64
	mark      string // how exact the agent reports it is
}

// report is the report of one machine.
type report struct {
	machine  machine
	kernel   string
	results  map[string][]loadResult // by mode
	reading  map[string]string
	refused  map[string][]string // why sources are not available, by mode
	nobody   map[string]float64  // part of the processors' time that no task had, by mode
	problems []string
	tests    []string
	ended    bool
	last     string
}

func (r *report) addProblem(text string) { r.problems = append(r.problems, text) }

// addLine records a line of the machine's console.
func (r *report) addLine(line string) {
	if strings.TrimSpace(line) != "" {
		r.last = line
	}
	_, said, ok := strings.Cut(line, "GUEST ")
	if !ok {
		if strings.Contains(line, "soft lockup") || strings.Contains(line, "Kernel panic") || strings.Contains(line, "BUG:") {
			r.addProblem("the kernel says " + strings.TrimSpace(line))
		}
		return
	}
	what, rest, _ := strings.Cut(said, " ")
	f := strings.Fields(rest)
	if r.results == nil {
		r.results, r.reading, r.refused, r.nobody = map[string][]loadResult{}, map[string]string{}, map[string][]string{},
			map[string]float64{}
	}
	switch {
	case what == "kernel":
		r.kernel = rest
	case what == "end":
		r.ended = true
	case what == "error":
		r.addProblem(rest)
	case what == "reading" && len(f) > 2:
		r.reading[f[1]] = strings.Join(f[2:], " ")
	case what == "failed" && len(f) > 2:
		r.addFailure(f[1], strings.Join(f[2:], " "))
	case what == "said" && len(f) > 2:
		if _, why, ok := strings.Cut(rest, "not available: "); ok {
			r.refused[f[1]] = append(r.refused[f[1]], why)
		}
	case what == "tests":
		r.tests = append(r.tests, rest)
		if !strings.HasSuffix(rest, "failed=") {
			r.addProblem("tests: " + rest)
		}
	case what == "result" && len(f) == 6:
		v := loadResult{load: f[2], mark: strings.TrimPrefix(f[5], "mark=")}
		if n, _ := fmt.Sscanf(f[3]+" "+f[4], "want=%g got=%g", &v.want, &v.got); n != 2 {
			r.addProblem("not understood: " + line)
			return
		}
		r.results[f[1]] = append(r.results[f[1]], v)
	case what == "nobody" && len(f) == 3:
		part, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			r.addProblem("not understood: " + line)
			return
		}
		r.nobody[f[1]] = part
		for _, v := range r.results[f[1]] {
			if wrong := v.describeProblem(f[1], part); wrong != "" {
				r.addProblem(fmt.Sprintf("%s, %s: %.4g of %.4g (%+.2f %%, %s): %s", f[1], v.load, v.got, v.want, 100*v.relativeError(),
					v.mark, wrong))
			}
		}
	}
}

// expectedFailures are the reasons why a mode may fail on a kernel: eBPF is not used on 5.10, and exit records name no process before 5.19.
var expectedFailures = []struct{ kernel, mode, why string }{
	{"5.10.", "ebpf", "ebpf: eBPF is not used on Linux 5.10"},
	{"5.10.", "taskstats", "the kernel's exit records (version 10) do not name the process of a thread"},
}

// addFailure records that a mode could not be measured to its end.
func (r *report) addFailure(mode, why string) {
	r.refused[mode] = append(r.refused[mode], why)
	for _, s := range expectedFailures {
		if strings.HasPrefix(r.kernel, s.kernel) && mode == s.mode &&
			slices.ContainsFunc(r.refused[mode], func(w string) bool { return strings.Contains(w, s.why) }) {
			r.refused[mode] = []string{s.why}
			return
		}
	}
	r.addProblem(fmt.Sprintf("%s: %s", mode, strings.Join(r.refused[mode], "; ")))
}

func (v loadResult) relativeError() float64 { return v.got/v.want - 1 }

// maxTickLoss is the possible loss of child times: user and system time are cut to clock ticks each.
const maxTickLoss = 0.02

// isExact reports whether the agent can measure the load exactly in a mode.
func (v loadResult) isExact(mode string) bool {
	switch {
	case strings.HasSuffix(mode, "ebpf"):
		return true
	case v.load == "daemons", v.load == "memory":
		return false // the orphans are not waited for; without exit records, a peak between two readings is not seen
	case v.load == "forks":
		return false // of another user
	}
	return true
}

// unattributed is the largest share of the processors' time without an owner at which the agent does not mark figures.
const unattributed = 0.005

// describeProblem returns a description of the fault of a figure, or "". nobody is the processor time without a task. The
// agent cannot distinguish that time from the time of orphans.
func (v loadResult) describeProblem(mode string, nobody float64) string {
	limit := 0.01
	if v.isProcessCPU() && !strings.HasSuffix(mode, "ebpf") {
		limit = max(limit, maxTickLoss/v.want)
	}
	if v.isSharedMemory() && v.isBound() {
		limit = 0.03 // not all of the processes were measured
	}
	off := math.Abs(v.relativeError())
	switch {
	case v.isExact(mode) && v.mark != "exact" && !(v.isSharedMemory() && v.isBound()) && !(v.isProcessCPU() && nobody > unattributed/2):
		return "it is to be exact"
	case v.isExact(mode) && off > limit, v.load == "memory" && off > limit:
		return fmt.Sprintf("%.1f %% are allowed", 100*limit)
	case v.load == "daemons" && (v.relativeError() > limit || off > limit && v.mark != "at-least"):
		return "neither right nor marked as at least"
	case v.isSharedMemory() && off > limit && (v.relativeError() < 0 || v.got > memoryMiB<<20 || !v.isBound()):
		return "neither right nor a marked upper bound"
	}
	return ""
}

// isBound reports whether the agent marks the figure as an upper bound, or as an estimate with bounds.
func (v loadResult) isBound() bool { return v.mark == "at-most" || v.mark == "estimated" }

// isSharedMemory reports whether the result is about the memory of forked processes.
func (v loadResult) isSharedMemory() bool { return strings.HasSuffix(v.load, "forks") }

// isProcessCPU reports whether the result is about CPU time that no control group counts.
func (v loadResult) isProcessCPU() bool {
	return !v.isSharedMemory() && !v.isRemoteFiles() && !v.isOutOfMemory() && v.load != "memory" && v.load != "unit" && v.load != "pod"
}

// isRemoteFiles reports whether the result is about a load on a network file system.
func (v loadResult) isRemoteFiles() bool { return strings.HasPrefix(v.load, "nfs-") }

// isOutOfMemory reports whether the result is about the control group with the killed process.
func (v loadResult) isOutOfMemory() bool { return strings.HasPrefix(v.load, "oom") }

func columns() []string {
	return []string{"ebpf", "container-ebpf", "taskstats", "unprivileged", "container-unprivileged"}
}

// markdownTable returns the result as Markdown.
func markdownTable(all []*report) string {
	var b strings.Builder
	b.WriteString(
		"| kernel | control groups | eBPF, root | eBPF, capabilities, in a container | procfs and taskstats, CAP_NET_ADMIN | procfs, no " +
			"privilege | the same in a container | tests |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s %s | %s |", r.kernel, r.machine.arch, r.machine.layout)
		for _, mode := range columns() {
			fmt.Fprintf(&b, " %s |", r.worstCell(mode))
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

// worstCell returns the worst load of a mode, except for memory and daemons.
func (r *report) worstCell(mode string) string {
	rs := r.results[mode]
	if len(rs) == 0 {
		if r.reading[mode] == "" && len(r.refused[mode]) == 0 {
			return "-"
		}
		return "no: " + strings.ReplaceAll(strings.Join(r.refused[mode], "; "), "|", "/")
	}
	var worst, group loadResult
	rest := ""
	for _, v := range rs {
		at := &worst
		switch {
		case v.load == "memory", v.load == "oom-peak", v.load == "oom-kills", v.isSharedMemory(), v.isRemoteFiles(), v.load == "daemons" &&
			!v.isExact(mode):
			rest += fmt.Sprintf("; %s %+.1f %%", v.load, 100*v.relativeError())
			if v.mark != "exact" {
				rest += ", " + strings.ReplaceAll(v.mark, "-", " ")
			}
			continue
		case !v.isProcessCPU():
			at = &group
		}
		if at.load == "" || math.Abs(v.relativeError()) > math.Abs(at.relativeError()) {
			*at = v
		}
	}
	for _, v := range rs {
		if v.isExact(mode) && v.isProcessCPU() && v.mark != "exact" {
			worst.load += ", marked " + strings.ReplaceAll(v.mark, "-", " ") + fmt.Sprintf(" as %.1f %% of the processors were nobody's",
				100*r.nobody[mode])
			break
		}
	}
	text := ""
	for _, v := range []loadResult{worst, group} {
		if v.want > 0 { // loads of the kind were run
			text += fmt.Sprintf("; %+.2f %% (%s)", 100*v.relativeError(), v.load)
		}
	}
	return strings.TrimPrefix(text+rest, "; ")
}
