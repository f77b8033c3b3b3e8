//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	upstream "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"reckon/sensor"
)

// vendor answers our calls from NVIDIA's own Go types: their mock of a DGX A100, which
// defines the names, sizes and codes of such a machine. It is only for a test where a C
// compiler is available; the product needs neither (doc/decisions/0410).
type vendor struct {
	lib     upstream.Interface
	devices []upstream.Device
}

func (v *vendor) Init() code     { return code(v.lib.Init()) }
func (v *vendor) Shutdown() code { return code(v.lib.Shutdown()) }
func (v *vendor) Driver() (string, code) {
	s, r := v.lib.SystemGetDriverVersion()
	return s, code(r)
}
func (v *vendor) Count() (int, code) {
	n, r := v.lib.DeviceGetCount()
	return n, code(r)
}
func (v *vendor) Device(i int) (handle, code) {
	d, r := v.lib.DeviceGetHandleByIndex(i)
	if r != upstream.SUCCESS {
		return 0, code(r)
	}
	v.devices = append(v.devices, d)
	return handle(len(v.devices)), codeSuccess
}
func (v *vendor) dev(h handle) upstream.Device { return v.devices[h-1] }
func (v *vendor) UUID(h handle) (string, code) {
	s, r := v.dev(h).GetUUID()
	return s, code(r)
}
func (v *vendor) Model(h handle) (string, code) {
	s, r := v.dev(h).GetName()
	return s, code(r)
}
func (v *vendor) Utilization(h handle) (uint32, uint32, code) {
	u, r := v.dev(h).GetUtilizationRates()
	return u.Gpu, u.Memory, code(r)
}
func (v *vendor) Samples(handle, uint32, uint64, []utilizationSample) (int, code) {
	return 0, codeNotSupported
}
func (v *vendor) Memory(h handle) (memoryInfo, code) {
	m, r := v.dev(h).GetMemoryInfo()
	return memoryInfo{m.Used, m.Total, noValue64}, code(r)
}
func (v *vendor) PCI(h handle) (string, code) {
	info, r := v.dev(h).GetPciInfo()
	var b []byte
	for _, c := range info.BusId {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b), code(r)
}
func (v *vendor) Coder(handle, bool) (uint32, code)        { return 0, codeNotSupported }
func (v *vendor) GPM(handle) (bool, code)                  { return false, codeSuccess } // Ampere
func (v *vendor) NewGPMSample() (gpmSample, code)          { return 0, codeNotSupported }
func (v *vendor) FreeGPMSample(gpmSample)                  {}
func (v *vendor) SampleGPM(handle, uint32, gpmSample) code { return codeNotSupported }
func (v *vendor) GPMMetrics(gpmSample, gpmSample, []uint32, []float64) code {
	return codeNotSupported
}
func (v *vendor) Watch(handle) code       { return codeNotSupported }
func (v *vendor) Event() (xidEvent, code) { return xidEvent{}, codeTimeout }
func (v *vendor) Energy(h handle) (uint64, code) {
	mj, r := v.dev(h).GetTotalEnergyConsumption()
	return mj, code(r)
}
func (v *vendor) Power(h handle) (uint32, code) {
	mw, r := v.dev(h).GetPowerUsage()
	return mw, code(r)
}
func (v *vendor) PowerLimit(h handle) (uint32, code) {
	mw, r := v.dev(h).GetEnforcedPowerLimit()
	return mw, code(r)
}
func (v *vendor) Clock(h handle, kind uint32) (uint32, code) {
	mhz, r := v.dev(h).GetClockInfo(upstream.ClockType(kind))
	return mhz, code(r)
}
func (v *vendor) Temperature(h handle) (uint32, code) {
	t, r := v.dev(h).GetTemperature(upstream.TEMPERATURE_GPU)
	return t, code(r)
}
func (v *vendor) Fan(h handle) (uint32, code) {
	p, r := v.dev(h).GetFanSpeed()
	return p, code(r)
}
func (v *vendor) Reasons(h handle) (uint64, code) {
	bits, r := v.dev(h).GetCurrentClocksEventReasons()
	return bits, code(r)
}
func (v *vendor) Errors(h handle, uncorrected bool) (uint64, code) {
	kind := upstream.MEMORY_ERROR_TYPE_CORRECTED
	if uncorrected {
		kind = upstream.MEMORY_ERROR_TYPE_UNCORRECTED
	}
	n, r := v.dev(h).GetTotalEccErrors(kind, upstream.AGGREGATE_ECC)
	return n, code(r)
}

