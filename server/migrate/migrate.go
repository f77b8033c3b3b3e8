// Package migrate copies series from one store to another.
//
// Time is divided into windows, which are copied one after another from the oldest on. For each
// window, the samples in the other store are read, and only the missing ones are sent. Then the
// window is read again, and every sample must be there. An interrupted copy continues with its
// current window. No sample is stored twice, even if another program writes there at the same time.
//
// A window has to fit in memory. Times are milliseconds since the Unix epoch.
package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/store"
)

// Target is a store that series are copied to.
type Target interface {
	storage.Queryable
	storage.AppendableV2
	// Takes reports whether the store has a form for a figure.
	Takes(v float64) bool
	// Whole reports whether native histograms of a metric come back as they were.
	Whole(name string) bool
	// Flush makes written samples visible at once. It returns an error if the target cannot.
	Flush(ctx context.Context) error
	String() string
}

// maxInvisible is the time that written data may stay invisible if Flush has no effect.
const maxInvisible = 15 * time.Second

// Options configures the data to copy.
type Options struct {
	From     storage.Queryable
	Oldest   time.Time
	Newest   time.Time
	To       Target
	State    string        // directory of the note of how far it came
	Window   time.Duration // half an hour by default; Prometheus takes an hour out of order
	Patience time.Duration // maximum wait until sent samples are visible; two minutes by default
	Progress func(Result)  // called after each window; may be nil
}

// Result counts.
type Result struct {
	To      time.Time `json:"to"`      // up to when all is copied
	Samples int64     `json:"samples"` // found in both stores
	Sent    int64     `json:"sent"`    // sent in this run; the others were already there
	LeftOut int64     `json:"left_out"`
	// Differ counts samples with another value in the other store. They are not changed there, and
	// Difference describes the first.
	Differ     int64  `json:"differ,omitempty"`
	Difference string `json:"difference,omitempty"`
	Address    string `json:"address"`
	// Sending is the window that was being sent when the note was written.
	Sending time.Time `json:"sending,omitzero"`
}

// Run copies the data. If it fails, the copied data stays and is not sent again.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Window <= 0 {
		o.Window = 30 * time.Minute
	}
	if o.Patience <= 0 {
		o.Patience = 2 * time.Minute
	}
	file := filepath.Join(o.State, fmt.Sprintf("migrate-%08x.json", hashString(o.To.String())))
	r, err := loadProgress(file, o.To.String())
	if err != nil {
		return r, err
	}
	at := o.Oldest.Truncate(o.Window)
	if r.To.After(at) {
		at = r.To
	}
	for !at.After(o.Newest) {
		next := at.Add(o.Window)
		begun := func() error {
			r.Sending = at
			return saveProgress(file, r)
		}
		if err := o.copyWindow(ctx, &r, at, next, begun); err != nil {
			return r, fmt.Errorf("copy %s to %s: %w", at.UTC().Format(time.RFC3339), next.UTC().Format(time.RFC3339), err)
		}
		// The newest window may grow until the next run.
		if next.After(o.Newest) {
			r.To = o.Newest
			break
		}
		at, r.To, r.Sending = next, next, time.Time{}
		if err := saveProgress(file, r); err != nil {
			return r, err
		}
		if o.Progress != nil {
			o.Progress(r)
		}
	}
	if r.Differ > 0 {
		return r, fmt.Errorf("%w: %d samples have another value there, and everything else is copied: %s; nothing is overwritten",
			store.ErrConflict, r.Differ, r.Difference)
	}
	return r, nil
}

func hashString(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum32()
}

func loadProgress(file, address string) (Result, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{Address: address}, nil
	}
	var r Result
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && r.Address != address {
		err = fmt.Errorf("it is of %s", r.Address)
	}
	if err != nil {
		return r, fmt.Errorf("read how far the copy came (%s): %w; remove it to compare from the beginning, which sends nothing twice",
			file, err)
	}
	return r, nil
}

func saveProgress(file string, r Result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".tmp", raw, 0o640); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

