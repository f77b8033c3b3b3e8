// Package attribution splits what only the machine has a meter for over the workloads
// that caused it.
//
// [Meters] turns the readings of any number of meters into streams of energy, each
// joule once: it undoes what meters do wrong (stalls, falls, blank values, zero under
// load), decides which of several meters of the same power counts, takes from a wide
// meter what narrower ones count already, and keeps idle energy apart from active. The
// functions [ByCPU], [ByPackage] and [ByDevice] then say which share of a stream is
// whose. The invariant, which tests hold on random traces:
//
//	Σ streams (active + idle) = what the widest meter counted
//	Σ shares of a stream      = 1, or nobody used anything and it stays with the node
//
// Everything is joules, watts and seconds. The package is pure: no file, no clock.
// A Meters is used from one goroutine and does not allocate for meters it knows.
package attribution

// The values of the label method: whether energy was measured, and what it was split
// by where that is not the use of the very thing that drew it.
const (
	// Measured energy of a processor package is split by CPU time on it, that of a GPU
	// by the time it computed.
	Measured = "measured"
	// MeasuredByCPU is split by CPU time on the whole node: memory modules, the rest of
	// a board, and packages where it is not known what ran on which.
	MeasuredByCPU = "measured-by-cpu"
	// MeasuredByMemory is energy of a GPU split by the device memory held.
	MeasuredByMemory = "measured-by-memory"
	// MeasuredEqually is energy of a GPU split evenly over those that have it open.
	MeasuredEqually = "measured-equally"
	// Modelled energy comes from a power model and is split by CPU time.
	Modelled = "modelled"
)

// Rest is the domain of what a wide meter (psys, board) counts beyond the packages,
// memory and GPUs that have meters of their own: fans, disks, losses of the supply.
const Rest = "rest"

// Use is what one part used while the energy of a stream accrued.
type Use struct {
	// CPU is processor time, in any unit that all parts share. It may be weighted by
	// the frequency of the processors it was spent on.
	CPU float64
	// Packages has a bit for each package that the part may run on; 0 is any.
	Packages uint64
}

// ByCPU sets share to the part of each in the CPU time of all. It reports false, and
// leaves zeros, when nobody used any.
func ByCPU(share []float64, use []Use) bool {
	sum := 0.0
	for i := range use {
		share[i] = max(use[i].CPU, 0)
		sum += share[i]
	}
	return normalise(share, sum)
}

// ByPackage sets share to the part of each in the CPU time spent on package k, which
// was busy for that much time (in the unit of Use.CPU) altogether. What a part that
// is bound to the package used was spent there; what is left of busy was spent by
// those that may run there and elsewhere, each in proportion to what it used.
func ByPackage(share []float64, use []Use, k int, busy float64) bool {
	bit := uint64(1) << (uint(k) & 63)
	bound, free := 0.0, 0.0
	for i := range use {
		switch cpu := max(use[i].CPU, 0); {
		case use[i].Packages == bit:
			bound += cpu
		case use[i].Packages == 0 || use[i].Packages&bit != 0:
			free += cpu
		}
	}
	left := 0.0 // of busy time, for each unit of free time
	if free > 0 {
		left = min(max(busy-bound, 0)/free, 1)
	}
	sum := 0.0
	for i := range use {
		share[i] = 0
		switch cpu := max(use[i].CPU, 0); {
		case use[i].Packages == bit:
			share[i] = cpu
		case use[i].Packages == 0 || use[i].Packages&bit != 0:
			share[i] = cpu * left
		}
		sum += share[i]
	}
	return normalise(share, sum)
}

// DeviceUse is what one part used of a GPU.
type DeviceUse struct {
	Busy   float64 // seconds it computed for the part
	Memory float64 // bytes held
	// What of it is known.
	HasBusy, HasMemory bool
}

// ByDevice sets share to the part of each in the use of a GPU, and says by what: the
// time it computed where that is known, else the memory held, else evenly over all of
// use, which are those that have the device open.
func ByDevice(share []float64, use []DeviceUse) (method string, ok bool) {
	var busy, memory float64
	for i := range use {
		if use[i].HasBusy {
			busy += max(use[i].Busy, 0)
		}
		if use[i].HasMemory {
			memory += max(use[i].Memory, 0)
		}
	}
	switch {
	case busy > 0:
		for i := range use {
			share[i] = 0
			if use[i].HasBusy {
				share[i] = max(use[i].Busy, 0)
			}
		}
		return Measured, normalise(share[:len(use)], busy)
	case memory > 0:
		for i := range use {
			share[i] = 0
			if use[i].HasMemory {
				share[i] = max(use[i].Memory, 0)
			}
		}
		return MeasuredByMemory, normalise(share[:len(use)], memory)
	case len(use) > 0:
		for i := range use {
			share[i] = 1
		}
		return MeasuredEqually, normalise(share[:len(use)], float64(len(use)))
	}
	return Measured, false
}

func normalise(share []float64, sum float64) bool {
	if !(sum > 0) {
		clear(share)
		return false
	}
	for i := range share {
		share[i] /= sum
	}
	return true
}
