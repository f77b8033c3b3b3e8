package client

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// Scale is the answer of GET /api/reckon/v1/scale/{id}.
type Scale struct {
	Workload
	// Resources are what it used of what it held: cores, memory, gpus, gpu_memory, disk
	// and network, as far as they were measured.
	Resources []ScaleResource `json:"resources"`
	// StepSeconds is over how long each figure behind the p50 and p95 of resources other
	// than cores is a mean; those of cores are over seconds.
	StepSeconds float64 `json:"step_seconds"`
	// Runs are those of the same work that are compared, this one among them where it
	// fits, by cores and start; LeftOut is how many others did not end well, are too short
	// to compare, or got fewer cores than they wanted where nobody asked for any. Waited is
	// how many of the runs had to wait for cores.
	Runs    []ScaleRun `json:"runs"`
	LeftOut int        `json:"left_out"`
	Waited  int        `json:"waited"`
	// SizeUnit is what runs are compared by: cores, or gpus of work that was given GPUs.
	SizeUnit string `json:"size_unit"`
	// Amdahl and USL are null where no law is claimed; the verdicts say why.
	Amdahl *ScaleFit `json:"amdahl"`
	USL    *ScaleFit `json:"usl"`
	// Weak is what the runs show where their CPU time grows in step with their cores, which
	// is weak scaling if the work did so too; no law is fitted then. Null where it does not.
	Weak *ScaleWeak `json:"weak"`
	// Verdicts say in words what follows, the gravest first.
	Verdicts []Verdict `json:"verdicts"`
	// Missing names what could not be asked, when the answer is partial.
	Missing []string `json:"missing,omitempty"`
}

// ScaleResource is what a workload used of one resource.
type ScaleResource struct {
	Resource string   `json:"resource"` // cores, memory, gpus, gpu_memory, disk or network
	Unit     string   `json:"unit"`
	Held     *float64 `json:"held"`
	Mean     *float64 `json:"mean"`
	P50      *float64 `json:"p50"`
	P95      *float64 `json:"p95"`
	Max      *float64 `json:"max"`
}

// ScaleRun is one run of the same work.
type ScaleRun struct {
	ID         string    `json:"id"`
	Start      time.Time `json:"start"`
	Cores      float64   `json:"cores"`      // that it held, or used where nobody asked for any
	CoresFrom  string    `json:"cores_from"` // requested or used
	Seconds    float64   `json:"seconds"`
	CPUSeconds *float64  `json:"cpu_seconds"`
	GPUs       *float64  `json:"gpus"` // that it was given, where runs are compared by GPUs
	GPUSeconds *float64  `json:"gpu_seconds"`
	Waited     bool      `json:"waited"` // its threads waited for cores for a fifth of the time or more
	// Speedup is over one core or GPU as the better of the two laws has it; null without a
	// law that is claimed.
	Speedup *float64 `json:"speedup"`
}

// Size is how large the run was, in the unit by which runs are compared.
func (r *ScaleRun) Size(unit string) float64 {
	if unit == "gpus" && r.GPUs != nil {
		return *r.GPUs
	}
	return r.Cores
}

// ScaleFit is a law fitted to the runs.
type ScaleFit struct {
	Serial    float64 `json:"serial"`    // share of the work that does not run in parallel
	Crosstalk float64 `json:"crosstalk"` // cost of communication for each pair of cores; 0 in Amdahl's law
	OneCore   float64 `json:"one_core_seconds"`
	Sizes     int     `json:"sizes"`
	Runs      int     `json:"runs"`
	// Error is the typical relative distance of a run from the law; null when there are no
	// more sizes than parameters, so that the law passes through whatever they are.
	Error *float64 `json:"error"`
	// SerialLow and SerialHigh bound the serial share over the fits that leave out one
	// size each.
	SerialLow  *float64 `json:"serial_low"`
	SerialHigh *float64 `json:"serial_high"`
	// SpeedupLimit is the highest speed-up by this law, null where it has no bound, and
	// BestCores the number of cores that gives it, null where more always help a little.
	SpeedupLimit *float64 `json:"speedup_limit"`
	BestCores    *float64 `json:"best_cores"`
}

// ScaleWeak compares runs of work that seems to grow with the cores.
type ScaleWeak struct {
	FromCores float64 `json:"from_cores"` // the fewest
	ToCores   float64 `json:"to_cores"`   // the most
	CPUGrowth float64 `json:"cpu_growth"` // CPU time with the most cores over that with the fewest
	// Efficiency is the time with the fewest cores over that with the most.
	Efficiency float64 `json:"efficiency"`
	Sizes      int     `json:"sizes"`
	Runs       int     `json:"runs"`
}

// Speedup is how many times faster than one core n cores are by the law.
func (f *ScaleFit) Speedup(n float64) float64 {
	return n / (1 + f.Serial*(n-1) + f.Crosstalk*n*(n-1))
}

// Scale asks how a workload scales; of an id given more than once the one that Start and
// Site of the range name, or the latest.
func (c *Client) Scale(ctx context.Context, id string, r Range) (Scale, error) {
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	var s Scale
	err := c.get(ctx, "/api/reckon/v1/scale/"+strings.Join(words, "/"), Range{Start: r.Start, Site: r.Site}.Query(), &s)
	return s, err
}
