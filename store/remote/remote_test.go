package remote

import (
	"slices"
	"testing"
	"time"

	"reckon/metric"
)

var gauge = &metric.Desc{Name: "suite_gauge_bytes", Help: "A gauge.", Kind: metric.Gauge, Unit: metric.Bytes, Labels: []string{"device"}}

func gaugeBatch(at time.Time, devices ...string) *metric.Batch {
	var b metric.Batch
	b.Reset(at)
	for _, d := range devices {
		b.Add(metric.NewSeries(gauge, d), 1)
	}
	return &b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
