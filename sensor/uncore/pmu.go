package uncore

import (
	"path/filepath"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
)

// countedEvent is an event to open for one direction of one unit on one processor.
type countedEvent struct {
	unit   string // the folder of the unit
	kind   uint32 // type of perf_event_attr
	config uint64
	bytes  float64 // that one count stands for
	cpu    int
	socket string
	write  bool
}

// memoryControllers are the supported memory controllers in order of preference. Only one kind is used, because several kinds
// may count the same traffic.
var memoryControllers = []struct {
	prefix      string
	read, write []string // names of events, the first that there is; those joined by + are added up
	fixed       [2]string
}{
	{prefix: "uncore_imc_free_running", read: []string{"read", "data_read"}, write: []string{"write", "data_write"}},
	{prefix: "uncore_imc", read: []string{"cas_count_read", "data_reads", "data_read"},
		write: []string{"cas_count_write", "data_writes", "data_write"}},
	// The driver names no events: umc_cas_cmd.rd and .wr of tools/perf/pmu-events/arch/x86/amdzen4/memory-controller.json.
	{prefix: "amd_umc", fixed: [2]string{"event=0x0a,rdwrmask=0x1", "event=0x0a,rdwrmask=0x2"}},
	// Yitian 710 (Documentation/admin-guide/perf/alibaba_pmu.rst): commands of 64 bytes. A partial
	// write (read-modify-write) counts as a write there.
	{prefix: "ali_drw", read: []string{"hif_rd"}, write: []string{"hif_wr+hif_rmw"}},
}

// defaultBurst is the number of bytes per memory command if the unit does not define it.
const defaultBurst = 64

// unitsDir is the directory of the kernel's performance monitoring units.
const unitsDir = "sys/bus/event_source/devices"

// findEvents returns the events to count, for the first kind of controller that exists.
func findEvents(root string) (out []countedEvent) {
	folders, _ := filepath.Glob(sysfs.Path(root, unitsDir, "*")) // the pattern is well formed
	for _, c := range memoryControllers {
		for _, dir := range folders {
			number, ok := strings.CutPrefix(filepath.Base(dir), c.prefix)
			if number = strings.TrimPrefix(number, "_"); !ok || !isHexSuffix(number) {
				continue
			}
			for i, names := range [2][]string{c.read, c.write} {
				out = append(out, unitCounts(root, dir, names, c.fixed[i], i == 1)...)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// isHexSuffix reports whether a text is empty or a hexadecimal number, as units have them by channel or address.
func isHexSuffix(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// unitCounts returns one direction of a unit on each processor in its cpumask.
func unitCounts(root, dir string, names []string, terms string, write bool) (out []countedEvent) {
	if terms != "" {
		return unitEvent(root, dir, terms, defaultBurst, write)
	}
	for _, sum := range names {
		out = out[:0]
		for name := range strings.SplitSeq(sum, "+") {
			scale := bytesPerCount(sysfs.ReadWord(dir, "events", name+".scale"), sysfs.ReadWord(dir, "events", name+".unit"))
			one := unitEvent(root, dir, sysfs.ReadWord(dir, "events", name), scale, write)
			if out = append(out, one...); len(one) == 0 {
				out = nil // half a sum is none
				break
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// unitEvent returns one event of a unit on each processor in its cpumask, or none if the event does not exist.
func unitEvent(root, dir, terms string, scale float64, write bool) (out []countedEvent) {
	kind, err := strconv.ParseUint(sysfs.ReadWord(dir, "type"), 10, 32)
	config, ok := encodeEvent(terms, func(term string) string { return sysfs.ReadWord(dir, "format", term) })
	if err != nil || !ok || scale <= 0 {
		return nil
	}
	for _, cpu := range sysfs.Numbers(sysfs.ReadWord(dir, "cpumask")) {
		socket := sysfs.ReadWord(sysfs.Path(root, "sys/devices/system/cpu", "cpu"+strconv.Itoa(cpu), "topology/physical_package_id"))
		out = append(out, countedEvent{filepath.Base(dir), uint32(kind), config, scale, cpu, socket, write})
	}
	return out
}

// bytesPerCount returns the bytes per count from the files .scale and .unit of an event, or 0 for an unknown unit.
func bytesPerCount(scale, unit string) float64 {
	factor, ok := map[string]float64{"": 1, "Bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
	switch v, err := strconv.ParseFloat(scale, 64); {
	case scale == "" && unit == "":
		return defaultBurst
	case err != nil || !ok || v <= 0:
		return 0
	default:
		return v * factor
	}
}

// encodeEvent returns the configuration of a PMU event. It places the terms ("event=0x04,umask=0x03") at the bits that the
// formats of the PMU define ("config:0-7,32-35"; Documentation/ABI/testing/sysfs-bus-event_source-devices-format).
func encodeEvent(terms string, format func(term string) string) (config uint64, ok bool) {
	for term := range strings.SplitSeq(terms, ",") {
		name, text, given := strings.Cut(term, "=")
		value, err := uint64(1), error(nil)
		if given {
			value, err = strconv.ParseUint(text, 0, 64)
		}
		if name == "config" && err == nil { // the whole word, as perf(1) takes it
			config |= value
			continue
		}
		bits, known := strings.CutPrefix(format(name), "config:")
		if err != nil || !known || name == "" {
			return 0, false
		}
		for _, bit := range sysfs.Numbers(bits) {
			if bit < 64 {
				config |= value & 1 << bit
			}
			value >>= 1
		}
		if value != 0 {
			return 0, false // it does not fit
		}
	}
	return config, true
}
