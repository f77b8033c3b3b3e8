package run

import (
	"fmt"
	"math"

	"reckon/internal/term"
)

// Levels of a verdict.
const (
	levelOK      = "ok"
	levelNotice  = "notice"
	levelWarning = "warning"
)

// limits are the thresholds of the verdicts: shares of 1 unless named otherwise.
var limits = struct {
	Short                    float64 // seconds: shorter runs are not judged
	Full, Idle               float64 // of the cores at hand, mean use
	OneCore                  float64 // p95 of cores up to which a program runs on one
	Uneven                   float64 // max over mean use, from which a run is uneven
	Wait, WaitMuch           float64 // waiting over wanting to run
	WaitLittle               float64 // negligible waiting, as a share of wall time
	System                   float64 // CPU time in the kernel
	Memory, MemoryFull       float64 // peak as a share of the available memory
	MemorySpread             float64 // peak over mean
	MajorFaults              float64 // per second
	IOFast                   float64 // bytes per second
	IOWaiting                float64 // mean cores below which it may be waiting for I/O
	ShortProcess, ShortTotal float64 // mean CPU seconds of a process, and number of processes
}{
	Short: 0.2,
	Full:  0.9, Idle: 0.05, OneCore: 1.1, Uneven: 3,
	Wait: 0.05, WaitMuch: 0.2, WaitLittle: 0.01,
	System: 0.4,
	Memory: 0.8, MemoryFull: 0.95, MemorySpread: 3,
	MajorFaults: 100,
	IOFast:      50 << 20, IOWaiting: 0.5,
	ShortProcess: 0.02, ShortTotal: 500,
}

// Judge returns one plain sentence for each resource. Its only input is the report.
func Judge(r *Report) []Verdict {
	return []Verdict{assessCPU(r), assessWait(r), assessMemory(r), assessIO(r), assessProcesses(r)}
}

func formatCores(v float64) string {
	if math.Abs(v-1) < 0.005 {
		return "1 core"
	}
	return term.Cores(&v) + " cores"
}

func formatBytes(v uint64) string {
	f := float64(v)
	return term.Bytes(&f)
}

func formatPercent(v float64) string { return term.Percent(&v) }

func assessCPU(r *Report) Verdict {
	v := Verdict{Resource: "cpu", Level: levelOK}
	have, mean := r.Machine.Cores, r.Cores.Mean
	c := term.Cores(&mean)
	switch {
	case r.WallSeconds < limits.Short:
		cpu := r.CPU.Total
		v.Text = fmt.Sprintf("used %s of CPU time; too short to judge.", term.Seconds(&cpu))
	case have > 0 && mean >= limits.Full*have:
		v.Text = fmt.Sprintf("used %s of %s on average (%s): it kept everything it was given busy, more cores may help.", c,
			formatCores(have), formatPercent(mean/have))
	case mean <= limits.Idle:
		v.Level = levelNotice
		v.Text = fmt.Sprintf("used %s: it hardly computed, it waited for something else most of the time.", formatCores(mean))
	case have > 1.5 && r.Cores.P95 <= limits.OneCore && mean >= limits.Full*min(1, have):
		v.Level = levelNotice
		v.Text = fmt.Sprintf(
			"used %s of %s, never more than %s: it computes on one core, and more will not help unless it is set up to use them.", c,
			formatCores(have), formatCores(r.Cores.Max))
	case r.Cores.Max >= limits.Uneven*mean && r.Cores.Max > limits.OneCore:
		v.Level = levelNotice
		v.Text = fmt.Sprintf("used %s on average but up to %s of %s: a parallel part with long stretches of little work between.",
			formatCores(mean), term.Cores(&r.Cores.Max), formatCores(have))
	default:
		v.Text = fmt.Sprintf("used %s of %s on average, half of the time at most %s, 95 %% of it at most %s.", c, formatCores(have),
			term.Cores(&r.Cores.P50), term.Cores(&r.Cores.P95))
	}
	return v
}

func assessWait(r *Report) Verdict {
	v := Verdict{Resource: "wait", Level: levelOK}
	if r.CPUWaitSeconds == nil {
		v.Text = "how long it waited for a processor could not be measured."
		return v
	}
	wait := *r.CPUWaitSeconds
	want := wait + r.CPU.Total
	if want <= 0 {
		v.Text = "never waited for a processor."
		return v
	}
	share := wait / want
	text := fmt.Sprintf("waited %s for a processor, %s of the time it wanted to run", term.Seconds(&wait), formatPercent(share))
	switch {
	case r.WallSeconds < limits.Short || share < limits.Wait || wait < limits.WaitLittle*r.WallSeconds:
		v.Text = text + "."
		if r.WallSeconds >= limits.Short {
			v.Text = text + ": no shortage."
		}
	case r.Machine.Cores > 0 && r.Cores.Mean >= limits.Full*r.Machine.Cores:
		v.Level = levelNotice
		if share >= limits.WaitMuch {
			v.Level = levelWarning
		}
		v.Text = text + fmt.Sprintf(": it has more runnable threads than the %s it may use.", formatCores(r.Machine.Cores))
	case share < limits.WaitMuch:
		v.Level = levelNotice
		v.Text = text + ": others on the machine were in the way now and then."
	default:
		v.Level = levelWarning
		v.Text = text + ": the machine is overbooked, or a CPU limit holds it back."
	}
	return v
}

