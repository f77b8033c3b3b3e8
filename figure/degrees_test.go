package figure

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestPack: packing and unpacking preserves every degree, except that an upper bound becomes an estimate.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d, want Degrees
		for _, key := range packedFigures {
			e := Exactness(rapid.IntRange(0, 4).Draw(t, key))
			if key == boundKey && e == Modelled {
				e = AtMost
			}
			d.Add(key, e)
			if e == AtMost && key != boundKey {
				e = Estimated
			}
			want.Add(key, e)
		}
		d.Add("threads", AtLeast) // not an hourly figure
		if got := Unpack(d.Pack()); !maps.Equal(got, want) {
			t.Fatalf("%v became %v", d, got)
		}
	})
	if Unpack(0) != nil || (Degrees)(nil).Pack() != 0 {
		t.Error("what is exact needs room")
	}
}

// TestPackedAreOfHours: every packed figure is an hourly one, and all bits fit into the exact integer
// range of a float64 column.
func TestPackedAreOfHours(t *testing.T) {
	for _, key := range packedFigures {
		if Index(Hours, key) < 0 {
			t.Errorf("%s is no figure of hours", key)
		}
	}
	if len(packedFigures) > 26 {
		t.Error("two bits for each no longer fit")
	}
}

// TestAddDegrees: a sum is as exact as its least exact term.
func TestAddDegrees(t *testing.T) {
	var sum Used
	for _, e := range []Exactness{Exact, AtLeast, Exact} {
		add := Used{CPUSeconds: new(1.0)}
		add.Exactness.Add("cpu_seconds", e)
		Add(&sum, &add)
	}
	if *sum.CPUSeconds != 3 || sum.Exactness["cpu_seconds"] != AtLeast {
		t.Errorf("%g %v", *sum.CPUSeconds, sum.Exactness)
	}
}
