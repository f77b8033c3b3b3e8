package storetest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

// rollupCatalogue is a catalogue that stores roll-ups too.
type rollupCatalogue interface {
	store.Catalogue
	store.Rollups
}

// Rollups runs the tests of [store.Rollups]. open returns an empty store, which the suite closes.
func Rollups(t *testing.T, open func(testing.TB) store.Catalogue) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, rollupCatalogue){
		"Sums": testRollupSums, "Replace": testRollupReplace, "Unknown": testRollupUnknown, "Exactness": testRollupExactness,
		"Refused": testRollupRefused, "Drop": testRollupDrop, "Nodes": testRollupNodes,
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := open(t).(rollupCatalogue)
			if !ok {
				t.Fatal("the store keeps no roll-ups")
			}
			test(t, c)
			requireNoError(t, c.Close())
		})
	}
}

var rollEpoch = time.Date(2025, 12, 29, 0, 0, 0, 0, time.UTC) // a Monday, in the last days of a year

func mustUse(t *testing.T, c rollupCatalogue, q store.RollupQuery) []store.Use {
	t.Helper()
	rows, err := c.Use(t.Context(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return rows
}

// testRollupSums compares every span and grouping with a straightforward computation.
func testRollupSums(t *testing.T, c rollupCatalogue) {
	rng := rand.New(rand.NewPCG(3, 4))
	const hours = 24 * 40
	end := rollEpoch.Add(hours * time.Hour)
	var rows []store.Use
	for h := range hours {
		for i := range 4 {
			u := store.Use{
				At: rollEpoch.Add(time.Duration(h) * time.Hour), Site: "s", Kind: []string{"slurm", "session"}[i%2],
				Owner:   fmt.Sprintf("user%d", i%3),
				Account: fmt.Sprintf("a%d", i%2), Partition: "p", Command: []string{"python3", "R"}[rng.IntN(2)],
			}
			u.CPUSeconds = pointerTo(float64(rng.IntN(3600)))
			if rng.IntN(3) == 0 {
				u.GPUSeconds = pointerTo(float64(rng.IntN(3600)))
			}
			rows = append(rows, u)
		}
	}
	half := rollEpoch.Add(hours / 2 * time.Hour)
	before := func(u store.Use) bool { return u.At.Before(half) }
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, half,
		slices.DeleteFunc(slices.Clone(rows), func(u store.Use) bool { return !before(u) }), nil))
	requireNoError(t, c.ReplaceHours(t.Context(), half, end, slices.DeleteFunc(slices.Clone(rows), before), nil))
	get := map[string]func(*store.Use) *string{
		"kind": func(u *store.Use) *string { return &u.Kind }, "owner": func(u *store.Use) *string { return &u.Owner },
		"account": func(u *store.Use) *string { return &u.Account }, "command": func(u *store.Use) *string { return &u.Command },
	}
	for _, span := range []store.Span{store.SpanHour, store.SpanDay, store.SpanWeek, store.SpanMonth, store.SpanWhole,
		store.SpanHourOfWeek} {
		for _, by := range [][]string{nil, {"owner"}, {"kind", "account"}, {"command"}} {
			for _, iv := range [][2]time.Time{{rollEpoch, end}, {rollEpoch.Add(5 * time.Hour), end.Add(-7*time.Hour - time.Minute)},
				{rollEpoch.Add(30 * time.Hour), rollEpoch.Add(31 * time.Hour)}} {
				q := store.RollupQuery{From: iv[0], To: iv[1], Span: span, By: by, Owners: []string{"user0", "user1"}, Command: "*"}
				want := map[string][2]float64{}
				last := store.SpanStart(store.SpanHour, iv[1].Add(time.Hour-1))
				for _, u := range rows {
					if u.At.Before(iv[0]) || !u.At.Before(last) || u.Owner == "user2" {
						continue
					}
					k := store.SpanStart(span, u.At).String()
					for _, b := range by {
						k += "|" + *get[b](&u)
					}
					v := want[k]
					v[0] += *u.CPUSeconds
					if u.GPUSeconds != nil {
						v[1] += *u.GPUSeconds
					}
					want[k] = v
				}
				got := mustUse(t, c, q)
				if len(got) != len(want) {
					t.Fatalf("%s by %v: %d rows, want %d", span, by, len(got), len(want))
				}
				for _, u := range got {
					k := u.At.String()
					for _, b := range by {
						k += "|" + *get[b](&u)
					}
					gpu := 0.0
					if u.GPUSeconds != nil {
						gpu = *u.GPUSeconds
					}
					if w, ok := want[k]; !ok || math.Abs(*u.CPUSeconds-w[0]) > 1e-6 || math.Abs(gpu-w[1]) > 1e-6 {
						t.Fatalf("%s by %v: %s is %g and %g, want %v", span, by, k, *u.CPUSeconds, gpu, w)
					}
				}
			}
		}
	}
}

