package storetest

import (
	"fmt"
	"testing"
	"time"

	"reckon/store"
)

// testSteps tests that steps belong to one run, are replaced as a whole, and are removed with it.
func testSteps(t *testing.T, c store.Facts) {
	ctx := t.Context()
	code, cpu, peak := 125, 12.5, 3e8
	w := Row(1)
	solve := store.Step{ID: "1", Name: "so\"lve", State: "out_of_memory", Nodes: "n[1-2]", Start: w.Start.Add(time.Second),
		End:      w.Start.Add(3 * time.Second),
		ExitCode: &code, CPUSeconds: &cpu, MemoryPeakBytes: &peak, Cores: pointerTo(2)}
	bare := store.Step{ID: "batch", Name: "batch", State: "completed"}
	w.Steps = []store.Step{solve, bare}
	other := Row(1) // of the same id at another time
	other.Start, other.Seen, other.End = w.Start.Add(48*time.Hour), w.Seen.Add(48*time.Hour), w.End.Add(48*time.Hour)
	other.Steps = []store.Step{{ID: "0", State: "completed", Start: other.Start}}
	requireNoError(t, c.Upsert(ctx, []store.Workload{w, other}))
	check := func(when string, of *store.Workload, want ...store.Step) {
		t.Helper()
		got, err := c.Steps(ctx, store.Run{Site: of.Site, ID: of.ID, Start: of.Start})
		if err != nil || formatSteps(got) != formatSteps(want) {
			t.Errorf("%s: %s, %v\nwant %s", when, formatSteps(got), err, formatSteps(want))
		}
	}
	check("written", &w, bare, solve)
	check("of the other run", &other, other.Steps...)
	elsewhere := w
	elsewhere.Site = "there"
	check("at another site", &elsewhere)

	w.Steps = nil
	requireNoError(t, c.Upsert(ctx, []store.Workload{w}))
	check("an upsert that has none", &w, bare, solve)
	w.Steps = []store.Step{solve}
	requireNoError(t, c.Upsert(ctx, []store.Workload{w}))
	check("replaced", &w, solve)

	moved := w
	moved.Start, moved.PreviousStarts = w.Start.Add(time.Second), []time.Time{w.Start}
	requireNoError(t, c.Upsert(ctx, []store.Workload{moved}))
	check("under the old start", &w)
	check("under the new start", &moved, solve)

	// Another run has the row under that start now, and this one the row of another.
	first, second := moved, moved
	first.Start, first.PreviousStarts, first.Steps = moved.Start.Add(-time.Second), []time.Time{moved.Start}, []store.Step{bare}
	second.PreviousStarts, second.Steps, second.State = []time.Time{moved.Start}, nil, "pending"
	requireNoError(t, c.Upsert(ctx, []store.Workload{second, first}))
	check("of the run that took the start over", &second)
	check("of the run that began earlier", &first, bare)
	third := second
	third.Start, third.PreviousStarts, third.Steps = second.Start.Add(time.Second), []time.Time{second.Start, first.Start},
		[]store.Step{solve}
	first.PreviousStarts = nil
	requireNoError(t, c.Upsert(ctx, []store.Workload{first, third}))
	check("of the run under whose start another was written", &first, bare)
	check("of the run that began later", &third, solve)
	requireNoError(t, c.Forget(ctx, []store.Run{{Site: first.Site, ID: first.ID, Start: first.Start}}))
	moved.Start = third.Start

	requireNoError(t, c.Forget(ctx, []store.Run{{Site: moved.Site, ID: moved.ID, Start: moved.Start}}))
	check("forgotten", &moved)
	check("the other run then", &other, other.Steps...)
	// a database may reuse the key
	requireNoError(t, c.Upsert(ctx, []store.Workload{{ID: "unit/a", Kind: "unit", Start: w.Start, Seen: w.Seen}}))
	check("another row", &store.Workload{ID: "unit/a", Start: w.Start})
	if _, err := c.Trim(ctx, other.End.AddDate(0, 2, 0)); err != nil {
		t.Fatal(err)
	}
	check("trimmed", &other)
	requireNoError(t, c.Upsert(ctx, []store.Workload{other}))
	requireNoError(t, c.Drop(ctx))
	other.Steps = nil
	requireNoError(t, c.Upsert(ctx, []store.Workload{other}))
	check("dropped", &other)
}

func formatSteps(list []store.Step) string {
	text := ""
	for _, s := range list {
		var code any
		if s.ExitCode != nil {
			code = *s.ExitCode
		}
		text += fmt.Sprintf("[%q %q %s %s %d %d %v", s.ID, s.Name, s.State, s.Nodes, s.Start.UnixMilli(), s.End.UnixMilli(), code)
		for _, v := range []*float64{s.CPUSeconds, s.MemoryPeakBytes, s.Cores} {
			if v != nil {
				text += fmt.Sprintf(" %g", *v)
				continue
			}
			text += " -"
		}
		text += "]"
	}
	return text
}
