//go:build nvml && linux && (amd64 || arm64)

package nvml

import (
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"reckon/sensor"
)

// functionNames are the functions that we call; of alternative names, either is sufficient.
var functionNames = [...]string{
	fnInit: "nvmlInit_v2", fnShutdown: "nvmlShutdown", fnDriver: "nvmlSystemGetDriverVersion",
	fnCount: "nvmlDeviceGetCount_v2", fnDevice: "nvmlDeviceGetHandleByIndex_v2",
	fnUUID: "nvmlDeviceGetUUID", fnModel: "nvmlDeviceGetName",
	fnUtilization: "nvmlDeviceGetUtilizationRates", fnSamples: "nvmlDeviceGetSamples",
	fnMemory2: "nvmlDeviceGetMemoryInfo_v2", fnMemory: "nvmlDeviceGetMemoryInfo",
	fnEnergy: "nvmlDeviceGetTotalEnergyConsumption", fnPower: "nvmlDeviceGetPowerUsage",
	fnPowerLimit: "nvmlDeviceGetEnforcedPowerLimit", fnClock: "nvmlDeviceGetClockInfo",
	fnTemperature: "nvmlDeviceGetTemperature", fnFan: "nvmlDeviceGetFanSpeed",
	fnReasons: "nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons",
	fnErrors:  "nvmlDeviceGetTotalEccErrors", fnFields: "nvmlDeviceGetFieldValues",
	fnCompute:    "nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetComputeRunningProcesses_v2",
	fnGraphics:   "nvmlDeviceGetGraphicsRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses_v2",
	fnMPS:        "nvmlDeviceGetMPSComputeRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v2",
	fnProcessUse: "nvmlDeviceGetProcessUtilization", fnMIG: "nvmlDeviceGetMigMode",
	fnMIGCount: "nvmlDeviceGetMaxMigDeviceCount", fnMIGDevice: "nvmlDeviceGetMigDeviceHandleByIndex",
	fnGPUInstance: "nvmlDeviceGetGpuInstanceId", fnMinor: "nvmlDeviceGetMinorNumber",
	fnPCI: "nvmlDeviceGetPciInfo_v3", fnEncoder: "nvmlDeviceGetEncoderUtilization", fnDecoder: "nvmlDeviceGetDecoderUtilization",
	fnGPMSupport: "nvmlGpmQueryDeviceSupport", fnGPMAlloc: "nvmlGpmSampleAlloc", fnGPMFree: "nvmlGpmSampleFree",
	fnGPMSample: "nvmlGpmSampleGet", fnGPMPart: "nvmlGpmMigSampleGet", fnGPMMetrics: "nvmlGpmMetricsGet",
	fnEventSet: "nvmlEventSetCreate", fnEventFree: "nvmlEventSetFree", fnWatch: "nvmlDeviceRegisterEvents", fnEvent: "nvmlEventSetWait_v2",
}

const (
	fnInit = iota
	fnShutdown
	fnDriver
	fnCount
	fnDevice
	fnUUID
	fnModel
	fnUtilization
	fnSamples
	fnMemory2
	fnMemory
	fnEnergy
	fnPower
	fnPowerLimit
	fnClock
	fnTemperature
	fnFan
	fnReasons
	fnErrors
	fnFields
	fnCompute
	fnGraphics
	fnMPS
	fnProcessUse
	fnMIG
	fnMIGCount
	fnMIGDevice
	fnGPUInstance
	fnMinor
	fnPCI
	fnEncoder
	fnDecoder
	fnGPMSupport
	fnGPMAlloc
	fnGPMFree
	fnGPMSample
	fnGPMPart
	fnGPMMetrics
	fnEventSet
	fnEventFree
	fnWatch
	fnEvent
	functions
)

// dynamic calls the functions of the driver's library. C code writes to the fields of this struct. The struct must be
// on the heap, because a Go stack may move during a call.
type dynamic struct {
	fn   [functions]uintptr
	args [6]uintptr
	out  [12]uint64
	text [128]byte

	events uintptr // the event set that devices report to, 0 before the first
	gpm    *gpmMetrics
}