// copyWindow copies one window.
func (o *Options) copyWindow(ctx context.Context, r *Result, from, to time.Time, begun func() error) error {
	mint, maxt := from.UnixMilli(), to.UnixMilli()-1
	have, err := readWindow(ctx, o.From, mint, maxt, nil)
	if err != nil {
		return fmt.Errorf("read here: %w", err)
	}
	if len(have) == 0 {
		return nil
	}
	var total, left int64
	for _, s := range have {
		n := len(s.samples)
		s.dropRejected(o.To)
		left += int64(n - len(s.samples))
		total += int64(len(s.samples))
	}
	if r.Sending.Equal(from) { // samples of the last run may have arrived without being visible yet
		wait := 2 * time.Second // time for a flush that the target has started itself
		if err := o.To.Flush(ctx); err != nil {
			wait = maxInvisible
		}
		if err := sleepFor(ctx, wait); err != nil {
			return err
		}
	}
	there, err := readWindow(ctx, o.To, mint, maxt, have)
	if err != nil {
		return err
	}
	missing, differ, first := compareSamples(have, there)
	if missing > 0 {
		if err := begun(); err != nil {
			return err
		}
		if err := o.sendMissing(ctx, have); err != nil {
			return err
		}
		if err := o.awaitReadable(ctx, have, mint, maxt); err != nil {
			return err
		}
	}
	r.Samples, r.Sent, r.LeftOut, r.Differ = r.Samples+total-differ, r.Sent+missing, r.LeftOut+left, r.Differ+differ
	r.Difference = cmp.Or(r.Difference, first)
	return nil
}

// windowSeries holds the samples of a series of one store in a window.
type windowSeries struct {
	labels  labels.Labels
	samples []windowSample
}

type windowSample struct {
	t    int64
	v    float64 // the sum, of a histogram
	h    *histogram.FloatHistogram
	sent bool // or there before
	off  bool // there with another value
}

func (s *windowSeries) dropRejected(to Target) {
	kept := s.samples[:0]
	whole := to.Whole(s.labels.Get(model.MetricNameLabel))
	for _, p := range s.samples {
		if (p.h != nil && whole && (to.Takes(p.v) || !math.IsNaN(p.v))) || (p.h == nil && to.Takes(p.v)) {
			kept = append(kept, p)
		}
	}
	s.samples = kept
}

// readWindow reads the samples of a window from a store. If only is not nil, it reads the series in only.
func readWindow(ctx context.Context, from storage.Queryable, mint, maxt int64, only map[uint64]*windowSeries) (map[uint64]*windowSeries,
	error) {
	q, err := from.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	out := map[uint64]*windowSeries{}
	var it chunkenc.Iterator
	for _, m := range nameMatchers(only) {
		set := q.Select(ctx, false, nil, m)
		for set.Next() {
			one := set.At()
			ls := one.Labels()
			hash := ls.Hash()
			if only != nil && only[hash] == nil {
				continue
			}
			s := &windowSeries{labels: ls}
			it = one.Iterator(it)
			for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
				if vt == chunkenc.ValFloat {
					t, v := it.At()
					s.samples = append(s.samples, windowSample{t: t, v: v})
					continue
				}
				t, h := it.AtFloatHistogram(nil)
				s.samples = append(s.samples, windowSample{t: t, v: h.Sum, h: h})
			}
			if it.Err() != nil {
				return nil, it.Err()
			}
			out[hash] = s
		}
		if set.Err() != nil {
			return nil, set.Err()
		}
	}
	return out, nil
}

// nameMatchers returns matchers for all series, or one matcher for each metric name in only. Matchers by name are needed
// because some stores combine the parts of a histogram only if they are selected by name.
func nameMatchers(only map[uint64]*windowSeries) []*labels.Matcher {
	if only == nil {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")}
	}
	seen := map[string]bool{}
	var out []*labels.Matcher
	for _, s := range only {
		if name := s.labels.Get(model.MetricNameLabel); !seen[name] {
			seen[name] = true
			out = append(out, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name))
		}
	}
	return out
}

