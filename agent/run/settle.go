package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// buildReport takes the last readings and returns the report of the run.
func (r *runner) buildReport() *Report {
	m, t := r.meter, r.meter.tree
	m.finish(r.end)
	m.sampleExpensive()
	for range 50 { // ended processes become zombies within moments
		if !t.hasExiting() {
			break
		}
		time.Sleep(time.Millisecond)
		r.reapRest()
		m.tree.findLive(m.secondsSinceStart())
		m.sampleExpensive()
	}
	t.endMissing(m.secondsSinceStart())
	survivors := r.listSurvivors()
	t.foldReady(func(*treeProcess) bool { return true })
	for _, p := range t.order {
		if p.pid != 0 { // still running: their use so far
			r.living += p.cpu() + p.stat.ChildUser + p.stat.ChildSystem
			t.foldDead(p)
		}
	}
	rep := &Report{Command: r.o.Args, Start: r.began, GPU: m.gpus.gpuReport(), WallSeconds: r.end, Survivors: survivors,
		Sources: map[string]string{}, Machine: availableResources("/proc", r.own)}
	rep.ExitCode = r.status.ExitStatus()
	if r.status.Signaled() {
		rep.ExitCode, rep.Signal = 128+int(r.status.Signal()), unix.SignalName(r.status.Signal())
	}
	r.fillCPU(rep)
	if r.end > m.profile.start {
		r.emitRow(r.end)
	}
	if r.end > 0 {
		rep.Cores = coresDistribution(m.profile.cores, rep.CPU.Total/r.end)
	}
	r.fillMemory(rep)
	r.fillRest(rep)
	var shared float64
	rep.Commands, shared = splitByCommand(t.commands, t.unseen, m.last.cpu, rep.Processes, rep.Sources["processes"] != sampledSource)
	for i := range rep.Commands {
		if m.mayMissMemory() {
			rep.Commands[i].MemoryPeakBytes = nil
		}
	}
	if shared > 0.01*rep.CPU.Total {
		rep.Sources["commands"] += fmt.Sprintf("; %.0f %% of the CPU time shared out by number of processes", 100*shared/rep.CPU.Total)
	}
	rep.Rows = m.profile.rows
	rep.Source = joinSources(rep.Sources)
	rep.OverheadCPUSeconds = selfCPU() - r.self
	rep.Notes = r.notes
	rep.Judgement = Judge(rep)
	return rep
}

// eventSource returns the name of the source that reports ended processes.
func (r *runner) eventSource() string {
	switch {
	case r.meter.perf != nil:
		return "perf"
	case r.meter.exits != nil:
		return r.meter.exits.source.Name()
	}
	return "/proc samples"
}

func (r *runner) listSurvivors() []Survivor {
	var out []Survivor
	for _, p := range r.meter.tree.order {
		if p.pid == 0 || p.dead || p.stat.State == 'Z' || p.stat.State == 'X' {
			continue
		}
		out = append(out, Survivor{PID: int(p.pid), Name: p.comm.String(),
			CPUSeconds: seconds(p.cpu() + p.stat.ChildUser + p.stat.ChildSystem), MemoryBytes: p.rss})
	}
	return out
}

// fillCPU sets the CPU time in rep. It prefers the private group, which counts everything. The rusage of wait4 lacks
// the children of parents that ignore SIGCHLD, so it adds those from perf events.
func (r *runner) fillCPU(rep *Report) {
	m := r.meter
	source := "wait4"
	total := m.reaped.user + m.reaped.system
	total += r.living
	waited := total
	user, system := m.last.user, m.last.system
	if g, u, s, ok := m.group.readCPU(); ok && isComplete(g, m.reaped.user+m.reaped.system) {
		total, source = max(g, m.reaped.user+m.reaped.system), "cgroup"
		if user+system == 0 {
			user, system = u, s
		}
	} else if m.tree.unwaited > 0 {
		total, source = total+m.tree.unwaited, "wait4, and what nobody waited for by "+r.eventSource()
		if m.perf == nil && m.exits == nil {
			r.addNote("a program ignored SIGCHLD: the kernel forgot its children, they count as last seen (%.2f s of CPU)",
				seconds(m.tree.unwaited))
		}
	}
	// A program that changed its user may have taken its subtree out of sight of the events.
	r.hidden = m.perf != nil && waited > m.tree.foldedCPU+waited/10+50e6
	m.last.cpu = total
	rep.CPU.Total = seconds(total)
	if user+system > 0 {
		rep.CPU.User = rep.CPU.Total * float64(user) / float64(user+system)
	} else {
		rep.CPU.User = rep.CPU.Total
	}
	rep.CPU.System = max(0, rep.CPU.Total-rep.CPU.User)
	rep.Sources["cpu"] = source
}

