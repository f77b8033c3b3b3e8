package catalogue

import (
	"testing"
	"time"
)

// TestNumberUsedAgain: a job ends while one of its nodes has no network, and its number is used again within seconds, by a
// requeue or by another job. In whatever order the nodes of the second run report, it is a run of its own. Where it runs on
// other nodes only, nothing but its name of the run distinguishes it from a later step of the first one.
func TestNumberUsedAgain(t *testing.T) {
	n1, n2, n3, n4 := partPlace{Node: "n1"}, partPlace{Node: "n2"}, partPlace{Node: "n3", Part: "0"}, partPlace{Node: "n4", Part: "0"}
	for what, tt := range map[string]struct {
		first, second []partPlace
		silent        string // the node of the second run that the others do not wait for
		round         bool   // the catalogue is brought up to date without it
		lost          bool   // the node of the first run without network never comes back
		named         bool
		want          int
	}{
		// Found by TestTotalsEqualTheTruth with -rapid.seed=18011922788417294491.
		"a new node falls silent":     {[]partPlace{n1, n2}, []partPlace{n1, n2, n3}, "n3", false, false, false, 2},
		"a new node reports first":    {[]partPlace{n1, n2}, []partPlace{n1, n3}, "n1", true, false, false, 2},
		"an old node reports first":   {[]partPlace{n1, n2}, []partPlace{n1, n3}, "n3", true, false, false, 2},
		"other nodes, named":          {[]partPlace{n1, n2}, []partPlace{n3, n4}, "n4", true, true, true, 2},
		"other nodes, nothing to see": {[]partPlace{n1, n2}, []partPlace{n3, n4}, "n4", true, true, false, 1},
		"other nodes, n2 back":        {[]partPlace{n1, n2}, []partPlace{n3, n4}, "n4", true, false, false, 2},
	} {
		t.Run(what, func(t *testing.T) {
			x := newSite(t, t.TempDir(), simBegin)
			defer x.close()
			b := x.builder()
			turn := func(round bool) {
				x.work(steady)
				x.exportAll()
				if round {
					advance(t, b)
				}
			}
			name := func(tr *truth, run string) *truth {
				if tt.named {
					tr.run = run
				}
				return tr
			}
			first := name(x.begin("slurm/2", tt.first...), "1772365800")
			turn(true)
			x.cut["n2"] = true
			x.end(first)
			advance(t, b)
			x.now = x.now.Add(3 * time.Second)
			second := name(x.begin("slurm/2", tt.second...), "1772365822")
			if tt.round {
				x.cut[tt.silent] = true
			} else {
				turn(false)
				x.cut[tt.silent] = true
			}
			turn(true)
			delete(x.cut, tt.silent)
			if !tt.lost {
				x.flush()
			}
			turn(true)
			turn(true)
			x.end(second)
			advance(t, b)
			rows := x.rows()
			if len(rows) != tt.want {
				t.Fatalf("%d runs, want %d: %v", len(rows), tt.want, starts(rows))
			}
			if tt.want == 2 && !tt.lost {
				x.check(t, "kept up to date", rows, x.now)
			}
			if _, err := b.Rebuild(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if rows = x.rows(); len(rows) != tt.want {
				t.Fatalf("rebuilt: %d runs, want %d: %v", len(rows), tt.want, starts(rows))
			}
			if tt.want == 2 && !tt.lost {
				x.check(t, "rebuilt", rows, x.now)
			}
		})
	}
}