// Fields uses NVIDIA's struct, so that numbers and layout are theirs.
func (v *vendor) Fields(h handle, f []fieldValue) code {
	theirs := make([]upstream.FieldValue, len(f))
	for i := range f {
		theirs[i].FieldId = f[i].id
	}
	r := v.dev(h).GetFieldValues(theirs)
	for i := range f {
		f[i].kind, f[i].code, f[i].value = theirs[i].ValueType, code(theirs[i].NvmlReturn), theirs[i].Value
	}
	return code(r)
}
func (v *vendor) Processes(h handle, kind int, dst []processInfo) (int, code) {
	get := v.dev(h).GetComputeRunningProcesses
	switch kind {
	case listGraphics:
		get = v.dev(h).GetGraphicsRunningProcesses
	case listMPS:
		return 0, codeNotSupported
	}
	list, r := get()
	for i := range min(len(list), len(dst)) {
		dst[i] = processInfo{pid: list[i].Pid, memory: list[i].UsedGpuMemory, gpuInstance: list[i].GpuInstanceId, instance: list[i].ComputeInstanceId}
	}
	return len(list), code(r)
}
func (v *vendor) ProcessUse(h handle, since uint64, dst []processSample) (int, code) {
	list, r := v.dev(h).GetProcessUtilization(since)
	for i := range min(len(list), len(dst)) {
		dst[i] = processSample{pid: list[i].Pid, time: list[i].TimeStamp, sm: list[i].SmUtil}
	}
	return len(list), code(r)
}
func (v *vendor) MIG(h handle) (bool, code) {
	now, _, r := v.dev(h).GetMigMode()
	return now == upstream.DEVICE_MIG_ENABLE, code(r)
}
func (v *vendor) MIGCount(h handle) (int, code)        { return 0, codeSuccess }
func (v *vendor) MIGDevice(handle, int) (handle, code) { return 0, codeNotFound }
func (v *vendor) Minor(h handle) (uint32, code) {
	n, r := v.dev(h).GetMinorNumber()
	return uint32(n), code(r)
}
func (v *vendor) GPUInstance(handle) (uint32, code) { return 0, codeNotSupported }

// dgx is NVIDIA's mock with its missing parts filled in: figures of a busy machine.
func dgx() *dgxa100.Server {
	s := dgxa100.New()
	for i, d := range s.Devices {
		d := d.(*dgxa100.Device)
		step := uint64(0)
		d.MemoryInfo.Used = 4 << 30
		d.GetUtilizationRatesFunc = func() (upstream.Utilization, upstream.Return) {
			return upstream.Utilization{Gpu: uint32(10 * i), Memory: 5}, upstream.SUCCESS
		}
		d.GetTotalEnergyConsumptionFunc = func() (uint64, upstream.Return) {
			step++
			return 9_000_000_000 + step*250_000, upstream.SUCCESS // 250 J per reading
		}
		d.GetPowerUsageFunc = func() (uint32, upstream.Return) { return 250_000, upstream.SUCCESS }
		d.GetEnforcedPowerLimitFunc = func() (uint32, upstream.Return) { return 400_000, upstream.SUCCESS }
		d.GetClockInfoFunc = func(c upstream.ClockType) (uint32, upstream.Return) { return 1410, upstream.SUCCESS }
		d.GetTemperatureFunc = func(upstream.TemperatureSensors) (uint32, upstream.Return) { return 61, upstream.SUCCESS }
		d.GetFanSpeedFunc = func() (uint32, upstream.Return) { return 0, upstream.ERROR_NOT_SUPPORTED } // the chassis has the fans
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, upstream.Return) {
			return upstream.ClocksEventReasonSwPowerCap, upstream.SUCCESS
		}
		d.GetTotalEccErrorsFunc = func(kind upstream.MemoryErrorType, _ upstream.EccCounterType) (uint64, upstream.Return) {
			return map[upstream.MemoryErrorType]uint64{upstream.MEMORY_ERROR_TYPE_CORRECTED: 3, upstream.MEMORY_ERROR_TYPE_UNCORRECTED: 1}[kind], upstream.SUCCESS
		}
		d.GetFieldValuesFunc = func(f []upstream.FieldValue) upstream.Return {
			for i := range f {
				switch f[i].FieldId {
				case upstream.FI_DEV_PCIE_REPLAY_COUNTER:
					f[i].ValueType = uint32(upstream.VALUE_TYPE_UNSIGNED_INT)
					binary.NativeEndian.PutUint32(f[i].Value[:], 7)
				case upstream.FI_DEV_MEMORY_TEMP:
					f[i].ValueType = uint32(upstream.VALUE_TYPE_UNSIGNED_INT)
					binary.NativeEndian.PutUint32(f[i].Value[:], 77)
				default:
					f[i].NvmlReturn = uint32(upstream.ERROR_NOT_SUPPORTED)
				}
			}
			return upstream.SUCCESS
		}
		d.GetComputeRunningProcessesFunc = func() ([]upstream.ProcessInfo, upstream.Return) {
			return []upstream.ProcessInfo{{Pid: uint32(4711 + i), UsedGpuMemory: 3 << 30}}, upstream.SUCCESS
		}
		d.GetGraphicsRunningProcessesFunc = func() ([]upstream.ProcessInfo, upstream.Return) { return nil, upstream.SUCCESS }
		d.GetProcessUtilizationFunc = func(uint64) ([]upstream.ProcessUtilizationSample, upstream.Return) {
			return nil, upstream.ERROR_NOT_FOUND // nothing new
		}
	}
	return s
}

