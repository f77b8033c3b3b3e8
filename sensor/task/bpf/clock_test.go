package bpf

import "testing"

func TestClock(t *testing.T) {
	for _, c := range []struct {
		text          string
		machine, here uint64
	}{
		{"", 5e9, 5e9},
		{"monotonic           0         0\nboottime            0         0\n", 5e9, 5e9},
		{"monotonic      100000         0\nboottime       100000         7\n", 5e9, 100_005_000_000_007},
		{"monotonic           0         0\nboottime           -4 500000000\n", 5e9, 1_500_000_000},
		{"boottime           -5         0\n", 5e9, 0},
		{"boottime           -5         0\n", 5e9 - 1, 0}, // began before the namespace's clock
		{"boottime           -5         0\n", 5e9 + 1, 1},
		{"boottime x 0\nboottime\n", 5e9, 5e9},
	} {
		if got := (Clock{offset: bootOffset(c.text)}).Here(c.machine); got != c.here {
			t.Errorf("%q: %d is %d, want %d", c.text, c.machine, got, c.here)
		}
	}
}
