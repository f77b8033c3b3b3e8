package catalogue

import (
	"fmt"
	"testing"
	"time"
)

// TestNamedRuns: Jobs of a CronJob follow each other within minutes on one node, and may overlap: where their starts name
// the run each is a row of its own, and where they do not some are taken for steps of one.
func TestNamedRuns(t *testing.T) {
	for what, tt := range map[string]struct {
		named, overlap bool
	}{
		"named":                {true, false},
		"named, and they meet": {true, true},
		"not named":            {false, false},
	} {
		t.Run(what, func(t *testing.T) {
			x := newSite(t, t.TempDir(), simBegin)
			defer x.close()
			b := x.builder()
			var before *truth
			for i := range 4 {
				// Two pods of the Job, one after the other.
				job := x.begin("cronjob/shop/report", partPlace{Node: "n1", Part: fmt.Sprintf("report-%d-a/main", i)},
					partPlace{Node: "n1", Part: fmt.Sprintf("report-%d-b/main", i)})
				if tt.named {
					job.run = fmt.Sprintf("uid-%d", i)
				}
				for range 3 {
					x.work(steady)
					x.exportAll()
					advance(t, b)
				}
				if before != nil {
					x.end(before)
				}
				if before = job; !tt.overlap {
					x.end(job)
					before = nil
				}
				x.now = x.now.Add(15 * time.Second)
				advance(t, b)
			}
			if before != nil {
				x.end(before)
			}
			for range 4 {
				x.now = x.now.Add(15 * time.Second)
				advance(t, b)
			}
			rows := x.rows()
			if tt.named != (len(rows) == 4) {
				t.Fatalf("%d rows: %v", len(rows), starts(rows))
			}
			if !tt.named {
				return
			}
			for _, tr := range x.truth {
				for _, r := range rows {
					if r.Start.Equal(tr.start.UTC()) && (r.CPUSeconds == nil || *r.CPUSeconds != tr.user || !r.End.Equal(tr.end.UTC())) {
						t.Errorf("the run of %s: %v s of %v, ended %s of %s", r.Start, r.CPUSeconds, tr.user, r.End, tr.end)
					}
				}
			}
		})
	}
}
