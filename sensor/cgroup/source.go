package cgroup

import "reckon/sensor"

// reading is a [sensor.Cgroup] that is being read. It also holds values that are valid only together with a value from
// another file.
type reading struct {
	sensor.Cgroup
	devices *deviceLayers
	pmd     uint64 // size of transparent huge pages, see hugePages

	current, stat bool // memory
	quota, period uint64
	pressure      figureParts
}

// combineFigures sets figures that depend on several files.
func (r *reading) combineFigures() {
	if r.current && r.stat {
		r.Have |= sensor.CgroupMemory
	}
	if r.pressure == 7 {
		r.Have |= sensor.CgroupPressure
	}
	setCPUMax(r.quota, r.period, &r.Cgroup)
}

// fileSource is one kind of file of a control group, with its parser.
type fileSource struct {
	controller string   // version 1 only
	names      []string // the first that exists is taken
	parse      func([]byte, *reading)
	rare       bool // it is read each rareInterval readings, and not kept open
	others     bool // others change it while nothing in the group runs: they reclaim its memory, or write its pages to disks
}

// changedByOthers are the figures in files that other processes can change.
const changedByOthers = sensor.CgroupMemory | sensor.CgroupShmem | sensor.CgroupInactive | sensor.CgroupFaults | sensor.CgroupFilled |
	sensor.CgroupHuge |
	sensor.CgroupRefaults |
	sensor.CgroupSwap |
	sensor.CgroupKernel | sensor.CgroupKernelBound | sensor.CgroupIO

// The tables are functions returning values: no package state.

// unifiedSources returns the files of version 2 (Documentation/admin-guide/cgroup-v2.rst).
func unifiedSources() []fileSource {
	return []fileSource{
		{names: []string{"cpu.stat\x00"}, parse: func(b []byte, r *reading) { parseCPUStat(b, &r.Cgroup) }},
		{names: []string{"cpu.max\x00"}, parse: func(b []byte, r *reading) { parseCPUMax(b, &r.Cgroup) }},
		{names: []string{"memory.current\x00"}, others: true, parse: parseCurrent},
		{names: []string{"memory.stat\x00"}, others: true,
			parse: func(b []byte, r *reading) { r.stat = parseMemoryStat(b, r.pmd, &r.Cgroup) }},
		{names: []string{"memory.peak\x00"}, parse: parsePeak}, // since 5.19
		{names: []string{"memory.events\x00"}, parse: func(b []byte, r *reading) { parseMemoryEvents(b, &r.Cgroup) }},
		{names: []string{"memory.swap.current\x00"}, others: true, parse: func(b []byte, r *reading) {
			if n, ok := parseNumber(b); ok {
				r.Swap = n
				r.Have |= sensor.CgroupSwap
			}
		}},
		{names: []string{"memory.max\x00"}, parse: func(b []byte, r *reading) {
			if n, ok := parseNumber(b); ok { // else "max"
				setMemoryMax(n, &r.Cgroup)
			}
		}},
		{names: []string{"io.stat\x00"}, others: true, parse: func(b []byte, r *reading) {
			var t ioTraffic
			parseIOStat(b, &t, r.devices.look)
			r.ReadBytes, r.WriteBytes = t.total()
			r.Have |= sensor.CgroupIO // an empty file states that there was none
		}},
		{names: []string{"pids.current\x00"}, parse: parsePIDs},
		{names: []string{"cpu.pressure\x00"}, parse: func(b []byte, r *reading) {
			if n, ok := parsePressure(b); ok {
				r.CPUWaitNanos = n
				r.pressure.add(1)
			}
		}},
		{names: []string{"memory.pressure\x00"}, parse: func(b []byte, r *reading) {
			if n, ok := parsePressure(b); ok {
				r.MemoryStallNanos = n
				r.pressure.add(2)
			}
		}},
		{names: []string{"io.pressure\x00"}, parse: func(b []byte, r *reading) {
			if n, ok := parsePressure(b); ok {
				r.IOStallNanos = n
				r.pressure.add(4)
			}
		}},
	}
}

// legacySources returns the files of version 1 (Documentation/admin-guide/cgroup-v1/). User and system time come from
// cpuacct.stat. The files cpuacct.usage_user and _sys are finer, but wrong in kernels 4.7 to 5.16, which count system
// time as user time.
func legacySources() []fileSource {
	return []fileSource{
		{controller: "cpuacct", names: []string{"cpuacct.usage\x00"}, parse: func(b []byte, r *reading) {
			if n, ok := parseNumber(b); ok {
				r.UsageNanos = n
				r.Have |= sensor.CgroupCPU
			}
		}},
		{controller: "cpuacct", names: []string{"cpuacct.stat\x00"}, parse: func(b []byte, r *reading) { parseAcct(b, &r.Cgroup) }},
		{controller: "cpu", names: []string{"cpu.stat\x00"}, parse: func(b []byte, r *reading) { parseThrottle(b, &r.Cgroup) }},
		// -1 is none
		{controller: "cpu", names: []string{"cpu.cfs_quota_us\x00"}, parse: func(b []byte, r *reading) { r.quota, _ = parseNumber(b) }},
		{controller: "cpu", names: []string{"cpu.cfs_period_us\x00"}, parse: func(b []byte, r *reading) { r.period, _ = parseNumber(b) }},
		{controller: "memory", names: []string{"memory.usage_in_bytes\x00"}, others: true, parse: parseCurrent},
		{controller: "memory", names: []string{"memory.stat\x00"}, others: true,
			parse: func(b []byte, r *reading) { r.stat = parseLegacyMemoryStat(b, r.pmd, &r.Cgroup) }},
		{controller: "memory", names: []string{"memory.max_usage_in_bytes\x00"}, parse: parsePeak},
		{controller: "memory", names: []string{"memory.limit_in_bytes\x00"}, parse: func(b []byte, r *reading) {
			if n, ok := parseNumber(b); ok {
				setMemoryMax(n, &r.Cgroup)
			}
		}},
		{controller: "memory", names: []string{"memory.oom_control\x00"},
			parse: func(b []byte, r *reading) { parseMemoryEvents(b, &r.Cgroup) }},
		{controller: "memory", names: []string{"memory.kmem.usage_in_bytes\x00"}, others: true,
			parse: func(b []byte, r *reading) { parseKernelUsage(b, &r.Cgroup) }},
		{controller: "blkio", names: []string{"blkio.throttle.io_service_bytes_recursive\x00", "blkio.throttle.io_service_bytes\x00"},
			others: true, parse: func(b []byte, r *reading) {
				var t ioTraffic
				if parseBlkio(b, &t, r.devices.look) {
					r.ReadBytes, r.WriteBytes = t.total()
					r.Have |= sensor.CgroupIO
				}
			}},
		{controller: "pids", names: []string{"pids.current\x00"}, parse: parsePIDs},
	}
}

func parseCurrent(b []byte, r *reading) { r.Current, r.current = parseNumber(b) }

func parsePeak(b []byte, r *reading) {
	if n, ok := parseNumber(b); ok {
		r.Peak = n
		r.Have |= sensor.CgroupPeak
	}
}

func parsePIDs(b []byte, r *reading) {
	if n, ok := parseNumber(b); ok {
		r.PIDs = n
		r.Have |= sensor.CgroupPIDs
	}
}
