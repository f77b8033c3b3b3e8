package limits

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

const (
	// Burst is the period over which the rate of samples is averaged. Without averaging, an export once a minute would
	// be a burst. An agent that was disconnected sends its queue as fast as it may.
	Burst = 2 * time.Minute
	// countedTime is the minimum time for which a series without new samples is counted.
	countedTime = 30 * time.Minute
	// logEvery is the interval at which the log names throttled senders.
	logEvery = 10 * time.Minute
)

// Limiter enforces the limits of senders and sites.
type Limiter struct {
	config atomic.Pointer[Config]
	clock  func() time.Time
	logger *slog.Logger

	mu     sync.Mutex
	meters map[string]*meter

	begun *NewSeriesLimits // nil: new series are not bounded
	fresh newSeriesCounter
}

// New returns a limiter. clock is time.Now, except in tests.
func New(c Config, clock func() time.Time, logger *slog.Logger) *Limiter {
	if clock == nil {
		clock = time.Now
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{clock: clock, logger: logger, meters: map[string]*meter{}}
	l.config.Store(&c)
	return l
}

// Set activates new limits. Earlier use by senders and sites stays counted.
func (l *Limiter) Set(c Config) { l.config.Store(&c) }

// Config returns the configuration in force; it must not be changed.
func (l *Limiter) Config() *Config { return l.config.Load() }

// RateError means that a sender or a site sends faster than its limit allows.
type RateError struct {
	Who   string
	Bound float64       // samples per second
	Wait  time.Duration // until there is room again
}

// Error implements error.
func (e *RateError) Error() string {
	return fmt.Sprintf("%s sends more than %g samples per second; send again in %s, measure less often, or ask for a higher bound", e.Who,
		e.Bound, e.Wait)
}

// Request holds the limits of one request. It must be used by one goroutine.
type Request struct {
	l      *Limiter
	name   string  // of the sender
	c      *Config // configuration at the beginning of the request
	sender *meter
	sites  map[string]*meter // those seen so far, with their samples
	taken  map[*meter]int
	fresh  map[string]int // series that begin, by sender and node
	// refused are those that may not.
	refused map[Refusal]int
}

// Begin starts a request of a sender. own are the limits of the sender's token. Where they are missing, the limits for
// all senders apply. The error is a [*RateError].
func (l *Limiter) Begin(sender string, tokenLimits Bound) (*Request, error) {
	c := l.Config()
	b := c.Senders
	b.Series = cmp.Or(tokenLimits.Series, b.Series)
	b.SamplesPerSecond = cmp.Or(tokenLimits.SamplesPerSecond, b.SamplesPerSecond)
	r := &Request{l: l, name: sender, c: c, taken: map[*meter]int{}}
	if r.sender = l.meter("sender", sender, b); r.sender != nil {
		return r, r.sender.admit(l)
	}
	return r, nil
}

// Config returns the limits that apply to the request. They do not change during the request.
func (r *Request) Config() *Config { return r.c }

// Labels returns an error if the labels of a series exceed a limit.
func (r *Request) Labels(ls labels.Labels) error { return r.c.Labels.check(ls) }

// Series returns nil if a series with valid labels and the given number of samples may be stored. A [*RateError] rejects the
// whole request. Any other error rejects only this series.
func (r *Request) Series(ls labels.Labels, samples int) error {
	site, err := r.siteMeter(ls.Get("site"))
	if err != nil {
		return err
	}
	for _, m := range [...]*meter{r.sender, site} {
		if m == nil {
			continue
		}
		if !m.admitSeries(ls.Hash(), r.l.clock()) {
			m.logLimited(r.l, "more series than the bound", "series", m.bound.Series)
			return fmt.Errorf(
				"%s has %d series already, which is its bound; drop labels that change with every sample, or ask for a higher bound", m.who,
				m.bound.Series)
		}
		r.taken[m] += samples
	}
	return nil
}

// Stored counts the content of the request against the limits. It is called after the request was stored.
func (r *Request) Stored() {
	now := r.l.clock()
	r.l.fresh.add(r.fresh, r.refused, now)
	for m, n := range r.taken {
		m.subtract(n, now)
	}
}

func (r *Request) siteMeter(name string) (*meter, error) {
	if len(r.c.Sites) == 0 {
		return nil, nil
	}
	if m, ok := r.sites[name]; ok {
		return m, nil
	}
	b, ok := r.c.Sites[name]
	if !ok {
		b = r.c.Sites["*"]
	}
	m := r.l.meter("site", name, b)
	if r.sites == nil {
		r.sites = map[string]*meter{}
	}
	r.sites[name] = m
	if m == nil {
		return nil, nil
	}
	return m, m.admit(r.l)
}

// maxMeters limits the number of meters, because senders choose their names.
const maxMeters = 100_000

// meter returns the meter of a sender or site, or nil if it has no limit.
func (l *Limiter) meter(kind, name string, b Bound) *meter {
	if b.Series <= 0 && b.SamplesPerSecond <= 0 {
		return nil
	}
	who := kind + " " + name
	if name == "" {
		who = kind + " without a name"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.meters[who]
	if !ok {
		if len(l.meters) >= maxMeters {
			clear(l.meters)
		}
		m = &meter{who: who, at: l.clock(), turn: l.clock(), now: map[uint64]struct{}{}}
		l.meters[who] = m
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ok || m.bound.SamplesPerSecond != b.SamplesPerSecond {
		m.room = b.SamplesPerSecond * Burst.Seconds()
	}
	m.bound = b
	return m
}

// meter counts the data sent by one sender or site.
type meter struct {
	who string

	mu    sync.Mutex
	bound Bound
	room  float64 // samples that may come now; below zero after a request that was larger
	at    time.Time
	// The series with samples since turn, and the series of the generation before.
	now, before map[uint64]struct{}
	live        int
	turn        time.Time
	logged      time.Time
}

// admit returns nil if the rate limit has room left, and otherwise a *Slow with the time to wait. It does not compare the room with the
// size of the request. That size is known only after decompression, and a request larger than the burst must pass at some time.
func (m *meter) admit(l *Limiter) error {
	m.mu.Lock()
	if m.bound.SamplesPerSecond <= 0 {
		m.mu.Unlock()
		return nil
	}
	m.refill(l.clock())
	room, rate := m.room, m.bound.SamplesPerSecond
	m.mu.Unlock()
	if room > 0 {
		return nil
	}
	m.logLimited(l, "too many samples per second", "samples_per_second", rate)
	wait := time.Duration(math.Ceil(1-room/rate)) * time.Second
	return &RateError{m.who, rate, wait}
}

func (m *meter) subtract(samples int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bound.SamplesPerSecond > 0 {
		m.refill(now)
		m.room -= float64(samples)
	}
}

func (m *meter) refill(now time.Time) {
	if passed := now.Sub(m.at).Seconds(); passed > 0 {
		m.room = min(m.room+passed*m.bound.SamplesPerSecond, m.bound.SamplesPerSecond*Burst.Seconds())
		m.at = now
	}
}

// admitSeries counts a series. It returns false if the series is new and exceeds the limit.
func (m *meter) admitSeries(hash uint64, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bound.Series <= 0 {
		return true
	}
	if now.Sub(m.turn) >= countedTime {
		m.before, m.now = m.now, make(map[uint64]struct{}, len(m.now))
		if now.Sub(m.turn) >= 2*countedTime {
			m.before = nil
		}
		m.live, m.turn = len(m.before), now
	}
	if _, ok := m.now[hash]; ok {
		return true
	}
	if _, ok := m.before[hash]; !ok {
		if m.live >= m.bound.Series {
			return false
		}
		m.live++
	}
	m.now[hash] = struct{}{}
	return true
}

// logLimited logs that a limit was exceeded, at most once per logEvery.
func (m *meter) logLimited(l *Limiter, what, key string, bound any) {
	now := l.clock()
	m.mu.Lock()
	fresh := !m.logged.IsZero() && now.Sub(m.logged) < logEvery
	if !fresh {
		m.logged = now
	}
	m.mu.Unlock()
	if !fresh {
		l.logger.Warn(m.who+" is held back: "+what, key, bound)
	}
}

// check returns an error if there are too many labels, or one that is too long.
func (b *Labels) check(ls labels.Labels) error {
	count, name, value := limitOr(b.Count, 64, math.MaxInt), limitOr(b.Name, 512, math.MaxInt), limitOr(b.Value, 8192, math.MaxInt)
	if n := ls.Len(); n > count {
		return fmt.Errorf("%.200s has %d labels, more than %d", ls.Get(model.MetricNameLabel), n, count)
	}
	var bad error
	ls.Range(func(l labels.Label) {
		switch {
		case bad != nil:
		case len(l.Name) > name:
			bad = fmt.Errorf("%.200s: the name of the label %.60s… has %d bytes, more than %d", ls.Get(model.MetricNameLabel), l.Name,
				len(l.Name), name)
		case l.Name == model.MetricNameLabel && len(l.Value) > name:
			bad = fmt.Errorf("the name of the metric %.60s… has %d bytes, more than %d", l.Value, len(l.Value), name)
		case len(l.Value) > value:
			bad = fmt.Errorf("%.200s: the label %s has %d bytes, more than %d", ls.Get(model.MetricNameLabel), l.Name, len(l.Value), value)
		}
	})
	return bad
}
