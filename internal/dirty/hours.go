// Package dirty records which hours of a store of series received late samples, so that the data
// derived from those hours is derived again, even after a crash.
//
// An hour is in the journal before the samples are committed: a writer calls [Hours.Begin] first
// and ends it after its commit. A reader takes a [Hours.Snapshot] before it reads the series, and
// gives it to [Hours.Clean] when its derived data is durable. An hour that is being written
// meanwhile, or was marked again, stays. After a crash an hour may be dirty although nothing was
// written; never the other way round.
//
// [Hours] is safe for concurrent use. Times are milliseconds since the Unix epoch.
package dirty

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

const hourMillis = int64(time.Hour / time.Millisecond)

// Entry is an hour in the journal.
type Entry struct {
	At       int64 `json:"at"` // beginning of the hour
	Imported bool  `json:"imported,omitempty"`
}

// Unknown is the start time of an entry that stands for all hours.
const Unknown = math.MinInt64

// Journal stores entries durably. Save replaces all entries, which survive a power failure once Save has returned nil.
// Load returns the last saved entries. If they are lost, Load returns an error that matches [ErrDamaged].
type Journal interface {
	Load() ([]Entry, error)
	Save(entries []Entry) error
}

// ErrDamaged is the error of a [Journal] with unreadable content: all hours are dirty.
var ErrDamaged = errors.New("the journal of dirty hours is damaged")

// Snapshot is the set of dirty hours at one moment.
type Snapshot struct {
	// Hours are in order of time.
	Hours []Hour
	// Mark is the mark of the latest change of any hour. It grows while the store is open and
	// restarts when the store is opened.
	Mark uint64
}

// Hour is one hour of a [Snapshot].
type Hour struct {
	// At is its beginning in UTC. The zero time represents all hours: the dirty ones are unknown.
	At time.Time
	// Oldest is a time in the hour before which no late sample was written.
	Oldest time.Time
	// Imported means that blocks of history were written, not single samples.
	Imported bool
	Mark     uint64 // of its latest change
}

// Hours is the set of dirty hours. The zero value is not usable; see [New].
type Hours struct {
	mu     sync.Mutex
	j      Journal
	loaded bool
	mark   uint64
	hours  map[Entry]*hourState
}

type hourState struct {
	oldest  int64
	mark    uint64
	writing int  // writers between Begin and its end
	saved   bool // in the journal
}

// New returns the hours of a journal, which is read at the first use.
func New(j Journal) *Hours { return &Hours{j: j, hours: map[Entry]*hourState{}} }

// load reads the journal. The caller holds mu.
func (h *Hours) load() error {
	if h.loaded {
		return nil
	}
	list, err := h.j.Load()
	if errors.Is(err, ErrDamaged) {
		list, err = []Entry{{At: Unknown}}, nil
	}
	if err != nil {
		return fmt.Errorf("read which hours got late samples: %w", err)
	}
	h.mark++
	for _, e := range list {
		h.hours[e] = &hourState{oldest: e.At, mark: h.mark, saved: true}
	}
	h.loaded = true
	return nil
}

// Late collects the hours of late samples. The zero value is empty.
type Late struct{ list []lateHour }

type lateHour struct {
	Entry
	oldest int64
}

// Add adds the time of a late sample.
func (l *Late) Add(t int64) { l.addEntry(Entry{At: HourOf(t)}, t) }

// AddRange adds all hours from one time to another, for imported history.
func (l *Late) AddRange(from, to int64) {
	for at := HourOf(from); at <= to; at += hourMillis {
		l.addEntry(Entry{At: at, Imported: true}, at)
	}
}

func (l *Late) addEntry(e Entry, t int64) {
	for i := len(l.list) - 1; i >= 0; i-- { // samples of one hour follow each other
		if l.list[i].Entry == e {
			l.list[i].oldest = min(l.list[i].oldest, t)
			return
		}
	}
	l.list = append(l.list, lateHour{e, t})
}

