package compat

import (
	"strings"

	"reckon/metric"
)

// dcgm shows the GPUs of NVIDIA as dcgm-exporter does with its default counters
// (https://github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv): megahertz,
// mebibytes, percent and millijoules are its units. Partitions (MIG) and what only
// profiling gives are not in it; the use of a device by jobs is in
// reckon_workload_gpu_seconds_total.
type dcgm struct {
	node  string
	t     table
	facts map[string]gpuFacts // by device
}

type gpuFacts struct {
	model, driver string
	partition     bool
}

var dcgmLabels = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"}

func dcgmDesc(name string, kind metric.Kind, help string) *metric.Desc {
	return &metric.Desc{Name: "DCGM_FI_DEV_" + name, Kind: kind, Help: help, Labels: dcgmLabels}
}

var (
	dcgmSMClock   = dcgmDesc("SM_CLOCK", metric.Gauge, "SM clock frequency (in MHz).")
	dcgmMemClock  = dcgmDesc("MEM_CLOCK", metric.Gauge, "Memory clock frequency (in MHz).")
	dcgmMemTemp   = dcgmDesc("MEMORY_TEMP", metric.Gauge, "Memory temperature (in C).")
	dcgmTemp      = dcgmDesc("GPU_TEMP", metric.Gauge, "GPU temperature (in C).")
	dcgmPower     = dcgmDesc("POWER_USAGE", metric.Gauge, "Power draw (in W).")
	dcgmEnergy    = dcgmDesc("TOTAL_ENERGY_CONSUMPTION", metric.Counter, "Total energy consumption (in mJ).")
	dcgmReplays   = dcgmDesc("PCIE_REPLAY_COUNTER", metric.Counter, "Total number of PCIe retries.")
	dcgmUtil      = dcgmDesc("GPU_UTIL", metric.Gauge, "GPU utilization (in %).")
	dcgmMemUtil   = dcgmDesc("MEM_COPY_UTIL", metric.Gauge, "Memory utilization (in %).")
	dcgmEncUtil   = dcgmDesc("ENC_UTIL", metric.Gauge, "Encoder utilization (in %).")
	dcgmDecUtil   = dcgmDesc("DEC_UTIL", metric.Gauge, "Decoder utilization (in %).")
	dcgmFBFree    = dcgmDesc("FB_FREE", metric.Gauge, "Framebuffer memory free (in MiB).")
	dcgmFBUsed    = dcgmDesc("FB_USED", metric.Gauge, "Framebuffer memory used (in MiB).")
	dcgmCorrected = dcgmDesc("ECC_SBE_AGG_TOTAL", metric.Counter, "Total number of single-bit persistent ECC errors.")
	dcgmFatal     = dcgmDesc("ECC_DBE_AGG_TOTAL", metric.Counter, "Total number of double-bit persistent ECC errors.")

	// The busy time behind a utilisation, which the view has only as a gauge.
	dcgmBusy    = &metric.Desc{Name: "busy", Kind: metric.Counter, Labels: dcgmLabels}
	dcgmMemBusy = &metric.Desc{Name: "memory", Kind: metric.Counter, Labels: dcgmLabels}
	dcgmEncBusy = &metric.Desc{Name: "encoder", Kind: metric.Counter, Labels: dcgmLabels}
	dcgmDecBusy = &metric.Desc{Name: "decoder", Kind: metric.Counter, Labels: dcgmLabels}
)

// DCGM returns the view under dcgm-exporter's names.
func DCGM(node string) View {
	return &dcgm{node: node, facts: make(map[string]gpuFacts), t: table{rates: map[*metric.Desc]rate{
		dcgmBusy: {dcgmUtil, 100, true}, dcgmMemBusy: {dcgmMemUtil, 100, true},
		dcgmEncBusy: {dcgmEncUtil, 100, true}, dcgmDecBusy: {dcgmDecUtil, 100, true},
	}}}
}

