package client

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// Scale is the response of GET /api/reckon/v1/scale/{id}.
type Scale struct {
	Workload
	// Resources are the use of the allocation: cores, memory, gpus, gpu_memory, disk
	// and network, as far as measured.
	Resources []ScaleResource `json:"resources"`
	// StepSeconds is the averaging time of the figures behind the p50 and p95 of resources other
	// than cores; those of cores are averaged over seconds.
	StepSeconds float64 `json:"step_seconds"`
	// Runs are the compared runs of the same work, including this one if it
	// qualifies, by cores and start; LeftOut is the number of others that failed, are too short
	// to compare, or got fewer cores than they wanted without a request. Waited is
	// the number of runs that waited for cores.
	Runs    []ScaleRun `json:"runs"`
	LeftOut int        `json:"left_out"`
	Waited  int        `json:"waited"`
	// SizeUnit is the unit of comparison: cores, or gpus for work with GPUs.
	SizeUnit string `json:"size_unit"`
	// Amdahl and USL are null if no law is claimed; the verdicts explain why.
	Amdahl *ScaleFit `json:"amdahl"`
	USL    *ScaleFit `json:"usl"`
	// Weak is set if the CPU time of the runs grows in proportion to their cores, which
	// is weak scaling if the work did so too; no law is fitted then.
	Weak *ScaleWeak `json:"weak"`
	// Verdicts are the conclusions as sentences, the most severe first.
	Verdicts []Verdict `json:"verdicts"`
	// Missing names the unavailable parts of a partial answer.
	Missing []string `json:"missing,omitempty"`
}

// ScaleResource is the use of one resource by a workload.
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
	Cores      float64   `json:"cores"`      // allocated, or used if there was no request
	CoresFrom  string    `json:"cores_from"` // requested or used
	Seconds    float64   `json:"seconds"`
	CPUSeconds *float64  `json:"cpu_seconds"`
	GPUs       *float64  `json:"gpus"` // allocated, if runs are compared by GPUs
	GPUSeconds *float64  `json:"gpu_seconds"`
	Waited     bool      `json:"waited"` // its threads waited for cores for a fifth of the time or more
	// Speedup is relative to one core or GPU, by the better of the two laws; null if no
	// law is claimed.
	Speedup *float64 `json:"speedup"`
}

// Size returns the size of the run, in the unit of comparison.
func (r *ScaleRun) Size(unit string) float64 {
	if unit == "gpus" && r.GPUs != nil {
		return *r.GPUs
	}
	return r.Cores
}

// ScaleFit is a law fitted to the runs.
type ScaleFit struct {
	Serial    float64 `json:"serial"`    // share of the work that does not run in parallel
	Crosstalk float64 `json:"crosstalk"` // communication cost per pair of cores; 0 in Amdahl's law
	OneCore   float64 `json:"one_core_seconds"`
	Sizes     int     `json:"sizes"`
	Runs      int     `json:"runs"`
	// Error is the typical relative distance of a run from the law; null if there are no
	// more sizes than parameters, so that the law fits exactly whatever they are.
	Error *float64 `json:"error"`
	// SerialLow and SerialHigh bound the serial fraction over the fits that leave out one
	// size each.
	SerialLow  *float64 `json:"serial_low"`
	SerialHigh *float64 `json:"serial_high"`
	// SpeedupLimit is the highest speed-up by this law, null if unbounded, and
	// BestCores the number of cores that gives it, null if more cores always help.
	SpeedupLimit *float64 `json:"speedup_limit"`
	BestCores    *float64 `json:"best_cores"`
}

// ScaleWeak compares runs of work that appears to grow with the cores.
type ScaleWeak struct {
	FromCores float64 `json:"from_cores"` // the fewest
	ToCores   float64 `json:"to_cores"`   // the most
	CPUGrowth float64 `json:"cpu_growth"` // CPU time with the most cores over that with the fewest
	// Efficiency is the time with the fewest cores over that with the most.
	Efficiency float64 `json:"efficiency"`
	Sizes      int     `json:"sizes"`
	Runs       int     `json:"runs"`
}

// Speedup returns how many times faster n cores are than one by the law.
func (f *ScaleFit) Speedup(n float64) float64 {
	return n / (1 + f.Serial*(n-1) + f.Crosstalk*n*(n-1))
}

// Scale returns how a workload scales; for a reused id, the run that Start and
// Site of the range select, or the latest.
func (c *Client) Scale(ctx context.Context, id string, r Range) (Scale, error) {
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	var s Scale
	err := c.get(ctx, "/api/reckon/v1/scale/"+strings.Join(words, "/"), Range{Start: r.Start, Site: r.Site}.Query(), &s)
	return s, err
}
