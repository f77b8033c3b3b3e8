package figure

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestPack: what is packed comes back, whatever the degrees; an upper bound as an estimate.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d, want Degrees
		for _, key := range packed {
			e := Exactness(rapid.IntRange(0, 4).Draw(t, key))
			d.Add(key, e)
			if e == AtMost {
				e = Estimated
			}
			want.Add(key, e)
		}
		d.Add("threads", AtLeast) // of no hour
		if got := Unpack(d.Pack()); !maps.Equal(got, want) {
			t.Fatalf("%v became %v", d, got)
		}
	})
	if Unpack(0) != nil || (Degrees)(nil).Pack() != 0 {
		t.Error("what is exact needs room")
	}
}

// TestPackedAreOfHours: each is a figure of hours, and none lies beyond what a float64 of a
// database holds.
func TestPackedAreOfHours(t *testing.T) {
	for _, key := range packed {
		if Index(Hour, key) < 0 {
			t.Errorf("%s is no figure of hours", key)
		}
	}
	if len(packed) > 26 {
		t.Error("two bits for each no longer fit")
	}
}

// TestAddDegrees: a sum is as exact as the worst of what it is made of.
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
