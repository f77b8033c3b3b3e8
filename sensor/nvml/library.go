package nvml

import "strconv"

// handle is the library's handle of a device.
type handle uintptr

// code is the result of a function of the library (nvmlReturn_t).
type code uint32

// The codes that are handled here.
const (
	codeSuccess          code = 0
	codeNotSupported     code = 3
	codeNoPermission     code = 4
	codeNotFound         code = 6
	codeInsufficientSize code = 7
	codeDriverNotLoaded  code = 9
	codeTimeout          code = 10
	codeNoFunction       code = 13 // also: missing in this version of the library
	codeGPULost          code = 15
	codeResetRequired    code = 16
	codeVersionMismatch  code = 18
	codeUnknown          code = 999
)

// Error returns the meaning of a code, in the words of the manual.
func (c code) Error() string {
	switch c {
	case 1:
		return "the library was not initialised"
	case 2:
		return "invalid argument"
	case codeNotSupported:
		return "the device does not support it"
	case codeNoPermission:
		return "no permission"
	case codeNotFound:
		return "not found"
	case codeInsufficientSize:
		return "the buffer is too small"
	case codeDriverNotLoaded:
		return "the driver is not loaded"
	case codeTimeout:
		return "the driver did not answer in time"
	case codeNoFunction:
		return "this version of the library does not have the function"
	case codeGPULost:
		return "the GPU is lost: it has fallen off the bus"
	case codeResetRequired:
		return "the GPU needs a reset before it can be used again"
	case 17:
		return "the operating system or a device cgroup blocks the GPU"
	case codeVersionMismatch:
		return "driver and library have different versions: reboot after the update"
	case 21:
		return "no data"
	case codeUnknown:
		return "unknown error of the driver"
	}
	return "error " + strconv.Itoa(int(c)) + " of the library"
}

// isDeviceLost reports whether the whole device is gone instead of a single figure.
func (c code) isDeviceLost() bool {
	return c == codeGPULost || c == codeResetRequired || c == codeDriverNotLoaded || c == 2 || c == 1 || c == codeNotFound
}

// hasFailed reports whether the driver failed to respond. A single figure may fail. If all fail, the device is lost.
func (c code) hasFailed() bool { return c == codeUnknown || c == codeTimeout }

// Kinds of lists of processes.
const (
	listCompute = iota
	listGraphics
	listMPS
	processLists
)

// majorNVIDIA is the major number of /dev/nvidia0 and up.
const majorNVIDIA = 195

// Clocks (nvmlClockType_t).
const (
	clockGraphics = 0
	clockSM       = 1
	clockMemory   = 2
	clockVideo    = 3
)

// Kinds of samples (nvmlSamplingType_t).
const (
	sampleGPU     = 1
	sampleMemory  = 2
	sampleEncoder = 3
	sampleDecoder = 4
)

// Numbers of fields (NVML_FI_*).
const (
	fieldPowerPolicy  = 74
	fieldSyncBoost    = 76
	fieldMemoryTemp   = 82
	fieldReplays      = 94
	fieldSoftThermal  = 251
	fieldHardThermal  = 252
	fieldPowerBrake   = 253
	fieldCRCFlit      = 38 // NVLink errors, all lanes; up to Ampere
	fieldCRCData      = 45
	fieldReplay       = 52
	fieldRecovery     = 59
	fieldNVLinkSent   = 138 // KiB, of the link in scope
	fieldNVLinkGot    = 139
	fieldRowsFixed    = 142
	fieldRowsBad      = 143
	fieldRowsPending  = 144
	fieldRowsFailed   = 145
	fieldLinkReplay   = 161 // NVLink errors of the link in scope; Hopper
	fieldLinkRecovery = 162
	fieldLinkCRC      = 163
	allLinks          = ^uint32(0)
	maxLinks          = 18
	noValue32         = ^uint32(0) // NVML_VALUE_NOT_AVAILABLE
	noValue64         = ^uint64(0) // the same
	blank64           = 1 << 62    // no real counter gets there; the blanks of the driver and of DCGM (9223372036854775794 ...) are beyond
	blank32           = 0x7ffffff0
	instanceNone      = noValue32
	reasonPowerCap    = 1 << 2
	reasonHardware    = 1 << 3
	reasonSyncBoost   = 1 << 4
	reasonSoftThermal = 1 << 5
	reasonHardThermal = 1 << 6
	reasonPowerBrake  = 1 << 7
)

