package cgroup

import (
	"bytes"
	"math"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Each parser here is a pure function of the bytes of one file. It skips unknown lines and words,
// because newer kernels add some. A value that is missing or no number leaves its bit unset.

// clockTick is one USER_HZ clock tick, which has the same length on all supported architectures.
const clockTick = 10_000_000 // nanoseconds

// parseNumber returns the decimal at the start of b up to white space or its end.
func parseNumber(b []byte) (n uint64, ok bool) {
	n, rest, ok := sysfs.Uint(b)
	return n, ok && (len(rest) == 0 || rest[0] == '\n' || rest[0] == ' ')
}

// splitPair splits a line "key value".
func splitPair(line []byte) (key []byte, value uint64, ok bool) {
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return nil, 0, false
	}
	value, ok = parseNumber(line[i+1:])
	return line[:i], value, ok
}

// multiplySaturating multiplies without wrapping.
func multiplySaturating(n, factor uint64) uint64 {
	if n > math.MaxUint64/factor {
		return math.MaxUint64
	}
	return n * factor
}

// figureParts records which members of a group of figures are present. A bit is set when all of its members are.
type figureParts uint8

func (p *figureParts) add(bit figureParts) { *p |= bit }

// parseCPUStat reads cpu.stat of version 2: microseconds.
func parseCPUStat(b []byte, c *sensor.Cgroup) {
	var got figureParts
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, n, ok := splitPair(l)
		if !ok {
			continue
		}
		switch string(key) {
		case "usage_usec":
			c.UsageNanos = multiplySaturating(n, 1000)
			c.Have |= sensor.CgroupCPU
		case "user_usec":
			c.UserNanos = multiplySaturating(n, 1000)
			got.add(1)
		case "system_usec":
			c.SystemNanos = multiplySaturating(n, 1000)
			got.add(2)
		case "nr_periods":
			c.Periods = n
			c.Have |= sensor.CgroupPeriods
		case "nr_throttled":
			c.ThrottledPeriods = n
			got.add(4)
		case "throttled_usec":
			c.ThrottledNanos = multiplySaturating(n, 1000)
			got.add(8)
		}
	}
	if got&3 == 3 {
		c.Have |= sensor.CgroupCPUSplit
	}
	if got&12 == 12 {
		c.Have |= sensor.CgroupThrottle
	}
}

// parseThrottle reads cpu.stat of version 1: nanoseconds.
func parseThrottle(b []byte, c *sensor.Cgroup) {
	var got figureParts
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, n, ok := splitPair(l)
		if !ok {
			continue
		}
		switch string(key) {
		case "nr_periods":
			c.Periods = n
			c.Have |= sensor.CgroupPeriods
		case "nr_throttled":
			c.ThrottledPeriods = n
			got.add(1)
		case "throttled_time":
			c.ThrottledNanos = n
			got.add(2)
		}
	}
	if got == 3 {
		c.Have |= sensor.CgroupThrottle
	}
}

// parseAcct reads cpuacct.stat: clock ticks in user and in system mode.
func parseAcct(b []byte, c *sensor.Cgroup) {
	var got figureParts
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, n, ok := splitPair(l)
		if !ok {
			continue
		}
		switch string(key) {
		case "user":
			c.UserNanos = multiplySaturating(n, clockTick)
			got.add(1)
		case "system":
			c.SystemNanos = multiplySaturating(n, clockTick)
			got.add(2)
		}
	}
	if got == 3 {
		c.Have |= sensor.CgroupCPUSplit
	}
}

// parsePressure returns the total of the "some" line of a pressure file, converted from
// microseconds to nanoseconds (Documentation/accounting/psi.rst).
func parsePressure(b []byte) (nanos uint64, ok bool) {
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		if !bytes.HasPrefix(l, []byte("some ")) {
			continue
		}
		if i := bytes.LastIndex(l, []byte(" total=")); i >= 0 {
			n, ok := parseNumber(l[i+len(" total="):])
			return multiplySaturating(n, 1000), ok
		}
	}
	return 0, false
}

// parseCPUMax reads cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
func parseCPUMax(b []byte, c *sensor.Cgroup) {
	line, _ := sysfs.Line(b)
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return
	}
	quota, ok := parseNumber(line[:i])
	period, ok2 := parseNumber(line[i+1:])
	if ok && ok2 {
		setCPUMax(quota, period, c)
	}
}

func setCPUMax(quota, period uint64, c *sensor.Cgroup) {
	if quota > 0 && period > 0 {
		c.CPUMax = float64(quota) / float64(period)
		c.Have |= sensor.CgroupCPUMax
	}
}
