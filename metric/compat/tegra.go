package compat

import (
	"strconv"
	"strings"

	"reckon/metric"
)

// tegra exports Jetson boards like the Waggle jetson-exporter
// (https://github.com/waggle-sensor/jetson-exporter), including its spelling, percent and
// milliwatts: cores count from 1, and sensor names are lower case. It omits the moving averages of
// the GPU load; use rate() of reckon_tegra_gpu_busy_seconds_total instead.
type tegra struct {
	cache  metric.Cache
	lower  map[string]string
	number map[string]string
}

func tegraDesc(name, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: "tegra_" + name, Help: help, Kind: metric.Gauge, Labels: labels}
}

var (
	tegraUpdated = tegraDesc("last_updated_timestamp_epoch", "An epoch time of when the stats were collected from the system.")
	tegraTemp    = tegraDesc("temperature_celcius", "Temperature reading in Celcius.", "sensor")
	tegraGPU     = tegraDesc("gpu_frequency_hz", "GPU clock frequency.")

	// tegraNames maps our names to theirs, with the factor from our unit to theirs.
	tegraNames = map[string]struct {
		desc  *metric.Desc
		scale float64
	}{
		"reckon_tegra_cpu_frequency_hertz": {tegraDesc("cpu_frequency_hz", "CPU Clock frequency.", "cpu"), 1},
		"reckon_tegra_cpu_busy_ratio": {tegraDesc("cpu_util_percentage", "Utilization of CPU in percentage.", "cpu"),
			100},
		"reckon_tegra_memory_controller_frequency_hertz": {tegraDesc("emc_frequency_hz", "External memory controller clock frequency."), 1},
		"reckon_tegra_memory_controller_busy_ratio": {
			tegraDesc("emc_util_percentage", "Utilization of external memory controller in percentage."), 100},
		"reckon_tegra_gpu_frequency_hertz":      {tegraGPU, 1},
		"reckon_tegra_gpu_busy_ratio":           {tegraDesc("gpu_util_percentage", "Utilization of GPU in percentage."), 100},
		"reckon_tegra_largest_free_blocks":      {tegraDesc("lfb_nblock_count", "Count of largest free block."), 1},
		"reckon_tegra_largest_free_block_bytes": {tegraDesc("lfb_size_bytes", "Size of largest free block."), 1},
		"reckon_tegra_memory_bytes":             {tegraDesc("ram_total_bytes", "Total memory."), 1},
		"reckon_tegra_memory_used_bytes":        {tegraDesc("ram_used_bytes", "Current used memory."), 1},
		"reckon_tegra_swap_bytes":               {tegraDesc("swap_total_bytes", "Total swap memory."), 1},
		"reckon_tegra_swap_cached_bytes":        {tegraDesc("swap_cached_bytes", "Current swap cache memory."), 1},
		"reckon_tegra_swap_used_bytes":          {tegraDesc("swap_used_bytes", "Current swap used memory."), 1},
		"reckon_tegra_rail_watts": {tegraDesc("wattage_current_milliwatts", "Current Watts of the hardware.", "sensor"),
			1000},
		"reckon_tegra_rail_average_watts":  {tegraDesc("wattage_average_milliwatts", "Averaged Watts of the hardware.", "sensor"), 1000},
		"reckon_tegra_temperature_celsius": {tegraTemp, 1},
	}
	tegraForeground = tegraDesc("mts_fg_percentage", "Time spent in foreground tasks.")
	tegraBackground = tegraDesc("mts_bg_percentage", "Time spent in background tasks.")
)

// Tegra returns the view under the names of the Waggle jetson-exporter.
func Tegra(string) View {
	return &tegra{lower: make(map[string]string), number: make(map[string]string)}
}

// Name implements View.
func (*tegra) Name() string { return "tegra" }

// Descs implements View.
func (*tegra) Descs() []*metric.Desc {
	d := []*metric.Desc{tegraUpdated, tegraForeground, tegraBackground}
	for _, n := range tegraNames {
		d = append(d, n.desc)
	}
	return d
}

// Append implements View.
func (v *tegra) Append(b *metric.Batch, n int) {
	board, zones, clock := false, false, false
	for i := range b.Samples[:n] {
		name := b.Samples[i].Series.Desc.Name
		board = board || strings.HasPrefix(name, "reckon_tegra_")
		zones = zones || name == "reckon_tegra_temperature_celsius"
	}
	if !board {
		return
	}
	b.Add(v.cache.Get(tegraUpdated), float64(b.Time.Unix()))
	for i := range b.Samples[:n] {
		s, value := b.Samples[i].Series, b.Samples[i].Value
		if s.Desc.Name == "reckon_tegra_code_translation_ratio" {
			if s.Values[0] == "foreground" {
				b.Add(v.cache.Get(tegraForeground), value*100)
			} else {
				b.Add(v.cache.Get(tegraBackground), value*100)
			}
			continue
		}
		if s.Desc.Name == "node_thermal_zone_temp" && !zones { // the board is read through sysfs
			b.Add(v.cache.Get(tegraTemp, v.lowerName(strings.TrimSuffix(label(s, "type"), "-thermal"))), value)
			continue
		}
		to, ok := tegraNames[s.Desc.Name]
		switch {
		case !ok:
		case to.desc == tegraGPU: // they have one clock, the first cluster's
			if !clock {
				b.Add(v.cache.Get(tegraGPU), value)
			}
			clock = true
		case len(to.desc.Labels) == 0:
			b.Add(v.cache.Get(to.desc), value*to.scale)
		case to.desc.Labels[0] == "cpu":
			b.Add(v.cache.Get(to.desc, v.coreNumber(s.Values[0])), value*to.scale)
		default:
			b.Add(v.cache.Get(to.desc, v.lowerName(s.Values[0])), value*to.scale)
		}
	}
}

// lowerName returns a sensor name in lower case. It caches the result to avoid allocations.
func (v *tegra) lowerName(name string) string {
	l, ok := v.lower[name]
	if !ok {
		l = strings.ToLower(name)
		v.lower[name] = l
	}
	return l
}

// coreNumber returns the number of a core as text, counted from 1.
func (v *tegra) coreNumber(cpu string) string {
	c, ok := v.number[cpu]
	if !ok {
		n, _ := strconv.Atoi(cpu) // our own number
		c = strconv.Itoa(n + 1)
		v.number[cpu] = c
	}
	return c
}
