package compat

import (
	"strings"

	"reckon/metric"
)

// dcgm exports NVIDIA GPUs like dcgm-exporter with its default counters
// (https://github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv), in its units: megahertz,
// mebibytes, percent and millijoules. A MIG partition has the figures that it reports itself, with
// its device as UUID. DCGM_FI_DEV_VGPU_LICENSE_STATUS is absent because it is about guests, and
// DCGM_FI_PROF_* on devices before Hopper because only DCGM's service can read those counters. The
// use by jobs is in reckon_workload_gpu_seconds_total.
type dcgm struct {
	node  string
	t     table
	pods  containers
	round int
	facts map[string]*gpuFacts // by device
}

// gpuFacts holds the label values of a GPU or partition.
type gpuFacts struct {
	uuid, index, pci, model, driver string
	profile, partition              string // of a MIG instance
	pod, namespace, container       string // exclusive assignment by the kubelet
	shared                          bool   // assigned to several
	info                            *metric.Series
	round                           int // last round with the device
}

var dcgmLabels = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname",
	"DCGM_FI_DRIVER_VERSION", "container", "namespace", "pod"}

func dcgmDesc(name string, kind metric.Kind, help string) *metric.Desc {
	return &metric.Desc{Name: "DCGM_FI_" + name, Kind: kind, Help: help, Labels: dcgmLabels}
}

// dcgmRow maps one of our series to one of dcgm-exporter.
type dcgmRow struct {
	ours  string // name of our series; value: its label values after the device's
	value string
	desc  *metric.Desc
	scale float64
	rate  bool // the original is a gauge: the rate of our counter
}

