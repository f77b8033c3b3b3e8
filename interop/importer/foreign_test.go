package importer

import (
	"strings"
	"testing"

	"reckon/interop/batchlog"
	"reckon/store"
)

// TestOtherBatchSystems: the accounting of PBS, Grid Engine and LSF is recognised by both readers, also compressed, and gives rows and
// hours; what a format lacks is unknown. The records are from package batchlog's tests.
func TestOtherBatchSystems(t *testing.T) {
	for name, c := range map[string]struct {
		id, owner, state            string
		cpu, cores, gpus, wall, all float64
	}{
		"pbs": {"pbs/101", "alice", "completed", 7200, 8, 0, 3600, 20}, "sge": {"sge/201", "alice", "completed", 3000, 1, 0, 3600, 20},
		"lsf": {"lsf/301", "alice", "completed", 7200, 4, 0, 3600, 20},
	} {
		for _, as := range []string{"x", "x.sacct"} {
			l := newLab(t)
			text := read(t, "../batchlog/testdata/"+name+".log")
			r := l.take(as, text)
			if r.BadCount != 0 || r.BadFields != 0 || r.Taken == 0 || r.Taken != r.Records-r.Waiting {
				t.Errorf("%s: %+v", name, r)
			}
			if again := l.take(as, text); again.Taken != 0 || len(again.Ranges) != 0 {
				t.Errorf("%s again: %+v", name, again)
			}
			rows, _, err := l.facts.Workloads(t.Context(), store.Filter{IDs: []string{c.id}})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%s: %v %v", name, rows, err)
			}
			w := rows[0]
			if w.Owner != c.owner || w.State != c.state || figureOf(w.CPUSeconds) != c.cpu || figureOf(w.AllocatedCores) != c.cores ||
				w.End.Sub(w.Start).Seconds() != c.wall || w.GPUSeconds != nil {
				t.Errorf("%s: %+v", name, w)
			}
			held := 0.0
			for _, u := range l.held(store.SpanWhole, "kind") {
				if u.Kind != name {
					t.Errorf("hours of kind %q", u.Kind)
				}
				held += figureOf(u.HeldCoreSeconds)
			}
			all, _, err := l.facts.Workloads(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			want := 0.0
			for _, w := range all {
				if !w.End.IsZero() && w.AllocatedCores != nil {
					want += *w.AllocatedCores * w.End.Sub(w.Start).Seconds()
				}
			}
			if held != want || held == 0 {
				t.Errorf("%s: %g core seconds were held, want %g", name, held, want)
			}
		}
	}
	for _, text := range []string{accounted, said(0, 7, 70, 1, "a:b:c", 5, ""), "", "\n\n", `{"meta":{}}`, strings.Repeat("a:", 50)} {
		if got := batchlog.Format([]byte(text)); got != "" {
			t.Errorf("%.60q is taken for %s", text, got)
		}
	}
}
