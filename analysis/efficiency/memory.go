package efficiency

import (
	"slices"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

// minRefaults is the ratio of refaulted bytes to needed memory from which memory counts as too small. At this ratio,
// every needed byte was read again.
const minRefaults = 1.0

// reportMemory reports whether the requested memory was too small or too large for the needed memory. It ignores reclaimable
// memory, because the page cache fills any memory. Memory is too small if the need is close to the limit, or if the
// workload stalls for memory or rereads the same pages.
func (j *judge) reportMemory() {
	u := &j.u
	if swap, ok := figure.Known(u.SwapBytes); ok && swap >= 64<<20 {
		j.addVerdict("swap", Warning, swap, "bytes", "swap", phrase.Words{"swap": phrase.Bytes(swap)})
	}
	given, ok := figure.Known(u.Memory)
	// already reported
	if !ok || given <= 0 || u.Resized || positive(u.OOMKills) || u.State == "out_of_memory" ||
		slices.ContainsFunc(u.JobSteps, func(s Step) bool { return s.ranOutOfMemory() }) {
		return
	}
	need, measured := figure.Known(u.MemoryNeededPeakBytes)
	peak, peaked := figure.Known(u.MemoryPeakBytes)
	words := phrase.Words{"given": phrase.Bytes(given), "was": j.allocationVerb()}
	if u.MemoryRequested {
		words["was"] = "asked for"
	}
	if !measured {
		j.reportMemoryPeak(peak, given, peaked, words)
		return
	}
	most, _ := figure.Known(u.NeededMost())
	share, cached := need/given, max(peak-most, 0)
	words["needed"], words["share"] = phrase.Join(format.Qualifier(u.memoryExact()), phrase.Bytes(need)), phrase.Percent(share)
	words["peak"], words["cached"] = phrase.Bytes(peak), phrase.Bytes(cached)
	if most > need*(1+figure.Apart) {
		words["needed"] = phrase.Join(phrase.Bytes(need), " to ", phrase.Bytes(most))
		if to := phrase.Percent(most / given); to.String() != phrase.Percent(share).String() {
			words["share"] = phrase.Join(phrase.Percent(share), " to ", to)
		}
	}
	full := peaked && peak >= near*given
	words["cache"] = cacheWords(cached, peak, full)
	stalled, refault := u.memoryPressure()
	switch {
	case u.memoryExact() != figure.Exact:
		if share >= low {
			j.addVerdict("memory", Info, share, "ratio", "memory.inexact", words)
		}
	case share >= near:
		j.addVerdict("memory", Warning, share, "ratio", "memory.full", words)
	case full && stalled > 0:
		words["share"] = phrase.Percent(stalled)
		j.addVerdict("memory", Warning, stalled, "ratio", "memory.pressure", words)
	case full && refault > 0:
		words["refaults"] = phrase.Bytes(refault)
		j.addVerdict("memory", Warning, refault, "bytes", "memory.refaults", words)
	case full && cached == 0 && most > need:
		j.addVerdict("memory", Info, share, "ratio", "memory.either", words)
	case full:
		j.addVerdict("memory", Info, share, "ratio", "memory.cache", words)
	case most/given < low && given-most >= 1<<30 && u.WallSeconds >= settled && j.ranToEnd():
		j.addVerdict("memory", Warning, share, "ratio", "memory.low", words)
	case most*advised > given:
		j.addVerdict("memory", Info, share, "ratio", "memory.tight", words)
	case most/given >= low:
		j.addVerdict("memory", Good, share, "ratio", "memory.good", words)
	}
}

// cacheWords returns the words about the page cache: beside the needed memory or, if full is set, within the full memory. It
// returns none if there is little page cache.
func cacheWords(cached, peak float64, full bool) phrase.Text {
	switch {
	case cached < 64<<20 || cached < 0.1*peak:
		return nil
	case full:
		return phrase.Join(", ", phrase.Bytes(cached), " of it page cache")
	}
	return phrase.Join(", with ", phrase.Bytes(cached), " of page cache in addition, which the kernel can reclaim")
}

// memoryPressure returns two signs that memory was too small for the page cache. stalled is the share of time stalled for
// memory, and refault the number of bytes read again. They are 0 if negligible or not measured.
func (u *Usage) memoryPressure() (stalled, refault float64) {
	if s, _ := figure.Known(u.MemoryStalledSeconds); u.WallSeconds >= settled && s >= waiting*u.WallSeconds {
		stalled = s / u.WallSeconds
	}
	if r, _ := figure.Known(u.RefaultBytes); r >= minRefaults**u.Memory {
		refault = r
	}
	return stalled, refault
}

// MemoryFull reports whether the memory was full, including the page cache.
func MemoryFull(given, peak *float64) bool {
	g, ok := figure.Known(given)
	p, peaked := figure.Known(peak)
	return ok && peaked && g > 0 && p >= near*g
}

// ShortOfMemory reports whether the memory was full and the workload stalled for it or read reclaimed pages again. Less memory
// would slow such a workload even if it needed little.
func ShortOfMemory(u Usage) bool {
	if !MemoryFull(u.Memory, u.MemoryPeakBytes) {
		return false
	}
	stalled, refault := u.memoryPressure()
	return stalled > 0 || refault > 0
}

// reportMemoryPeak reports on a peak of memory that includes an unknown amount of page cache. given is the requested memory in
// bytes, if ok is set. A low peak proves a low need, but a high peak proves nothing, because it may be page cache.
func (j *judge) reportMemoryPeak(peak, given float64, ok bool, words phrase.Words) {
	if !ok || j.u.MemorySampled && j.u.WallSeconds < settled {
		return
	}
	share := peak / given
	words["peak"], words["share"] = phrase.Join(format.Qualifier(j.u.memoryExact()), phrase.Bytes(peak)), phrase.Percent(share)
	if j.u.MemorySampled {
		words["peak"] = phrase.Join(format.Qualifier(figure.Estimated), phrase.Bytes(peak))
	}
	switch {
	case share >= above && j.u.Batch && (j.u.memoryExact() == figure.Exact || j.u.memoryExact() == figure.AtLeast):
		j.addVerdict("memory", Warning, share, "ratio", "memory.above", words)
	case share >= low || !j.ranToEnd() || j.u.MemorySampled && (j.u.WallSeconds < Sampled || j.u.MemoryOfTask):
		key := "memory.peak"
		if j.u.MemorySampled {
			key = "memory.sampled"
		}
		j.addVerdict("memory", Info, share, "ratio", key, words)
	case given-peak >= 1<<30 && j.u.WallSeconds >= settled && j.u.memoryExact() == figure.Exact:
		j.addVerdict("memory", Warning, share, "ratio", "memory.peak-low", words)
	}
}
