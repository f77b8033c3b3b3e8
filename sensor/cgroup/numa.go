package cgroup

import (
	"bytes"
	"os"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// rareInterval is the number of readings between two readings of files that rarely change or that are costly for the kernel.
const rareInterval = 15

// numaNodes returns the number of NUMA nodes, as the highest node number plus one, or 0 if unknown.
func numaNodes(root string) int {
	list := sysfs.Numbers(sysfs.ReadWord(root, "sys/devices/system/node/online"))
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1] + 1
}

// addNodeFiles adds the files of memory by NUMA node to the sources of both versions, on machines that have several nodes.
func (r *Reader) addNodeFiles(nodes int) {
	if nodes < 2 || nodes > sensor.MaxNodes {
		return
	}
	r.v1 = append(r.v1, fileSource{controller: "memory", names: []string{"memory.numa_stat\x00"}, rare: true,
		parse: func(b []byte, r *reading) { parseLegacyNodes(b, &r.Cgroup) }})
	r.v2 = append(r.v2, fileSource{names: []string{"memory.numa_stat\x00"}, rare: true,
		parse: func(b []byte, r *reading) { parseNodes(b, &r.Cgroup) }})
}

// parseNodes reads memory.numa_stat of version 2: "anon N0=4096 N1=0", bytes.
func parseNodes(b []byte, c *sensor.Cgroup) {
	var got figureParts
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, rest, _ := bytes.Cut(l, []byte(" "))
		switch string(key) {
		case "anon":
			got.add(parseByNode(rest, 1, c))
		case "file":
			got.add(2 * parseByNode(rest, 1, c))
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
			if parseByNode(rest, uint64(os.Getpagesize()), c) == 1 {
				c.Have |= sensor.CgroupNodes
			}
		}
	}
}

// parseByNode adds amounts such as "N0=1 N1=2" to the memory by node. It returns 1 if all of the text was parsed.
func parseByNode(b []byte, unit uint64, c *sensor.Cgroup) figureParts {
	ok := figureParts(0)
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
