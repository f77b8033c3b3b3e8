package compat

import (
	"math"
	"testing"
	"time"

	"reckon/metric"
)

// TestTegra uses the figures of a line in the exporter's own tests (Jetson Xavier NX, L4T 32.4):
// GR3D_FREQ 0%@1109, EMC_FREQ 2%@1600, CPU 47%@1420, MTS fg 1% bg 9%, VDD_IN 6140/5510, AO@29C.
func TestTegra(t *testing.T) {
	var b metric.Batch
	b.Reset(time.Unix(1700000000, 0))
	add := func(name string, v float64, labels ...string) {
		d := &metric.Desc{Name: name, Kind: metric.Gauge}
		var values []string
		for i := 0; i < len(labels); i += 2 {
			d.Labels, values = append(d.Labels, labels[i]), append(values, labels[i+1])
		}
		b.Add(metric.NewSeries(d, values...), v)
	}
	add("reckon_tegra_cpu_busy_ratio", .47, "cpu", "0")
	add("reckon_tegra_cpu_frequency_hertz", 1420e6, "cpu", "0")
	add("reckon_tegra_gpu_busy_ratio", 0)
	add("reckon_tegra_gpu_frequency_hertz", 1109e6, "cluster", "0")
	add("reckon_tegra_gpu_frequency_hertz", 1000e6, "cluster", "1")
	add("reckon_tegra_memory_controller_busy_ratio", .02)
	add("reckon_tegra_code_translation_ratio", .01, "ground", "foreground")
	add("reckon_tegra_code_translation_ratio", .09, "ground", "background")
	add("reckon_tegra_rail_watts", 6.14, "rail", "VDD_IN")
	add("reckon_tegra_rail_average_watts", 5.51, "rail", "VDD_IN")
	add("reckon_tegra_temperature_celsius", 29, "zone", "AO")
	add("node_thermal_zone_temp", 77, "zone", "0", "type", "CPU-therm")
	n := len(b.Samples)
	v := Tegra("n1")
	v.Append(&b, n)
	want := map[string]float64{
		"tegra_last_updated_timestamp_epoch ": 1700000000, "tegra_cpu_util_percentage 1": 47, "tegra_cpu_frequency_hz 1": 1420e6,
		"tegra_gpu_util_percentage ": 0, "tegra_gpu_frequency_hz ": 1109e6, "tegra_emc_util_percentage ": 2,
		"tegra_mts_fg_percentage ": 1, "tegra_mts_bg_percentage ": 9, "tegra_wattage_current_milliwatts vdd_in": 6140,
		"tegra_wattage_average_milliwatts vdd_in": 5510, "tegra_temperature_celcius ao": 29,
	}
	if len(b.Samples)-n != len(want) {
		t.Errorf("%d samples, want %d", len(b.Samples)-n, len(want))
	}
	for _, s := range b.Samples[n:] {
		key := s.Series.Desc.Name + " "
		if len(s.Series.Values) > 0 {
			key += s.Series.Values[0]
		}
		if w, ok := want[key]; !ok || math.Abs(w-s.Value) > 1e-6 {
			t.Errorf("%q is %v, want %v (%v)", key, s.Value, w, ok)
		}
	}
	if a := testing.AllocsPerRun(20, func() { b.Samples = b.Samples[:n]; v.Append(&b, n) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
	b.Reset(b.Time)
	add("node_thermal_zone_temp", 77, "zone", "0", "type", "x86_pkg_temp")
	v.Append(&b, 1)
	if len(b.Samples) != 1 {
		t.Error("a machine that is no Tegra has the view")
	}
}
