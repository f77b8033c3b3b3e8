package catalogue

import (
	"context"
	"fmt"
	"testing"

	"reckon/metric"
	"reckon/store"
)

// TestOwnerFromWhoKnowsTheName: a node without the user database of the site calls the owner of a job by number, the batch system by
// name. The name counts for the row and for each hour, whichever comes first, with a restart after each, live and rebuilt.
func TestOwnerFromWhoKnowsTheName(t *testing.T) {
	for _, tt := range []struct{ node, batch, want string }{
		{"1000", "alice", "alice"}, {"1201300503", "jane smith", "jane smith"}, {"alice", "1000", "alice"}, {"a.smith", "alice", "alice"},
		{"alice", "", "alice"}, {"1000", "1000", "1000"},
	} {
		for _, batchFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(tt, batchFirst), func(t *testing.T) {
				x := newSite(t, t.TempDir(), simBegin)
				defer x.close()
				c := &cluster{site: x, b: x.builder()}
				send := func(node string, fill func(add func(d *metric.Desc, v float64, more ...string))) {
					b := metric.Batch{Time: c.now}
					part, owner, labels := "", tt.batch, map[string]string{"site": "x"}
					if node != "" {
						part, owner, labels["node"] = "batch", tt.node, node
					}
					fill(func(d *metric.Desc, v float64, more ...string) {
						b.Add(metric.NewSeries(d, append([]string{"slurm/3", "slurm", part, owner}, more...)...), v)
					})
					if err := c.s.Append(t.Context(), labels, &b); err != nil {
						t.Fatal(err)
					}
				}
				batch := func(state string, over bool) {
					if tt.batch == "" {
						return
					}
					send("", func(add func(d *metric.Desc, v float64, more ...string)) {
						add(simSubmit, unix(0))
						add(simStart, unix(1))
						add(simState, 1, state, "")
						add(simAllocated, 2)
						if over {
							add(simEnd, unix(6000))
						}
					})
				}
				node := func(at int) {
					send("n1", func(add func(d *metric.Desc, v float64, more ...string)) {
						add(simStart, unix(1))
						add(simUser, float64(at), "user")
						add(simInfo, 1, "train", "physics", "gpu", "python")
					})
				}
				round := func() {
					advance(t, c.b)
					if err := c.b.Save(t.Context()); err != nil {
						t.Fatal(err)
					}
					c.b = x.builder()
				}
				if batchFirst {
					c.now = sec(5)
					batch("running", false)
					round()
				}
				for at := 10; at < 6000; at += 60 {
					c.now = sec(at)
					node(at)
					if batchFirst {
						batch("running", false)
					}
					if at%600 == 10 {
						round()
					}
				}
				c.now = sec(6010)
				batch("completed", true)
				round()
				for at := 6060; at < 12000; at += 60 {
					c.now = sec(at)
					advance(t, c.b)
				}
				c.sameAsRebuilt(t, t.TempDir(), "slurm/3", "in the end")
				rows := x.rows()
				if len(rows) != 1 || rows[0].Owner != tt.want {
					t.Fatalf("%d rows, the owner %q, want %q", len(rows), rows[0].Owner, tt.want)
				}
				use, err := x.c.Use(context.Background(), store.RollupQuery{From: always.From, To: always.To, Span: store.SpanHour, By: []string{"owner"}})
				if err != nil {
					t.Fatal(err)
				}
				for _, u := range use {
					if u.Owner != tt.want {
						t.Errorf("hour %s is of %q, want %q", u.At, u.Owner, tt.want)
					}
				}
				if len(use) == 0 {
					t.Error("no hour")
				}
			})
		}
	}
}

// TestOwnerOfUnnamedUser: what a user without a name on its node begins stays theirs, whoever processes of it become.
func TestOwnerOfUnnamedUser(t *testing.T) {
	for id, kind := range map[string]string{"group/n1/5-1": "group", "session/1000/3": "session"} {
		x := newSite(t, t.TempDir(), simBegin)
		defer x.close()
		c := &cluster{site: x, b: x.builder()}
		for at := 10; at < 200; at += 10 {
			c.now = sec(at)
			b := metric.Batch{Time: c.now}
			for i, owner := range []string{"1000", "root"} {
				b.Add(metric.NewSeries(simStart, id, kind, "", owner), unix(1+4*i))
				b.Add(metric.NewSeries(simUser, id, kind, "", owner, "user"), float64(at))
			}
			if err := c.s.Append(t.Context(), map[string]string{"site": "x", "node": "n1"}, &b); err != nil {
				t.Fatal(err)
			}
			advance(t, c.b)
		}
		c.sameAsRebuilt(t, t.TempDir(), id, "in the end")
		if rows := x.rows(); len(rows) != 1 || rows[0].Owner != "1000" {
			t.Errorf("%s: %d rows, of %q, want 1000", id, len(rows), rows[0].Owner)
		}
	}
}
