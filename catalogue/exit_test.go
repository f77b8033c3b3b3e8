package catalogue

import (
	"fmt"
	"testing"
	"time"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// TestExitCodeFromWhoKnowsIt: the controller's exit code of a job stands before the exit code of accounting, which takes 128 off, and the exit code
// before a node's, in all orders of arrival and of the times of their samples, with a restart after each, live and rebuilt.
func TestExitCodeFromWhoKnowsIt(t *testing.T) {
	type report struct {
		what string
		code float64
		by   string
		node string
	}
	controller, accounting := report{"controller", 134, "", ""}, report{"accounting", 6, figure.Accounting, ""}
	node := report{"node", 9, "", "n1"}
	for _, tt := range []struct {
		reports []report
		want    int
		step    int
		degree  figure.Exactness
	}{
		{[]report{controller, accounting, node}, 134, 134, figure.Exact},
		{[]report{accounting, controller, node}, 134, 134, figure.Exact},
		{[]report{node, accounting, controller}, 134, 134, figure.Exact},
		{[]report{accounting, node}, 6, 6, figure.Estimated},
		{[]report{node, accounting}, 6, 6, figure.Estimated},
		{[]report{node}, 9, 6, figure.Exact},
	} {
		name := ""
		for _, r := range tt.reports {
			name += " " + r.what
		}
		t.Run(name, func(t *testing.T) {
			x := newSite(t, t.TempDir(), simBegin)
			defer x.close()
			c := &cluster{site: x, b: x.builder()}
			send := func(node string, fill func(add func(d *metric.Desc, v float64, part string, more ...string))) {
				b := metric.Batch{Time: c.now}
				fill(func(d *metric.Desc, v float64, part string, more ...string) {
					b.Add(metric.NewSeries(d, append([]string{"slurm/3", "slurm", part, "alice"}, more...)...), v)
				})
				labels := map[string]string{"site": "x"}
				if node != "" {
					labels["node"] = node
				}
				if err := c.s.Append(t.Context(), labels, &b); err != nil {
					t.Fatal(err)
				}
			}
			send("", func(add func(d *metric.Desc, v float64, part string, more ...string)) {
				add(simSubmit, unix(0), "")
				add(simStart, unix(1), "")
				add(simEnd, unix(20), "")
				add(simState, 1, "", "failed", "")
				add(simStep, 1, "batch", "batch", "failed", "n1")
				add(simStepExit, 6, "batch")
			})
			for _, r := range tt.reports {
				c.now = c.now.Add(20 * time.Second)
				send(r.node, func(add func(d *metric.Desc, v float64, part string, more ...string)) {
					if r.by != "" {
						add(simCode, r.code, "", r.by)
					} else {
						add(simExit, r.code, map[bool]string{true: "batch"}[r.node != ""])
					}
				})
				advance(t, c.b)
				if err := c.b.Save(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.b = x.builder()
			}
			c.sameAsRebuilt(t, t.TempDir(), "slurm/3", fmt.Sprint(name, " in the end"))
			rows := x.rows()
			if len(rows) != 1 || rows[0].ExitCode == nil || *rows[0].ExitCode != tt.want || rows[0].Exactness["exit_code"] != tt.degree {
				t.Fatalf("%+v, want exit code %d, %s", rows, tt.want, tt.degree)
			}
			steps, err := x.c.Steps(t.Context(), store.Run{Site: rows[0].Site, ID: rows[0].ID, Start: rows[0].Start})
			if err != nil || len(steps) != 1 || *steps[0].ExitCode != tt.step {
				t.Errorf("%+v (%v), want exit code %d", steps, err, tt.step)
			}
		})
	}
}
