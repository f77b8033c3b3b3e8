package answer

import (
	"strings"
	"testing"
	"time"

	"reckon/analysis/footprint"
	"reckon/figure"
	"reckon/figure/wire"
)

func TestFootprint(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	grid, err := footprint.ReadSteps(strings.NewReader("time,g_per_kWh\n2026-11-21 12:00,100\n2026-11-21 13:00,300\n"), "g")
	if err != nil {
		t.Fatal(err)
	}
	tariff, err := footprint.ParseConstant("0.5 EUR", "")
	if err != nil {
		t.Fatal(err)
	}
	r := &Rates{Carbon: func() *footprint.Rate { return grid }, Tariff: func() *footprint.Rate { return tariff }}
	joules, end := 7.2e6, noon.Add(2*time.Hour) // 2 kWh
	w := wire.Workload{Start: noon, End: &end, Row: figure.Row{EnergyJoules: &joules}}
	r.setWorkloadCost(&w)
	if w.CO2Grams == nil || *w.CO2Grams != 400 || w.Cost == nil || *w.Cost != 1 || w.Currency != "EUR" {
		t.Errorf("%v g, %v %s; want 400 g, 1 EUR", w.CO2Grams, w.Cost, w.Currency)
	}
	// The profile shows that all of it was drawn in the second hour.
	zero, all := 0.0, 2000.0
	d := wire.WorkloadDetail{Workload: w, StepSeconds: 3600, Profile: []wire.Profile{
		{Metric: "power_gpu_watts", Points: []wire.Point{{Time: noon.Add(time.Hour), Value: &all}}}, // a share of the next
		{Metric: "power_watts", Points: []wire.Point{{Time: noon.Add(time.Hour), Value: &zero}, {Time: end, Value: &all}}},
	}}
	r.setDetailCost(&d)
	if *d.CO2Grams != 600 || *d.Cost != 1 {
		t.Errorf("by power over time: %v g, %v EUR; want 600 g, 1 EUR", *d.CO2Grams, *d.Cost)
	}
	watts := 1000.0
	n := wire.Node{Watts: &watts}
	if r.setNodeCost(&n, noon.Add(3*time.Hour)); *n.CO2GramsPerHour != 300 || *n.CostPerHour != 0.5 || n.Currency != "EUR" {
		t.Errorf("%+v", n)
	}
	// Time before the rates, and runs without energy, are unknown.
	early := wire.Workload{Start: noon.Add(-time.Hour), End: &end, Row: figure.Row{EnergyJoules: &joules}}
	r.setWorkloadCost(&early)
	none := wire.Workload{Start: noon, End: &end}
	r.setWorkloadCost(&none)
	if early.CO2Grams != nil || none.CO2Grams != nil || none.Cost != nil {
		t.Errorf("%v, %v, %v; want nothing", early.CO2Grams, none.CO2Grams, none.Cost)
	}
	(*Rates)(nil).setWorkloadCost(&w)
	unknown := &Rates{Carbon: func() *footprint.Rate { return nil }, Tariff: func() *footprint.Rate { return nil }}
	w.CO2Grams, w.Cost = nil, nil
	if unknown.setWorkloadCost(&w); w.CO2Grams != nil || w.Cost != nil {
		t.Errorf("%v, %v of rates that nobody knows", w.CO2Grams, w.Cost)
	}
}
