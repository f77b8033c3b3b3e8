package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/client"
)

func TestFootprint(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "grid.csv")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("time,g_per_kWh\n2026-11-21 12:00,100\n2026-11-21 13:00,300\n")
	f, err := OpenFootprint(file, "0.5 EUR", nil)
	if err != nil {
		t.Fatal(err)
	}
	joules, end := 7.2e6, noon.Add(2*time.Hour) // 2 kWh
	w := client.Workload{Start: noon, End: &end, EnergyJoules: &joules}
	f.workload(&w)
	if w.CO2Grams == nil || *w.CO2Grams != 400 || w.Cost == nil || *w.Cost != 1 || w.Currency != "EUR" {
		t.Errorf("%v g, %v %s; want 400 g, 1 EUR", w.CO2Grams, w.Cost, w.Currency)
	}
	// All of it was drawn in the second hour, as the profile says.
	zero, all := 0.0, 2000.0
	d := client.WorkloadDetail{Workload: w, StepSeconds: 3600, Profile: []client.Profile{
		{Metric: "power_gpu_watts", Points: []client.Point{{Time: noon.Add(time.Hour), Value: &all}}}, // part of the next
		{Metric: "power_watts", Points: []client.Point{{Time: noon.Add(time.Hour), Value: &zero}, {Time: end, Value: &all}}},
	}}
	f.detail(&d)
	if *d.CO2Grams != 600 || *d.Cost != 1 {
		t.Errorf("by power over time: %v g, %v EUR; want 600 g, 1 EUR", *d.CO2Grams, *d.Cost)
	}
	watts := 1000.0
	n := client.Node{Watts: &watts}
	if f.node(&n, noon.Add(3*time.Hour)); *n.CO2GramsPerHour != 300 || *n.CostPerHour != 0.5 || n.Currency != "EUR" {
		t.Errorf("%+v", n)
	}
	// What was before the file, and what has no energy, is unknown.
	early := client.Workload{Start: noon.Add(-time.Hour), End: &end, EnergyJoules: &joules}
	f.workload(&early)
	none := client.Workload{Start: noon, End: &end}
	f.workload(&none)
	if early.CO2Grams != nil || none.CO2Grams != nil || none.Cost != nil {
		t.Errorf("%v, %v, %v; want nothing", early.CO2Grams, none.CO2Grams, none.Cost)
	}
	// The file changes; then it breaks, and the values before hold on.
	again := func(text string, at time.Time) {
		write(text)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		f.carbon.looked = time.Time{}
	}
	again("time,g_per_kWh\n2026-11-21 12:00,50\n", noon)
	if f.workload(&w); *w.CO2Grams != 100 {
		t.Errorf("after a change: %v g, want 100", *w.CO2Grams)
	}
	again("nonsense", noon.Add(time.Hour))
	if f.workload(&w); *w.CO2Grams != 100 {
		t.Errorf("after a broken change: %v g, want 100", *w.CO2Grams)
	}
	(*Footprint)(nil).workload(&w)

	for want, c := range map[string][2]string{
		"--grid-intensity: \"coal\" is neither": {"coal", ""},
		"--tariff: \"0.3\" has no unit":         {"", "0.3"},
		"--tariff: ":                            {"", file},
	} {
		if _, err := OpenFootprint(c[0], c[1], nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
}
