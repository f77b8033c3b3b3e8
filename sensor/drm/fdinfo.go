package drm

import (
	"bytes"
	"slices"

	"reckon/internal/sysfs"
)

// maxEngines is the maximum number of engine classes of one client. Drivers have five or six.
const maxEngines = 8

// engineUse is the activity of one class of GPU engines for a client. Times and cycles are sums over the engines of the
// class, and capacity is the number of engines.
type engineUse struct {
	name          [16]byte
	nanos         uint64 // drm-engine-NAME
	cycles, total uint64 // drm-cycles-NAME, drm-total-cycles-NAME
	capacity      uint64
	hasNanos      bool
	hasCycles     bool
}

// clientInfo is the content of one fdinfo file.
type clientInfo struct {
	driver, pdev []byte // parts of the text
	id           uint64
	hasID        bool
	engines      [maxEngines]engineUse
	count        int
	memory       uint64 // of the device, bytes; main memory if the device is integrated
	hasMemory    bool
}

// memoryRegions sums memory by the kind of key that it was read from.
type memoryRegions struct {
	sum  [4]uint64
	rank int
}

// The key that memory was read from. The resident key counts memory in place; the other two include evicted memory.
const (
	memoryTotal = iota + 1
	memoryOld
	memoryResident
)

// parse parses b, the text of /proc/PID/fdinfo/FD, into c. It returns false if the descriptor does not belong to a DRM
// client or has no client id.
func (c *clientInfo) parse(b []byte) bool {
	*c = clientInfo{}
	var own, host memoryRegions
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, newline)
		key, value, ok := bytes.Cut(line, colon)
		if !ok || !bytes.HasPrefix(key, prefix) {
			continue
		}
		key, value = key[len(prefix):], bytes.TrimLeft(value, " \t")
		switch string(key) {
		case "driver":
			c.driver = value
			continue
		case "pdev":
			c.pdev = value
			continue
		case "client-id":
			c.id, _, c.hasID = parseNumber(value)
			continue
		}
		kind, name, _ := bytes.Cut(key, dash)
		v, unit, ok := parseNumber(value)
		if !ok {
			continue
		}
		switch string(kind) {
		case "engine":
			if n, found := bytes.CutPrefix(name, capacity); found {
				if e := c.engineByName(n); e != nil && v > 0 && v < 1<<16 {
					e.capacity = v
				}
			} else if e := c.engineByName(name); e != nil && string(unit) == "ns" {
				e.nanos, e.hasNanos = v, true
			}
		case "cycles":
			if e := c.engineByName(name); e != nil {
				e.cycles, e.hasCycles = v, true
			}
		case "total":
			if n, found := bytes.CutPrefix(name, cycles); found {
				if e := c.engineByName(n); e != nil {
					e.total = v
				}
				continue
			}
			addMemory(&own, &host, memoryTotal, name, v, unit)
		case "memory":
			addMemory(&own, &host, memoryOld, name, v, unit)
		case "resident":
			addMemory(&own, &host, memoryResident, name, v, unit)
		}
	}
	if own.rank == 0 && slices.ContainsFunc(intel, func(d []byte) bool { return bytes.Equal(c.driver, d) }) {
		own = host // an integrated device works in main memory; others list a region of their own, possibly empty
	}
	c.memory, c.hasMemory = own.sum[own.rank], own.rank > 0
	return c.hasID && len(c.pdev) > 0 && len(c.driver) > 0
}

var (
	newline  = []byte{'\n'}
	colon    = []byte{':'}
	dash     = []byte{'-'}
	prefix   = []byte("drm-")
	capacity = []byte("capacity-")
	cycles   = []byte("cycles-")

	intel  = [][]byte{[]byte("i915"), []byte("xe")}
	local  = [][]byte{[]byte("vram"), []byte("local")}
	shared = [][]byte{[]byte("system"), []byte("gtt"), []byte("stolen")}
)

// addMemory adds the memory of a region to own, for memory of the device, or to host, for main memory.
func addMemory(device, host *memoryRegions, kind int, region []byte, v uint64, unit []byte) {
	to := device
	switch is := func(p []byte) bool { return bytes.HasPrefix(region, p) }; {
	case slices.ContainsFunc(local, is):
	case slices.ContainsFunc(shared, is):
		to = host
	default:
		return
	}
	shift := 0
	switch string(unit) {
	case "KiB":
		shift = 10
	case "MiB":
		shift = 20
	case "":
	default:
		return
	}
	if v > 1<<60>>shift {
		return
	}
	to.sum[kind] += v << shift
	to.rank = max(to.rank, kind)
}

// engineByName returns the engine class with a name. It creates the class if needed, and returns nil if there are too many.
func (c *clientInfo) engineByName(name []byte) *engineUse {
	var n [16]byte
	if len(name) == 0 || len(name) > len(n) {
		return nil
	}
	copy(n[:], name)
	for i := range c.engines[:c.count] {
		if c.engines[i].name == n {
			return &c.engines[i]
		}
	}
	if c.count == maxEngines {
		return nil
	}
	c.count++
	c.engines[c.count-1] = engineUse{name: n, capacity: 1}
	return &c.engines[c.count-1]
}

// parseNumber parses a decimal number and the unit after it.
func parseNumber(b []byte) (v uint64, unit []byte, ok bool) {
	v, unit, ok = sysfs.Uint(b)
	return v, bytes.TrimSpace(unit), ok
}