// Empty reports whether nothing was added.
func (l *Late) Empty() bool { return len(l.list) == 0 }

// Each calls f with each hour and the oldest of its late samples.
func (l *Late) Each(f func(e Entry, oldest int64)) {
	for _, e := range l.list {
		f(e.Entry, e.oldest)
	}
}

// HourOf returns the beginning of the hour that contains a time.
func HourOf(t int64) int64 { return Floor(t, hourMillis) }

// Floor returns the largest multiple of a unit that is not after a time.
func Floor(t, unit int64) int64 {
	r := t % unit
	if r < 0 {
		r += unit
	}
	return t - r
}

// Begin records the hours of late samples before these samples are committed. The caller must call end after the
// commit, whether or not it succeeded. If Begin returns an error, the caller must not commit the samples.
func (h *Hours) Begin(l *Late) (end func(), err error) {
	if l.Empty() {
		return func() {}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.load(); err != nil {
		return nil, err
	}
	fresh := false
	h.mark++
	for _, e := range l.list {
		of := h.hours[e.Entry]
		if of == nil {
			of = &hourState{oldest: e.oldest}
			h.hours[e.Entry], fresh = of, true
		}
		of.oldest, of.mark = min(of.oldest, e.oldest), h.mark
		of.writing++
	}
	if fresh {
		if err := h.j.Save(h.entries()); err != nil {
			h.removeMark(l)
			return nil, fmt.Errorf("note which hours got late samples: %w", err)
		}
		for _, of := range h.hours {
			of.saved = true
		}
	}
	return func() { h.endWrite(l) }, nil
}

// removeMark removes a mark that could not be saved. Hours that were dirty before remain.
func (h *Hours) removeMark(l *Late) {
	for _, e := range l.list {
		of := h.hours[e.Entry]
		if of.writing--; !of.saved {
			delete(h.hours, e.Entry) // the next writer saves it
		}
	}
}

func (h *Hours) endWrite(l *Late) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mark++
	for _, e := range l.list {
		if of := h.hours[e.Entry]; of != nil {
			of.writing--
			of.mark = h.mark
		}
	}
}

// entries returns the entries to be saved. The caller holds mu.
func (h *Hours) entries() []Entry {
	out := make([]Entry, 0, len(h.hours))
	for e := range h.hours {
		out = append(out, e)
	}
	slices.SortFunc(out, compareEntries)
	return out
}

func compareEntries(a, b Entry) int {
	if c := cmp.Compare(a.At, b.At); c != 0 {
		return c
	}
	if a.Imported == b.Imported {
		return 0
	}
	if b.Imported {
		return -1
	}
	return 1
}

// Snapshot returns the dirty hours. Samples committed earlier are visible in series that are read after the call.
func (h *Hours) Snapshot() (Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.load(); err != nil {
		return Snapshot{}, err
	}
	out := Snapshot{Mark: h.mark}
	for _, e := range h.entries() {
		of := h.hours[e]
		d := Hour{Imported: e.Imported, Mark: of.mark}
		if e.At != Unknown {
			d.At, d.Oldest = time.UnixMilli(e.At).UTC(), time.UnixMilli(of.oldest).UTC()
		}
		out.Hours = append(out.Hours, d)
	}
	return out, nil
}

// Clean removes those hours of a snapshot that have not been written since, and are not being written now.
func (h *Hours) Clean(d Snapshot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.load(); err != nil {
		return err
	}
	gone := map[Entry]*hourState{}
	for _, x := range d.Hours {
		e := Entry{At: x.At.UnixMilli(), Imported: x.Imported}
		if x.At.IsZero() {
			e.At = Unknown
		}
		if of := h.hours[e]; of != nil && of.writing == 0 && of.mark <= d.Mark {
			gone[e] = of
			delete(h.hours, e)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if err := h.j.Save(h.entries()); err != nil {
		for e, of := range gone {
			h.hours[e] = of
		}
		return fmt.Errorf("note which hours were made again: %w", err)
	}
	return nil
}
