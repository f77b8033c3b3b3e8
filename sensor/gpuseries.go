package sensor

import (
	"strconv"

	"reckon/metric"
)

// gpu describes a series of a device.
func gpu(name string, kind metric.Kind, unit metric.Unit, help string, extra ...string) *metric.Desc {
	return &metric.Desc{Name: name, Kind: kind, Unit: unit, Help: help,
		Labels: append([]string{"vendor", "device", "index"}, extra...)}
}

// The series of devices that every sensor of GPUs shares.
var (
	gpuInfo = &metric.Desc{
		Name: "reckon_gpu_info", Kind: metric.Gauge,
		Help:   "A graphics processor or accelerator, or a partition of one, whose parent is then set; the value is always 1.",
		Labels: []string{"vendor", "device", "index", "model", "driver", "parent"},
	}
	gpuBusy        = gpu("reckon_gpu_busy_seconds_total", metric.Counter, metric.Seconds, "Time in which the device computed, since the agent began; divide an increase by the time for its utilisation.")
	gpuEngine      = gpu("reckon_gpu_engine_busy_seconds_total", metric.Counter, metric.Seconds, "Time in which one engine of the device was busy, since the agent began: memory is its memory interface.", "engine")
	gpuMemory      = gpu("reckon_gpu_memory_bytes", metric.Gauge, metric.Bytes, "Memory of the device in use.")
	gpuMemorySize  = gpu("reckon_gpu_memory_size_bytes", metric.Gauge, metric.Bytes, "Memory that the device has.")
	gpuEnergy      = gpu("reckon_gpu_energy_joules_total", metric.Counter, metric.Joules, "Energy of the device since the agent began: by its own counter, else power integrated at every internal tick.")
	gpuPower       = gpu("reckon_gpu_power_watts", metric.Gauge, metric.Watts, "Power that the device draws now.")
	gpuPowerLimit  = gpu("reckon_gpu_power_limit_watts", metric.Gauge, metric.Watts, "Power that the device may draw.")
	gpuClock       = gpu("reckon_gpu_clock_hertz", metric.Gauge, metric.Hertz, "Frequency of a clock of the device.", "clock")
	gpuTemperature = gpu("reckon_gpu_temperature_celsius", metric.Gauge, metric.Celsius, "Temperature of the device, by place.", "place")
	gpuFan         = gpu("reckon_gpu_fan_ratio", metric.Gauge, metric.Ratio, "Speed of the fan as a share of its highest.")
	gpuThrottled   = gpu("reckon_gpu_throttled_seconds_total", metric.Counter, metric.Seconds, "Time in which something held the clocks of the device down, since the agent began, by reason; reasons overlap.", "reason")
	gpuECC         = gpu("reckon_gpu_ecc_errors_total", metric.Counter, metric.None, "Memory errors over the life of the device, by type: corrected or uncorrected.", "type")
	gpuReplays     = gpu("reckon_gpu_pcie_replays_total", metric.Counter, metric.None, "Packets that had to be sent again over the bus of the device.")
	gpuPartitions  = gpu("reckon_gpu_partitions", metric.Gauge, metric.None, "Partitions (MIG instances) that the device is divided into.")
)

// GPUDescs lists what [GPUSeries] writes.
func GPUDescs() []*metric.Desc {
	return []*metric.Desc{gpuInfo, gpuBusy, gpuEngine, gpuMemory, gpuMemorySize, gpuEnergy, gpuPower, gpuPowerLimit,
		gpuClock, gpuTemperature, gpuFan, gpuThrottled, gpuECC, gpuReplays, gpuPartitions}
}

// GPUFigure is one figure of a device.
type GPUFigure uint8

// The figures of a device, in SI base units.
const (
	GPUBusySeconds GPUFigure = iota
	GPUEngineMemory
	GPUEngineEncoder
	GPUEngineDecoder
	GPUEngineMedia
	GPUEngineCopy
	GPUMemoryBytes
	GPUMemorySizeBytes
	GPUEnergyJoules
	GPUPowerWatts
	GPUPowerLimitWatts
	GPUClockGraphics
	GPUClockCompute
	GPUClockMemory
	GPUClockVideo
	GPUTemperatureCore
	GPUTemperatureHotspot
	GPUTemperatureMemory
	GPUFanRatio
	GPUThrottledPower
	GPUThrottledThermal
	GPUThrottledHardwareThermal
	GPUThrottledPowerBrake
	GPUThrottledHardware
	GPUThrottledSyncBoost
	GPUThrottledProchot
	GPUThrottledMemoryThermal
	GPUThrottledRegulatorThermal
	GPUErrorsCorrected
	GPUErrorsUncorrected
	GPUReplays
	GPUPartitions
	gpuFigures
)

