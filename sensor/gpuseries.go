package sensor

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"reckon/metric"
)

// gpuDesc returns the description of a series of a device.
func gpuDesc(name string, kind metric.Kind, unit metric.Unit, help string, extra ...string) *metric.Desc {
	return &metric.Desc{Name: name, Kind: kind, Unit: unit, Help: help,
		Labels: append([]string{"vendor", "device", "index"}, extra...)}
}

// The series of devices that every sensor of GPUs shares.
var (
	gpuInfo = metric.NewDesc("reckon_gpu_info", metric.Gauge, metric.None,
		[]string{"vendor", "device", "index", "model", "driver", "parent", "pci", "partition"},
		"A graphics processor or accelerator, or a partition of one (then parent and the number of its GPU instance are set); the value "+
			"is always 1.")
	gpuBusy = gpuDesc("reckon_gpu_busy_seconds_total", metric.Counter, metric.Seconds,
		"Time in which the device computed, since the agent began. The increase divided by the time is its utilisation.")
	gpuCounted = gpuDesc("reckon_gpu_busy_counted", metric.Gauge, metric.None,
		"1 where the busy time comes from counters of the device. 0 where it comes from the driver's utilisation samples, which "+
			"count copies as computing: on an older device, or while a profiler holds the counters. Absent where there is no choice.")
	gpuEngine = gpuDesc("reckon_gpu_engine_busy_seconds_total", metric.Counter, metric.Seconds,
		"Time in which one engine of the device was busy, since the agent began: memory is its memory interface, graphics any computing, "+
			"copy use by the driver's samples beyond that, sm its multiprocessors (their mean), occupancy the share of their threads in "+
			"use, tensor, fp64, fp32 and fp16 the pipes in them, tensor_fp64, tensor_half and tensor_integer the tensor pipe by kind of "+
			"number (fp64 includes tensor_fp64), dram the share of the highest memory traffic.", "engine")
	gpuMemory     = gpuDesc("reckon_gpu_memory_bytes", metric.Gauge, metric.Bytes, "Memory of the device in use.")
	gpuMemorySize = gpuDesc("reckon_gpu_memory_size_bytes", metric.Gauge, metric.Bytes, "Memory that the device has.")
	gpuEnergy     = gpuDesc("reckon_gpu_energy_joules_total", metric.Counter, metric.Joules,
		"Energy of the device since the agent began: by its own counter, else power integrated at every internal tick.")
	gpuPower       = gpuDesc("reckon_gpu_power_watts", metric.Gauge, metric.Watts, "Power that the device draws now.")
	gpuPowerLimit  = gpuDesc("reckon_gpu_power_limit_watts", metric.Gauge, metric.Watts, "Power that the device may draw.")
	gpuClock       = gpuDesc("reckon_gpu_clock_hertz", metric.Gauge, metric.Hertz, "Frequency of a clock of the device.", "clock")
	gpuTemperature = gpuDesc("reckon_gpu_temperature_celsius", metric.Gauge, metric.Celsius, "Temperature of the device, by place.",
		"place")
	gpuFan       = gpuDesc("reckon_gpu_fan_ratio", metric.Gauge, metric.Ratio, "Speed of the fan as a share of its highest.")
	gpuThrottled = gpuDesc("reckon_gpu_throttled_seconds_total", metric.Counter, metric.Seconds,
		"Time in which the clocks of the device were throttled, since the agent began, by reason. Reasons overlap.", "reason")
	gpuECC = gpuDesc("reckon_gpu_ecc_errors_total", metric.Counter, metric.None,
		"Memory errors over the life of the device, by type: corrected or uncorrected.", "type")
	gpuReplays = gpuDesc("reckon_gpu_pcie_replays_total", metric.Counter, metric.None,
		"Packets that had to be sent again over the bus of the device.")
	gpuPartitions = gpuDesc("reckon_gpu_partitions", metric.Gauge, metric.None,
		"Partitions (MIG instances) that the device is divided into.")
	gpuReserved = gpuDesc("reckon_gpu_memory_reserved_bytes", metric.Gauge, metric.Bytes,
		"Memory of the device that its driver and firmware reserve. reckon_gpu_memory_bytes does not include it.")
	gpuLink = gpuDesc("reckon_gpu_link_bytes_total", metric.Counter, metric.Bytes,
		"Bytes that the device sent and received over a bus since the agent began: pcie, nvlink or xgmi. The headers of packets count: "+
			"over "+
			"PCIe an H100 shows 8 % more than was copied.", "link", "direction")
	gpuLinkErrors = gpuDesc("reckon_gpu_link_errors_total", metric.Counter, metric.None,
		"Errors on all links of one kind of the device, since the driver was loaded, by type: crc_flit and crc_data are checksums of "+
			"packets and of their data, replay a packet that was sent again, recovery a link that was brought up again.", "link", "type")
	gpuRows = gpuDesc("reckon_gpu_remapped_rows", metric.Gauge, metric.None,
		"Rows of memory that were replaced by spare ones over the life of the device, by the type of the errors in them: corrected or "+
			"uncorrected.", "type")
	gpuRowsPending = gpuDesc("reckon_gpu_remap_pending", metric.Gauge, metric.None,
		"1 while a row of memory waits to be replaced by the next reset of the device, else 0.")
	gpuRowsFailed = gpuDesc("reckon_gpu_remap_failed", metric.Gauge, metric.None,
		"1 if a row of memory could not be replaced, else 0. The vendor exchanges such a device.")
	gpuXids = gpuDesc("reckon_gpu_xid_errors_total", metric.Counter, metric.None,
		"Errors that the driver reported by event since the agent began to watch, by their number (Xid) and its meaning. The driver "+
			"reports the last of several at once, so this is a lower bound.", "xid", "meaning")
	gpuXid = gpuDesc("reckon_gpu_xid_last", metric.Gauge, metric.None,
		"Number (Xid) of the last error that the driver reported by event since the agent began to watch; 0 is none.")
)

