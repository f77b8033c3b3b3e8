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

// savedState is the saved state of a builder: the accounts of all live workloads. It stores series by name, so that a
// program with other figures can read it. Tracks of series that no figure needs are dropped.
type savedState struct {
	Version  int
	At       time.Time
	Slots    []string // names of the numbers in [track.Slot]
	Accounts map[workloadKey][]*account
}

// stateVersion is 6 since parts of different owners are separate.
const stateVersion = 6

var errNoState = errors.New("no state")

// stateBlock is the amount of state that is compressed at once.
const stateBlock = 64 << 10

// encodeState returns the compressed state. Compression reduces it to two fifths, because the state repeats the place
// of each series. With many short process groups, the uncompressed state was a third of all catalogue writes.
func encodeState(s *savedState) ([]byte, error) {
	var buf bytes.Buffer
	w := s2.NewWriter(&buf, s2.WriterBlockSize(stateBlock), s2.WriterConcurrency(1), s2.WriterBetterCompression())
	if err := errors.Join(gob.NewEncoder(w).Encode(s), w.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// decodeState reads a state of this version. For another version, history is read again.
func decodeState(raw []byte) (savedState, error) {
	var s savedState
	if len(raw) == 0 {
		return s, errNoState
	}
	raw, err := io.ReadAll(s2.NewReader(bytes.NewReader(raw), s2.ReaderMaxBlockSize(stateBlock)))
	if err != nil {
		return s, err
	}
	if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&s); err != nil {
		return s, err
	}
	if s.Version != stateVersion {
		return s, fmt.Errorf("version %d, want %d", s.Version, stateVersion)
	}
	return s, s.restoreSlots()
}

// restoreSlots renumbers the slots for this program and creates the maps that gob omits when they are empty.
func (s *savedState) restoreSlots() error {
	number := map[string]slot{}
	for i, name := range runSlots.slotNames() {
		number[name] = slot(i)
	}
	if s.Accounts == nil {
		s.Accounts = map[workloadKey][]*account{}
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
				a.Ends = map[partPlace]partEnding{}
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
	s.Version, s.Slots = stateVersion, runSlots.slotNames()
	return nil
}
