package tsdb

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/metric"
)

func TestAppended(t *testing.T) {
	begin := time.Now().Truncate(time.Minute)
	s := open(t, Options{})
	at := func(ago time.Duration, created time.Duration) {
		t.Helper()
		var b metric.Batch
		b.Reset(begin.Add(-ago))
		series := metric.NewSeries(cpuDesc, ago.String(), "group", "", "alice", "user")
		if created > 0 {
			series.Created = begin.Add(-created).UnixMilli()
		}
		b.Add(series, 1)
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, known := s.Appended(0); known {
		t.Error("known since the beginning")
	}
	_, _, first, _ := s.Appended(0)
	var mark uint64
	for _, step := range []struct {
		what string
		do   func()
		want time.Duration // ago; -1 is nothing
	}{
		{"nothing", func() {}, -1},
		{"the older of two batches", func() { at(30*time.Second, 0); at(90*time.Second, 0) }, 90 * time.Second},
		{"a counter's zero", func() { at(20*time.Second, 25*time.Second) }, 25 * time.Second},
		{"another appender", func() {
			a := s.AppenderV2(context.Background())
			for _, ago := range []time.Duration{10 * time.Second, 5 * time.Second} {
				if _, err := a.Append(0, labels.FromStrings("__name__", "x"), 0, begin.Add(-ago).UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Commit(); err != nil {
				t.Fatal(err)
			}
		}, 10 * time.Second},
		{"zeros of another appender", func() {
			a := s.AppenderV2(context.Background())
			for name, ago := range map[string]time.Duration{"x": 4 * time.Second, "y": 20 * time.Second} { // x has samples, y begins
				if _, err := a.Append(0, labels.FromStrings("__name__", name), 0, begin.Add(-ago).UnixMilli(), 0, nil, nil, storage.AOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Commit(); err != nil {
				t.Fatal(err)
			}
		}, 20 * time.Second},
		{"nothing again", func() {}, -1},
	} {
		if mark == 0 {
			mark = first
		}
		step.do()
		since, counts, next, known := s.Appended(mark)
		if want := begin.Add(-step.want); !known || (step.want >= 0 && !since.Equal(want)) || (step.want < 0 && since.Before(begin.AddDate(1, 0, 0))) {
			t.Errorf("%s: since %s, known %v, want %s ago", step.what, begin.Sub(since), known, step.want)
		}
		others := map[string]time.Duration{"a counter's zero": 20 * time.Second, "zeros of another appender": 4 * time.Second}
		if ago, ok := others[step.what]; ok && !counts.Equal(begin.Add(-ago)) || !ok && !counts.Equal(since) {
			t.Errorf("%s: without zeros since %s ago", step.what, begin.Sub(counts))
		}
		mark = next
	}
	// Another who asks loses nothing by it, as long as it asks often enough.
	at(40*time.Second, 0)
	for i := range keptMarks - 1 {
		if _, _, _, known := s.Appended(0); known {
			t.Error("known since no mark", i)
		}
	}
	if since, _, _, known := s.Appended(mark); !known || !since.Equal(begin.Add(-40*time.Second)) {
		t.Errorf("since %s, known %v", begin.Sub(since), known)
	}
	if _, _, _, known := s.Appended(mark); known {
		t.Error("still known")
	}
	if _, _, _, known := s.Appended(1 << 40); known {
		t.Error("a mark that was never given is known")
	}
}