// TestVendorMock reads NVIDIA's mock of a DGX A100 through the sensor.
func TestVendorMock(t *testing.T) {
	server := dgx()
	s, err := openSensor(&vendor{lib: server}, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	s.reader.now = func() time.Time { return now }
	read(t, s)
	now = now.Add(time.Second)
	got := read(t, s)
	for i, d := range server.Devices {
		d := d.(*dgxa100.Device)
		dev := "nvidia|" + d.UUID + "|" + string(rune('0'+i))
		want(t, got, "gpu_info|"+dev+"|Mock NVIDIA A100-SXM4-40GB|550.54.15|||", 1)
		want(t, got, "gpu_memory_bytes|"+dev, 4<<30)
		want(t, got, "gpu_memory_size_bytes|"+dev, 42949672960)
		want(t, got, "gpu_power_watts|"+dev, 250)
		want(t, got, "gpu_power_limit_watts|"+dev, 400)
		want(t, got, "gpu_temperature_celsius|"+dev+"|core", 61)
		want(t, got, "gpu_temperature_celsius|"+dev+"|memory", 77)
		want(t, got, "gpu_clock_hertz|"+dev+"|graphics", 1410e6)
		want(t, got, "gpu_ecc_errors_total|"+dev+"|corrected", 3)
		want(t, got, "gpu_ecc_errors_total|"+dev+"|uncorrected", 1)
		want(t, got, "gpu_pcie_replays_total|"+dev, 7)
	}
	absent(t, got, "gpu_fan")
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Devices) != 8 || len(p.Uses) != 8 || p.Uses[3].PID != 4714 || p.Uses[3].Memory != 3<<30 {
		t.Errorf("%d devices, uses %+v", len(p.Devices), p.Uses)
	}
	meters, err := s.ReadMeters(nil)
	if err != nil || len(meters) != 8 {
		t.Fatalf("%+v, %v", meters, err)
	}
	for _, m := range meters {
		if m.Domain != sensor.DomainGPU || !m.HasJoules || !strings.HasPrefix(m.Zone, "GPU-") {
			t.Errorf("%+v", m)
		}
	}
}

