package counters

import (
	"reckon/metric"
	"reckon/sensor"
)

// Counter is an event that the processors count; it is the index of its series.
type Counter uint8

// The counters.
const (
	Cycles       Counter = iota // while not halted
	Instructions                // retired
	BranchMisses                // branches predicted wrongly
	// CacheMisses counts the cache lines that cores read from beyond the last-level cache. The processor model decides
	// which prefetches are included. Lines that are written back are not counted.
	CacheMisses
	// Floating-point instructions by the width of their operands.
	FPScalar
	FP128
	FP256
	FP512
	Counters
)

// Memory is the index of the series of bytes of memory that cache misses moved: an estimate.
const Memory = Counters

// The series.
var (
	cyclesTotal = metric.NewDesc("reckon_workload_cycles_total", metric.Counter, metric.None, sensor.Charged(),
		"Cycles of processors that ran the workload.")
	instructionsTotal = &metric.Desc{
		Name: "reckon_workload_instructions_total", Kind: metric.Counter,
		Help: "Instructions executed by the workload, including those of the kernel on its behalf. Instructions per cycle show how " +
			"well the processors were used.",
		Labels: sensor.Charged(),
	}
	branchMisses = metric.NewDesc("reckon_workload_branch_misses_total", metric.Counter, metric.None, sensor.Charged(),
		"Branches of the workload that the processor predicted wrongly.")
	cacheMisses = &metric.Desc{
		Name: "reckon_workload_cache_misses_total", Kind: metric.Counter,
		Help:   "Last-level cache misses of the cores that ran the workload. How many prefetches are included depends on the processor.",
		Labels: sensor.Charged(),
	}
	fpInstructions = metric.NewDesc("reckon_workload_fp_instructions_total", metric.Counter, metric.None, sensor.Charged("width"),
		"Floating-point instructions of the workload by width: scalar, 128, 256 or 512 bits. AMD processors count internal operations.")
)

// Spec describes the counts.
var Spec = tallySpec()

func tallySpec() *sensor.TallySpec {
	all := []sensor.TallySeries{
		{Desc: cyclesTotal}, {Desc: instructionsTotal}, {Desc: branchMisses}, {Desc: cacheMisses},
		{Desc: fpInstructions, Values: []string{"scalar"}}, {Desc: fpInstructions, Values: []string{"128"}},
		{Desc: fpInstructions, Values: []string{"256"}}, {Desc: fpInstructions, Values: []string{"512"}},
		{Desc: sensor.MemoryTraffic, Values: []string{"misses"}, Rate: sensor.RateMemory,
			Figure: &sensor.TallyFigure{Name: "memory_traffic_bytes", Source: "cache_misses",
				Lacks: []sensor.Lack{sensor.LackWrittenBack}}},
	}
	instructions := &sensor.TallyFigure{Name: "instructions", Source: "counters"}
	for i := range Counters {
		all[i].Always, all[i].Figure = true, instructions
	}
	return &sensor.TallySpec{Name: "counters", Sets: []sensor.TallySet{{Series: all}}}
}
