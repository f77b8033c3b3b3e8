package efficiency

import (
	"math"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

// reportEmpty reports an allocation without a process.
func (j *judge) reportEmpty() bool {
	span, ok := figure.Known(j.u.EmptySeconds)
	if !ok || !j.u.Running || span < empty {
		return false
	}
	key := "empty.ended"
	if j.u.CPUSeconds == nil {
		key = "empty.never"
	}
	j.addVerdict("empty", Warning, span, "seconds", key, phrase.Words{"span": phrase.Time(span), "what": j.describeAllocation()})
	return true
}

// describeAllocation formats the cores and GPUs of the workload: "4 cores and 1 GPU".
func (j *judge) describeAllocation() phrase.Text {
	var what []phrase.Text
	if given, ok := figure.Known(j.u.Cores); ok && given > 0 && !j.u.CoresImplied {
		what = append(what, quantity(given, "core", "cores"))
	}
	if gpus, ok := figure.Known(j.u.GPUs); ok && gpus > 0 {
		what = append(what, quantity(gpus, "GPU", "GPUs"))
	}
	switch len(what) {
	case 0:
		return phrase.Join("its allocation")
	case 1:
		return what[0]
	}
	return phrase.Join(what[0], " and ", what[1])
}

// Idle reports whether a run did next to nothing for all of its time.
func Idle(u Usage) bool {
	j := judge{u: u}
	return u.WallSeconds >= settled && j.reportIdleAllocation()
}

// reportIdleAllocation reports an idle allocation of a run that is not short.
func (j *judge) reportIdleAllocation() bool {
	u := &j.u
	cpu, ok := figure.Known(u.CPUSeconds)
	given, has := figure.Known(u.Cores)
	wait, _ := figure.Known(u.CPUWaitSeconds)
	p95, sustained := figure.Known(u.CoresP95)
	gpu, onGPU := figure.Known(u.GPUSeconds)
	gpus, hasGPUs := figure.Known(u.GPUs)
	hasGPUs = hasGPUs && gpus > 0
	switch {
	case !ok || !has || given <= 0 || u.CoresImplied || u.Exactness["cpu_seconds"] != figure.Exact:
		// a process that waits for long is seen: CPUWaitSeconds lacks little
		return false
	case (cpu+wait)/u.WallSeconds >= none*min(given, 1),
		sustained && p95 >= 2*none*min(given, 1) && (cpu+wait)/u.WallSeconds >= bursts*min(given, 1),
		hasGPUs && (!onGPU || u.Exactness["gpu_seconds"] != figure.Exact || gpu >= none*gpus*u.WallSeconds),
		j.storageShare() >= waiting || j.reportCongestion() || j.isDiskLimited():
		return false
	}
	return true
}

// Rested reports whether a run did next to nothing for the last half of its time or more.
func Rested(u Usage) bool {
	_, most := (&judge{u: u}).idleAtEnd()
	return most
}

// idleAtEnd returns the idle seconds at the end of a run, and whether they are at least half of its time. most requires a
// complete measurement of CPU time, and of GPU time if the run has GPUs.
func (j *judge) idleAtEnd() (seconds float64, most bool) {
	u := &j.u
	v, ok := figure.Known(u.RestSeconds)
	gpus, _ := figure.Known(u.GPUs)
	return v, ok && v >= max(settled, u.WallSeconds/2) && u.State != "suspended" && u.Exactness["cpu_seconds"] == figure.Exact &&
		(gpus == 0 || u.GPUSeconds != nil)
}

// reportIdleEnd reports a run that was idle for the rest of its time. It does not repeat what a verdict on the time limit
// contains.
func (j *judge) reportIdleEnd() {
	v, most := j.idleAtEnd()
	if !most || !j.u.Batch || j.u.State == "timeout" && !j.reportIdleAllocation() {
		return
	}
	key, s := "rest", Info
	if j.u.Running {
		key, s = "rest.running", Warning
	}
	j.addVerdict("rest", s, v, "seconds", key, phrase.Words{"rest": phrase.Time(v)})
}

// reportHardlyRan reports a workload that hardly ran. Fewer cores would not have helped it, and its other figures mean little.
func (j *judge) reportHardlyRan() bool {
	if !j.reportIdleAllocation() {
		return false
	}
	u := &j.u
	cpu, _ := figure.Known(u.CPUSeconds)
	given, _ := figure.Known(u.Cores)
	key, was := "idle", "allocated"
	if u.Running {
		key = "idle.running"
	}
	if !u.Batch {
		was = "asked for"
	}
	j.addVerdict("idle", Warning, cpu/(given*u.WallSeconds), "ratio", key,
		phrase.Words{"cpu": phrase.Time(cpu), "wall": phrase.Time(u.WallSeconds), "what": j.describeAllocation(), "was": was})
	return true
}

// reportCores judges the use of cores.
func (j *judge) reportCores() {
	u := &j.u
	cpu, ok := figure.Known(u.CPUSeconds)
	given, has := figure.Known(u.Cores)
	if !ok || !has || given <= 0 {
		return
	}
	share, mean := cpu/(given*u.WallSeconds), cpu/u.WallSeconds
	p95, sustained := figure.Known(u.CoresP95)
	wait, _ := figure.Known(u.CPUWaitSeconds)
	w := phrase.Words{"mean": cores(mean), "share": phrase.Percent(share), "of": j.describeCores(given),
		"p95": cores(max(0.1, math.Ceil(10*p95-0.01)/10)), "most": cores(min((cpu+wait)/u.WallSeconds, given))}
	say := func(s Severity, key string) { j.addVerdict("cores", s, share, "ratio", key, w) }
	switch {
	case u.Resized:
		w["mean"] = phrase.Join(format.Qualifier(u.Exactness["cpu_seconds"]), cores(mean))
		say(Info, "cores.resized")
	case u.Exactness["cpu_seconds"] != figure.Exact:
		w["mean"] = phrase.Join(format.Qualifier(u.Exactness["cpu_seconds"]), phrase.Number(0, "cores", "0"))
		if mean >= 0.005 {
			w["mean"] = phrase.Join(format.Qualifier(u.Exactness["cpu_seconds"]), cores(mean))
		}
		say(Info, "cores.inexact")
	case wait >= waiting*(cpu+wait) && wait >= worth && share < well && u.Exactness["cpu_wait_seconds"] != figure.Exact:
		say(Info, "cores.held") // by more than is known
	case wait >= waiting*(cpu+wait) && wait >= worth && share < well:
		say(Info, "cores.starved")
	case u.CoresImplied:
		say(Info, "cores.implied")
	case share >= above && u.Batch:
		say(Warning, "cores.above")
	case share >= well:
		say(Good, "cores.good")
	case given == 1 || j.u.Batch && given < 2: // it cannot have fewer
		say(Info, "cores.one")
	case given < 2:
		say(Info, "cores.some")
	case sustained && p95 <= given*low:
		say(Warning, "cores.spare")
	case share < low && sustained:
		say(Warning, "cores.phases")
	case share < low: // accounting reports only the sum
		say(Warning, "cores.low")
	default:
		say(Info, "cores.some")
	}
}

// describeCores describes the cores that use is compared with.
func (j *judge) describeCores(given float64) phrase.Sentence {
	w := phrase.Words{"cores": quantity(given, "core", "cores"), "was": j.allocationVerb(), "nodes": "node"}
	if !j.u.CoresImplied {
		return texts.Sentence("of.given", w)
	}
	if len(j.u.PerNode) > 1 {
		w["nodes"] = "nodes"
	}
	return texts.Sentence("of.nodes", w)
}

// reportGPUs judges the use of GPUs.
func (j *judge) reportGPUs() {
	used, ok := figure.Known(j.u.GPUSeconds)
	given, has := figure.Known(j.u.GPUs)
	if !ok || !has || given <= 0 || j.u.Resized {
		return
	}
	share := used / (given * j.u.WallSeconds)
	w := phrase.Words{"gpus": quantity(given, "GPU", "GPUs"), "its": withNoun(given, "GPU"),
		"share": phrase.Join(format.Qualifier(j.u.Exactness["gpu_seconds"]), phrase.Percent(share))}
	switch {
	case j.u.Exactness["gpu_seconds"] != figure.Exact:
		j.addVerdict("gpu", Info, share, "ratio", "gpu.inexact", w)
	case used == 0:
		j.addVerdict("gpu", Warning, 0, "ratio", "gpu.never", w)
	case share < idleGPU:
		j.addVerdict("gpu", Warning, share, "ratio", "gpu.low", w)
	case share < busyGPU:
		j.addVerdict("gpu", Info, share, "ratio", "gpu.some", w)
	default:
		j.addVerdict("gpu", Good, share, "ratio", "gpu.some", w)
	}
}