// gpuFigure says which series a figure is.
var gpuFigure = [gpuFigures]struct {
	desc  *metric.Desc
	extra string
}{
	GPUBusySeconds:  {gpuBusy, ""},
	GPUEngineMemory: {gpuEngine, "memory"}, GPUEngineEncoder: {gpuEngine, "encoder"}, GPUEngineDecoder: {gpuEngine, "decoder"},
	GPUEngineMedia: {gpuEngine, "media"}, GPUEngineCopy: {gpuEngine, "copy"},
	GPUMemoryBytes: {gpuMemory, ""}, GPUMemorySizeBytes: {gpuMemorySize, ""},
	GPUEnergyJoules: {gpuEnergy, ""}, GPUPowerWatts: {gpuPower, ""}, GPUPowerLimitWatts: {gpuPowerLimit, ""},
	GPUClockGraphics: {gpuClock, "graphics"}, GPUClockCompute: {gpuClock, "compute"}, GPUClockMemory: {gpuClock, "memory"}, GPUClockVideo: {gpuClock, "video"},
	GPUTemperatureCore: {gpuTemperature, "core"}, GPUTemperatureHotspot: {gpuTemperature, "hotspot"}, GPUTemperatureMemory: {gpuTemperature, "memory"},
	GPUFanRatio:       {gpuFan, ""},
	GPUThrottledPower: {gpuThrottled, "power_cap"}, GPUThrottledThermal: {gpuThrottled, "thermal"}, GPUThrottledHardwareThermal: {gpuThrottled, "hardware_thermal"},
	GPUThrottledPowerBrake: {gpuThrottled, "power_brake"}, GPUThrottledHardware: {gpuThrottled, "hardware"}, GPUThrottledSyncBoost: {gpuThrottled, "sync_boost"},
	GPUThrottledProchot: {gpuThrottled, "prochot"}, GPUThrottledMemoryThermal: {gpuThrottled, "memory_thermal"}, GPUThrottledRegulatorThermal: {gpuThrottled, "regulator_thermal"},
	GPUErrorsCorrected: {gpuECC, "corrected"}, GPUErrorsUncorrected: {gpuECC, "uncorrected"},
	GPUReplays: {gpuReplays, ""}, GPUPartitions: {gpuPartitions, ""},
}

// GPUSeries writes the figures of one device. It allocates when a figure comes for the
// first time, and is used from one goroutine.
type GPUSeries struct {
	vendor, device, index string
	info                  *metric.Series
	rows                  [gpuFigures]*metric.Series
}

// NewGPUSeries returns the series of g.
func NewGPUSeries(g *GPU) *GPUSeries {
	s := &GPUSeries{vendor: g.Vendor, device: g.Device, index: strconv.Itoa(g.Index)}
	s.info = metric.NewSeries(gpuInfo, s.vendor, s.device, s.index, g.Model, g.Driver, g.Parent)
	return s
}

// Info appends the facts of the device.
func (s *GPUSeries) Info(b *metric.Batch) { b.Add(s.info, 1) }

// Add appends a figure.
func (s *GPUSeries) Add(b *metric.Batch, f GPUFigure, v float64) {
	if s.rows[f] == nil {
		values := []string{s.vendor, s.device, s.index}
		if x := gpuFigure[f].extra; x != "" {
			values = append(values, x)
		}
		s.rows[f] = metric.NewSeries(gpuFigure[f].desc, values...)
	}
	b.Add(s.rows[f], v)
}

// AddUsed appends what g says of use: its memory, and busy seconds so far.
func (s *GPUSeries) AddUsed(b *metric.Batch, g *GPU, busy float64) {
	s.Info(b)
	if g.Have&GPUBusy != 0 {
		s.Add(b, GPUBusySeconds, busy)
	}
	if g.Have&GPUMemory != 0 {
		s.Add(b, GPUMemoryBytes, float64(g.Memory))
	}
	if g.Have&GPUSize != 0 {
		s.Add(b, GPUMemorySizeBytes, float64(g.MemorySize))
	}
}