// loadLibrary opens the library by its name.
func loadLibrary(path string) (library, error) {
	l, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, sensor.Unavailable("no NVIDIA driver library",
			"install the NVIDIA driver, or mount "+path+" into the container (NVIDIA_DRIVER_CAPABILITIES=utility)", err)
	}
	d := new(dynamic)
	for i, list := range functionNames {
		for name := range strings.FieldsSeq(list) {
			if d.fn[i] == 0 {
				d.fn[i], _ = purego.Dlsym(l, name) // calls of a missing one return codeNoFunction
			}
		}
	}
	if d.fn[fnInit] == 0 || d.fn[fnDevice] == 0 {
		return nil, sensor.Unavailable(path+" is not the management library of NVIDIA", "", nil)
	}
	return d, nil
}

// callFunction calls a function with the first n of d.args.
func (d *dynamic) callFunction(fn, n int) code {
	if d.fn[fn] == 0 {
		return codeNoFunction
	}
	r, _, _ := purego.SyscallN(d.fn[fn], d.args[:n]...)
	return code(uint32(r))
}

func (d *dynamic) outAddress(i int) uintptr { return uintptr(unsafe.Pointer(&d.out[i])) }

// call64 calls fn(h, &out) or, with an argument, fn(h, arg, &out).
func (d *dynamic) call64(fn int, h handle, arg ...uintptr) (uint64, code) {
	d.out[0] = 0
	d.args[0] = uintptr(h)
	n := 1 + copy(d.args[1:], arg)
	d.args[n] = d.outAddress(0)
	c := d.callFunction(fn, n+1)
	return d.out[0], c
}

func (d *dynamic) call32(fn int, h handle, arg ...uintptr) (uint32, code) {
	v, c := d.call64(fn, h, arg...)
	return uint32(v), c
}

// callString calls fn(h, text, length), or fn(text, length) without a device.
func (d *dynamic) callString(fn int, h handle) (string, code) {
	clear(d.text[:])
	n := 0
	if h != 0 {
		d.args[0], n = uintptr(h), 1
	}
	d.args[n], d.args[n+1] = uintptr(unsafe.Pointer(&d.text)), uintptr(len(d.text)-1)
	if c := d.callFunction(fn, n+2); c != codeSuccess {
		return "", c
	}
	s, _, _ := strings.Cut(string(d.text[:]), "\x00")
	return strings.ToValidUTF8(s, ""), codeSuccess
}

func (d *dynamic) Init() code                         { return d.callFunction(fnInit, 0) }
func (d *dynamic) Driver() (string, code)             { return d.callString(fnDriver, 0) }
func (d *dynamic) UUID(h handle) (string, code)       { return d.callString(fnUUID, h) }
func (d *dynamic) Model(h handle) (string, code)      { return d.callString(fnModel, h) }
func (d *dynamic) Energy(h handle) (uint64, code)     { return d.call64(fnEnergy, h) }
func (d *dynamic) Power(h handle) (uint32, code)      { return d.call32(fnPower, h) }
func (d *dynamic) PowerLimit(h handle) (uint32, code) { return d.call32(fnPowerLimit, h) }
func (d *dynamic) Fan(h handle) (uint32, code)        { return d.call32(fnFan, h) }
func (d *dynamic) Reasons(h handle) (uint64, code)    { return d.call64(fnReasons, h) }
func (d *dynamic) Temperature(h handle) (uint32, code) {
	return d.call32(fnTemperature, h, 0) // NVML_TEMPERATURE_GPU
}
func (d *dynamic) Clock(h handle, kind uint32) (uint32, code) {
	return d.call32(fnClock, h, uintptr(kind))
}
func (d *dynamic) Minor(h handle) (uint32, code)       { return d.call32(fnMinor, h) }
func (d *dynamic) GPUInstance(h handle) (uint32, code) { return d.call32(fnGPUInstance, h) }

func (d *dynamic) Count() (int, code) {
	d.out[0] = 0
	d.args[0] = d.outAddress(0)
	c := d.callFunction(fnCount, 1)
	return int(uint32(d.out[0])), c
}

