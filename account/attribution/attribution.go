// Package attribution splits energy and use that only the machine as a whole meters over the
// workloads that caused it.
//
// [Meters] converts the readings of any number of meters into streams of energy that count each
// joule once. It corrects meter faults (stalls, falls, blank values, zero under load), selects one
// of several meters of the same power, subtracts from a wide meter the energy that narrower ones
// count already, and separates idle from active energy. The functions [ByCPU], [ByPackage] and
// [ByDevice] then return the share of each user of a stream. The invariant, which tests check on
// random traces:
//
//	Σ streams (active + idle) = energy counted by the widest meter
//	Σ shares of a stream      = 1, or there was no use and the energy stays with the node
//
// Units are joules, watts and seconds. The package is pure and uses neither files nor a clock. A
// Meters is used from one goroutine and does not allocate for meters that it has seen before.
package attribution

// Values of the label method. They tell whether energy was measured, and how it was split if the use of the component
// itself is unknown.
const (
	// Measured energy is split by the use of the component: CPU time on the processor package, or computing time on the
	// GPU.
	Measured = "measured"
	// MeasuredByCPU is measured energy that is split by CPU time on the whole node. It applies to memory modules, to
	// the rest of a board, and to packages if the package of each process is unknown.
	MeasuredByCPU = "measured-by-cpu"
	// MeasuredByMemory is energy of a GPU split by the device memory held.
	MeasuredByMemory = "measured-by-memory"
	// MeasuredEqually is energy of a GPU split evenly over the parts that have it open.
	MeasuredEqually = "measured-equally"
	// MeasuredBySamples is time or energy of a GPU that was split by the driver's samples, which may name only one of several users.
	MeasuredBySamples = "measured-by-samples"
	// Modelled energy comes from a power model and is split by CPU time.
	Modelled = "modelled"
)

// Rest is the energy domain of fans, disks and power supply losses. Its energy is the reading of a wide meter (psys,
// board) minus the readings of the narrower meters: packages, memory and GPUs.
const Rest = "rest"

// Use is the use of processors by one part of a workload during the time of a meter reading.
type Use struct {
	// CPU is CPU time in any unit common to all parts. It may be weighted by the frequency of the processors used.
	CPU float64
	// Packages has a bit for each package that the part may run on; 0 is any.
	Packages uint64
}

// ByCPU sets share to the fraction of total CPU time that each part used. It returns false and
// leaves zeros if no CPU time was used.
func ByCPU(share []float64, use []Use) bool {
	sum := 0.0
	for i := range use {
		share[i] = max(use[i].CPU, 0)
		sum += share[i]
	}
	return normalise(share, sum)
}

// ByPackage sets share to the fraction of package k's CPU time that each part used. busy is the total CPU time of the
// package, in the unit of Use.CPU. A part bound to the package counts in full. The rest of busy is divided among the
// unbound parts in proportion to their use.
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

// ByDevice sets share to the fraction of a GPU that each part used and returns the basis of the
// split: computing time if known, else memory held, else an even split. use lists the parts that
// have the device open.
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
