package catalogue

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"reckon/store"
)

// TestState reads a state of a scheduler's jobs that wait, run and ended and of a unit, with a
// series of every kind, and makes the rows that the program made which saved it.
func TestState(t *testing.T) {
	raw, err := os.ReadFile("testdata/state.gob.s2")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/state.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := decodeState(raw)
	if err != nil {
		t.Fatal(err)
	}
	if s.At.IsZero() {
		t.Error("the time of the state is lost")
	}
	checkState(t, "as it was saved", &s, want)
	saved, err := encodeState(&s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeState(saved)
	if err != nil {
		t.Fatal(err)
	}
	checkState(t, "saved anew", &again, want)
	for n := range saved {
		if _, err := decodeState(saved[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a state", n, len(saved))
		}
	}
}

func checkState(t *testing.T, what string, s *savedState, want []byte) {
	t.Helper()
	f := newFold(nil)
	f.accounts = s.Accounts
	var rows, expected []store.Workload
	for _, a := range f.all() {
		rows = append(rows, a.catalogueRow(sec(50), 5*time.Minute))
	}
	if err := json.Unmarshal(want, &expected); err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(expected) {
		t.Fatalf("%s: %d rows, want %d", what, len(rows), len(expected))
	}
	for i := range rows {
		got, _ := json.Marshal(rows[i])
		want, _ := json.Marshal(expected[i])
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
	}
}

// A state names its series: one that this program does not read is dropped, a number
// without a name is an error.
func TestStateNamesItsSeries(t *testing.T) {
	encode := func(s savedState) []byte {
		raw, err := encodeState(&s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	of := func(slots []string, tracks map[uint64]*track) savedState {
		return savedState{Version: stateVersion, At: simBegin, Slots: slots, Accounts: map[workloadKey][]*account{{"s", "unit/a"}: {{Site: "s", ID: "unit/a", Tracks: tracks}}}}
	}
	s, err := decodeState(encode(of([]string{"reckon_workload_gone_total", "reckon_workload_threads"}, map[uint64]*track{1: {Slot: 0, T: 5, V: 7}, 2: {Slot: 1, T: 5, V: 3}})))
	if err != nil {
		t.Fatal(err)
	}
	a := s.Accounts[workloadKey{"s", "unit/a"}][0]
	if len(a.Tracks) != 1 || a.Tracks[2] == nil || a.Ends == nil {
		t.Fatalf("tracks %+v", a.Tracks)
	}
	if w := a.catalogueRow(simBegin, time.Hour); w.Threads == nil || *w.Threads != 3 {
		t.Errorf("threads %s, want 3", show(w.Threads))
	}
	for name, raw := range map[string][]byte{
		"a number without a name": encode(of([]string{"reckon_workload_threads"}, map[uint64]*track{1: {Slot: 9, T: 5}})),
		"a newer version":         encode(savedState{Version: stateVersion + 1}),
		"version 5":               encode(savedState{Version: 5}),
		"nothing":                 nil,
	} {
		if _, err := decodeState(raw); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