// dcgmRows are the default counters of dcgm-exporter, and its counters of ECC errors.
var dcgmRows = []dcgmRow{
	{"reckon_gpu_clock_hertz", "compute", dcgmDesc("DEV_SM_CLOCK", metric.Gauge, "SM clock frequency (in MHz)."), 1e-6, false},
	{"reckon_gpu_clock_hertz", "memory", dcgmDesc("DEV_MEM_CLOCK", metric.Gauge, "Memory clock frequency (in MHz)."), 1e-6, false},
	{"reckon_gpu_temperature_celsius", "memory", dcgmDesc("DEV_MEMORY_TEMP", metric.Gauge, "Memory temperature (in C)."), 1, false},
	{"reckon_gpu_temperature_celsius", "core", dcgmDesc("DEV_GPU_TEMP", metric.Gauge, "GPU temperature (in C)."), 1, false},
	{"reckon_gpu_power_watts", "", dcgmDesc("DEV_POWER_USAGE", metric.Gauge, "Power draw (in W)."), 1, false},
	{"reckon_gpu_energy_joules_total", "", dcgmDesc("DEV_TOTAL_ENERGY_CONSUMPTION", metric.Counter, "Total energy consumption (in mJ)."),
		1000, false},
	{"reckon_gpu_pcie_replays_total", "", dcgmDesc("DEV_PCIE_REPLAY_COUNTER", metric.Counter, "Total number of PCIe retries."), 1, false},
	{"reckon_gpu_busy_seconds_total", "", dcgmDesc("DEV_GPU_UTIL", metric.Gauge, "GPU utilization (in %)."), 100, true},
	{"reckon_gpu_engine_busy_seconds_total", "memory", dcgmDesc("DEV_MEM_COPY_UTIL", metric.Gauge, "Memory utilization (in %)."), 100,
		true},
	{"reckon_gpu_engine_busy_seconds_total", "encoder", dcgmDesc("DEV_ENC_UTIL", metric.Gauge, "Encoder utilization (in %)."), 100, true},
	{"reckon_gpu_engine_busy_seconds_total", "decoder", dcgmDesc("DEV_DEC_UTIL", metric.Gauge, "Decoder utilization (in %)."), 100, true},
	{"reckon_gpu_xid_last", "", dcgmDesc("DEV_XID_ERRORS", metric.Gauge, "Value of the last XID error encountered."), 1, false},
	{"reckon_gpu_memory_bytes", "", dcgmDesc("DEV_FB_USED", metric.Gauge, "Framebuffer memory used (in MiB)."), 1.0 / (1 << 20), false},
	{"reckon_gpu_memory_reserved_bytes", "", dcgmDesc("DEV_FB_RESERVED", metric.Gauge, "Framebuffer memory reserved (in MiB)."),
		1.0 / (1 << 20), false},
	{"reckon_gpu_memory_size_bytes", "", dcgmFree, 1.0 / (1 << 20), false},
	{"reckon_gpu_memory_bytes", "", dcgmFree, -1.0 / (1 << 20), false},
	{"reckon_gpu_memory_reserved_bytes", "", dcgmFree, -1.0 / (1 << 20), false},
	{"reckon_gpu_ecc_errors_total", "corrected",
		dcgmDesc("DEV_ECC_SBE_AGG_TOTAL", metric.Counter, "Total number of single-bit persistent ECC errors."), 1, false},
	{"reckon_gpu_ecc_errors_total", "uncorrected",
		dcgmDesc("DEV_ECC_DBE_AGG_TOTAL", metric.Counter, "Total number of double-bit persistent ECC errors."), 1, false},
	{"reckon_gpu_remapped_rows", "uncorrected",
		dcgmDesc("DEV_UNCORRECTABLE_REMAPPED_ROWS", metric.Counter, "Number of remapped rows for uncorrectable errors."), 1, false},
	{"reckon_gpu_remapped_rows", "corrected",
		dcgmDesc("DEV_CORRECTABLE_REMAPPED_ROWS", metric.Counter, "Number of remapped rows for correctable errors."), 1, false},
	{"reckon_gpu_remap_failed", "", dcgmDesc("DEV_ROW_REMAP_FAILURE", metric.Gauge, "Whether remapping of rows has failed."), 1, false},
	// A rate in MB/s over both directions, although the original's list declares it a counter.
	{"reckon_gpu_link_bytes_total", "nvlink",
		dcgmDesc("DEV_NVLINK_BANDWIDTH_TOTAL", metric.Gauge, "NVLink bandwidth of all lanes (in MB/s)."), 1e-6, true},
	{"reckon_gpu_engine_busy_seconds_total", "graphics",
		dcgmDesc("PROF_GR_ENGINE_ACTIVE", metric.Gauge, "Ratio of time the graphics engine is active."), 1, true},
	{"reckon_gpu_engine_busy_seconds_total", "tensor",
		dcgmDesc("PROF_PIPE_TENSOR_ACTIVE", metric.Gauge, "Ratio of cycles the tensor (HMMA) pipe is active."), 1, true},
	{"reckon_gpu_engine_busy_seconds_total", "dram",
		dcgmDesc("PROF_DRAM_ACTIVE", metric.Gauge, "Ratio of cycles the device memory interface is active sending or receiving data."), 1,
		true},
	{"reckon_gpu_engine_busy_seconds_total", "sm",
		dcgmDesc("PROF_SM_ACTIVE", metric.Gauge, "The ratio of cycles an SM has at least 1 warp assigned."), 1, true},
	{"reckon_gpu_engine_busy_seconds_total", "fp64",
		dcgmDesc("PROF_PIPE_FP64_ACTIVE", metric.Gauge, "Ratio of cycles the fp64 pipes are active."), 1, true},
	{"reckon_gpu_engine_busy_seconds_total", "fp32",
		dcgmDesc("PROF_PIPE_FP32_ACTIVE", metric.Gauge, "Ratio of cycles the fp32 pipes are active."), 1, true},
	{"reckon_gpu_engine_busy_seconds_total", "fp16",
		dcgmDesc("PROF_PIPE_FP16_ACTIVE", metric.Gauge, "Ratio of cycles the fp16 pipes are active."), 1, true},
	{"reckon_gpu_link_bytes_total", "pcie sent",
		dcgmDesc("PROF_PCIE_TX_BYTES", metric.Gauge, "The number of bytes of active pcie tx data including both header and payload."), 1,
		true},
	{"reckon_gpu_link_bytes_total", "pcie received",
		dcgmDesc("PROF_PCIE_RX_BYTES", metric.Gauge, "The number of bytes of active pcie rx data including both header and payload."), 1,
		true},
}

var dcgmFree = dcgmDesc("DEV_FB_FREE", metric.Gauge, "Framebuffer memory free (in MiB).")

// dcgmCounters are placeholders for counters that the original exposes only as a rate.
var dcgmCounters = func() []*metric.Desc {
	out := make([]*metric.Desc, len(dcgmRows))
	for i, r := range dcgmRows {
		if r.rate {
			out[i] = &metric.Desc{Name: r.desc.Name + "_sum", Kind: metric.Counter, Labels: dcgmLabels}
		}
	}
	return out
}()

