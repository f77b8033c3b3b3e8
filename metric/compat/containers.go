package compat

import "reckon/metric"

// partKey identifies a part of a workload.
type partKey struct{ workload, part string }

func partOf(s *metric.Series) partKey {
	return partKey{label(s, "workload"), label(s, "part")}
}

// containers finds the reckon_container_info of a part of a workload. It is filled anew for each export and reuses
// its memory.
type containers struct {
	info map[partKey]*metric.Series
}

// readNames reads all reckon_container_info in the first n samples of an export.
func (c *containers) readNames(b *metric.Batch, n int) {
	if c.info == nil {
		c.info = make(map[partKey]*metric.Series)
	}
	clear(c.info)
	for i := range b.Samples[:n] {
		if s := b.Samples[i].Series; s.Desc.Name == "reckon_container_info" && !b.Samples[i].Last {
			c.info[partOf(s)] = s
		}
	}
}

// find returns the reckon_container_info for the part of s, or nil.
func (c *containers) find(s *metric.Series) *metric.Series { return c.info[partOf(s)] }

// isSandbox reports whether info describes the pod's sandbox, or a process in the pod that belongs to no container. Both
// have an empty label container.
func isSandbox(info *metric.Series) bool { return label(info, "container") == "" }
