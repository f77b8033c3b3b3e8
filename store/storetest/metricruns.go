package storetest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"reckon/store"
)

// MetricRuns runs the suite on an empty store of runs of MetricSets.
func MetricRuns(t *testing.T, s store.MetricRuns) {
	t.Helper()
	for i := range 4 {
		requireNoError(t, s.PutMetricRun(t.Context(), metricRun(i), nil, nil))
	}
	testMetricRunSamples(t, s)
	testMetricRunLists(t, s)
}

// hostile is a namespace that would harm a database without quoting.
const hostile = "'; DROP TABLE metric_runs; --"

func metricRun(i int) store.MetricRun {
	return store.MetricRun{Namespace: []string{"team-a", hostile}[i%2], Name: fmt.Sprintf("demo-%d", i), Site: "lab", Set: "demo",
		Outcome: "Running",
		Started: epoch.Add(time.Duration(i) * time.Hour), Document: fmt.Appendf(nil, `{"n":%d,"text":"it's \"so\""}`, i)}
}

// testMetricRunSamples: repeated writes create no duplicates and undo nothing.
func testMetricRunSamples(t *testing.T, s store.MetricRuns) {
	t.Helper()
	ctx, first := t.Context(), metricRun(0)
	sample := func(pod string, seq int64) store.MetricRunSample {
		from := epoch.Add(time.Duration(seq) * time.Second).Add(123456 * time.Microsecond)
		return store.MetricRunSample{Pod: pod, Seq: seq, From: from, To: from.Add(time.Second),
			Document: fmt.Appendf(nil, `{"seq":%d}`, seq)}
	}
	pods := []store.MetricRunPod{{UID: "a", Samples: 2, Document: []byte(`"a"`)}, {UID: "b", Document: []byte(`"b"`)}}
	for range 2 { // again: creates no duplicates
		requireNoError(t, s.PutMetricRun(ctx, first, pods, []store.MetricRunSample{sample("a", 1), sample("a", 2)}))
	}
	// A stored sample is not changed, and a pod is not replaced by an older one.
	changed := sample("a", 2)
	changed.Document = []byte("changed")
	first.Outcome, first.Finished = "Finished", first.Started.Add(time.Minute)
	requireNoError(t, s.PutMetricRun(ctx, first, []store.MetricRunPod{{UID: "a", Samples: 1, Document: []byte("old")}},
		[]store.MetricRunSample{changed, sample("a", 3)}))

	got, err := s.MetricRunSamples(ctx, first.Namespace, first.Name)
	requireNoError(t, err)
	if len(got) != 3 {
		t.Fatalf("%d samples, want 3", len(got))
	}
	for i, g := range got {
		if want := sample("a", int64(i+1)); g.Pod != want.Pod || g.Seq != want.Seq || !g.From.Equal(want.From) || !g.To.Equal(want.To) ||
			!bytes.Equal(g.Document, want.Document) {
			t.Errorf("sample %d: %+v, want %+v", i, g, want)
		}
	}
	kept, err := s.MetricRunPods(ctx, first.Namespace, first.Name)
	requireNoError(t, err)
	if len(kept) != 2 || kept[0].UID != "a" || kept[0].Samples != 2 || string(kept[0].Document) != `"a"` {
		t.Errorf("pods %+v", kept)
	}
}

// testMetricRunLists: filters, pages, and trimming.
func testMetricRunLists(t *testing.T, s store.MetricRuns) {
	t.Helper()
	ctx, first := t.Context(), metricRun(0)
	count := func(what string, f store.MetricRunFilter, page, total int) []store.MetricRun {
		t.Helper()
		list, n, err := s.MetricRuns(ctx, f)
		requireNoError(t, err)
		if len(list) != page || n != total {
			t.Errorf("%s: %d of %d runs, want %d of %d", what, len(list), n, page, total)
		}
		return list
	}
	all := count("all", store.MetricRunFilter{}, 4, 4)
	if len(all) == 4 && (all[0].Name != "demo-3" || all[0].Namespace != hostile || !bytes.Equal(all[0].Document, metricRun(3).Document) ||
		!all[0].Finished.IsZero()) {
		t.Errorf("the latest is %+v", all[0])
	}
	if one := count("one", store.MetricRunFilter{Namespaces: []string{"team-a"}, Names: []string{"demo-0"}}, 1, 1); len(one) == 1 {
		if r := one[0]; r.Samples != 2 || r.Outcome != "Finished" || !r.Finished.Equal(first.Started.Add(time.Minute)) || r.Set != "demo" ||
			r.Site != "lab" {
			t.Errorf("%+v", r)
		}
	}
	count("a page", store.MetricRunFilter{Limit: 2, Offset: 3}, 1, 4)
	count("hostile", store.MetricRunFilter{Namespaces: []string{hostile}}, 2, 2)
	count("since", store.MetricRunFilter{Since: epoch.Add(time.Hour), Until: epoch.Add(3 * time.Hour)}, 2, 2)

	n, err := s.TrimMetricRuns(ctx, epoch.Add(time.Hour))
	requireNoError(t, err)
	left, err := s.MetricRunSamples(ctx, first.Namespace, first.Name)
	requireNoError(t, err)
	if n != 1 || len(left) != 0 {
		t.Errorf("%d runs forgotten, %d samples left", n, len(left))
	}
	count("after that", store.MetricRunFilter{}, 3, 3)
}

// testMetricRuns: runs of MetricSets survive dropping the catalogue.
func testMetricRuns(t *testing.T, c store.Facts) {
	MetricRuns(t, c)
	requireNoError(t, c.Drop(t.Context()))
	if _, n, err := c.MetricRuns(t.Context(), store.MetricRunFilter{}); err != nil || n != 3 {
		t.Errorf("%d runs after Drop, %v", n, err)
	}
}
