package fairshare_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"reckon/analysis/fairshare"
)

// TestFairShare: nobody is blamed for using what others do not want.
func TestFairShare(t *testing.T) {
	const n = 10
	for name, c := range map[string]struct {
		owners []fairshare.Owner
		want   float64 // score of alice, in shares of the machine
	}{
		"a small owner who has all that is wanted": {[]fairshare.Owner{
			{Name: "alice", Use: flat(15.4, n), Want: flat(40, n)}, {Name: "root", Use: flat(0.6, n), Want: flat(0.6, n)}}, 0},
		"a small owner who is kept waiting": {[]fairshare.Owner{
			{Name: "alice", Use: flat(15.5, n), Want: flat(40, n)}, {Name: "bob", Use: flat(0.5, n), Want: flat(1, n)}}, 0.5 / 16},
		"three, one small": {[]fairshare.Owner{
			{Name: "alice", Use: flat(11, n), Want: flat(40, n)}, {Name: "bob", Use: flat(4, n), Want: flat(40, n)}, {Name: "carol", Use: flat(1, n), Want: flat(1, n)}}, 3.5 / 16},
		"nobody knows what bob wants": {[]fairshare.Owner{
			{Name: "alice", Use: flat(15.5, n), Want: flat(40, n)}, {Name: "bob", Use: flat(0.5, n)}}, 7.5 / 16},
		"a gap in what bob wants": {[]fairshare.Owner{
			{Name: "alice", Use: flat(15.5, n), Want: flat(40, n)}, {Name: "bob", Use: flat(0.5, n), Want: flat(math.NaN(), n)}}, 7.5 / 16},
		"bob gets nothing at all": {[]fairshare.Owner{
			{Name: "alice", Use: flat(16, n), Want: flat(16, n)}, {Name: "bob", Use: flat(0, n), Want: flat(2, n)}}, 2.0 / 16},
		"enough for both": {[]fairshare.Owner{
			{Name: "alice", Use: flat(10, n), Want: flat(10, n)}, {Name: "bob", Use: flat(5, n), Want: flat(5, n)}}, 0},
	} {
		got := fairshare.Scores(fairshare.Trace{Step: 60, Capacity: 16, Owners: c.owners}, fairshare.Default())
		if s := score(got, "alice"); math.Abs(s-c.want*60*n) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, s, c.want*60*n)
		}
		for _, s := range got {
			if s.Owner != "alice" {
				t.Errorf("%s: %s has %g", name, s.Owner, s.Seconds)
			}
		}
	}
}

// TestWantProperties: knowing what owners want can only lower scores, since unknown demand
// counts as unlimited; and an owner who gets no more than an even part has no score.
func TestWantProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := trace(t)
		blind := fairshare.Scores(tr, fairshare.Default())
		for i := range tr.Owners {
			o := &tr.Owners[i]
			o.Want = make([]float64, len(o.Use))
			for k, u := range o.Use {
				o.Want[k] = u + rapid.Float64Range(0, tr.Capacity).Draw(t, "wait")
			}
		}
		// An owner who uses nothing but waits now counts as wanting: compare only where the set is the same.
		for i := range tr.Owners {
			for k, u := range tr.Owners[i].Use {
				if u <= fairshare.Default().Wants*tr.Capacity {
					tr.Owners[i].Want[k] = u
				}
			}
		}
		for _, s := range fairshare.Scores(tr, fairshare.Default()) {
			if s.Seconds > score(blind, s.Owner)*(1+1e-9)+1e-9 {
				t.Fatalf("%s: %g with known wants, %g without", s.Owner, s.Seconds, score(blind, s.Owner))
			}
			if s.Share*float64(len(tr.Owners)) < 1-1e-9 {
				t.Fatalf("%s has %g of the machine, less than an even part", s.Owner, s.Share)
			}
		}
	})
}
