package storetest

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		variable string
		want     []uint64
	}{
		{"", []uint64{0, 1}},
		{"3", []uint64{0, 1, 2}},
		{"7-9", []uint64{7, 8, 9}},
		{"57-57", []uint64{57}},
	} {
		if got := slices.Collect(Damages(t, c.variable, 2)); !slices.Equal(got, c.want) {
			t.Errorf("%q: seeds %v, want %v", c.variable, got, c.want)
		}
	}
	for _, wrong := range []string{"many", "9-7", "1-", "-1"} {
		if _, _, err := parseSeeds(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