// fillMemory sets the peak and the mean memory in rep. Lower bounds of the peak are the highest sample, the largest
// process, and the group's peak minus its page cache and kernel memory. The group's peak is an upper bound.
func (r *runner) fillMemory(rep *Report) {
	m := r.meter
	largest := max(m.largest, m.tree.largestEnded)
	source := sampledSource
	if m.reaped.maxRSS > m.floor {
		largest = max(largest, m.reaped.maxRSS)
		source = "/proc samples and ru_maxrss"
	}
	if largest > 0 {
		rep.MemoryLargestBytes = &largest
	}
	peak := m.sampled
	if charged, ok := m.group.readMemoryPeak(); ok {
		rep.MemoryCgroupPeakBytes = &charged
		if m.sampled == 0 { // gone before the first look
			peak = charged
		} else if charged > m.beyond {
			peak = max(peak, charged-m.beyond)
		}
		peak = min(peak, charged)
		source = "cgroup peak less page cache and kernel memory"
	}
	if peak = max(peak, largest); peak == 0 || m.mayMissMemory() {
		rep.MemoryLargestBytes = nil
		return
	}
	rep.MemoryPeakBytes, rep.MemoryAtMost = &peak, m.tree.bound && peak == m.sampled
	more := m.floor // maximum memory of an unseen process if ru_maxrss shows nothing
	if rep.MemoryCgroupPeakBytes != nil {
		more = min(more, *rep.MemoryCgroupPeakBytes-min(*rep.MemoryCgroupPeakBytes, peak))
	}
	_, all := r.countSource()
	rep.MemoryUnseen = (m.tree.glimpsed || !all) && m.reaped.maxRSS <= m.floor && more > peak/20
	rep.MemoryAtLeast = rep.MemoryUnseen || m.tree.machine.grew && rep.MemoryCgroupPeakBytes == nil
	rep.Sources["memory"] = source
	if m.areaTime > 0 {
		mean := min(uint64(m.area/m.areaTime), peak)
		rep.MemoryMeanBytes = &mean
	} else if m.sampled > 0 {
		mean := min(m.sampled, peak)
		rep.MemoryMeanBytes = &mean
	}
}

// mayMissMemory reports whether the command may have ended before any reading saw its memory. It then was still loading at each sample,
// and no
// exit record has its memory. The memory from wait4(2) does not help, because it includes our own from before the exec.
func (m *meter) mayMissMemory() bool {
	return m.tree.largestEnded == 0 && m.reaped.maxRSS <= m.floor && !m.tree.loaded
}

// maxLoadTime is an upper bound of the CPU time in nanoseconds that loading a program takes. On a busy processor, loading
// takes much longer in wall time. A process in interruptible sleep has been loaded.
const maxLoadTime = 10e6

func (r *runner) fillRest(rep *Report) {
	m, t := r.meter, r.meter.tree
	rep.IO = IO{m.last.read, m.last.write}
	if !m.reaped.callsMissing {
		calls := m.last.calls
		rep.IOCalls = &calls
	}
	rep.Sources["io"] = "wait4"
	rep.Switches = Switches{m.reaped.voluntary, m.reaped.involuntary}
	rep.Faults = Faults{m.reaped.minor, m.reaped.major}
	rep.ProcessesPeak, rep.ThreadsPeak = max(m.peakProcs, 1), max(m.peakThreads, 1)
	rep.Processes = t.started
	rep.Sources["processes"], rep.ProcessesExact = r.countSource()
	rep.Sources["commands"] = rep.Sources["processes"]
	if m.exits != nil && m.exits.taken > 0 {
		rep.Sources["commands"] = m.exits.source.Name()
	}
	if m.exits != nil && m.exits.err != nil {
		r.addNote("exit records: %v", m.exits.err)
	}
	r.fillWait(rep)
	if len(rep.Survivors) > 0 {
		r.addNote("%s", survivorNote(rep.Survivors))
	}
}

// countSource returns the source that counted the processes, and whether it saw all of them. Perf events saw all if
// none was lost and no subtree was hidden. Exit records saw all if there were no perf events; with perf events, they
// only add to the processes in those.
func (r *runner) countSource() (source string, exact bool) {
	perf, exits := r.meter.perf, r.meter.exits
	complete := exits != nil && exits.whole && exits.lost == 0 && exits.err == nil
	switch {
	case perf != nil && perf.lost == 0 && (!r.hidden || complete && exits.strangers == 0):
		return "perf", true
	case perf == nil && complete:
		return exits.source.Name(), true
	case perf != nil && perf.lost == 0:
		return "perf", false
	}
	return sampledSource, false
}

// sampledSource is the source of figures that periodic readings found.
const sampledSource = "/proc samples"

// fillWait sets the waiting time if enough of the tree was seen.
func (r *runner) fillWait(rep *Report) {
	o, cpu := r.meter.tree.observed, float64(r.meter.last.cpu)
	seen := 1.0
	if cpu > 0 {
		seen = float64(o.run) / cpu
	}
	if o.run == 0 || seen < 0.5 {
		r.addNote("CPU wait is unknown: its threads lived too short to be asked (%.0f %% of the CPU time was seen)", 100*seen)
		return
	}
	wait := seconds(o.wait)
	rep.Sources["wait"] = "schedstat of threads"
	if r.meter.exits != nil && r.meter.exits.taken > 0 {
		rep.Sources["wait"] = r.meter.exits.source.Name() + " and schedstat of threads"
	}
	if seen < 0.98 {
		wait /= seen
		rep.Sources["wait"] += fmt.Sprintf(" with %.0f %% of the CPU time, scaled", 100*seen)
	}
	rep.CPUWaitSeconds = &wait
}

func survivorNote(s []Survivor) string {
	var names []string
	for i, p := range s {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(s)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (pid %d, %.2f s of CPU so far)", p.Name, p.PID, p.CPUSeconds))
	}
	verb := "processes still run and were"
	if len(s) == 1 {
		verb = "process still runs and was"
	}
	return fmt.Sprintf("%d %s left alone: %s; what they used until the command ended is counted (--wait waits for them)", len(s), verb,
		strings.Join(names, ", "))
}

// joinSources joins the first words of the sources, each once.
func joinSources(m map[string]string) string {
	var out []string
	for _, key := range []string{"cpu", "memory", "commands", "processes", "io", "wait"} {
		word := m[key]
		if end := strings.IndexAny(word, " ;"); end > 0 {
			word = word[:end]
		}
		if word == "/proc" || word == "schedstat" {
			word = "procfs"
		}
		if word != "" && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return strings.Join(out, "+")
}
