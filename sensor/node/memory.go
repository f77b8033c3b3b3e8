package node

import (
	"bytes"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// NewMemory opens /proc/meminfo. Each line becomes a metric node_memory_KEY_bytes. The suffix _bytes is missing if the
// kernel writes no unit.
func NewMemory(root string) (sensor.Sensor, error) {
	t, err := openFile(root, "proc/meminfo")
	if err != nil {
		return nil, err
	}
	f := &namedFigures{name: "memory", texts: []*kernelFile{t}, parse: parseMeminfo, desc: memoryDesc}
	if err := f.discoverFigures(); err != nil {
		return nil, err
	}
	return f, nil
}

func memoryDesc(key, unit []byte) *metric.Desc {
	name := meminfoName(key)
	u := metric.None
	if len(unit) > 0 {
		name, u = name+"_bytes", metric.Bytes
	}
	d := gauge("node_memory_"+name, "Memory information field "+name+".", u)
	if strings.HasSuffix(name, "_total") {
		d.Kind = metric.Counter
	}
	return d
}

// meminfoName turns "Active(anon)" into Active_anon, as node_exporter does.
func meminfoName(key []byte) string {
	return metricName(bytes.ReplaceAll(bytes.ReplaceAll(key, []byte("("), []byte("_")), []byte(")"), nil))
}

// parseMeminfo parses lines such as "MemTotal: 16316412 kB" and "HugePages_Total: 0". It converts kB to bytes.
func parseMeminfo(t []byte, emit func(key, unit []byte, v uint64)) {
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		key, rest, ok := bytes.Cut(l, []byte{':'})
		if !ok || len(key) == 0 {
			continue
		}
		w, rest := sysfs.Field(rest)
		unit, _ := sysfs.Field(rest)
		v, ok := sysfs.Unsigned(w)
		if !ok {
			continue
		}
		switch string(unit) {
		case "":
			emit(key, nil, v)
		case "kB":
			if v <= (1<<64-1)>>10 {
				emit(key, unit, v<<10)
			}
		}
	}
}
