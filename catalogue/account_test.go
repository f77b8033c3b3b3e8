package catalogue

import (
	"math"
	"testing"
	"time"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
)

// TestLanes: steps of a job that follow each other share a lane, steps at the same
// time and other nodes do not.
func TestLanes(t *testing.T) {
	got := assignLanes([]partSpan{
		{partPlace: partPlace{Node: "n1", Part: "0"}, first: 0, last: 10}, {partPlace: partPlace{Node: "n1", Part: "1"}, first: 10,
			last: 20},
		{partPlace: partPlace{Node: "n1", Part: "2"}, first: 15, last: 30}, {partPlace: partPlace{Node: "n2", Part: "0"}, first: 0,
			last: 10},
	}, nil)
	if got[partPlace{Node: "n1", Part: "0"}] != got[partPlace{Node: "n1", Part: "1"}] || got[partPlace{Node: "n1",
		Part: "1"}] == got[partPlace{Node: "n1", Part: "2"}] || got[partPlace{Node: "n1", Part: "0"}] == got[partPlace{Node: "n2",
		Part: "0"}] {
		t.Errorf("lanes: %v", got)
	}
	// The last sample of a step may come when the next one has begun.
	late := []partSpan{{partPlace: partPlace{Node: "n1", Part: "0"}, first: 0, last: 22}, {partPlace: partPlace{Node: "n1", Part: "1"},
		first: 15, last: 40}}
	for end, together := range map[int64]bool{14: true, 15: true, 16: false} {
		got := assignLanes(late, map[partPlace]partEnding{{Node: "n1", Part: "0"}: {End: end, T: 22}})
		if same := got[partPlace{Node: "n1", Part: "0"}] == got[partPlace{Node: "n1", Part: "1"}]; same != together {
			t.Errorf("a step that ended at %d: one lane %v, want %v", end, same, together)
		}
	}
	got = assignLanes(late, map[partPlace]partEnding{{Node: "n1", Part: "0"}: {End: 14, T: 21}})
	if got[partPlace{Node: "n1", Part: "0"}] == got[partPlace{Node: "n1", Part: "1"}] {
		t.Error("an end that is older than the last sample counts")
	}
}

// Domains of a workload's energy hold each joule once, so they add up.
func TestEnergyAddsUp(t *testing.T) {
	a := &account{Tracks: map[uint64]*track{}}
	for i, domain := range []string{"package", "gpu", "rest", "board"} {
		n := &series.Labels{Metric: figure.Energy, Rest: map[string]string{"domain": domain, "share": "active"}}
		s, ok := runSlots.findSlot(n)
		if !ok {
			t.Fatalf("no slot for %+v", n)
		}
		a.Tracks[uint64(i)] = &track{Slot: s, T: 1, V: 100, Node: "n1"}
	}
	var w store.Workload
	a.setFigures(&w.Row, 0, nil)
	if w.EnergyJoules == nil || *w.EnergyJoules != 400 {
		t.Errorf("energy %v, want 400 J", w.EnergyJoules)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("junk"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := decodeState(raw); err == nil && s.Accounts == nil {
			t.Error("a state without accounts")
		}
	})
}

// TestMeans: means are over the time in which the figure was counted.
func TestMeans(t *testing.T) {
	slotOf := func(metric string, labels map[string]string) slot {
		s, ok := runSlots.findSlot(&series.Labels{Metric: metric, Rest: labels})
		if !ok {
			t.Fatalf("no slot for %s", metric)
		}
		return s
	}
	cpu, held, peak := slotOf(figure.CPU, map[string]string{"mode": "user"}), slotOf("reckon_workload_memory_byte_seconds_total", nil), slotOf(figure.MemoryPeak, nil)
	suspended := slotOf("reckon_workload_suspended_seconds_total", nil)
	for name, c := range map[string]struct {
		scheduler     SchedulerTimes
		tracks        []track
		ends          map[partPlace]partEnding
		cores, memory float64
	}{
		"from its start": {tracks: []track{{Slot: cpu, Node: "n", First: 15_000, FirstV: 10, T: 100_000, V: 90}}, cores: 0.9},
		// A run with processes that others sampled begins with their first reading.
		"from its first reading": {tracks: []track{{Slot: cpu, Node: "n", First: 0, FirstV: 80, T: 100_000, V: 90}}, cores: 0.1},
		"of accounting":          {tracks: []track{{Slot: cpu, First: 0, FirstV: 0, T: 100_000, V: 50}}, cores: 0.5},
		"suspended for a half":   {tracks: []track{{Slot: cpu, First: 0, FirstV: 0, T: 100_000, V: 50}, {Slot: suspended, First: 0, T: 100_000, V: 50}}, cores: 1},
		"processes there for long": {scheduler: SchedulerTimes{Start: 1, End: 1001}, ends: map[partPlace]partEnding{{Node: "n"}: {End: 7001,
			T: 8000}}, tracks: []track{{Slot: held, Node: "n", First: 1, T: 8000, V: 700}, {Slot: peak, Node: "n", First: 1, T: 8000,
			V: 100, Max: 100}}, memory: 100},
		"as it ended": {scheduler: SchedulerTimes{Start: 1, End: 1001}, ends: map[partPlace]partEnding{{Node: "n"}: {End: 7001,
			T: 8000}}, tracks: []track{{Slot: held, Node: "n", First: 1, T: 8000, V: 90}, {Slot: peak, Node: "n", First: 1, T: 8000,
			V: 100, Max: 100}}, memory: 90},
	} {
		a := &account{Tracks: map[uint64]*track{}, Ends: c.ends, Scheduler: c.scheduler, Start: c.scheduler.Start}
		for i := range c.tracks {
			a.Tracks[uint64(i)] = &c.tracks[i]
		}
		w := a.catalogueRow(time.UnixMilli(100_000), time.Hour)
		for what, x := range map[string]struct {
			got  *float64
			want float64
		}{"cores": {w.CoresMean, c.cores}, "memory": {w.MemoryMeanBytes, c.memory}} {
			if got := orZeroValue(x.got); math.Abs(got-x.want) > 1e-9 {
				t.Errorf("%s: %g %s on average, want %g", name, got, what, x.want)
			}
		}
	}
}
