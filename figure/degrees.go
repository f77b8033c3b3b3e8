package figure

import (
	"cmp"
	"slices"
)

// packed are the figures of hours of which it is known how exact they are, in the order of their
// two bits in [Degrees.Pack]. Databases keep that number: figures are appended, and none is
// taken out.
var packed = []string{
	"cpu_seconds", "memory_byte_seconds", "io_read_bytes", "io_write_bytes", "io_wait_seconds", "network_bytes", "gpu_seconds", "energy_joules", "processes",
}

// PackedFigures is how many figures [Degrees.Pack] keeps, two bits for each.
func PackedFigures() int { return len(packed) }

// ExactnessKey is the figure that reckon_figure_exactness names for this one.
func (f *Figure) ExactnessKey() string { return cmp.Or(f.As, f.Key) }

// Pack writes the degrees of the figures of an hour as one number, 0 where all are exact. The
// greater of two degrees of a figure is the worse; an upper bound is kept as an estimate.
func (d Degrees) Pack() (n int64) {
	for i, key := range packed {
		e := d[key]
		if e == AtMost {
			e = Estimated
		}
		n |= int64(e&3) << (2 * i)
	}
	return n
}

// Unpack reads what [Degrees.Pack] wrote; nil where all figures are exact.
func Unpack(n int64) (d Degrees) {
	for i, key := range packed {
		d.Add(key, Exactness(n>>(2*i)&3))
	}
	return d
}

// Packs reports whether the degree of a figure of hours is kept.
func Packs(key string) bool { return slices.Contains(packed, key) }
