package answer

import (
	"time"

	"reckon/analysis/footprint"
	"reckon/figure/wire"
)

// Rates returns the current emissions and cost per kilowatt-hour. They are functions, because rates may change at run
// time. A nil function or a nil rate means unknown.
type Rates struct{ Carbon, Tariff func() *footprint.Rate }

// setWorkloadCost sets the emissions and cost of a workload's energy, assuming constant power over the run. If rates vary and
// the power over time is known, detail is more accurate.
func (r *Rates) setWorkloadCost(w *wire.Workload) {
	if r == nil || w.EnergyJoules == nil {
		return
	}
	until := w.Seen
	if w.End != nil {
		until = *w.End
	}
	r.addCost(w, func(r *footprint.Rate) (float64, bool) { return r.Of(*w.EnergyJoules, w.Start, until) })
}

// setDetailCost sets the emissions and cost of a workload like [Rates.setWorkloadCost], but uses the power in each step of the
// profile.
func (r *Rates) setDetailCost(d *wire.WorkloadDetail) {
	if r == nil || d.EnergyJoules == nil || d.StepSeconds <= 0 {
		return
	}
	r.addCost(&d.Workload, func(r *footprint.Rate) (sum float64, ok bool) {
		var known, amount float64
		step := time.Duration(d.StepSeconds * float64(time.Second))
		for _, l := range d.Profile {
			if l.Metric != "power_watts" {
				continue
			}
			for _, p := range l.Points {
				if p.Value == nil {
					continue
				}
				joules := *p.Value * d.StepSeconds
				v, ok := r.Of(joules, p.Time.Add(-step), p.Time)
				if !ok {
					return 0, false
				}
				known += joules
				amount += v
			}
		}
		if known <= 0 {
			until := d.Seen
			if d.End != nil {
				until = *d.End
			}
			return r.Of(*d.EnergyJoules, d.Start, until)
		}
		return amount * *d.EnergyJoules / known, true
	})
}

func (r *Rates) addCost(w *wire.Workload, of func(*footprint.Rate) (float64, bool)) {
	if rate := r.Carbon(); rate != nil {
		if v, ok := of(rate); ok {
			w.CO2Grams = &v
		}
	}
	if rate := r.Tariff(); rate != nil {
		if v, ok := of(rate); ok {
			w.Cost, w.Currency = &v, rate.Unit
		}
	}
}

// setNodeCost fills in the hourly emissions and costs of the node at its current power.
func (r *Rates) setNodeCost(n *wire.Node, now time.Time) {
	if r == nil || n.Watts == nil {
		return
	}
	hour := *n.Watts * 3600
	if rate := r.Carbon(); rate != nil {
		if v, ok := rate.Of(hour, now, now); ok {
			n.CO2GramsPerHour = &v
		}
	}
	if rate := r.Tariff(); rate != nil {
		if v, ok := rate.Of(hour, now, now); ok {
			n.CostPerHour, n.Currency = &v, rate.Unit
		}
	}
}
