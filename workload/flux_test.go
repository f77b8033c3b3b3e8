package workload

import "testing"

// The pairs are of flux-core 0.89 (interop/scheduler/flux/testdata).
func TestFluxID(t *testing.T) {
	for number, want := range map[uint64]string{91088924704768: "fiFkbMhFM", 91093387444224: "fiFsPiQD5", 91150983626752: "fiHP9Htes", 0: "f1", 1<<64 - 1: "fjpXCZedGfVQ"} {
		if got := FluxID(number); got != want || ParseFluxID(got) != want || ParseFluxID("ƒ"+got[1:]) != want {
			t.Errorf("%d is %s, %q, want %s", number, got, ParseFluxID(got), want)
		}
	}
	for _, s := range []string{"", "f", "ƒ", "iFkbMhFM", "fiF0bMhFM", "fiFkbMhFM2345", "f/x", "f "} {
		if got := ParseFluxID(s); got != "" {
			t.Errorf("%q is taken for %s", s, got)
		}
	}
}