// fieldValue is nvmlFieldValue_t.
type fieldValue struct {
	id    uint32
	scope uint32
	_     [2]int64 // time stamp and latency
	kind  uint32
	code  code
	value [8]byte
}

// processInfo is nvmlProcessInfo_v2_t.
type processInfo struct {
	pid         uint32
	_           uint32
	memory      uint64
	gpuInstance uint32
	instance    uint32
}

// processSample is nvmlProcessUtilizationSample_t.
type processSample struct {
	pid  uint32
	_    uint32
	time uint64    // microseconds
	sm   uint32    // percent
	_    [3]uint32 // memory interface, encoder, decoder
}

// utilizationSample is nvmlSample_t; the value is an unsigned int in percent.
type utilizationSample struct {
	time  uint64 // microseconds
	value [8]byte
}

// Metrics of two samples of GPM (nvmlGpmMetricId_t).
const (
	gpmGraphics   = 1 // percent
	gpmSM         = 2
	gpmOccupancy  = 3
	gpmTensor     = 5
	gpmDFMA       = 6 // double precision on the tensor pipe
	gpmHMMA       = 7 // half precision
	gpmIMMA       = 9 // integers
	gpmDRAM       = 10
	gpmFP64       = 11
	gpmFP32       = 12
	gpmFP16       = 13
	gpmPCIeSent   = 20 // MiB/s
	gpmPCIeGot    = 21
	gpmNVLinkGot  = 60
	gpmNVLinkSent = 61
	eventXid      = 8 // nvmlEventTypeXidCriticalError
	wholeDevice   = noValue32
	busIDOffset   = 36 // of busId in nvmlPciInfo_t
)

// xidEvent is nvmlEventData_t.
type xidEvent struct {
	device handle
	kind   uint64
	data   uint64    // the number of the Xid
	_      [2]uint32 // GPU instance and compute instance
}

// gpmSample is a buffer of the library for one sample of GPM.
type gpmSample uintptr

// library is the part of libnvidia-ml that reckon calls. A function with a list as argument fills it and returns the
// total number of entries, even if the list was too short. A library is used from one goroutine and allocates only for
// strings.
type library interface {
	Init() code
	Shutdown() code
	Driver() (string, code)
	Count() (int, code)
	Device(i int) (handle, code)
	UUID(h handle) (string, code)
	Model(h handle) (string, code)

	Utilization(h handle) (gpu, memory uint32, c code) // percent
	Samples(h handle, kind uint32, since uint64, dst []utilizationSample) (int, code)
	Memory(h handle) (m memoryInfo, c code)
	PCI(h handle) (string, code)
	Coder(h handle, decoder bool) (uint32, code)      // percent
	Energy(h handle) (uint64, code)                   // millijoules since the driver was loaded
	Power(h handle) (uint32, code)                    // milliwatts
	PowerLimit(h handle) (uint32, code)               // milliwatts
	Clock(h handle, kind uint32) (uint32, code)       // megahertz
	Temperature(h handle) (uint32, code)              // degrees Celsius
	Fan(h handle) (uint32, code)                      // percent
	Reasons(h handle) (uint64, code)                  // reasons for throttled clocks, a bit each
	Errors(h handle, uncorrected bool) (uint64, code) // over the life of the device
	Fields(h handle, f []fieldValue) code
	Processes(h handle, kind int, dst []processInfo) (int, code)
	ProcessUse(h handle, since uint64, dst []processSample) (int, code)

	MIG(h handle) (on bool, c code)
	MIGCount(h handle) (int, code) // the maximum possible
	MIGDevice(h handle, i int) (handle, code)
	GPUInstance(h handle) (uint32, code)
	Minor(h handle) (uint32, code)

	// GPM is available on Hopper and later. instance is wholeDevice, or a GPU instance of h. Values
	// are NaN for metrics that the device lacks.
	GPM(h handle) (supported bool, c code)
	NewGPMSample() (gpmSample, code)
	FreeGPMSample(s gpmSample)
	SampleGPM(h handle, instance uint32, s gpmSample) code
	GPMMetrics(before, after gpmSample, ids []uint32, values []float64) code

	// Watch enables error reports of a device until Shutdown. Event returns one report, or timeout
	// if there is none.
	Watch(h handle) code
	Event() (xidEvent, code)
}

// memoryInfo is the memory of a device, in bytes. reserved is a blank value if the library is too old to report it.
type memoryInfo struct{ used, size, reserved uint64 }
