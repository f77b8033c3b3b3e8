package wire

import "time"

// Scale is a workload's use of its allocation, and the scaling of runs of the same work: the
// response of GET /api/reckon/v1/scale/{id}.
type Scale struct {
	Workload
	Resources []ScaleResource `json:"resources"` // Each resource that was measured.
	// Averaging time in seconds of each figure behind p50 and p95; one second for cores.
	StepSeconds float64 `json:"step_seconds"`
	// Compared runs of the same work by cores and start, including this one if it qualifies.
	Runs []ScaleRun `json:"runs"`
	// Number of other runs that did not end well, are too short to compare, or got fewer cores than
	// they wanted without a request.
	LeftOut  int    `json:"left_out"`
	Waited   int    `json:"waited"`    // Number of runs that waited for cores for a fifth of the time or more.
	SizeUnit string `json:"size_unit"` // Unit of comparison: cores, or gpus for work with GPUs.
	// Amdahl's law fitted to the runs; null if no law is claimed: fewer than three sizes, too
	// different use, a poor fit, or more speed-up than the cores that they kept busy.
	Amdahl   *ScaleFit  `json:"amdahl"`
	USL      *ScaleFit  `json:"usl"`               // The Universal Scalability Law; null where no law is claimed.
	Weak     *ScaleWeak `json:"weak"`              // Whether the work grows with the cores; null if the runs do not show it.
	Verdicts []Verdict  `json:"verdicts"`          // The conclusions as sentences, the most severe first.
	Missing  []string   `json:"missing,omitempty"` // Unavailable parts of a partial answer.
}

// ScaleResource is the use of one resource by a workload.
type ScaleResource struct {
	Resource string `json:"resource"` // cores, memory, gpus, gpu_memory, disk or network.
	Unit     string `json:"unit"`     // Unit of the figures.
	// Amount available: the request, or the cores of its nodes without one; null if unknown.
	Held *float64 `json:"held"`
	Mean *float64 `json:"mean"` // Mean.
	P50  *float64 `json:"p50"`  // Median.
	P95  *float64 `json:"p95"`  // 95th percentile.
	Max  *float64 `json:"max"`  // Maximum.
}

// ScaleRun is one run of the same work.
type ScaleRun struct {
	ID         string    `json:"id"`          // Id of the run.
	Start      time.Time `json:"start"`       // Start time.
	Cores      float64   `json:"cores"`       // Allocated cores, or used ones (p95) without a request.
	CoresFrom  string    `json:"cores_from"`  // requested or used.
	Seconds    float64   `json:"seconds"`     // Wall time, seconds.
	CPUSeconds *float64  `json:"cpu_seconds"` // CPU time, seconds.
	GPUs       *float64  `json:"gpus"`        // Allocated GPUs, if runs are compared by GPUs; else null.
	GPUSeconds *float64  `json:"gpu_seconds"` // Busy time of its GPUs, seconds.
	Waited     bool      `json:"waited"`      // Its threads waited for cores for a fifth of the time or more.
	// Speed relative to one core or GPU, by the better of the two laws; null without a law.
	Speedup *float64 `json:"speedup"`
}

// Size returns the size of the run, in the unit of comparison.
func (r *ScaleRun) Size(unit string) float64 {
	if unit == "gpus" && r.GPUs != nil {
		return *r.GPUs
	}
	return r.Cores
}

// ScaleFit is a law of scaling fitted to runs, by least squares of the relative error.
type ScaleFit struct {
	Serial    float64 `json:"serial"`           // Share of the work that does not run in parallel, 0 to 1.
	Crosstalk float64 `json:"crosstalk"`        // Communication cost per pair of cores; 0 in Amdahl's law.
	OneCore   float64 `json:"one_core_seconds"` // Time that one core would take, seconds.
	Sizes     int     `json:"sizes"`            // Distinct numbers of cores behind it.
	Runs      int     `json:"runs"`             // Runs behind it.
	// Typical relative distance of a run from the law; null if there are no more sizes than
	// parameters, because the law then fits exactly.
	Error        *float64 `json:"error"`
	SerialLow    *float64 `json:"serial_low"`    // Smallest serial share over the fits that leave out one size each.
	SerialHigh   *float64 `json:"serial_high"`   // Largest of these shares.
	SpeedupLimit *float64 `json:"speedup_limit"` // Highest speed-up; null if it has no bound.
	BestCores    *float64 `json:"best_cores"`    // Cores of the highest speed-up; null if more always help a little.
}

// ScaleWeak compares runs of work that appears to grow with the cores.
type ScaleWeak struct {
	FromCores  float64 `json:"from_cores"` // The fewest cores of the runs.
	ToCores    float64 `json:"to_cores"`   // The most cores of the runs.
	CPUGrowth  float64 `json:"cpu_growth"` // CPU time with the most cores over that with the fewest.
	Efficiency float64 `json:"efficiency"` // Time with the fewest cores over that with the most.
	Sizes      int     `json:"sizes"`      // Number of different core counts.
	Runs       int     `json:"runs"`       // Number of runs.
}

// Speedup returns the ratio of the speeds on n cores and on one, by the law.
func (f *ScaleFit) Speedup(n float64) float64 {
	return n / (1 + f.Serial*(n-1) + f.Crosstalk*n*(n-1))
}
