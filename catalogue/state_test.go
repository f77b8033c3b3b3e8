package catalogue

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"os"
	"testing"
	"time"

	"reckon/store"
)

// TestStateOfVersion4 reads a state that commit b753da2 saved, of a scheduler's jobs that
// wait, run and ended and of a unit, with a series of every kind, and makes the same rows
// of it as that program did, but for cores_p95 of several nodes: it was the sum, and is an
// upper bound now.
func TestStateOfVersion4(t *testing.T) {
	raw, err := os.ReadFile("testdata/state-v4.gob")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/state-v4.json")
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
	checkState(t, "version 4", &s, want)
	// And again as this version saves it, and as the one before did.
	var plain bytes.Buffer
	if err := gob.NewEncoder(&plain).Encode(s); err != nil {
		t.Fatal(err)
	}
	saved, err := encodeState(&s)
	if err != nil {
		t.Fatal(err)
	}
	for what, raw := range map[string][]byte{"saved anew": saved, "saved plain": plain.Bytes()} {
		again, err := decodeState(raw)
		if err != nil {
			t.Fatal(what, err)
		}
		checkState(t, what, &again, want)
	}
	for n := range saved {
		if _, err := decodeState(saved[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a state", n, len(saved))
		}
	}
}

func checkState(t *testing.T, what string, s *state, want []byte) {
	t.Helper()
	f := newFold(nil)
	f.accounts = s.Accounts
	var rows, expected []store.Workload
	for _, a := range f.all() {
		rows = append(rows, a.row(sec(50), 5*time.Minute))
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
	encode := func(s state) []byte {
		var buf bytes.Buffer
		if err := gob.NewEncoder(&buf).Encode(s); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	of := func(slots []string, tracks map[uint64]*track) state {
		return state{Version: stateVersion, At: simBegin, Slots: slots, Accounts: map[key][]*account{{"s", "unit/a"}: {{Site: "s", ID: "unit/a", Tracks: tracks}}}}
	}
	s, err := decodeState(encode(of([]string{"reckon_workload_gone_total", "reckon_workload_threads"}, map[uint64]*track{1: {Slot: 0, T: 5, V: 7}, 2: {Slot: 1, T: 5, V: 3}})))
	if err != nil {
		t.Fatal(err)
	}
	a := s.Accounts[key{"s", "unit/a"}][0]
	if len(a.Tracks) != 1 || a.Tracks[2] == nil || a.Ends == nil {
		t.Fatalf("tracks %+v", a.Tracks)
	}
	if w := a.row(simBegin, time.Hour); w.Threads == nil || *w.Threads != 3 {
		t.Errorf("threads %s, want 3", show(w.Threads))
	}
	for name, raw := range map[string][]byte{
		"a number without a name": encode(of([]string{"reckon_workload_threads"}, map[uint64]*track{1: {Slot: 9, T: 5}})),
		"a newer version":         encode(state{Version: stateVersion + 1}),
		"version 3":               encode(state{Version: 3}),
		"nothing":                 nil,
	} {
		if _, err := decodeState(raw); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestStateOfVersion5: parts had no owner then. What is read since is of the same part, and its end is that of the workload.
func TestStateOfVersion5(t *testing.T) {
	at := place{Node: "n1"}
	old := state{Version: 5, Slots: runSlots.names(), Accounts: map[key][]*account{{"s", "group/n1/7-7"}: {{
		Site: "s", ID: "group/n1/7-7", Owner: "alice", Start: 1000, Known: true,
		Tracks: map[uint64]*track{1: {Node: "n1", First: 1000, T: 9000}, 2: {First: 1000, T: 2000}},
		Ends:   map[place]ending{at: {End: 8500, T: 9000}, {}: {End: 1, T: 1}}, Programs: map[place]program{at: {"sh", 1000}},
	}}}}
	raw, err := encodeState(&old)
	if err != nil {
		t.Fatal(err)
	}
	s, err := decodeState(raw)
	if err != nil {
		t.Fatal(err)
	}
	a := s.Accounts[key{"s", "group/n1/7-7"}][0]
	at.Owner = "alice"
	if a.Tracks[1].place() != at || a.Tracks[2].place() != (place{}) || a.Ends[at].End != 8500 || a.Ends[place{}].End != 1 || a.Programs[at].Name != "sh" || len(a.Ends) != 2 {
		t.Errorf("tracks %v and %v, ends %v, programs %v", a.Tracks[1].place(), a.Tracks[2].place(), a.Ends, a.Programs)
	}
}