// GPUDescs lists the series of [GPUSeries].
func GPUDescs() []*metric.Desc {
	return []*metric.Desc{gpuInfo, gpuBusy, gpuCounted, gpuEngine, gpuMemory, gpuMemorySize, gpuEnergy, gpuPower, gpuPowerLimit,
		gpuClock, gpuTemperature, gpuFan, gpuThrottled, gpuECC, gpuReplays, gpuPartitions, gpuReserved, gpuLink, gpuLinkErrors,
		gpuRows, gpuRowsPending, gpuRowsFailed, gpuXids, gpuXid}
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
	GPUEngineGraphics
	GPUEngineSM
	GPUEngineTensor
	GPUEngineTensorFP64
	GPUEngineTensorHalf
	GPUEngineTensorInteger
	GPUEngineOccupancy
	GPUEngineFP64
	GPUEngineFP32
	GPUEngineFP16
	GPUEngineDRAM
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
	GPUBusyCounted
	GPUMemoryReserved
	GPUPCIeSent
	GPUPCIeReceived
	GPUNVLinkSent
	GPUNVLinkReceived
	GPUXGMISent
	GPUXGMIReceived
	GPUNVLinkCRCFlit
	GPUNVLinkCRCData
	GPUNVLinkReplays
	GPUNVLinkRecoveries
	GPURowsCorrected
	GPURowsUncorrected
	GPURowsPending
	GPURowsFailed
	GPUXidLast
	gpuFigures
)

// gpuFigure is the series of each figure.
var gpuFigure = [gpuFigures]struct {
	desc  *metric.Desc
	extra []string // values of the labels after the index
}{
	GPUBusySeconds:  {gpuBusy, nil},
	GPUEngineMemory: {gpuEngine, []string{"memory"}}, GPUEngineEncoder: {gpuEngine, []string{"encoder"}},
	GPUEngineDecoder: {gpuEngine, []string{"decoder"}},
	GPUEngineMedia:   {gpuEngine, []string{"media"}}, GPUEngineCopy: {gpuEngine, []string{"copy"}},
	GPUMemoryBytes: {gpuMemory, nil}, GPUMemorySizeBytes: {gpuMemorySize, nil},
	GPUEnergyJoules: {gpuEnergy, nil}, GPUPowerWatts: {gpuPower, nil}, GPUPowerLimitWatts: {gpuPowerLimit, nil},
	GPUClockGraphics: {gpuClock, []string{"graphics"}}, GPUClockCompute: {gpuClock, []string{"compute"}},
	GPUClockMemory: {gpuClock, []string{"memory"}}, GPUClockVideo: {gpuClock, []string{"video"}},
	GPUTemperatureCore: {gpuTemperature, []string{"core"}}, GPUTemperatureHotspot: {gpuTemperature, []string{"hotspot"}},
	GPUTemperatureMemory: {gpuTemperature, []string{"memory"}},
	GPUFanRatio:          {gpuFan, nil},
	GPUThrottledPower:    {gpuThrottled, []string{"power_cap"}}, GPUThrottledThermal: {gpuThrottled, []string{"thermal"}},
	GPUThrottledHardwareThermal: {gpuThrottled, []string{"hardware_thermal"}},
	GPUThrottledPowerBrake:      {gpuThrottled, []string{"power_brake"}}, GPUThrottledHardware: {gpuThrottled, []string{"hardware"}},
	GPUThrottledSyncBoost: {gpuThrottled, []string{"sync_boost"}},
	GPUThrottledProchot:   {gpuThrottled, []string{"prochot"}}, GPUThrottledMemoryThermal: {gpuThrottled, []string{"memory_thermal"}},
	GPUThrottledRegulatorThermal: {gpuThrottled, []string{"regulator_thermal"}},
	GPUErrorsCorrected:           {gpuECC, []string{"corrected"}}, GPUErrorsUncorrected: {gpuECC, []string{"uncorrected"}},
	GPUReplays: {gpuReplays, nil}, GPUPartitions: {gpuPartitions, nil}, GPUBusyCounted: {gpuCounted, nil},
	GPUMemoryReserved: {gpuReserved, nil},
	GPUEngineGraphics: {gpuEngine, []string{"graphics"}}, GPUEngineSM: {gpuEngine, []string{"sm"}},
	GPUEngineTensor:     {gpuEngine, []string{"tensor"}},
	GPUEngineTensorFP64: {gpuEngine, []string{"tensor_fp64"}}, GPUEngineTensorHalf: {gpuEngine, []string{"tensor_half"}},
	GPUEngineTensorInteger: {gpuEngine, []string{"tensor_integer"}}, GPUEngineOccupancy: {gpuEngine, []string{"occupancy"}},
	GPUEngineFP64: {gpuEngine, []string{"fp64"}}, GPUEngineFP32: {gpuEngine, []string{"fp32"}},
	GPUEngineFP16: {gpuEngine, []string{"fp16"}},
	GPUEngineDRAM: {gpuEngine, []string{"dram"}},
	GPUPCIeSent:   {gpuLink, []string{"pcie", "sent"}}, GPUPCIeReceived: {gpuLink, []string{"pcie", "received"}},
	GPUNVLinkSent: {gpuLink, []string{"nvlink", "sent"}}, GPUNVLinkReceived: {gpuLink, []string{"nvlink", "received"}},
	GPUXGMISent: {gpuLink, []string{"xgmi", "sent"}}, GPUXGMIReceived: {gpuLink, []string{"xgmi", "received"}},
	GPUNVLinkCRCFlit: {gpuLinkErrors, []string{"nvlink", "crc_flit"}}, GPUNVLinkCRCData: {gpuLinkErrors, []string{"nvlink", "crc_data"}},
	GPUNVLinkReplays: {gpuLinkErrors, []string{"nvlink", "replay"}}, GPUNVLinkRecoveries: {gpuLinkErrors, []string{"nvlink", "recovery"}},
	GPURowsCorrected: {gpuRows, []string{"corrected"}}, GPURowsUncorrected: {gpuRows, []string{"uncorrected"}},
	GPURowsPending: {gpuRowsPending, nil}, GPURowsFailed: {gpuRowsFailed, nil}, GPUXidLast: {gpuXid, nil},
}