// testRollupReplace tests that an hour written again replaces the earlier one in every span.
func testRollupReplace(t *testing.T, c rollupCatalogue) {
	row := func(owner string, cpu float64) []store.Use {
		return []store.Use{{At: rollEpoch, Owner: owner, Used: store.Used{CPUSeconds: pointerTo(cpu)}}}
	}
	next := rollEpoch.Add(time.Hour)
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, next, append(row("a", 1), row("a", 2)...), nil))
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, next, row("b", 5), nil))
	for _, span := range []store.Span{store.SpanHour, store.SpanDay, store.SpanMonth} {
		got := mustUse(t, c, store.RollupQuery{From: store.SpanStart(store.SpanMonth, rollEpoch), To: rollEpoch.AddDate(0, 1, 0),
			Span: span,
			By:   []string{"owner"}})
		if len(got) != 1 || got[0].Owner != "b" || *got[0].CPUSeconds != 5 {
			t.Errorf("%s: %+v", span, got)
		}
	}
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, next, append(row("a", 1), row("a", 2)...), nil))
	if got := mustUse(t, c, store.RollupQuery{From: rollEpoch, To: next, Span: store.SpanWhole}); len(got) != 1 || *got[0].CPUSeconds != 3 {
		t.Errorf("rows of one hour and group do not add up: %+v", got)
	}
}

// testRollupUnknown: unmeasured figures stay unknown in every sum.
func testRollupUnknown(t *testing.T, c rollupCatalogue) {
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, rollEpoch.Add(2*time.Hour), []store.Use{
		{At: rollEpoch, Owner: "a", Used: store.Used{CPUSeconds: pointerTo(1)}},
		{At: rollEpoch.Add(time.Hour), Owner: "a", Used: store.Used{CPUSeconds: pointerTo(0)}},
	}, nil))
	for _, span := range []store.Span{store.SpanHour, store.SpanWhole, store.SpanMonth} {
		for _, u := range mustUse(t, c, store.RollupQuery{From: rollEpoch, To: rollEpoch.Add(48 * time.Hour), Span: span}) {
			if u.CPUSeconds == nil || u.GPUSeconds != nil || u.EnergyJoules != nil {
				t.Errorf("%s: %+v", span, u)
			}
		}
	}
	if got := mustUse(t, c, store.RollupQuery{From: rollEpoch.AddDate(1, 0, 0), To: rollEpoch.AddDate(2, 0, 0),
		Span: store.SpanWhole}); len(
		got) != 0 {
		t.Errorf("a time without rows gives %+v", got)
	}
}

// testRollupExactness tests that a sum is as exact as its least exact row, in every span, and that one group does not
// affect another.
func testRollupExactness(t *testing.T, c rollupCatalogue) {
	row := func(hour int, owner string, d figure.Degrees) store.Use {
		return store.Use{At: rollEpoch.Add(time.Duration(hour) * time.Hour), Owner: owner,
			Used: store.Used{CPUSeconds: pointerTo(1), ReadBytes: pointerTo(1), GPUSeconds: pointerTo(1), Exactness: d}}
	}
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, rollEpoch.Add(3*time.Hour), []store.Use{
		row(0, "a", figure.Degrees{"cpu_seconds": figure.AtLeast}), row(1, "a", nil),
		row(2, "a", figure.Degrees{"cpu_seconds": figure.Estimated, "io_read_bytes": figure.AtLeast}),
		row(0, "b", nil), row(1, "b", nil), row(2, "b", figure.Degrees{"gpu_seconds": figure.Modelled}),
	}, []store.NodeUse{{At: rollEpoch, Node: "n", Used: row(0, "", figure.Degrees{"energy_joules": figure.Modelled}).Used}}))
	want := map[store.Span]map[string]figure.Degrees{
		store.SpanHour: {"a0": {"cpu_seconds": figure.AtLeast}, "a2": {"cpu_seconds": figure.Estimated, "io_read_bytes": figure.AtLeast},
			"b2": {"gpu_seconds": figure.Modelled}},
		store.SpanDay:   {"a0": {"cpu_seconds": figure.Estimated, "io_read_bytes": figure.AtLeast}, "b0": {"gpu_seconds": figure.Modelled}},
		store.SpanWhole: {"a0": {"cpu_seconds": figure.Estimated, "io_read_bytes": figure.AtLeast}, "b0": {"gpu_seconds": figure.Modelled}},
	}
	for span, by := range want {
		from, to := rollEpoch, rollEpoch.Add(3*time.Hour)
		if span == store.SpanDay {
			from = store.SpanStart(span, rollEpoch)
		}
		for _, u := range mustUse(t, c, store.RollupQuery{From: from, To: to, Span: span, By: []string{"owner"}}) {
			hour := 0
			if span == store.SpanHour {
				hour = int(u.At.Sub(rollEpoch) / time.Hour)
			}
			if d := by[fmt.Sprint(u.Owner, hour)]; !maps.Equal(u.Exactness, d) {
				t.Errorf("%s: %s at %s is %v, want %v", span, u.Owner, u.At, u.Exactness, d)
			}
		}
	}
	nodes, err := c.NodeUse(t.Context(),
		store.RollupQuery{From: rollEpoch, To: rollEpoch.Add(time.Hour), Span: store.SpanWhole, By: []string{"node"}})
	if err != nil || len(nodes) != 1 || nodes[0].Exactness["energy_joules"] != figure.Modelled || len(nodes[0].Exactness) != 1 {
		t.Errorf("%+v, %v", nodes, err)
	}
}

