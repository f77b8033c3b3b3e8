package cgroup

import (
	"bytes"
	"os"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// everyRare is the interval, in readings, for files that rarely change or that the kernel has to compute at each reading.
const everyRare = 15

// nodesOf returns the number of NUMA nodes of the machine by their highest number, 0 if unknown.
func nodesOf(root string) int {
	list := sysfs.Numbers(sysfs.ReadWord(root, "sys/devices/system/node/online"))
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1] + 1
}

// withNodes adds the files of memory by NUMA node to the sources of both versions, on machines that have several nodes.
func (r *Reader) withNodes(nodes int) {
	if nodes < 2 || nodes > sensor.MaxNodes {
		return
	}
	r.v1 = append(r.v1, source{controller: "memory", names: []string{"memory.numa_stat\x00"}, rare: true,
		parse: func(b []byte, r *reading) { parseLegacyNodes(b, &r.Cgroup) }})
	r.v2 = append(r.v2, source{names: []string{"memory.numa_stat\x00"}, rare: true,
		parse: func(b []byte, r *reading) { parseNodes(b, &r.Cgroup) }})
}

// parseNodes reads memory.numa_stat of version 2: "anon N0=4096 N1=0", bytes.
func parseNodes(b []byte, c *sensor.Cgroup) {
	var got parts
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, rest, _ := bytes.Cut(l, []byte(" "))
		switch string(key) {
		case "anon":
			got.add(byNode(rest, 1, c))
		case "file":
			got.add(2 * byNode(rest, 1, c))
		}
	}
	if got == 3 {
		c.Have |= sensor.CgroupNodes
	}
}

// parseLegacyNodes reads memory.numa_stat of version 1: "hierarchical_total=3 N0=2 N1=1", pages of the group with its descendants.
func parseLegacyNodes(b []byte, c *sensor.Cgroup) {
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		if rest, ok := bytes.CutPrefix(l, []byte("hierarchical_total=")); ok {
			_, rest, _ = bytes.Cut(rest, []byte(" "))
			if byNode(rest, uint64(os.Getpagesize()), c) == 1 {
				c.Have |= sensor.CgroupNodes
			}
		}
	}
}

// byNode adds "N0=1 N1=2" to the memory of nodes, and returns 1 if all of it was parsed.
func byNode(b []byte, unit uint64, c *sensor.Cgroup) parts {
	ok := parts(0)
	for word := b; len(word) > 0; {
		var w []byte
		w, word, _ = bytes.Cut(word, []byte(" "))
		name, value, _ := bytes.Cut(w, []byte("="))
		number, isNode := bytes.CutPrefix(name, []byte("N"))
		node, isNumber := sysfs.Number(number)
		n, isValue := sysfs.Number(value)
		if !isNode || !isNumber || !isValue || node < 0 || node >= sensor.MaxNodes || n < 0 {
			return 0
		}
		if c.NodeBytes == nil {
			c.NodeBytes = new([sensor.MaxNodes]uint64)
		}
		c.NodeBytes[node] += multiplySaturating(uint64(n), unit)
		ok = 1
	}
	return ok
}
