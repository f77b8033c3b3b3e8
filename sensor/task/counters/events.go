package counters

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
)

// perfEvent is an event of perf_event_open(2).
type perfEvent struct {
	counter Counter
	kind    uint32 // PERF_TYPE_*
	config  uint64
}

// eventPlan lists the events to count on a processor.
type eventPlan struct {
	events []perfEvent
	line   uint64 // bytes of memory that a cache miss moves, 0 if misses do not separate
}

// cacheLine is the size of a line of every processor in the table, bytes.
const cacheLine = 64

// rawEvent returns the number of an event of x86: its code and the mask of its units.
func rawEvent(code, mask uint64) uint64 { return mask<<8 | code }

// cpuFamily holds the events that are specific to a family of processors.
type cpuFamily struct {
	vendor string
	number int
	models []int     // nil: all of the family
	misses perfEvent // of the last level of the cache
	fp     [4]uint64
}

// cpuFamilies lists processor families, and the first match applies. Intel: the architectural event LLC misses (Intel SDM
// volume 3, "Architectural performance monitoring") and FP_ARITH_INST_RETIRED, with single and double precision counted
// together. AMD: tools/perf/pmu-events/arch/x86/amdzen{2,3,4,5} of the kernel, with ls_any_fills_from_sys.dram_io_all
// (Zen 2: demand fills only) and fp_ops_retired_by_width. Intel processors that are not listed have no counts by vector
// width. AMD processors that are not listed have neither these nor memory traffic.
var cpuFamilies = []cpuFamily{
	{vendor: "GenuineIntel", number: 6, misses: lastLevelMisses,
		fp: [4]uint64{rawEvent(0xc7, 0x03), rawEvent(0xc7, 0x0c), rawEvent(0xc7, 0x30), rawEvent(0xc7, 0xc0)}, models: []int{
			0x3d, 0x47, 0x4f, 0x56, // Broadwell
			0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x55, // Skylake to Cooper Lake
			0x7d, 0x7e, 0x9d, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7, // Ice Lake, Tiger Lake, Rocket Lake
			0x8f, 0xcf, 0xad, 0xae, // Sapphire Rapids, Emerald Rapids, Granite Rapids
		}},
	{vendor: "GenuineIntel", number: 6, misses: lastLevelMisses},
	{vendor: "AuthenticAMD", number: 0x17, models: modelRange(0x30, 0xff), misses: memoryFill(0x43)}, // Zen 2
	{vendor: "AuthenticAMD", number: 0x19, models: append(modelRange(0x00, 0x0f), modelRange(0x20, 0x5f)...), misses: memoryFill(0x44)},
	{vendor: "AuthenticAMD", number: 0x19, misses: memoryFill(0x44), fp: fpByWidth}, // Zen 4
	{vendor: "AuthenticAMD", number: 0x1a, misses: memoryFill(0x44), fp: fpByWidth}, // Zen 5
}

var (
	lastLevelMisses = perfEvent{CacheMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES}
	fpByWidth       = [4]uint64{rawEvent(0x08, 0x04), rawEvent(0x08, 0x08), rawEvent(0x08, 0x10), rawEvent(0x08, 0x20)}
)

// memoryFill are those from memory or devices, near and far.
func memoryFill(code uint64) perfEvent {
	return perfEvent{CacheMisses, unix.PERF_TYPE_RAW, rawEvent(code, 0x48)}
}

func modelRange(first, last int) (out []int) {
	for n := first; n <= last; n++ {
		out = append(out, n)
	}
	return out
}

// armMisses is LL_CACHE_MISS_RD (Arm Architecture Reference Manual, common events): the generic event counts the first level there.
var armMisses = perfEvent{CacheMisses, unix.PERF_TYPE_RAW, 0x37}

// planFor returns the events to count, given /proc/cpuinfo and the Go architecture.
func planFor(cpuinfo, arch string) eventPlan {
	p := eventPlan{events: []perfEvent{
		{Cycles, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES},
		{Instructions, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
		{BranchMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES},
	}}
	if arch == "arm64" {
		p.events, p.line = append(p.events, armMisses), cacheLine
		return p
	}
	vendor, number, model := identifyCPU(cpuinfo)
	for i := range cpuFamilies {
		f := &cpuFamilies[i]
		if f.vendor != vendor || f.number != number || f.models != nil && !slices.Contains(f.models, model) {
			continue
		}
		p.events, p.line = append(p.events, f.misses), cacheLine
		for i, config := range f.fp {
			if config != 0 {
				p.events = append(p.events, perfEvent{FPScalar + Counter(i), unix.PERF_TYPE_RAW, config})
			}
		}
		break
	}
	return p
}

// identifyCPU returns the kind of the first processor.
func identifyCPU(cpuinfo string) (vendor string, family, model int) {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			vendor = value
		case "cpu family":
			family, _ = strconv.Atoi(value)
		case "model":
			model, _ = strconv.Atoi(value)
		case "":
			return vendor, family, model
		}
	}
	return vendor, family, model
}

// planForMachine returns the events to count on this machine.
func planForMachine(root string) eventPlan {
	text, _ := os.ReadFile(sysfs.Path(root, "proc/cpuinfo")) // if unreadable, use the events that every processor has
	return planFor(string(text), runtime.GOARCH)
}

// open opens an event on processor cpu. On machines with several types of cores, a generic event needs the type of the
// core, because it would otherwise count only on one type (PERF_PMU_TYPE_SHIFT in linux/perf_event.h).
func (e perfEvent) open(root string, cpu int) (int, error) {
	fd, err := openPerfEvent(e.kind, e.config, cpu)
	if err != unix.ENOENT || e.kind != unix.PERF_TYPE_HARDWARE {
		return fd, err
	}
	for _, kind := range []string{"cpu_core", "cpu_atom"} {
		dir := sysfs.Path(root, "sys/bus/event_source/devices", kind)
		number, convErr := strconv.ParseUint(sysfs.ReadWord(dir, "type"), 10, 32)
		if convErr == nil && slices.Contains(sysfs.Numbers(sysfs.ReadWord(dir, "cpus")), cpu) {
			return openPerfEvent(e.kind, number<<32|e.config, cpu)
		}
	}
	return fd, err
}

func openPerfEvent(kind uint32, config uint64, cpu int) (int, error) {
	attr := unix.PerfEventAttr{Type: kind, Config: config, Size: unix.PERF_ATTR_SIZE_VER1}
	return unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}
