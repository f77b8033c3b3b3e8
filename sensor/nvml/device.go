package nvml

import (
	"fmt"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// device is one GPU, or one MIG instance.
type device struct {
	gpu         sensor.GPU
	handle      handle
	lost        bool // it does not respond
	found       bool // the library lists it, and it was not read since
	mig, noMIG  bool // it has MIG enabled; it does not support MIG
	instances   int
	gpuInstance uint32
	read        time.Time
	looked      time.Time // when its busy time was read
	slowAt      time.Time // and the use of its engines
	worked      bool      // processes had it open at the last tick

	carry, copied, busyBefore float64 // seconds: busy and not in a reading yet, copies, busy when engines were read

	busy, engineMemory       float64 // seconds
	hasBusy, hasEngineMemory bool
	sampledGPU               samplePosition
	sampledMemory            samplePosition
	sampledCoder             [2]samplePosition // encoder, decoder
	coder                    [2]float64        // seconds
	hasCoder                 [2]bool
	reserved                 uint64 // bytes
	hasReserved              bool

	odometer                                sensor.Odometer
	integral                                sensor.Integral
	joules, watts                           float64
	restWatts                               float64 // the lowest power seen
	ahead                                   float64 // joules that power made more than the counter
	counted                                 time.Time
	hasJoules, hasWatts, counter, noCounter bool

	hasReasons      bool
	throttled       [len(throttles)]float64 // seconds
	throttleCounted [len(throttles)]bool    // the device has its own counter
	throttleMeter   [len(throttles)]sensor.Odometer
	throttleBase    [len(throttles)]float64 // integrated before it had a counter

	uses    []sensor.GPUUse
	seen    uint64 // microseconds; samples of processes were read up to this time
	noUse   bool
	pids    []int32 // users of the device in this reading, and in the previous one
	before  []int32
	clients [2]bool // some of its users are clients of MPS; they were at the reading before
	noList  [processLists]bool
	shown   [figures]exportedFigure
	series  *sensor.GPUSeries

	gpm            gpmState
	noLinks        bool               // it has no NVLink
	linksCounted   bool               // it has byte counters of its links
	linkMeter      [2]sensor.Odometer // sent, received
	watched, noXid bool
	lastXid        int
	xids           map[int]float64 // number of reports of each
	lostText       error
}

// exportedFigure is a figure that is only exported.
type exportedFigure struct {
	value float64
	has   bool
}

// Figures that are only exported.
const (
	figPowerLimit = iota
	figGraphics
	figSM
	figMemoryClock
	figVideo
	figTemperature
	figMemoryTemperature
	figFan
	figCorrected
	figUncorrected
	figReplays
	figGraphicsBusy
	figSMBusy
	figTensor
	figTensorFP64
	figTensorHalf
	figTensorInteger
	figOccupancy
	figCopy
	figDRAM
	figFP64
	figFP32
	figFP16
	figPCIeSent
	figPCIeReceived
	figNVLinkSent
	figNVLinkReceived
	figCRCFlit
	figCRCData
	figLinkReplays
	figLinkRecoveries
	figRowsCorrected
	figRowsUncorrected
	figRowsPending
	figRowsFailed
	figures
)

var gpuFigures = [figures]sensor.GPUFigure{
	figPowerLimit: sensor.GPUPowerLimitWatts, figGraphics: sensor.GPUClockGraphics, figSM: sensor.GPUClockCompute,
	figMemoryClock: sensor.GPUClockMemory, figVideo: sensor.GPUClockVideo, figTemperature: sensor.GPUTemperatureCore,
	figMemoryTemperature: sensor.GPUTemperatureMemory, figFan: sensor.GPUFanRatio,
	figCorrected: sensor.GPUErrorsCorrected, figUncorrected: sensor.GPUErrorsUncorrected, figReplays: sensor.GPUReplays,
	figGraphicsBusy: sensor.GPUEngineGraphics, figSMBusy: sensor.GPUEngineSM, figTensor: sensor.GPUEngineTensor,
	figTensorFP64: sensor.GPUEngineTensorFP64, figTensorHalf: sensor.GPUEngineTensorHalf, figTensorInteger: sensor.GPUEngineTensorInteger,
	figOccupancy: sensor.GPUEngineOccupancy, figCopy: sensor.GPUEngineCopy,
	figDRAM: sensor.GPUEngineDRAM,
	figFP64: sensor.GPUEngineFP64, figFP32: sensor.GPUEngineFP32, figFP16: sensor.GPUEngineFP16,
	figPCIeSent: sensor.GPUPCIeSent, figPCIeReceived: sensor.GPUPCIeReceived, figNVLinkSent: sensor.GPUNVLinkSent,
	figNVLinkReceived: sensor.GPUNVLinkReceived,
	figCRCFlit:        sensor.GPUNVLinkCRCFlit, figCRCData: sensor.GPUNVLinkCRCData, figLinkReplays: sensor.GPUNVLinkReplays,
	figLinkRecoveries: sensor.GPUNVLinkRecoveries,
	figRowsCorrected:  sensor.GPURowsCorrected, figRowsUncorrected: sensor.GPURowsUncorrected, figRowsPending: sensor.GPURowsPending,
	figRowsFailed: sensor.GPURowsFailed,
}

// throttles lists the reasons for reduced clocks, except idleness and limits set by administrators. field is the id of
// the device's own counter of throttled time, or 0 if there is none.
var throttles = [...]struct {
	bit    uint64
	field  uint32
	figure sensor.GPUFigure
}{
	{reasonPowerCap, fieldPowerPolicy, sensor.GPUThrottledPower},
	{reasonHardware, 0, sensor.GPUThrottledHardware},
	{reasonSyncBoost, fieldSyncBoost, sensor.GPUThrottledSyncBoost},
	{reasonSoftThermal, fieldSoftThermal, sensor.GPUThrottledThermal},
	{reasonHardThermal, fieldHardThermal, sensor.GPUThrottledHardwareThermal},
	{reasonPowerBrake, fieldPowerBrake, sensor.GPUThrottledPowerBrake},
}

func newDevice(g sensor.GPU) *device {
	return &device{gpu: g, series: sensor.NewGPUSeries(&g), gpuInstance: instanceNone}
}

// secondsSince returns the seconds since the previous reading. It returns 0 for the first reading and after a gap longer than
// sensor.Gap, because the activity in the gap is unknown.
func (d *device) secondsSince(now time.Time) float64 {
	was := d.read
	d.read = now
	if was.IsZero() {
		return 0
	}
	if s := now.Sub(was); s > 0 && s <= sensor.Gap {
		return s.Seconds()
	}
	return 0
}

// markLost marks the device as lost. Nothing is counted for the time until it returns.
func (d *device) markLost() {
	d.lost, d.read = true, time.Time{}
	d.integral.Break()
	d.looked, d.slowAt, d.carry = time.Time{}, time.Time{}, 0
	d.gpm.at = [2]time.Time{}
}

// mostWatts returns the power that the device can not exceed, by the limit that it states.
func (d *device) mostWatts() float64 { return sensor.PowerLimit(d.shown[figPowerLimit].value) }

// lostError returns the error for a lost device. It is built once.
func (d *device) lostError(c code) error {
	if d.lostText == nil {
		d.lostText = fmt.Errorf("GPU %d (%s): %w", d.gpu.Index, d.gpu.Device, c)
	}
	return d.lostText
}

// export appends the series of an available device.
func (d *device) export(b *metric.Batch) {
	if d.lost {
		return
	}
	g := d.gpu
	if d.hasBusy && !d.mig {
		g.Have |= sensor.GPUBusy
	}
	d.series.AddUsed(b, &g, d.busy)
	if d.hasBusy && !d.mig {
		counted := 0.0
		if d.gpm.busy {
			counted = 1
		}
		d.series.Add(b, sensor.GPUBusyCounted, counted)
	}
	if d.hasEngineMemory {
		d.series.Add(b, sensor.GPUEngineMemory, d.engineMemory)
	}
	if d.hasJoules {
		d.series.Add(b, sensor.GPUEnergyJoules, d.joules)
	}
	if d.hasWatts {
		d.series.Add(b, sensor.GPUPowerWatts, d.watts)
	}
	for i := range d.shown {
		if d.shown[i].has {
			d.series.Add(b, gpuFigures[i], d.shown[i].value)
		}
	}
	if d.gpu.Parent != "" {
		return
	}
	for i := range throttles {
		if d.hasReasons || d.throttleCounted[i] {
			d.series.Add(b, throttles[i].figure, d.throttled[i])
		}
	}
	for i, f := range [...]sensor.GPUFigure{sensor.GPUEngineEncoder, sensor.GPUEngineDecoder} {
		if d.hasCoder[i] {
			d.series.Add(b, f, d.coder[i])
		}
	}
	if d.hasReserved {
		d.series.Add(b, sensor.GPUMemoryReserved, float64(d.reserved))
	}
	if d.watched {
		d.series.Add(b, sensor.GPUXidLast, float64(d.lastXid))
	}
	for xid, n := range d.xids {
		d.series.AddXid(b, xid, xidMeaning(xid), n)
	}
	if !d.noMIG {
		d.series.Add(b, sensor.GPUPartitions, float64(d.instances))
	}
}