// TestVendorConstants compares our numbers with NVIDIA's.
func TestVendorConstants(t *testing.T) {
	for name, c := range map[string][2]uint64{
		"not supported":     {uint64(codeNotSupported), uint64(upstream.ERROR_NOT_SUPPORTED)},
		"no permission":     {uint64(codeNoPermission), uint64(upstream.ERROR_NO_PERMISSION)},
		"not found":         {uint64(codeNotFound), uint64(upstream.ERROR_NOT_FOUND)},
		"insufficient size": {uint64(codeInsufficientSize), uint64(upstream.ERROR_INSUFFICIENT_SIZE)},
		"driver not loaded": {uint64(codeDriverNotLoaded), uint64(upstream.ERROR_DRIVER_NOT_LOADED)},
		"no function":       {uint64(codeNoFunction), uint64(upstream.ERROR_FUNCTION_NOT_FOUND)},
		"GPU lost":          {uint64(codeGPULost), uint64(upstream.ERROR_GPU_IS_LOST)},
		"reset required":    {uint64(codeResetRequired), uint64(upstream.ERROR_RESET_REQUIRED)},
		"version mismatch":  {uint64(codeVersionMismatch), uint64(upstream.ERROR_LIB_RM_VERSION_MISMATCH)},
		"graphics clock":    {clockGraphics, uint64(upstream.CLOCK_GRAPHICS)},
		"SM clock":          {clockSM, uint64(upstream.CLOCK_SM)},
		"memory clock":      {clockMemory, uint64(upstream.CLOCK_MEM)},
		"video clock":       {clockVideo, uint64(upstream.CLOCK_VIDEO)},
		"GPU samples":       {sampleGPU, uint64(upstream.GPU_UTILIZATION_SAMPLES)},
		"memory samples":    {sampleMemory, uint64(upstream.MEMORY_UTILIZATION_SAMPLES)},
		"power policy":      {fieldPowerPolicy, uint64(upstream.FI_DEV_PERF_POLICY_POWER)},
		"sync boost":        {fieldSyncBoost, uint64(upstream.FI_DEV_PERF_POLICY_SYNC_BOOST)},
		"memory temp":       {fieldMemoryTemp, uint64(upstream.FI_DEV_MEMORY_TEMP)},
		"replays":           {fieldReplays, uint64(upstream.FI_DEV_PCIE_REPLAY_COUNTER)},
		"soft thermal":      {fieldSoftThermal, uint64(upstream.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN)},
		"hard thermal":      {fieldHardThermal, uint64(upstream.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN)},
		"power brake":       {fieldPowerBrake, uint64(upstream.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN)},
		"encoder samples":   {sampleEncoder, uint64(upstream.ENC_UTILIZATION_SAMPLES)},
		"decoder samples":   {sampleDecoder, uint64(upstream.DEC_UTILIZATION_SAMPLES)},
		"CRC of packets":    {fieldCRCFlit, uint64(upstream.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL)},
		"CRC of data":       {fieldCRCData, uint64(upstream.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL)},
		"link replays":      {fieldReplay, uint64(upstream.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL)},
		"link recoveries":   {fieldRecovery, uint64(upstream.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)},
		"NVLink sent":       {fieldNVLinkSent, uint64(upstream.FI_DEV_NVLINK_THROUGHPUT_DATA_TX)},
		"NVLink received":   {fieldNVLinkGot, uint64(upstream.FI_DEV_NVLINK_THROUGHPUT_DATA_RX)},
		"rows corrected":    {fieldRowsFixed, uint64(upstream.FI_DEV_REMAPPED_COR)},
		"rows uncorrected":  {fieldRowsBad, uint64(upstream.FI_DEV_REMAPPED_UNC)},
		"rows pending":      {fieldRowsPending, uint64(upstream.FI_DEV_REMAPPED_PENDING)},
		"rows failed":       {fieldRowsFailed, uint64(upstream.FI_DEV_REMAPPED_FAILURE)},
		"replay of a link":  {fieldLinkReplay, uint64(upstream.FI_DEV_NVLINK_ERROR_DL_REPLAY)},
		"recovery of one":   {fieldLinkRecovery, uint64(upstream.FI_DEV_NVLINK_ERROR_DL_RECOVERY)},
		"CRC of one":        {fieldLinkCRC, uint64(upstream.FI_DEV_NVLINK_ERROR_DL_CRC)},
		"links":             {maxLinks, uint64(upstream.NVLINK_MAX_LINKS)},
		"GPM graphics":      {gpmGraphics, uint64(upstream.GPM_METRIC_GRAPHICS_UTIL)},
		"GPM SM":            {gpmSM, uint64(upstream.GPM_METRIC_SM_UTIL)},
		"GPM tensor":        {gpmTensor, uint64(upstream.GPM_METRIC_ANY_TENSOR_UTIL)},
		"GPM DRAM":          {gpmDRAM, uint64(upstream.GPM_METRIC_DRAM_BW_UTIL)},
		"GPM FP64":          {gpmFP64, uint64(upstream.GPM_METRIC_FP64_UTIL)},
		"GPM FP32":          {gpmFP32, uint64(upstream.GPM_METRIC_FP32_UTIL)},
		"GPM FP16":          {gpmFP16, uint64(upstream.GPM_METRIC_FP16_UTIL)},
		"GPM PCIe sent":     {gpmPCIeSent, uint64(upstream.GPM_METRIC_PCIE_TX_PER_SEC)},
		"GPM PCIe received": {gpmPCIeGot, uint64(upstream.GPM_METRIC_PCIE_RX_PER_SEC)},
		"GPM NVLink got":    {gpmNVLinkGot, uint64(upstream.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC)},
		"GPM NVLink sent":   {gpmNVLinkSent, uint64(upstream.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC)},
		"Xid events":        {eventXid, uint64(upstream.EventTypeXidCriticalError)},
		"power cap":         {reasonPowerCap, upstream.ClocksEventReasonSwPowerCap},
		"hardware":          {reasonHardware, upstream.ClocksThrottleReasonHwSlowdown},
		"sync":              {reasonSyncBoost, upstream.ClocksEventReasonSyncBoost},
		"soft heat":         {reasonSoftThermal, upstream.ClocksEventReasonSwThermalSlowdown},
		"hard heat":         {reasonHardThermal, upstream.ClocksThrottleReasonHwThermalSlowdown},
		"brake":             {reasonPowerBrake, upstream.ClocksThrottleReasonHwPowerBrakeSlowdown},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: ours is %d, NVIDIA's %d", name, c[0], c[1])
		}
	}
}