// Name implements View.
func (d *dcgm) Name() string { return "dcgm" }

// Descs implements View.
func (d *dcgm) Descs() []*metric.Desc {
	return []*metric.Desc{dcgmSMClock, dcgmMemClock, dcgmMemTemp, dcgmTemp, dcgmPower, dcgmEnergy, dcgmReplays,
		dcgmUtil, dcgmMemUtil, dcgmEncUtil, dcgmDecUtil, dcgmFBFree, dcgmFBUsed, dcgmCorrected, dcgmFatal}
}

// Append implements View.
func (d *dcgm) Append(b *metric.Batch, n int) {
	d.t.begin(b.Time)
	clear(d.facts)
	for i := range b.Samples[:n] {
		if s := b.Samples[i].Series; s.Desc.Name == "reckon_gpu_info" && label(s, "vendor") == "nvidia" {
			d.facts[label(s, "device")] = gpuFacts{label(s, "model"), label(s, "driver"), label(s, "parent") != ""}
		}
	}
	for i := range b.Samples[:n] {
		s, v := b.Samples[i].Series, b.Samples[i].Value
		if !strings.HasPrefix(s.Desc.Name, "reckon_gpu_") || label(s, "vendor") != "nvidia" {
			continue
		}
		if at, unit := dcgmOf(s); at != nil {
			d.add(at, s, v*unit)
		}
		switch s.Desc.Name {
		case "reckon_gpu_memory_size_bytes":
			d.add(dcgmFBFree, s, v/(1<<20))
		case "reckon_gpu_memory_bytes":
			d.add(dcgmFBFree, s, -v/(1<<20))
		}
	}
	d.t.end(b)
}

// dcgmOf says which of its series one of ours is, and what to multiply it with.
func dcgmOf(s *metric.Series) (*metric.Desc, float64) {
	switch s.Desc.Name {
	case "reckon_gpu_busy_seconds_total":
		return dcgmBusy, 1
	case "reckon_gpu_engine_busy_seconds_total":
		switch label(s, "engine") {
		case "memory":
			return dcgmMemBusy, 1
		case "encoder":
			return dcgmEncBusy, 1
		case "decoder":
			return dcgmDecBusy, 1
		}
	case "reckon_gpu_clock_hertz":
		switch label(s, "clock") {
		case "compute":
			return dcgmSMClock, 1e-6
		case "memory":
			return dcgmMemClock, 1e-6
		}
	case "reckon_gpu_temperature_celsius":
		switch label(s, "place") {
		case "core":
			return dcgmTemp, 1
		case "memory":
			return dcgmMemTemp, 1
		}
	case "reckon_gpu_power_watts":
		return dcgmPower, 1
	case "reckon_gpu_energy_joules_total":
		return dcgmEnergy, 1000
	case "reckon_gpu_pcie_replays_total":
		return dcgmReplays, 1
	case "reckon_gpu_memory_bytes":
		return dcgmFBUsed, 1.0 / (1 << 20)
	case "reckon_gpu_ecc_errors_total":
		switch label(s, "type") {
		case "corrected":
			return dcgmCorrected, 1
		case "uncorrected":
			return dcgmFatal, 1
		}
	}
	return nil, 0
}

func (d *dcgm) add(to *metric.Desc, s *metric.Series, v float64) {
	device := label(s, "device")
	f, known := d.facts[device]
	if !known || f.partition {
		return
	}
	index := label(s, "index")
	d.t.add(to, v, index, device, "", nvidiaName(index), f.model, d.node, f.driver)
}

// nvidiaName is the device file, without making a string for the usual ones.
func nvidiaName(index string) string {
	for _, n := range [...]string{"nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4", "nvidia5", "nvidia6", "nvidia7", "nvidia8", "nvidia9"} {
		if n[len("nvidia"):] == index {
			return n
		}
	}
	return "nvidia" + index
}
