package catalogue

import (
	"testing"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
)

// TestLanes: steps of a job that follow each other share a lane, steps at the same
// time and other nodes do not.
func TestLanes(t *testing.T) {
	got := lanes([]span{
		{place: place{"n1", "0"}, first: 0, last: 10}, {place: place{"n1", "1"}, first: 10, last: 20},
		{place: place{"n1", "2"}, first: 15, last: 30}, {place: place{"n2", "0"}, first: 0, last: 10},
	}, nil)
	if got[place{"n1", "0"}] != got[place{"n1", "1"}] || got[place{"n1", "1"}] == got[place{"n1", "2"}] || got[place{"n1", "0"}] == got[place{"n2", "0"}] {
		t.Errorf("lanes: %v", got)
	}
	// The last sample of a step may come when the next one has begun.
	late := []span{{place: place{"n1", "0"}, first: 0, last: 22}, {place: place{"n1", "1"}, first: 15, last: 40}}
	for end, together := range map[int64]bool{14: true, 15: true, 16: false} {
		got := lanes(late, map[place]ending{{"n1", "0"}: {End: end, T: 22}})
		if same := got[place{"n1", "0"}] == got[place{"n1", "1"}]; same != together {
			t.Errorf("a step that ended at %d: one lane %v, want %v", end, same, together)
		}
	}
	got = lanes(late, map[place]ending{{"n1", "0"}: {End: 14, T: 21}})
	if got[place{"n1", "0"}] == got[place{"n1", "1"}] {
		t.Error("an end that is older than the last sample counts")
	}
}

// Domains of a workload's energy hold each joule once, so they add up.
func TestEnergyAddsUp(t *testing.T) {
	a := &account{Tracks: map[uint64]*track{}}
	for i, domain := range []string{"package", "gpu", "rest", "board"} {
		n := &series.Labels{Metric: figure.Energy, Rest: map[string]string{"domain": domain, "share": "active"}}
		s, ok := runSlots.of(n)
		if !ok {
			t.Fatalf("no slot for %+v", n)
		}
		a.Tracks[uint64(i)] = &track{Slot: s, T: 1, V: 100, Node: "n1"}
	}
	var w store.Workload
	a.figures(&w.Row, 0, nil)
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
