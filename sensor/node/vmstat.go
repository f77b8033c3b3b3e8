package node

import (
	"bytes"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// NewVMStat opens /proc/vmstat, which counts paging, swapping, faults and OOM kills. It exports the default fields of
// node_exporter. On machines with several NUMA nodes it also exports NUMA balancing.
func NewVMStat(root string) (sensor.Sensor, error) {
	t, err := openFile(root, "proc/vmstat")
	if err != nil {
		return nil, err
	}
	f := &namedFigures{name: "vmstat", texts: []*kernelFile{t}, parse: parsePairs, desc: vmstatDesc}
	if len(sysfs.Numbers(sysfs.ReadWord(sysfs.Path(root, "sys/devices/system/node/online")))) > 1 {
		f.desc = numaDesc
	}
	if err := f.discoverFigures(); err != nil {
		return nil, err
	}
	return f, nil
}

// vmstatDesc accepts keys that match ^(oom_kill|pgpg|pswp|pg.*fault).*
func vmstatDesc(key, _ []byte) *metric.Desc {
	k := string(key)
	if !strings.HasPrefix(k, "oom_kill") && !strings.HasPrefix(k, "pgpg") && !strings.HasPrefix(k, "pswp") &&
		!(strings.HasPrefix(k, "pg") && strings.Contains(k, "fault")) {
		return nil
	}
	return counter("node_vmstat_"+metricName(key), "Field "+metricName(key)+" of /proc/vmstat.", metric.None)
}

// numaDesc also accepts the pages that NUMA balancing unmapped, found in use from their own or another node, or
// moved.
func numaDesc(key, sub []byte) *metric.Desc {
	switch k := string(key); k {
	case "numa_hint_faults", "numa_hint_faults_local", "numa_pages_migrated":
		return counter("node_vmstat_"+k, "Field "+k+" of /proc/vmstat.", metric.None)
	}
	return vmstatDesc(key, sub)
}

// parsePairs reads lines of a name and a number.
func parsePairs(t []byte, emit func(key, sub []byte, v uint64)) {
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		key, rest := sysfs.Field(l)
		w, _ := sysfs.Field(rest)
		if v, ok := sysfs.Unsigned(w); ok && len(key) > 0 {
			emit(key, nil, v)
		}
	}
}

// NewSockstat opens /proc/net/sockstat and sockstat6: sockets by protocol.
func NewSockstat(root string) (sensor.Sensor, error) {
	t, err := openNet(root, "sockstat")
	if err != nil {
		return nil, err
	}
	f := &namedFigures{name: "sockstat", texts: []*kernelFile{t}, parse: parseSockstat, desc: sockstatDesc}
	if six, err := openNet(root, "sockstat6"); err == nil { // absent without IPv6
		f.texts = append(f.texts, six)
	}
	if err := f.discoverFigures(); err != nil {
		return nil, err
	}
	return f, nil
}

func sockstatDesc(protocol, field []byte) *metric.Desc {
	p, n := metricName(protocol), metricName(field)
	if p == "sockets" {
		return gauge("node_sockstat_sockets_"+n, "Number of IPv4 sockets in use.", metric.None)
	}
	u := metric.None
	if n == "mem_bytes" {
		u = metric.Bytes
	}
	return gauge("node_sockstat_"+p+"_"+n, "Number of "+p+" sockets in state "+n+".", u)
}

var memKey, memBytesKey = []byte("mem"), []byte("mem_bytes")

// parseSockstat reads "TCP: inuse 4 orphan 0 tw 0 alloc 6 mem 1", where mem is in pages.
func parseSockstat(t []byte, emit func(protocol, field []byte, v uint64)) {
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		protocol, rest, ok := bytes.Cut(l, []byte{':'})
		if !ok || len(protocol) == 0 {
			continue
		}
		for {
			var key, w []byte
			key, rest = sysfs.Field(rest)
			w, rest = sysfs.Field(rest)
			v, ok := sysfs.Unsigned(w)
			if !ok || len(key) == 0 {
				break
			}
			emit(protocol, key, v)
			if bytes.Equal(key, memKey) {
				emit(protocol, memBytesKey, v*pageSize)
			}
		}
	}
}
