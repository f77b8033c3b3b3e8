package tegra

import (
	"strconv"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/tegra/tegrastats"
)

func gauge(name string, unit metric.Unit, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Unit: unit, Labels: labels}
}

var (
	gpuSeconds = &metric.Desc{Name: "reckon_tegra_gpu_busy_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help: "Time that the GPU of a Tegra was busy: its load, integrated."}
	gpuBusy  = gauge("reckon_tegra_gpu_busy_ratio", metric.Ratio, "Share of time that the GPU of a Tegra is busy, as of the last reading.")
	gpuHertz = gauge("reckon_tegra_gpu_frequency_hertz", metric.Hertz, "Clock of a cluster of the GPU of a Tegra.", "cluster")
	memBusy  = gauge("reckon_tegra_memory_controller_busy_ratio", metric.Ratio,
		"Share of the bandwidth of the memory controller (EMC) in use.")
	memHertz = gauge("reckon_tegra_memory_controller_frequency_hertz", metric.Hertz, "Clock of the memory controller (EMC).")
	engineUp = gauge("reckon_tegra_engine_up", metric.None, "Whether an engine (encoder, decoder, accelerator) of a Tegra has a clock.",
		"engine")
	engineHertz = gauge("reckon_tegra_engine_frequency_hertz", metric.Hertz, "Clock of an engine of a Tegra that is on.", "engine")
	engineBusy  = gauge("reckon_tegra_engine_busy_ratio", metric.Ratio, "Share of time that an engine of a Tegra is busy.", "engine")
	celsius     = gauge("reckon_tegra_temperature_celsius", metric.Celsius,
		"Temperature of a zone as reported by tegrastats; a zone that is off is absent.", "zone")
	cpuBusy = gauge("reckon_tegra_cpu_busy_ratio", metric.Ratio,
		"Share of time that a core is busy, as reported by tegrastats; a core that is off is absent.", "cpu")
	cpuHertz   = gauge("reckon_tegra_cpu_frequency_hertz", metric.Hertz, "Clock of a core, as reported by tegrastats.", "cpu")
	ramUsed    = gauge("reckon_tegra_memory_used_bytes", metric.Bytes, "Memory in use, shared by CPU and GPU, as reported by tegrastats.")
	ramTotal   = gauge("reckon_tegra_memory_bytes", metric.Bytes, "Memory of the board, as reported by tegrastats.")
	swapUsed   = gauge("reckon_tegra_swap_used_bytes", metric.Bytes, "Swap space in use, as reported by tegrastats.")
	swapTotal  = gauge("reckon_tegra_swap_bytes", metric.Bytes, "Swap space, as reported by tegrastats.")
	swapCached = gauge("reckon_tegra_swap_cached_bytes", metric.Bytes,
		"Swap space whose content is in memory as well, as reported by tegrastats.")
	freeBlocks       = gauge("reckon_tegra_largest_free_blocks", metric.None, "Number of the largest free blocks of memory.")
	freeBytes        = gauge("reckon_tegra_largest_free_block_bytes", metric.Bytes, "Size of each of the largest free blocks of memory.")
	translationRatio = gauge("reckon_tegra_code_translation_ratio", metric.Ratio,
		"Share of time in the translation of code (MTS) of Denver and Carmel cores.", "ground")
	railWatts = gauge("reckon_tegra_rail_watts", metric.Watts,
		"Power of a supply rail now; a rail that holds others is not to be added to them.", "rail")
	railAverage = gauge("reckon_tegra_rail_average_watts", metric.Watts,
		"Power of a supply rail on the average since tegrastats was started.", "rail")
	fanRatio  = gauge("reckon_tegra_fan_ratio", metric.Ratio, "Drive of a fan, 1 is full.", "fan")
	powerMode = gauge("reckon_tegra_power_mode_info", metric.None, "The power mode that nvpmodel has set.", "mode", "name")
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc {
	return append(append(sensor.MeterDescs(), sensor.GPUDescs()...), gpuSeconds, gpuBusy, gpuHertz, memBusy, memHertz, engineUp,
		engineHertz, engineBusy, celsius,
		cpuBusy, cpuHertz, ramUsed, ramTotal, swapUsed, swapTotal, swapCached, freeBlocks, freeBytes, translationRatio,
		railWatts, railAverage, fanRatio, powerMode)
}

// numberLabels are label values for cores and clusters, made once.
var numberLabels = func() (n [256]string) {
	for i := range n {
		n[i] = strconv.Itoa(i)
	}
	return n
}()

// output writes samples and keeps their series.
type output struct {
	cache    metric.Cache
	meters   sensor.MeterSeries
	mode     *metric.Series
	modeText string
}

func (o *output) seriesOf(d *metric.Desc, values ...string) *metric.Series {
	return o.cache.Get(d, values...)
}

func (o *output) addValue(b *metric.Batch, v tegrastats.Value, d *metric.Desc, labels ...string) {
	if v.OK {
		b.Add(o.cache.Get(d, labels...), v.V)
	}
}

// appendStats writes everything in s except the meters.
func (o *output) appendStats(b *metric.Batch, s *tegrastats.Stats) {
	o.addValue(b, s.GPU.Busy, gpuBusy)
	switch {
	case len(s.Clusters) > 0:
		for i, hz := range s.Clusters[:min(len(s.Clusters), len(numberLabels))] {
			b.Add(o.seriesOf(gpuHertz, numberLabels[i]), hz)
		}
	default:
		o.addValue(b, s.GPU.Hertz, gpuHertz, numberLabels[0])
	}
	o.addValue(b, s.Memory.Busy, memBusy)
	o.addValue(b, s.Memory.Hertz, memHertz)
	for i := range s.Engines {
		o.addEngine(b, s.Engines, i)
	}
	for i, t := range s.Temperatures {
		if !hasZone(s.Temperatures[:i], t.Name) {
			b.Add(o.seriesOf(celsius, t.Name), t.Celsius)
		}
	}
	for i, c := range s.CPUs[:min(len(s.CPUs), len(numberLabels))] {
		if c.Online {
			o.addValue(b, c.Busy, cpuBusy, numberLabels[i])
			o.addValue(b, c.Hertz, cpuHertz, numberLabels[i])
		}
	}
	o.addValue(b, s.RAMUsed, ramUsed)
	o.addValue(b, s.RAMTotal, ramTotal)
	o.addValue(b, s.SwapUsed, swapUsed)
	o.addValue(b, s.SwapTotal, swapTotal)
	o.addValue(b, s.SwapCached, swapCached)
	o.addValue(b, s.FreeBlocks, freeBlocks)
	o.addValue(b, s.FreeBlockSize, freeBytes)
	o.addValue(b, s.Foreground, translationRatio, "foreground")
	o.addValue(b, s.Background, translationRatio, "background")
	for i := range s.Rails {
		if w := s.Rails[i].Watts; w >= -sensor.MaxWatts && w <= sensor.MaxWatts {
			b.Add(o.seriesOf(railWatts, s.Rails[i].Name), w)
		}
		o.addValue(b, s.Rails[i].Average, railAverage, s.Rails[i].Name)
	}
}

// addEngine writes the i-th engine, unless an earlier one has the same name.
func (o *output) addEngine(b *metric.Batch, all []tegrastats.Engine, i int) {
	e := &all[i]
	for k := range all[:i] {
		if all[k].Name == e.Name {
			return
		}
	}
	up := 1.0
	if e.Off {
		up = 0
	}
	b.Add(o.seriesOf(engineUp, e.Name), up)
	o.addValue(b, e.Hertz, engineHertz, e.Name)
	o.addValue(b, e.Busy, engineBusy, e.Name)
}

func hasZone(zones []tegrastats.Temperature, name string) bool {
	for i := range zones {
		if zones[i].Name == name {
			return true
		}
	}
	return false
}