// compareSamples marks the samples in have that are also in there. missing is the number of samples that are not. differ is
// the number of samples that newly differ, and first describes the first of them.
func compareSamples(have, there map[uint64]*windowSeries) (missing, differ int64, first string) {
	for hash, s := range have {
		dust := s.roundingError()
		at := map[int64]windowSample{}
		if other := there[hash]; other != nil {
			for _, p := range other.samples {
				at[p.t] = p
			}
		}
		for i := range s.samples {
			p := &s.samples[i]
			other, ok := at[p.t]
			switch {
			case !ok:
				missing++
			case !p.off && !equalWithin(p, &other, dust):
				differ++
				p.off = true
				first = cmp.Or(first, fmt.Sprintf("%s is %g here and %g there at %s", s.labels, p.v, other.v,
					time.UnixMilli(p.t).UTC().Format(time.RFC3339)))
			}
			p.sent = ok
		}
	}
	return missing, differ, first
}

const (
	// digits are those that a store of decimal numbers keeps, relative to a value.
	digits = 1e-11
	// leastDust is the remainder of sums of numbers that are no power of two. No measured amount is smaller.
	leastDust = 1e-12
)

// roundingError returns the largest rounding error of a store with decimal numbers. Such a store keeps one exponent for many
// samples, so a small value beside large ones becomes 0.
func (s *windowSeries) roundingError() float64 {
	most := 0.0
	for i := range s.samples {
		if v := math.Abs(s.samples[i].v); !math.IsInf(v, 0) && !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	return max(leastDust, digits*most)
}

// equalWithin reports whether two samples are equal, except for the rounding of a store with decimal numbers. dust is the
// rounding error.
func equalWithin(a, b *windowSample, dust float64) bool {
	if (a.h != nil) != (b.h != nil) && !value.IsStaleNaN(a.v) {
		return false
	}
	if a.h != nil && b.h != nil && a.h.Count != b.h.Count {
		return false
	}
	return a.v == b.v || (math.IsNaN(a.v) && math.IsNaN(b.v)) || math.Abs(a.v-b.v) <= max(digits*math.Abs(a.v), dust)
}

// sendMissing sends the missing samples.
func (o *Options) sendMissing(ctx context.Context, have map[uint64]*windowSeries) error {
	const most = 50_000
	app, n := o.To.AppenderV2(ctx), 0
	for _, s := range have {
		for i := range s.samples {
			p := &s.samples[i]
			if p.sent {
				continue
			}
			v := p.v
			if p.h != nil {
				v = 0
			}
			if _, err := app.Append(0, s.labels, 0, p.t, v, nil, p.h, storage.AOptions{}); err != nil {
				return errors.Join(err, app.Rollback())
			}
			n++
		}
		if n >= most {
			if err := commitAppender(app); err != nil {
				return err
			}
			app, n = o.To.AppenderV2(ctx), 0
		}
	}
	return commitAppender(app)
}

func commitAppender(app storage.AppenderV2) error {
	err := app.Commit()
	if errors.Is(err, store.ErrTooOld) {
		return fmt.Errorf(
			"%w; a Prometheus takes the past only as far as its storage.tsdb.out_of_order_time_window says, or into an empty directory; "+
				"`reckon docs stores` lists what else can be done", err)
	}
	return err
}

// awaitReadable waits until the target returns all samples of a window.
func (o *Options) awaitReadable(ctx context.Context, have map[uint64]*windowSeries, mint, maxt int64) error {
	limit := time.Now().Add(o.Patience)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		_ = o.To.Flush(ctx) // an error only means that it takes longer
		there, err := readWindow(ctx, o.To, mint, maxt, have)
		if err != nil {
			return err
		}
		missing, differ, first := compareSamples(have, there)
		if differ > 0 {
			return fmt.Errorf("%w: what was sent came back otherwise: %s", store.ErrConflict, first)
		}
		if missing == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf(
				"%d samples were acknowledged by %s and cannot be read there after %s; does it drop samples of that age (its retention)?",
				missing, o.To, o.Patience)
		}
		if err := sleepFor(ctx, wait); err != nil {
			return err
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