func testRollupRefused(t *testing.T, c rollupCatalogue) {
	for _, iv := range [][2]time.Time{{rollEpoch, rollEpoch}, {rollEpoch.Add(time.Minute), rollEpoch.Add(time.Hour)},
		{rollEpoch.Add(time.Hour), rollEpoch}} {
		if c.ReplaceHours(t.Context(), iv[0], iv[1], nil, nil) == nil {
			t.Errorf("hours from %s to %s were taken", iv[0], iv[1])
		}
	}
	if c.ReplaceHours(t.Context(), rollEpoch, rollEpoch.Add(time.Hour), []store.Use{{At: rollEpoch.Add(time.Hour)}}, nil) == nil {
		t.Error("a row of another hour was taken")
	}
	if c.ReplaceHours(t.Context(), rollEpoch, rollEpoch.Add(time.Hour), nil, []store.NodeUse{{At: rollEpoch.Add(-time.Hour)}}) == nil {
		t.Error("a node's row of another hour was taken")
	}
	for _, by := range []string{"nonsense", "owner; DROP TABLE uses"} {
		if _, err := c.Use(t.Context(),
			store.RollupQuery{From: rollEpoch, To: rollEpoch.Add(time.Hour), Span: store.SpanHour, By: []string{by}}); err == nil {
			t.Errorf("grouped by %s", by)
		}
		if _, err := c.NodeUse(t.Context(),
			store.RollupQuery{From: rollEpoch, To: rollEpoch.Add(time.Hour), Span: store.SpanHour, By: []string{by}}); err == nil {
			t.Errorf("nodes grouped by %s", by)
		}
	}
}

func testRollupDrop(t *testing.T, c rollupCatalogue) {
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, rollEpoch.Add(time.Hour),
		[]store.Use{{At: rollEpoch, Used: store.Used{CPUSeconds: pointerTo(1)}}},
		[]store.NodeUse{{At: rollEpoch, Node: "n", Capacity: figure.Capacity{UpSeconds: pointerTo(1)}}}))
	requireNoError(t, c.Drop(t.Context()))
	q := store.RollupQuery{From: rollEpoch.AddDate(0, -1, 0), To: rollEpoch.AddDate(0, 1, 0), Span: store.SpanWhole}
	if got := mustUse(t, c, q); len(got) != 0 {
		t.Errorf("after drop: %+v", got)
	}
	if got, err := c.NodeUse(t.Context(), q); err != nil || len(got) != 0 {
		t.Errorf("after drop: %+v, %v", got, err)
	}
}

func testRollupNodes(t *testing.T, c rollupCatalogue) {
	var rows []store.NodeUse
	for h := range 30 {
		for _, n := range []string{"n1", "n2"} {
			rows = append(rows, store.NodeUse{At: rollEpoch.Add(time.Duration(h) * time.Hour), Site: "s", Node: n,
				Capacity: figure.Capacity{UpSeconds: pointerTo(3600), CoreSeconds: pointerTo(7200), CoreUsedSeconds: pointerTo(float64(h))},
				Used:     store.Used{CPUSeconds: pointerTo(1)}})
		}
	}
	requireNoError(t, c.ReplaceHours(t.Context(), rollEpoch, rollEpoch.Add(30*time.Hour), nil, rows))
	q := store.RollupQuery{From: rollEpoch, To: rollEpoch.Add(30 * time.Hour), Span: store.SpanDay, By: []string{"node"},
		Nodes: []string{"n2"}}
	got, err := c.NodeUse(t.Context(), q)
	if err != nil || len(got) != 2 || got[0].Node != "n2" || *got[0].UpSeconds != 24*3600 || *got[1].UpSeconds != 6*3600 ||
		*got[0].CoreUsedSeconds != 23*12 || got[0].NodeJoules != nil {
		t.Errorf("%+v, %v", got, err)
	}
	q = store.RollupQuery{From: rollEpoch, To: rollEpoch.Add(30 * time.Hour), Span: store.SpanWhole}
	if got, err = c.NodeUse(t.Context(), q); err != nil || len(got) != 1 || *got[0].UpSeconds != 60*3600 || *got[0].CPUSeconds != 60 {
		t.Errorf("%+v, %v", got, err)
	}
}
