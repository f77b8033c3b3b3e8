package push

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"reckon/metric"
)

// begun and sized are figures of the test: one is a time, one is not.
var (
	begun   = &metric.Desc{Name: "suite_start_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds}
	sized   = &metric.Desc{Name: "suite_bytes", Kind: metric.Gauge, Unit: metric.Bytes}
	counted = &metric.Desc{Name: "suite_total", Kind: metric.Counter}
	spread  = &metric.Desc{Name: "suite_cores", Kind: metric.NativeHistogram}
)

// site accepts remote write 2.0 with a clock of its own, or is down.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	now  func() time.Time // nil: it sends no Date
	away bool
	late func() // called before an answer
	got  []writev2.Request
}

func newSite(t *testing.T) *site {
	s := &site{now: time.Now}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away {
			panic(http.ErrAbortHandler)
		}
		w.Header()["Date"] = nil
		if s.late != nil {
			s.late()
		}
		if s.now != nil {
			w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
		}
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body := make([]byte, r.ContentLength)
		for n := 0; n < len(body); {
			m, err := r.Body.Read(body[n:])
			if n += m; err != nil {
				break
			}
		}
		raw, err := s2.Decode(nil, body)
		var req writev2.Request
		if err != nil || req.Unmarshal(raw) != nil {
			t.Errorf("not a request: %v", err)
		}
		s.got = append(s.got, req)
		n := 0
		for _, ts := range req.Timeseries {
			n += len(ts.Samples) + len(ts.Histograms)
		}
		w.Header().Set(writtenHeader, "1000")
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s
}

// board is a machine with a possibly wrong clock.
type board struct {
	t     *testing.T
	boot  string
	since time.Duration
	wall  time.Time
	dir   string
}

func (b *board) pass(d time.Duration) { b.since, b.wall = b.since+d, b.wall.Add(d) }

func (b *board) open(to string) *Pusher {
	b.t.Helper()
	p, err := Open(Config{Endpoints: []Endpoint{{URL: to, Name: "x"}}, QueueDir: b.dir, Clock: Clock{Boot: b.boot, Since: func() time.Duration { return b.since }}})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *board) measure(p *Pusher) {
	b.t.Helper()
	var batch metric.Batch
	batch.Reset(b.wall)
	batch.Add(metric.NewSeries(begun), float64(b.wall.Add(-time.Minute).Unix()))
	batch.Add(metric.NewSeries(sized), 4096)
	c := metric.NewSeries(counted)
	c.Created = b.wall.Add(-time.Minute).UnixMilli()
	batch.Add(c, 5)
	h := &metric.Histogram{Count: 1, Sum: 2, ZeroCount: 1}
	batch.Samples = append(batch.Samples, metric.Sample{Series: metric.NewSeries(spread), Histogram: h})
	if err := p.Put(b.t.Context(), &batch); err != nil {
		b.t.Fatal(err)
	}
}

// times returns the times in a request: of the samples, of the counter's start, and of the figure
// that is a time.
func times(t *testing.T, req writev2.Request) (at, created time.Time, start float64) {
	t.Helper()
	b := labels.NewScratchBuilder(4)
	for _, ts := range req.Timeseries {
		ls, err := ts.ToLabels(&b, req.Symbols)
		if err != nil {
			t.Fatal(err)
		}
		switch ls.Get("__name__") {
		case begun.Name:
			start = ts.Samples[0].Value
		case sized.Name:
			if at = time.UnixMilli(ts.Samples[0].Timestamp); ts.Samples[0].Value != 4096 {
				t.Errorf("a figure that is no time became %g", ts.Samples[0].Value)
			}
		case counted.Name:
			created = time.UnixMilli(ts.Samples[0].StartTimestamp)
		case spread.Name:
			if h := ts.Histograms[0]; h.Sum != 2 || h.Timestamp != at.UnixMilli() {
				t.Errorf("histogram %+v", h)
			}
		}
	}
	return at, created, start
}