// GPUSeries exports the figures of one device as series. It allocates only when a figure occurs for the first time. It
// is not safe for concurrent use.
type GPUSeries struct {
	vendor, device, index string
	info                  *metric.Series
	rows                  [gpuFigures]*metric.Series
	xids                  map[int]*metric.Series
	refused               error
}

// NewGPUSeries returns the series of g.
func NewGPUSeries(g *GPU) *GPUSeries {
	s := &GPUSeries{vendor: g.Vendor, device: g.Device, index: strconv.Itoa(g.Index)}
	s.info = metric.NewSeries(gpuInfo, s.vendor, s.device, s.index, g.Model, g.Driver, g.Parent, g.PCI, g.Partition)
	return s
}

// Info appends the facts of the device.
func (s *GPUSeries) Info(b *metric.Batch) { b.Add(s.info, 1) }

// gpuBounds are the valid ranges of a running device's gauges, by unit. 0 degrees Celsius is invalid, because broken
// sensors report it.
var gpuBounds = map[metric.Unit][2]float64{
	metric.Celsius: {math.SmallestNonzeroFloat64, 200}, metric.Hertz: {0, 100e9}, metric.Ratio: {0, 10}, metric.Watts: {0, MaxWatts},
}

// Refused returns the figures that were refused since the last call, as [ImplausibleError]s.
func (s *GPUSeries) Refused() error {
	err := s.refused
	s.refused = nil
	return err
}

// Add appends a figure. A gauge that no device can have is left out; see [GPUSeries.Refused].
func (s *GPUSeries) Add(b *metric.Batch, f GPUFigure, v float64) {
	if bounds, ok := gpuBounds[gpuFigure[f].desc.Unit]; ok && !(v >= bounds[0] && v <= bounds[1]) {
		s.refused = errors.Join(s.refused,
			CheckRange(strings.Join(append([]string{gpuFigure[f].desc.Name}, gpuFigure[f].extra...), " "), s.device, v, bounds[0],
				bounds[1]))
		return
	}
	if s.rows[f] == nil {
		values := append([]string{s.vendor, s.device, s.index}, gpuFigure[f].extra...)
		s.rows[f] = metric.NewSeries(gpuFigure[f].desc, values...)
	}
	b.Add(s.rows[f], v)
}

// AddXid appends the number of times that an error of the driver was reported.
func (s *GPUSeries) AddXid(b *metric.Batch, xid int, meaning string, count float64) {
	if s.xids[xid] == nil {
		if s.xids == nil {
			s.xids = make(map[int]*metric.Series)
		}
		s.xids[xid] = metric.NewSeries(gpuXids, s.vendor, s.device, s.index, strconv.Itoa(xid), meaning)
	}
	b.Add(s.xids[xid], count)
}

// AddUsed appends the use in g: its memory, and busy seconds so far.
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
