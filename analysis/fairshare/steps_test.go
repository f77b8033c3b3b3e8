package fairshare_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"reckon/analysis/fairshare"
)

// TestStepsAddUp: adding up the steps yields the score, the time and the reasons.
func TestStepsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := trace(t)
		for _, s := range fairshare.Scores(tr, fairshare.Default()) {
			sum, contended, share := 0.0, 0.0, 0.0
			why := map[string]int{}
			for _, step := range fairshare.Steps(tr, fairshare.Default(), s.Owner) {
				if got := (step.Use - step.Fair) / tr.Capacity * tr.Step; math.Abs(got-step.Seconds) > 1e-9 || step.Owners < 2 || !(step.Use > step.Fair) {
					t.Fatalf("%+v", step)
				}
				sum, contended, share = sum+step.Seconds, contended+tr.Step, share+step.Use/tr.Capacity*tr.Step
				why[step.Why]++
			}
			if math.Abs(sum-s.Seconds) > 1e-6*s.Seconds || contended != s.Contended || math.Abs(share/contended-s.Share) > 1e-9 || len(why) != len(s.Why) {
				t.Fatalf("%s: %g of %g seconds, %g of %g contended, %v of %v", s.Owner, sum, s.Seconds, contended, s.Contended, why, s.Why)
			}
		}
		if got := fairshare.Steps(tr, fairshare.Default(), "nobody"); got != nil {
			t.Fatalf("an owner who is not there: %v", got)
		}
	})
}
