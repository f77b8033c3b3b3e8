// Package powermodel defines the small versioned file that carries a fitted power model to machines
// without a meter, and evaluates such models.
//
// A model maps a vector of features (utilisation, cycles, memory traffic, disk and network rates,
// ...) to watts of one domain of one machine, with a band, a warning if a feature is outside its
// range in training, and the watts that each feature adds as an explanation. The file format is
// described in doc/power-model-format.md. Models are made by analysis/powerfit; starting points for
// machines without any measurement are built in, see [Builtin].
//
// Units are SI base units: watts, ratios from 0 to 1, bytes per second, hertz. A figure from a
// model is never a measurement: exporters mark it method="modelled".
//
// The package is pure: no file, no socket, no clock. A [Model] is read-only after [Read] or
// [Model.Check] and then safe for concurrent use; a [Tracker] is not.
package powermodel

import "math"

// Format is the first field of every model file. Version is the newest layout that this program reads.
const (
	Format  = "reckon-power-model"
	Version = 2
)

// Model is a power model of one domain of one machine or family of machines.
type Model struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Name describes the model in a few words.
	Name string `json:"name"`
	// Domain is the domain of the watts: node, package, dram, gpu or board.
	Domain string `json:"domain"`
	// Machine is the hardware that the model applies to.
	Machine Machine `json:"machine"`
	// StepSeconds is the spacing of the lags of features, 0 when none has a lag.
	StepSeconds float64 `json:"step_seconds,omitempty"`
	// Features are the inputs, in the order of the vector given to Predict.
	Features []Feature `json:"features"`
	// Parts are summed, each times its weight.
	Parts []Part `json:"parts"`
	// Band is the spread of the residuals in validation.
	Band Band `json:"band"`
	// Training records the data that the model was made from and its errors.
	Training Training `json:"training"`
}

// Machine identifies the hardware. Empty and zero fields match anything.
type Machine struct {
	Arch    string `json:"arch,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	Product string `json:"product,omitempty"`
	Sockets int    `json:"sockets,omitempty"`
	Cores   int    `json:"cores,omitempty"`
	Threads int    `json:"threads,omitempty"`
	// Memory is the installed memory in bytes, Hertz the nominal clock.
	Memory float64 `json:"memory_bytes,omitempty"`
	Hertz  float64 `json:"clock_hertz,omitempty"`
	// Virtual is the hypervisor of the machine, empty on hardware. It is detected on the machine
	// and never stored in a file.
	Virtual string `json:"-"`
}

// Feature is one input of a model.
type Feature struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// Min and Max are the range in training.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// Source is the expression over live series that computes the feature, in the syntax of package
	// account/attribution/feature. It is empty if the name is enough. Added in version 2.
	Source string `json:"source,omitempty"`
	// Lag is the age of the value, in steps.
	Lag int `json:"lag,omitempty"`
}

// Band is the spread of measured power over predicted power. With the given coverage, the true
// power is between Low and High times the prediction.
type Band struct {
	Coverage float64 `json:"coverage"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// Points is the number of residuals that the band is based on.
	Points int `json:"points"`
}

// Training is the information that a reader needs to judge a model.
type Training struct {
	Family    string   `json:"family"`
	Source    string   `json:"source,omitempty"`
	Licence   string   `json:"licence,omitempty"`
	Protocol  string   `json:"protocol"`
	Rows      int      `json:"rows"`
	Workloads []string `json:"workloads,omitempty"`
	// Score is the model's in validation, Baseline the score of the mean power.
	Score    Score `json:"score"`
	Baseline Score `json:"baseline"`
}

// Score is the error of modelled against measured power. Ratios are 0 to 1.
type Score struct {
	Points int     `json:"points"`
	MAPE   float64 `json:"mape"`
	RMSE   float64 `json:"rmse_watts"`
	R2     float64 `json:"r2"`
	// DRE is the dynamic-range error: the RMSE over the range of measured power.
	DRE float64 `json:"dre"`
	// Worst is the MAPE of the worst fold.
	Worst float64 `json:"worst_fold_mape"`
	// Outside is the MAPE at the lowest and highest level of a calibration, each left out of its
	// fit. No other figure includes it. It is 0 if not computed.
	Outside float64 `json:"outside_mape,omitempty"`
}

// Prediction is the result of a model for one vector.
type Prediction struct {
	Watts, Low, High float64
	// Outside is the number of features outside their trained range, and Furthest the index of the
	// one furthest outside, or -1.
	Outside, Furthest int
	// Missing is the number of features that were NaN; the power is then NaN as well.
	Missing int
}

// Predict returns the power for x, which holds one value per feature of the model. If x has the
// wrong length, all features count as missing. It does not allocate.
func (m *Model) Predict(x []float64) Prediction {
	p := Prediction{Furthest: -1}
	if len(x) != len(m.Features) {
		p.Missing = max(1, len(m.Features))
	} else {
		m.countOutOfRange(x, &p)
	}
	if p.Missing > 0 {
		p.Watts, p.Low, p.High = math.NaN(), math.NaN(), math.NaN()
		return p
	}
	w := 0.0
	for i := range m.Parts {
		w += m.Parts[i].Weight * m.Parts[i].evaluate(x)
	}
	p.Watts = max(0, w)
	p.Low, p.High = p.Watts*m.Band.Low, p.Watts*m.Band.High
	if m.Band.Coverage == 0 {
		p.Low, p.High = math.NaN(), math.NaN()
	}
	return p
}

// countOutOfRange counts in p the features of x that are missing or outside of their training range. It tolerates a
// hundredth of the range for rounding.
func (m *Model) countOutOfRange(x []float64, p *Prediction) {
	furthest := 0.0
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			p.Missing++
			continue
		}
		f := &m.Features[i]
		span := f.Max - f.Min
		if span <= 0 {
			span = max(math.Abs(f.Max), math.SmallestNonzeroFloat64)
		}
		d := max(f.Min-v, v-f.Max) / span
		if d <= 0.01 {
			continue
		}
		p.Outside++
		if d > furthest {
			furthest, p.Furthest = d, i
		}
	}
}

// Explain sets watts to the power that each feature adds and returns the base power without any
// feature. watts must be as long as m.Features. The sum of base and watts is the prediction, unless
// that was raised to zero. It does not allocate.
func (m *Model) Explain(x, watts []float64) (base float64) {
	clear(watts)
	if len(x) != len(m.Features) || len(watts) != len(x) {
		return math.NaN()
	}
	for i := range m.Parts {
		base += m.Parts[i].explain(x, watts, m.Parts[i].Weight)
	}
	return base
}
