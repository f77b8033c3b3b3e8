package efficiency

import (
	"slices"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

// refaulted is how much of what it needed a workload must read again, after the kernel took it
// back, for its memory to have been too small: once over.
const refaulted = 1.0

// memory judges what was needed. What the kernel can give back is no need: page cache fills
// whatever memory a workload is given. Too little memory shows where what is needed nears the
// limit, and where the workload is stalled for memory or reads the same pages again.
func (j *judge) memory() {
	u := &j.u
	if swap, ok := known(u.SwapPeak); ok && swap >= 64<<20 {
		j.say("swap", Warning, swap, "bytes", "swap", phrase.Words{"swap": format.Bytes(swap)})
	}
	given, ok := known(u.Memory)
	if !ok || given <= 0 || u.Resized || positive(u.OOMKills) || u.State == "out_of_memory" || slices.ContainsFunc(u.Steps, func(s Step) bool { return s.outOfMemory() }) { // that is said already
		return
	}
	need, measured := known(u.MemoryNeeded)
	peak, peaked := known(u.MemoryPeak)
	words := phrase.Words{"given": format.Bytes(given), "was": j.was(), "cache": ""}
	if u.MemoryRequested {
		words["was"] = "asked for"
	}
	if !measured {
		j.memoryPeak(peak, given, peaked, words)
		return
	}
	share := need / given
	cached := max(peak-need, 0)
	words["needed"], words["share"], words["peak"], words["cached"] = format.Qualifier(u.MemoryExact)+format.Bytes(need), format.Percent(share), format.Bytes(peak), format.Bytes(cached)
	if peaked && cached >= 64<<20 && cached >= 0.1*peak {
		words["cache"] = ", with " + format.Bytes(cached) + " of page cache beside it, which the kernel gives back"
	}
	full := peaked && peak >= near*given
	stalled, refault := u.pressure()
	switch {
	case u.MemoryExact != figure.Exact:
		if share >= low {
			j.say("memory", Info, share, "ratio", "memory.inexact", words)
		}
	case share >= near:
		j.say("memory", Warning, share, "ratio", "memory.full", words)
	case full && stalled > 0:
		words["share"] = format.Percent(stalled)
		j.say("memory", Warning, stalled, "ratio", "memory.pressure", words)
	case full && refault > 0:
		words["refaults"] = format.Bytes(refault)
		j.say("memory", Warning, refault, "bytes", "memory.refaults", words)
	case full:
		j.say("memory", Info, share, "ratio", "memory.cache", words)
	case share < low && given-need >= 1<<30 && u.WallSeconds >= settled && j.ranThrough():
		j.say("memory", Warning, share, "ratio", "memory.low", words)
	case share >= low:
		j.say("memory", Good, share, "ratio", "memory.good", words)
	}
}

// pressure is what shows that its memory was too small for its page cache: the share of the time
// in which it was stalled for memory, or what it had to read again; 0 where it is too little to
// matter, or was not measured.
func (u *Usage) pressure() (stalled, refault float64) {
	if s, _ := known(u.MemoryStalledSeconds); u.WallSeconds >= settled && s >= waiting*u.WallSeconds {
		stalled = s / u.WallSeconds
	}
	if r, _ := known(u.RefaultBytes); r >= refaulted**u.Memory {
		refault = r
	}
	return stalled, refault
}

// Filled reports whether memory was full, page cache included.
func Filled(given, peak *float64) bool {
	g, ok := known(given)
	p, peaked := known(peak)
	return ok && peaked && g > 0 && p >= near*g
}

// Squeezed reports whether memory was full and the workload was held up for it, or read again
// what the kernel had taken back: however little of it was needed, less would be slower.
func Squeezed(u Usage) bool {
	if !Filled(u.Memory, u.MemoryPeak) {
		return false
	}
	stalled, refault := u.pressure()
	return stalled > 0 || refault > 0
}

// memoryPeak judges a peak of which it is not known how much was page cache: need is no more
// than it, so that little is little, but much is not known to be needed.
func (j *judge) memoryPeak(peak, given float64, ok bool, words phrase.Words) {
	if !ok || j.u.MemorySampled && j.u.WallSeconds < settled {
		return
	}
	share := peak / given
	words["peak"], words["share"] = format.Qualifier(j.u.MemoryExact)+format.Bytes(peak), format.Percent(share)
	if j.u.MemorySampled {
		words["peak"] = format.Qualifier(figure.Estimated) + format.Bytes(peak)
	}
	switch {
	case share >= above && j.u.Batch:
		j.say("memory", Warning, share, "ratio", "memory.above", words)
	case share >= low || !j.ranThrough() || j.u.MemorySampled && (j.u.WallSeconds < Sampled || j.u.MemoryOfTask):
		key := "memory.peak"
		if j.u.MemorySampled {
			key = "memory.sampled"
		}
		j.say("memory", Info, share, "ratio", key, words)
	case given-peak >= 1<<30 && j.u.WallSeconds >= settled && j.u.MemoryExact == figure.Exact:
		j.say("memory", Warning, share, "ratio", "memory.peak-low", words)
	}
}