func (d *dynamic) Device(i int) (handle, code) {
	d.out[0] = 0
	d.args[0], d.args[1] = uintptr(i), d.outAddress(0)
	c := d.callFunction(fnDevice, 2)
	return handle(d.out[0]), c
}

func (d *dynamic) Utilization(h handle) (gpu, memory uint32, c code) {
	v, c := d.call64(fnUtilization, h) // two unsigned int in one word, the first in the low half
	return uint32(v), uint32(v >> 32), c
}

func (d *dynamic) Memory(h handle) (memoryInfo, code) {
	const version2 = 40 | 2<<24 // size of nvmlMemory_v2_t, and its version
	clear(d.out[:])
	d.out[0] = version2
	d.args[0], d.args[1] = uintptr(h), d.outAddress(0)
	c := d.callFunction(fnMemory2, 2)
	if c == codeSuccess { // version, total, reserved, free, used
		return memoryInfo{used: d.out[4], size: d.out[1], reserved: d.out[2]}, c
	}
	if c != codeNoFunction && c != codeNotSupported && c != 2 && c != 25 { // 25: another version of the struct
		return memoryInfo{}, c // an older function returns no more, and its code would hide this one
	}
	clear(d.out[:])
	c = d.callFunction(fnMemory, 2) // total, free, used
	return memoryInfo{used: d.out[2], size: d.out[0], reserved: noValue64}, c
}

func (d *dynamic) Errors(h handle, uncorrected bool) (uint64, code) {
	kind := uintptr(0)
	if uncorrected {
		kind = 1
	}
	return d.call64(fnErrors, h, kind, 1) // NVML_AGGREGATE_ECC
}

func (d *dynamic) Fields(h handle, f []fieldValue) code {
	d.args[0], d.args[1], d.args[2] = uintptr(h), uintptr(len(f)), uintptr(unsafe.Pointer(unsafe.SliceData(f)))
	return d.callFunction(fnFields, 3)
}

func (d *dynamic) Samples(h handle, kind uint32, since uint64, dst []utilizationSample) (int, code) {
	d.out[0], d.out[1] = 0, uint64(len(dst)) // kind of value, number
	d.args = [6]uintptr{uintptr(h), uintptr(kind), uintptr(since), d.outAddress(0), d.outAddress(1),
		uintptr(unsafe.Pointer(unsafe.SliceData(dst)))}
	c := d.callFunction(fnSamples, 6)
	return int(uint32(d.out[1])), c
}

func (d *dynamic) Processes(h handle, kind int, dst []processInfo) (int, code) {
	d.out[0] = uint64(len(dst))
	d.args[0], d.args[1], d.args[2] = uintptr(h), d.outAddress(0), uintptr(unsafe.Pointer(unsafe.SliceData(dst)))
	c := d.callFunction(fnCompute+kind, 3)
	return int(uint32(d.out[0])), c
}

func (d *dynamic) ProcessUse(h handle, since uint64, dst []processSample) (int, code) {
	d.out[0] = uint64(len(dst))
	d.args[0], d.args[1], d.args[2], d.args[3] = uintptr(h), uintptr(unsafe.Pointer(unsafe.SliceData(dst))), d.outAddress(0), uintptr(since)
	c := d.callFunction(fnProcessUse, 4)
	return int(uint32(d.out[0])), c
}

func (d *dynamic) MIG(h handle) (bool, code) {
	d.out[0], d.out[1] = 0, 0
	d.args[0], d.args[1], d.args[2] = uintptr(h), d.outAddress(0), d.outAddress(1)
	c := d.callFunction(fnMIG, 3)
	return uint32(d.out[0]) == 1, c
}

func (d *dynamic) MIGCount(h handle) (int, code) {
	v, c := d.call32(fnMIGCount, h)
	return int(v), c
}

func (d *dynamic) MIGDevice(h handle, i int) (handle, code) {
	v, c := d.call64(fnMIGDevice, h, uintptr(i))
	return handle(v), c
}
