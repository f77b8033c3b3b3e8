package figure

import (
	"cmp"
	"slices"
)

// packedFigures lists the hourly figures that carry an exactness, in the order of their two bits in
// [Degrees.Pack]. Databases store the packed number, so append new figures and never remove or
// reorder one.
var packedFigures = []string{
	"cpu_seconds", "memory_byte_seconds", "io_read_bytes", "io_write_bytes", "io_wait_seconds", "network_bytes", "gpu_seconds",
	"energy_joules", "processes", "memory_traffic_bytes",
}

// boundKey is the packed figure that may be an upper bound.
const boundKey = "memory_byte_seconds"

// PackedFigures returns the number of figures in [Degrees.Pack], two bits each.
func PackedFigures() int { return len(packedFigures) }

// ExactnessKey returns the key under which reckon_figure_exactness reports the exactness of this figure.
func (f *Figure) ExactnessKey() string { return cmp.Or(f.As, f.Key) }

// Pack encodes the exactness of one hour's figures as a number, 0 if all are exact. The larger of
// two codes of a figure is the worse one. There is no model for memory, so its code for Modelled
// means an upper bound. For other figures an upper bound is stored as an estimate.
func (d Degrees) Pack() (n int64) {
	for i, key := range packedFigures {
		e := d[key]
		if e == AtMost && key == boundKey {
			e = Modelled
		} else if e == AtMost {
			e = Estimated
		}
		n |= int64(e&3) << (2 * i)
	}
	return n
}

// Unpack decodes the number that [Degrees.Pack] returned; nil when all figures are exact.
func Unpack(n int64) (d Degrees) {
	for i, key := range packedFigures {
		e := Exactness(n >> (2 * i) & 3)
		if e == Modelled && key == boundKey {
			e = AtMost
		}
		d.Add(key, e)
	}
	return d
}

// IsPacked reports whether the exactness of an hourly figure is stored.
func IsPacked(key string) bool { return slices.Contains(packedFigures, key) }
