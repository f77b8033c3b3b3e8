package sensortest

import (
	"testing"

	"reckon/metric"
)

func TestLint(t *testing.T) {
	good := metric.Desc{Name: "reckon_zone_energy_joules_total", Help: "Energy used by the zone since boot.", Kind: metric.Counter, Unit: metric.Joules, Labels: []string{"zone"}}
	if p := Lint(&good, false); len(p) != 0 {
		t.Errorf("a good description: %v", p)
	}
	for name, spoil := range map[string]func(*metric.Desc){
		"counter without total": func(d *metric.Desc) { d.Name = "reckon_zone_energy_joules" },
		"gauge with total":      func(d *metric.Desc) { d.Kind = metric.Gauge },
		"unit not in name":      func(d *metric.Desc) { d.Name = "reckon_zone_energy_total" },
		"unit not described":    func(d *metric.Desc) { d.Unit = metric.None },
		"not a base unit":       func(d *metric.Desc) { d.Name, d.Unit = "reckon_zone_energy_millijoules_total", metric.None },
		"camel case":            func(d *metric.Desc) { d.Name = "reckon_zoneEnergy_joules_total" },
		"type in the name":      func(d *metric.Desc) { d.Name = "reckon_counter_energy_joules_total" },
		"no help":               func(d *metric.Desc) { d.Help = "" },
		"help not a sentence":   func(d *metric.Desc) { d.Help = "energy of the zone" },
		"help of two lines":     func(d *metric.Desc) { d.Help = "Energy of\nthe zone." },
		"label twice":           func(d *metric.Desc) { d.Labels = []string{"a", "a"} },
		"label not valid":       func(d *metric.Desc) { d.Labels = []string{"a-b"} },
		"label reserved":        func(d *metric.Desc) { d.Labels = []string{"node"} },
		"no kind":               func(d *metric.Desc) { d.Kind = 0 },
	} {
		bad := good
		spoil(&bad)
		if p := Lint(&bad, false); len(p) == 0 {
			t.Errorf("%s: nothing found in %+v", name, bad)
		}
	}
	foreign := metric.Desc{Name: "node_memory_MemTotal_bytes", Help: "Memory information field MemTotal_bytes.", Kind: metric.Gauge, Unit: metric.Bytes}
	if p := Lint(&foreign, true); len(p) != 0 {
		t.Errorf("a foreign name: %v", p)
	}
	foreign.Name = "node memory"
	if p := Lint(&foreign, true); len(p) == 0 {
		t.Error("an invalid foreign name: nothing found")
	}
}
