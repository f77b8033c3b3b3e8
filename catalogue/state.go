package catalogue

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/s2"
)

// state is what a builder saves: the accounts of all workloads that live. It names the
// series of its tracks, so that a program with more figures, or fewer, reads it: a track of
// a series that no figure needs any more is dropped.
type state struct {
	Version  int
	At       time.Time
	Slots    []string // names of the numbers in [track.Slot]
	Accounts map[key][]*account
}

// stateVersion is 6 since parts of several owners are kept apart.
const stateVersion = 6

var errNoState = errors.New("no state")

// stateBlock is how much of a state is compressed at once.
const stateBlock = 64 << 10

// packed is how a stream of S2 frames begins. States of versions before are plain.
const packed = "\xff\x06\x00\x00"

// encodeState packs a state, to two fifths of its size: it repeats the places of each series. Beside groups that come and go it was a
// third of what the catalogue writes.
func encodeState(s *state) ([]byte, error) {
	var buf bytes.Buffer
	w := s2.NewWriter(&buf, s2.WriterBlockSize(stateBlock), s2.WriterConcurrency(1), s2.WriterBetterCompression())
	if err := errors.Join(gob.NewEncoder(w).Encode(s), w.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// decodeState reads a state of this version or of one before.
func decodeState(raw []byte) (state, error) {
	var s state
	if len(raw) == 0 {
		return s, errNoState
	}
	if bytes.HasPrefix(raw, []byte(packed)) {
		var err error
		if raw, err = io.ReadAll(s2.NewReader(bytes.NewReader(raw), s2.ReaderMaxBlockSize(stateBlock))); err != nil {
			return s, err
		}
	}
	var of struct{ Version int }
	if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&of); err != nil {
		return s, err
	}
	switch of.Version {
	case 4:
		var old stateV4
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&old); err != nil {
			return s, err
		}
		s = old.state()
	case 5, stateVersion:
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&s); err != nil {
			return s, err
		}
	default:
		return s, fmt.Errorf("version %d, want %d", of.Version, stateVersion)
	}
	if of.Version < stateVersion {
		s.own()
	}
	return s, s.complete()
}

// own makes the owner of a workload that of all its parts, as states of versions before 6 have it.
func (s *state) own() {
	for _, runs := range s.Accounts {
		for _, a := range runs {
			if a == nil {
				continue
			}
			for _, t := range a.Tracks {
				if t != nil && !t.byBatch() {
					t.Owner = a.Owner
				}
			}
			a.Ends, a.Programs = owned(a.Ends, a.Owner), owned(a.Programs, a.Owner)
		}
	}
}

func owned[V any](of map[place]V, owner string) map[place]V {
	out := make(map[place]V, len(of))
	for p, v := range of {
		if p != (place{}) {
			p.Owner = owner
		}
		out[p] = v
	}
	return out
}

// complete numbers the slots as this program does, and makes the maps that gob leaves out
// when they are empty.
func (s *state) complete() error {
	number := map[string]slot{}
	for i, name := range runSlots.names() {
		number[name] = slot(i)
	}
	if s.Accounts == nil {
		s.Accounts = map[key][]*account{}
	}
	for _, runs := range s.Accounts {
		for _, a := range runs {
			if a == nil {
				return errors.New("an account is missing")
			}
			if a.Tracks == nil {
				a.Tracks = map[uint64]*track{}
			}
			if a.Ends == nil {
				a.Ends = map[place]ending{}
			}
			for id, t := range a.Tracks {
				if t == nil || int(t.Slot) >= len(s.Slots) {
					return errors.New("a track has no series")
				}
				at, ok := number[s.Slots[t.Slot]]
				if !ok {
					delete(a.Tracks, id)
					continue
				}
				t.Slot = at
			}
		}
	}
	s.Version, s.Slots = stateVersion, runSlots.names()
	return nil
}

// stateV4 is the state of versions up to 2026-11: slots had fixed numbers, and the times of
// the scheduler other names.
type stateV4 struct {
	At       time.Time
	Accounts map[key][]*accountV4
}

type accountV4 struct {
	Site, ID, Kind, Owner             string
	Start                             int64
	Known, Fixed                      bool
	Told                              struct{ Submit, ToldStart, ToldEnd int64 }
	Next, Born                        int64
	Rows                              []int64
	Name, Account, Partition, Command string
	FactsAt                           int64
	Programs                          map[place]program
	State, Reason                     string
	StateAt                           int64
	NodeList                          string
	Tracks                            map[uint64]*track
	Ends                              map[place]ending
	Ended                             bool
}

func (s *stateV4) state() state {
	out := state{Version: 4, At: s.At, Slots: slotsV4(), Accounts: make(map[key][]*account, len(s.Accounts))}
	for k, runs := range s.Accounts {
		for _, a := range runs {
			if a == nil {
				continue
			}
			out.Accounts[k] = append(out.Accounts[k], &account{
				Site: a.Site, ID: a.ID, Kind: a.Kind, Owner: a.Owner, Start: a.Start, Known: a.Known, Fixed: a.Fixed,
				Scheduler: SchedulerTimes{Submit: a.Told.Submit, Start: a.Told.ToldStart, End: a.Told.ToldEnd},
				Next:      a.Next, Born: a.Born, Rows: a.Rows, Name: a.Name, Account: a.Account, Partition: a.Partition, Command: a.Command,
				FactsAt: a.FactsAt, Programs: a.Programs, State: a.State, Reason: a.Reason, StateAt: a.StateAt,
				NodeList: a.NodeList, Tracks: a.Tracks, Ends: a.Ends, Ended: a.Ended,
			})
		}
	}
	return out
}

// slotsV4 are the names of the numbers that slots had in version 4.
func slotsV4() []string {
	return []string{
		"reckon_workload_cpu_seconds_total{mode=user}", "reckon_workload_cpu_seconds_total{mode=system}", "reckon_workload_cpu_seconds_total",
		"reckon_workload_cpu_wait_seconds_total", "reckon_workload_memory_bytes", "reckon_workload_memory_peak_bytes",
		"reckon_workload_memory_byte_seconds_total", "reckon_workload_io_bytes_total{direction=read}", "reckon_workload_io_bytes_total{direction=write}",
		"reckon_workload_network_bytes_total", "reckon_workload_gpu_seconds_total", "reckon_workload_gpu_memory_peak_bytes",
		"reckon_workload_energy_joules_total", "reckon_workload_processes_started_total", "reckon_workload_threads", "reckon_workload_cores",
		"reckon_workload_request_cores", "reckon_workload_request_memory_bytes", "reckon_workload_request_gpus", "reckon_workload_request_seconds",
		"reckon_workload_request_nodes", "reckon_workload_oom_kills_total", "reckon_workload_cpu_throttled_seconds_total",
		"reckon_workload_major_faults_total", "reckon_workload_swap_bytes", "reckon_workload_exit_code", "reckon_workload_state",
		"reckon_workload_submit_time_seconds", "reckon_workload_nodes_info", "reckon_workload_start_time_seconds",
		"reckon_workload_end_time_seconds", "reckon_workload_info",
	}
}