func assessMemory(r *Report) Verdict {
	v := Verdict{Resource: "memory", Level: levelOK}
	if r.MemoryPeakBytes == nil {
		v.Text = "could not be measured."
		return v
	}
	peak := *r.MemoryPeakBytes
	of := "of the machine"
	if r.Machine.MemoryLimited {
		of = "of its limit"
	}
	text := "peaked at " + r.mark() + formatBytes(peak)
	share := 0.0
	if r.Machine.MemoryBytes > 0 {
		share = float64(peak) / float64(r.Machine.MemoryBytes)
		text += fmt.Sprintf(", %s %s (%s)", formatPercent(share), of, formatBytes(r.Machine.MemoryBytes))
	}
	faults := 0.0
	if r.WallSeconds >= limits.Short {
		faults = float64(r.Faults.Major) / r.WallSeconds
	}
	switch {
	case r.MemoryAtMost && share >= limits.Memory:
		v.Text = text + ": it may be much less, for its processes look as if they had the same memory, and nothing here shows that."
	case share >= limits.MemoryFull:
		v.Level, v.Text = levelWarning, text+": there is no room left, the next run may be killed."
	case faults >= limits.MajorFaults:
		v.Level, v.Text = levelWarning,
			text+fmt.Sprintf("; %.0f page faults a second had to read from storage: memory is short, or it maps large files.", faults)
	case share >= limits.Memory:
		v.Level, v.Text = levelNotice, text+": little room is left."
	case r.WallSeconds >= 10 && r.MemoryMeanBytes != nil && *r.MemoryMeanBytes > 0 &&
		float64(peak) >= limits.MemorySpread*float64(*r.MemoryMeanBytes) && peak > 64<<20:
		v.Level, v.Text = levelNotice,
			text+fmt.Sprintf("; the mean is %s only: a short peak decides what must be asked for.", formatBytes(*r.MemoryMeanBytes))
	case r.MemoryUnseen:
		v.Text = text + ": it may be more, because some processes ended too soon to be measured."
	case r.MemoryAtLeast:
		v.Text = text + ": it may be more, as shared memory without a known owner grew on the machine."
	default:
		v.Text = text + ": fine."
	}
	return v
}

func assessIO(r *Report) Verdict {
	v := Verdict{Resource: "io", Level: levelOK}
	if r.IO.Read == 0 && r.IO.Write == 0 {
		v.Text = "nothing was read from or written to storage."
		if r.IOCalls != nil && r.IOCalls.Read+r.IOCalls.Write > 1<<20 {
			v.Text = fmt.Sprintf("no storage was touched: the %s it read and %s it wrote were cached files, pipes or memory.",
				formatBytes(r.IOCalls.Read), formatBytes(r.IOCalls.Write))
		}
		return v
	}
	v.Text = fmt.Sprintf("read %s and wrote %s of storage", formatBytes(r.IO.Read), formatBytes(r.IO.Write))
	if r.WallSeconds < limits.Short {
		v.Text += "."
		return v
	}
	rate := float64(r.IO.Read+r.IO.Write) / r.WallSeconds
	v.Text += ", " + term.Rate(&rate) + " on average"
	switch {
	case rate >= limits.IOFast && r.Cores.Mean < limits.IOWaiting:
		v.Level = levelNotice
		v.Text += fmt.Sprintf(", and computed on %s only: storage may be what it waits for.", formatCores(r.Cores.Mean))
	case rate >= limits.IOFast:
		v.Text += ": a good deal, but the processors were busy as well."
	default:
		v.Text += ": little."
	}
	return v
}

func assessProcesses(r *Report) Verdict {
	v := Verdict{Resource: "processes", Level: levelOK}
	n := float64(r.Processes)
	atLeast := ""
	if !r.ProcessesExact {
		atLeast = "at least "
	}
	plural := "processes"
	if r.Processes == 1 {
		plural = "process"
	}
	text := fmt.Sprintf("started %s%s %s, up to %d at a time", atLeast, term.Number(&n), plural, r.ProcessesPeak)
	system := 0.0
	if r.CPU.Total > 0 {
		system = r.CPU.System / r.CPU.Total
	}
	switch {
	case n >= limits.ShortTotal && r.CPU.Total/n < limits.ShortProcess && system >= limits.System:
		v.Level = levelNotice
		mean := r.CPU.Total / n
		v.Text = text + fmt.Sprintf(
			", %s of CPU each: %s of the CPU time went into the kernel, mostly to start and end them; fewer, longer ones would be cheaper.",
			term.Seconds(&mean), formatPercent(system))
	case r.WallSeconds >= limits.Short && system >= limits.System && r.CPU.Total > limits.Short:
		v.Level = levelNotice
		v.Text = text + fmt.Sprintf("; %s of the CPU time was spent in the kernel.", formatPercent(system))
	default:
		v.Text = text + "."
	}
	return v
}
