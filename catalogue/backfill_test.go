package catalogue

import (
	"testing"
	"time"
)

// TestLateEnd: a workload that was known ends on a node that cannot send until a later
// life of its id runs elsewhere. Its last word comes late, and is not lost.
func TestLateEnd(t *testing.T) {
	for name, wait := range map[string]time.Duration{"known": 3 * time.Minute, "counted as ended": 7 * time.Minute, "forgotten": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			x := newSite(t, t.TempDir(), simBegin)
			defer x.close()
			b := x.builder()
			tr := x.begin("slurm/1", partPlace{Node: "n1"}, partPlace{Node: "n2"})
			x.work(steady)
			x.exportAll()
			advance(t, b)
			x.cut["n2"] = true
			x.work(steady)
			x.exportAll()
			x.end(tr)
			advance(t, b)
			x.now = x.now.Add(3 * time.Second)
			x.begin("slurm/1", partPlace{Node: "n1"})
			for until := x.now.Add(wait); x.now.Before(until); {
				x.work(steady)
				x.exportAll()
				advance(t, b)
			}
			x.flush()
			advance(t, b)
			x.check(t, "after the outage", x.rows(), x.now)
			n := advance(t, b)
			x.check(t, "a round later", x.rows(), x.now)
			if n > 1 {
				t.Errorf("%d rows were written again", n)
			}
		})
	}
}