// DCGM returns the view under dcgm-exporter's names.
func DCGM(node string) View {
	d := &dcgm{node: node, facts: make(map[string]*gpuFacts), t: table{rates: make(map[*metric.Desc]rate)}}
	for i, r := range dcgmRows {
		if r.rate {
			d.t.rates[dcgmCounters[i]] = rate{r.desc, r.scale, true}
		}
	}
	return d
}

// Name implements View.
func (d *dcgm) Name() string { return "dcgm" }

// Descs implements View.
func (d *dcgm) Descs() []*metric.Desc {
	out := []*metric.Desc{dcgmFree}
	for _, r := range dcgmRows {
		if r.desc != dcgmFree {
			out = append(out, r.desc)
		}
	}
	return out
}

// Append implements View.
func (d *dcgm) Append(b *metric.Batch, n int) {
	d.t.beginRound(b.Time)
	d.pods.readNames(b, n)
	d.round++
	for i := range b.Samples[:n] {
		if s := b.Samples[i].Series; s.Desc.Name == "reckon_gpu_info" && label(s, "vendor") == "nvidia" {
			d.readFacts(s)
		}
	}
	for i := range b.Samples[:n] {
		if s := b.Samples[i].Series; s.Desc.Name == "reckon_container_device_info" && !b.Samples[i].Last {
			d.assignContainer(s)
		}
	}
	for i := range b.Samples[:n] {
		s := b.Samples[i].Series
		if !strings.HasPrefix(s.Desc.Name, "reckon_gpu_") || label(s, "vendor") != "nvidia" {
			continue
		}
		for j := range dcgmRows {
			r := &dcgmRows[j]
			switch {
			case r.ours != s.Desc.Name || !r.matches(s.Values):
			case r.rate:
				d.add(dcgmCounters[j], s, b.Samples[i].Value)
			default:
				d.add(r.desc, s, b.Samples[i].Value*r.scale)
			}
		}
	}
	d.t.endRound(b)
}

// deviceLabels is the number of leading labels common to all GPU series.
const deviceLabels = 3

// matches reports whether a series with these label values belongs to the row.
func (r *dcgmRow) matches(values []string) bool {
	more := values[deviceLabels:]
	first, second, both := strings.Cut(r.value, " ")
	return r.value == "" || len(more) > 0 && more[0] == first && (!both || len(more) > 1 && more[1] == second)
}

// readFacts reads the facts of a device, once per series.
func (d *dcgm) readFacts(s *metric.Series) {
	device := label(s, "device")
	f := d.facts[device]
	if f == nil || f.info != s {
		f = &gpuFacts{info: s, uuid: device, index: label(s, "index"), pci: label(s, "pci"), model: label(s, "model"),
			driver: label(s, "driver")}
		if parent := label(s, "parent"); parent != "" {
			f.uuid, f.partition = parent, label(s, "partition")
			f.model, f.profile, _ = strings.Cut(f.model, " MIG ")
		}
		d.facts[device] = f
	}
	f.round = d.round
	f.pod, f.namespace, f.container, f.shared = "", "", "", false
}

// assignContainer records the container that the kubelet assigned a device to. A device assigned to several containers belongs to none.
func (d *dcgm) assignContainer(s *metric.Series) {
	f, info := d.facts[label(s, "device")], d.pods.find(s)
	if f == nil || info == nil || f.shared {
		return
	}
	if f.shared = f.pod != ""; f.shared {
		f.pod, f.namespace, f.container = "", "", ""
		return
	}
	f.pod, f.namespace, f.container = label(info, "pod"), label(info, "namespace"), label(info, "container")
}

func (d *dcgm) add(to *metric.Desc, s *metric.Series, v float64) {
	f := d.facts[label(s, "device")]
	if f == nil || f.round != d.round {
		return
	}
	if p := d.facts[f.uuid]; p != nil && f.partition != "" {
		f.pci = p.pci
	}
	d.t.add(to, v, f.index, f.uuid, f.pci, nvidiaName(f.index), f.model, f.profile, f.partition, d.node, f.driver, f.container, f.namespace,
		f.pod)
}

// nvidiaName returns the device file, without allocating for the usual ones.
func nvidiaName(index string) string {
	for _, n := range [...]string{"nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4", "nvidia5", "nvidia6", "nvidia7", "nvidia8",
		"nvidia9"} {
		if n[len("nvidia"):] == index {
			return n
		}
	}
	return "nvidia" + index
}
