// Package sensortest is the conformance suite of sensors: [Run] for a sensor that appends samples,
// [RunTasks] for a source of processes. Each sensor calls it from its own tests, over a recorded
// machine and, if the hardware is available, over the live one.
package sensortest

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// Options configure the suite for a sensor.
type Options struct {
	// Empty opens the sensor on an empty directory. The suite expects [sensor.ErrUnavailable] from
	// it or the first Read, with a path below the directory, and no samples. nil skips the test,
	// for sensors that read no files.
	Empty func(root string) (sensor.Sensor, error)
	// Foreign means that the names are another exporter's, kept so that its dashboards work. Naming
	// conventions are not checked.
	Foreign bool
	// Allocs is the number of allocations allowed for one Read after warm-up. State the reason if you set it.
	Allocs float64
	// Quiet allows a Read without any sample, on a machine without the hardware.
	Quiet bool
	// Advance is called between two reads, to advance a recorded machine.
	Advance func(t *testing.T)
}

// Run checks a sensor against the contract of [sensor.Sensor].
func Run(t *testing.T, open func(t *testing.T) sensor.Sensor, o Options) {
	t.Run("descriptions", func(t *testing.T) { checkDescs(t, openSensor(t, open), o) })
	t.Run("samples", func(t *testing.T) { checkSamples(t, openSensor(t, open), o) })
	t.Run("allocations", func(t *testing.T) { checkAllocations(t, openSensor(t, open), o) })
	t.Run("close twice", func(t *testing.T) {
		s := open(t)
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
	})
	if o.Empty != nil {
		t.Run("not here", func(t *testing.T) { testUnavailable(t, o) })
	}
}

func openSensor(t *testing.T, open func(t *testing.T) sensor.Sensor) sensor.Sensor {
	t.Helper()
	s := open(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func checkDescs(t *testing.T, s sensor.Sensor, o Options) {
	if n := s.Name(); n == "" || strings.ToLower(n) != n || strings.ContainsAny(n, " /") {
		t.Errorf("name %q is not one lower-case word", n)
	}
	descs := s.Descs()
	if len(descs) == 0 {
		t.Error("describes nothing")
	}
	byName := make(map[string]*metric.Desc)
	for _, d := range descs {
		if other := byName[d.Name]; other != nil {
			t.Errorf("%s is described twice", d.Name)
		}
		byName[d.Name] = d
		for _, problem := range Lint(d, o.Foreign) {
			t.Errorf("%s: %s", d.Name, problem)
		}
	}
}

// seriesState is the state of a series between two reads.
type seriesState struct {
	series *metric.Series
	value  float64
}

func checkSamples(t *testing.T, s sensor.Sensor, o Options) {
	described := make(map[*metric.Desc]bool)
	for _, d := range s.Descs() {
		described[d] = true
	}
	seen := make(map[string]seriesState)
	var b metric.Batch
	for round := range 3 {
		if round > 0 && o.Advance != nil {
			o.Advance(t)
		}
		b.Reset(time.Now())
		if err := s.Read(&b); err != nil {
			t.Fatalf("read %d: %v", round, err)
		}
		if len(b.Samples) == 0 && !o.Quiet {
			t.Fatal("no samples")
		}
		now := make(map[string]bool)
		for _, m := range b.Samples {
			d := m.Series.Desc
			key := Key(m.Series)
			if !described[d] {
				t.Errorf("%s is not described", key)
			}
			if now[key] {
				t.Errorf("%s appears twice in one batch", key)
			}
			now[key] = true
			checkValue(t, key, m)
			was, again := seen[key]
			if again && was.series != m.Series {
				t.Errorf("%s: a new pointer for the same series", key)
			}
			if again && d.Kind == metric.Counter && m.Value < was.value {
				t.Errorf("%s fell from %v to %v", key, was.value, m.Value)
			}
			seen[key] = seriesState{m.Series, m.Value}
		}
	}
}

func checkValue(t *testing.T, key string, m metric.Sample) {
	d := m.Series.Desc
	switch {
	case d.Kind == metric.NativeHistogram && m.Histogram == nil:
		t.Errorf("%s: a histogram without its distribution", key)
	case d.Kind == metric.NativeHistogram:
	case math.IsNaN(m.Value) || math.IsInf(m.Value, 0):
		t.Errorf("%s is %v; what is not known is left out", key, m.Value)
	case d.Kind == metric.Counter && m.Value < 0:
		t.Errorf("%s is a counter and negative: %v", key, m.Value)
	}
	if len(m.Series.Values) != len(d.Labels) {
		t.Errorf("%s: %d values for %d labels", key, len(m.Series.Values), len(d.Labels))
	}
	for _, v := range m.Series.Values {
		if strings.ToValidUTF8(v, "") != v {
			t.Errorf("%s: label value %q is not UTF-8", key, v)
		}
	}
}

func checkAllocations(t *testing.T, s sensor.Sensor, o Options) {
	var b metric.Batch
	read := func() {
		b.Reset(time.Time{})
		if err := s.Read(&b); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(20, read); n > o.Allocs {
		t.Errorf("%v allocations in each read after warm-up, want at most %v", n, o.Allocs)
	}
}

func testUnavailable(t *testing.T, o Options) {
	root := t.TempDir()
	s, err := o.Empty(root)
	if err == nil {
		defer s.Close()
		var b metric.Batch
		err = s.Read(&b)
		if len(b.Samples) != 0 {
			t.Errorf("%d samples from a machine without the source, first %s", len(b.Samples), Key(b.Samples[0].Series))
		}
	}
	if !errors.Is(err, sensor.ErrUnavailable) {
		t.Fatalf("error %v, want one that is sensor.ErrUnavailable", err)
	}
	if !strings.Contains(err.Error(), root) {
		t.Errorf("error %q does not name a path below %s", err, root)
	}
}

// Key writes a series as name{label="value"}.
func Key(s *metric.Series) string {
	var b strings.Builder
	b.WriteString(s.Desc.Name)
	b.WriteByte('{')
	for i, v := range s.Values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s.Desc.Labels[i] + `="` + v + `"`)
	}
	b.WriteByte('}')
	return b.String()
}