// A wrong clock is corrected by the server's: samples, start times and figures that are
// times, also for samples from before the first contact with the server, and from the previous
// boot. A clock that is right within the precision of Date is left alone.
func TestClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"40 min ahead": 40 * time.Minute, "behind": -62 * time.Minute, "without a battery": -50 * 365 * 24 * time.Hour,
		"just wrong": 11 * time.Second, "right": 0, "nearly right": 8 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			right := time.Now()
			s.now = func() time.Time { return right }
			b := &board{t: t, boot: "one", since: time.Hour, wall: right.Add(ahead), dir: t.TempDir()}
			s.away = true
			p := b.open(s.URL)
			b.measure(p)
			b.pass(time.Minute)
			b.measure(p)
			p.Flush(t.Context())
			if len(s.got) != 0 {
				t.Fatal("it was away")
			}
			s.away = false
			right = right.Add(time.Minute)
			p.Flush(t.Context())
			if len(s.got) != 2 {
				t.Fatalf("%d requests", len(s.got))
			}
			wrong := ahead.Abs() >= minCorrection
			for i, req := range s.got {
				want := right.Add(time.Duration(i-1) * time.Minute)
				within := 2 * time.Second
				if !wrong {
					want, within = want.Add(ahead), time.Millisecond
				}
				at, created, start := times(t, req)
				if at.Sub(want).Abs() > within {
					t.Errorf("request %d: samples are of %s, not %s", i, at, want)
				}
				if d := at.Sub(created); d != time.Minute {
					t.Errorf("request %d: a counter began %s before its sample", i, d)
				}
				if d := float64(at.UnixMilli())/1000 - start; d < 59 || d > 61 {
					t.Errorf("request %d: a start of a minute ago is %g s before its sample", i, d)
				}
			}
			if got := p.Status()[0].Behind; (got != 0) != wrong || wrong && (got+ahead).Abs() > 2*time.Second {
				t.Errorf("behind by %s", got)
			}
			// The clock is set while the machine runs: earlier samples are corrected as before.
			s.away = true
			b.measure(p)
			p.Flush(t.Context())
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			b.wall = right
			p = b.open(s.URL)
			b.measure(p)
			s.away = false
			p.Flush(t.Context())
			if len(s.got) != 4 {
				t.Fatalf("%d requests", len(s.got))
			}
			for i, req := range s.got[2:] {
				want := right
				if !wrong && i == 0 {
					want = want.Add(ahead)
				}
				if at, _, _ := times(t, req); at.Sub(want).Abs() > 2*time.Second {
					t.Errorf("after the clock was set: samples %d are of %s, not %s", i, at, want)
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Samples of the previous boot are corrected by the offset learnt at that boot.
func TestClockOfBootBefore(t *testing.T) {
	s := newSite(t)
	right := time.Now()
	s.now = func() time.Time { return right }
	b := &board{t: t, boot: "one", since: time.Hour, wall: right.Add(time.Hour), dir: t.TempDir()}
	p := b.open(s.URL)
	b.measure(p)
	p.Flush(t.Context())
	s.away = true
	b.measure(p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	right = right.Add(10 * time.Minute)
	b.boot, b.since, b.wall = "two", time.Minute, right.Add(-3*time.Hour) // another wrong clock
	p = b.open(s.URL)
	b.measure(p)
	s.away = false
	p.Flush(t.Context())
	if len(s.got) != 3 {
		t.Fatalf("%d requests", len(s.got))
	}
	for i, want := range []time.Time{right.Add(-10 * time.Minute), right.Add(-10 * time.Minute), right} {
		if at, _, _ := times(t, s.got[i]); at.Sub(want).Abs() > 2*time.Second {
			t.Errorf("request %d: samples are of %s, not %s", i, at, want)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// A server without a Date corrects nothing, and one with a Date that changes by less than
// its precision does not either.
func TestClockWithoutDate(t *testing.T) {
	s := newSite(t)
	s.now = nil
	b := &board{t: t, boot: "one", since: time.Hour, wall: time.Now().Add(time.Hour), dir: t.TempDir()}
	p := b.open(s.URL)
	b.measure(p)
	p.Flush(t.Context())
	if at, _, _ := times(t, s.got[0]); !at.Equal(b.wall.Truncate(time.Millisecond)) {
		t.Errorf("samples are of %s", at)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	k := newCorrector(Clock{Boot: "b", Since: func() time.Duration { return 0 }}, t.TempDir()+"/c", "x", p.log)
	for _, x := range []struct {
		date time.Duration
		base time.Duration
	}{{0, 0}, {4 * time.Second, 0}, {6 * time.Second, 6 * time.Second}} {
		at := time.Unix(1_800_000_000, 0).Add(x.date)
		k.last = nil // as of another answer that is as fast
		k.learnDate(http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}, 0, 0, at)
		if got := k.boots["b"].Base; got != time.Unix(1_800_000_000, 0).Add(x.base).UnixMilli()+500 {
			t.Errorf("after %s: %d", x.date, got)
		}
	}
}

// Answers that are late prove nothing: samples are corrected by a fast answer only, and a clock that is wrong beyond doubt is reported.
func TestClockOverSlowLinks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ahead  time.Duration   // of the clock of the machine
		late   []time.Duration // answers, the last for all others
		within time.Duration   // of the right time; the clock's own where that is not corrected
		fixed  bool
		says   string
	}{
		{"right, first answer after 24 s", 0, []time.Duration{24 * time.Second, 60 * time.Millisecond}, time.Millisecond, false, ""},
		{"right, each after 60 s", 0, []time.Duration{time.Minute}, time.Millisecond, false, "cannot be compared"},
		{"right, each after 5 s", 0, []time.Duration{5 * time.Second}, time.Millisecond, false, "cannot be compared"},
		{"5 s ahead, 60 ms", 5 * time.Second, []time.Duration{60 * time.Millisecond}, time.Millisecond, false, "differs"},
		{"5 s behind, 60 ms", -5 * time.Second, []time.Duration{60 * time.Millisecond}, time.Millisecond, false, "differs"},
		{"5 s ahead, 3 s", 5 * time.Second, []time.Duration{3 * time.Second}, time.Millisecond, false, "differs"},
		{"40 min ahead, first answers after 24 s", 40 * time.Minute, []time.Duration{24 * time.Second, 24 * time.Second, 60 * time.Millisecond}, 2 * time.Second, true, "corrected"},
		{"no battery, first answer after 24 s", -50 * 365 * 24 * time.Hour, []time.Duration{24 * time.Second, 60 * time.Millisecond}, 2 * time.Second, true, "corrected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			right, n := time.Now(), 0
			b := &board{t: t, boot: "one", since: time.Hour, wall: right.Add(tt.ahead), dir: t.TempDir()}
			s.now = func() time.Time { return right }
			s.late = func() { // half of the way is before the answer is dated
				d := tt.late[min(n, len(tt.late)-1)]
				n++
				b.pass(d / 2)
				right = b.wall.Add(-tt.ahead)
				b.pass(d / 2)
			}
			var log bytes.Buffer
			p, err := Open(Config{Endpoints: []Endpoint{{URL: s.URL, Name: "x"}}, QueueDir: b.dir, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Clock: Clock{Boot: b.boot, Since: func() time.Duration { return b.since }, Now: func() time.Time { return b.wall }}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for range 8 {
				b.pass(15 * time.Second)
				right = b.wall.Add(-tt.ahead)
				want := b.wall
				if tt.fixed {
					want = right
				}
				b.measure(p)
				p.Flush(t.Context())
				if at, _, _ := times(t, s.got[len(s.got)-1]); at.Sub(want).Abs() > tt.within {
					t.Fatalf("request %d: samples are of %s, not %s", len(s.got), at, want)
				}
			}
			if text := log.String(); tt.says == "" && strings.Contains(text, "clock") || !strings.Contains(text, tt.says) {
				t.Errorf("the log, which should say %q: %s", tt.says, text)
			}
		})
	}
}
