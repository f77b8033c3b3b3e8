package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"reckon/analysis/footprint"
	"reckon/client"
)

// Footprint says what a kilowatt-hour emits and costs here. It is safe for concurrent
// use, and a nil one knows nothing.
type Footprint struct{ carbon, tariff *rate }

// rate is a constant, or a file that is read again when it has changed.
type rate struct {
	path, unit string
	log        *slog.Logger

	mu      sync.Mutex
	value   *footprint.Rate
	changed time.Time // of the file
	looked  time.Time
}

// OpenFootprint takes what --grid-intensity and --tariff say: a number with a unit, or
// a file of values over time. Empty is unknown.
func OpenFootprint(grid, tariff string, log *slog.Logger) (*Footprint, error) {
	f := new(Footprint)
	var err error
	if f.carbon, err = openRate(grid, "g", log); err != nil {
		return nil, fmt.Errorf("--grid-intensity: %w", err)
	}
	if f.tariff, err = openRate(tariff, "", log); err != nil {
		return nil, fmt.Errorf("--tariff: %w", err)
	}
	return f, nil
}

func openRate(text, unit string, log *slog.Logger) (*rate, error) {
	if text == "" {
		return nil, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &rate{path: text, unit: unit, log: log}
	_, err := os.Stat(text)
	switch {
	case err == nil:
		return r, r.read()
	case strings.ContainsAny(text[:1], "0123456789."):
		r.path = ""
		r.value, err = footprint.ParseConstant(text, unit)
		return r, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%q is neither a number nor a file; give such as 385 g/kWh, 0.28 EUR, or a CSV file of time,value", text)
	}
	return nil, err
}

func (r *rate) read() error {
	f, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	v, err := footprint.ReadSteps(f, r.unit)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	r.value, r.changed, r.looked = v, info.ModTime(), time.Now()
	return nil
}

// now returns the rate as the file has it, looked at once a minute.
func (r *rate) now() *footprint.Rate {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path != "" && time.Since(r.looked) > time.Minute {
		r.looked = time.Now()
		if info, err := os.Stat(r.path); err == nil && !info.ModTime().Equal(r.changed) {
			if err := r.read(); err != nil {
				r.changed = info.ModTime() // said once for each change
				r.log.Warn("rates are not read again; the ones before hold on", "err", err)
			}
		}
	}
	return r.value
}

// workload fills in what the energy of a workload emitted and cost, as if it had been
// drawn evenly over its life. Where rates change and its power over time is known,
// detail is nearer.
func (f *Footprint) workload(w *client.Workload) {
	if f == nil || w.EnergyJoules == nil {
		return
	}
	until := w.Seen
	if w.End != nil {
		until = *w.End
	}
	of := func(r *footprint.Rate) (float64, bool) { return r.Of(*w.EnergyJoules, w.Start, until) }
	f.fill(w, of)
}

// detail is workload by the power in each step of the profile.
func (f *Footprint) detail(d *client.WorkloadDetail) {
	if f == nil || d.EnergyJoules == nil || d.StepSeconds <= 0 {
		return
	}
	f.fill(&d.Workload, func(r *footprint.Rate) (sum float64, ok bool) {
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

func (f *Footprint) fill(w *client.Workload, of func(*footprint.Rate) (float64, bool)) {
	if r := f.carbon.now(); r != nil {
		if v, ok := of(r); ok {
			w.CO2Grams = &v
		}
	}
	if r := f.tariff.now(); r != nil {
		if v, ok := of(r); ok {
			w.Cost, w.Currency = &v, r.Unit
		}
	}
}

// node fills in what the node emits and costs in an hour at the power it draws now.
func (f *Footprint) node(n *client.Node, now time.Time) {
	if f == nil || n.Watts == nil {
		return
	}
	hour := *n.Watts * 3600
	if r := f.carbon.now(); r != nil {
		if v, ok := r.Of(hour, now, now); ok {
			n.CO2GramsPerHour = &v
		}
	}
	if r := f.tariff.now(); r != nil {
		if v, ok := r.Of(hour, now, now); ok {
			n.CostPerHour, n.Currency = &v, r.Unit
		}
	}
}
