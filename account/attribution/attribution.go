// Package attribution splits energy and use that only the machine as a whole meters over
// the workloads that caused it.
//
// [Meters] converts the readings of any number of meters into streams of energy, each
// joule once: it corrects meter faults (stalls, falls, blank values, zero under load),
// selects one of several meters of the same power, subtracts from a wide meter the energy
// that narrower ones count already, and separates idle from active energy. The functions
// [ByCPU], [ByPackage] and [ByDevice] then return the share of each user of a stream. The
// invariant, which tests check on random traces:
//
//	Σ streams (active + idle) = energy counted by the widest meter
//	Σ shares of a stream      = 1, or there was no use and the energy stays with the node
//
// Everything is joules, watts and seconds. The package is pure: no file, no clock. A
// Meters is used from one goroutine and does not allocate for meters that it has seen
// before.
package attribution

// The values of the label method: whether energy was measured, and the basis of the split
// if that is not the use of the very component that drew it.
const (
	// Measured energy of a processor package is split by CPU time on it, a GPU's
	// by the time it computed.
	Measured = "measured"
	// MeasuredByCPU is split by CPU time on the whole node: memory modules, the rest of a
	// board, and packages where the package of each process is unknown.
	MeasuredByCPU = "measured-by-cpu"
	// MeasuredByMemory is energy of a GPU split by the device memory held.
	MeasuredByMemory = "measured-by-memory"
	// MeasuredEqually is energy of a GPU split evenly over the parts that have it open.
	MeasuredEqually = "measured-equally"
	// MeasuredBySamples is time or energy of a GPU split by the driver's samples of its users, which may name only one of several.
	MeasuredBySamples = "measured-by-samples"
	// Modelled energy comes from a power model and is split by CPU time.
	Modelled = "modelled"
)

// Rest is the domain of the energy that a wide meter (psys, board) counts beyond the
// packages, memory and GPUs with meters of their own: fans, disks, losses of the power
// supply.
const Rest = "rest"

// Use is the use by one part while the energy of a stream accrued.
type Use struct {
	// CPU is processor time, in any unit that all parts share. It may be weighted by
	// the frequency of the processors it was spent on.
	CPU float64
	// Packages has a bit for each package that the part may run on; 0 is any.
	Packages uint64
}

// ByCPU sets share to each part's fraction of the CPU time of all. It returns false, and
// leaves zeros, when no CPU time was used.
func ByCPU(share []float64, use []Use) bool {
	sum := 0.0
	for i := range use {
		share[i] = max(use[i].CPU, 0)
		sum += share[i]
	}
	return normalise(share, sum)
}

// ByPackage sets share to each part's fraction of the CPU time spent on package k, which
// was busy for the given time (in the unit of Use.CPU) in total. The use of a part that
// is bound to the package was spent there; the rest of busy was spent by parts that may
// run there and elsewhere, each in proportion to its use.
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

// DeviceUse is the use of a GPU by one part.
type DeviceUse struct {
	Busy   float64 // seconds it computed for the part
	Memory float64 // bytes held
	// Whether Busy and Memory are known.
	HasBusy, HasMemory bool
}

// ByDevice sets share to each part's fraction of the use of a GPU, and returns the basis:
// the time it computed if that is known, else the memory held, else evenly over all of
// use, which are the parts that have the device open.
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
