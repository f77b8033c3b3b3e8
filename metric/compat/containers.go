package compat

import "reckon/metric"

// partKey identifies a part of a workload.
type partKey struct{ workload, part string }

func placeOf(s *metric.Series) partKey { return partKey{label(s, "workload"), label(s, "part")} }

// containers joins the measurements of a part with the names in reckon_container_info. It is filled anew in each round,
// and reuses its memory.
type containers struct {
	info map[partKey]*metric.Series
}

// begin reads the names in this export.
func (c *containers) begin(b *metric.Batch, n int) {
	if c.info == nil {
		c.info = make(map[partKey]*metric.Series)
	}
	clear(c.info)
	for i := range b.Samples[:n] {
		if s := b.Samples[i].Series; s.Desc.Name == "reckon_container_info" && !b.Samples[i].Last {
			c.info[placeOf(s)] = s
		}
	}
}

// renamed returns the series with the names of the part of s, or nil.
func (c *containers) renamed(s *metric.Series) *metric.Series { return c.info[placeOf(s)] }

// sandbox reports whether info describes the pod's sandbox, or a process in the pod that belongs to no container. Both
// have an empty label container.
func sandbox(info *metric.Series) bool { return label(info, "container") == "" }
