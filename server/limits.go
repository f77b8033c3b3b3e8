package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/access"
	"reckon/query"
	"reckon/store"
	"reckon/transport/ingest"
	"reckon/transport/limits"
)

// readLimits returns the content of a file, and its text.
func readLimits(file string) (limits.Config, []byte, error) {
	if file == "" {
		return limits.Config{}, nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return limits.Config{}, nil, fmt.Errorf("limits: %w", err)
	}
	c, err := limits.Read(bytes.NewReader(text))
	if err != nil {
		return c, nil, fmt.Errorf("limits %s: %w", file, err)
	}
	return c, text, nil
}

// beginLimits counts a request against the limits of its sender.
func (s *Server) beginLimits(ctx context.Context) (*limits.Request, error) {
	v := access.From(ctx)
	return s.limits.Begin(v.Name, v.Bound)
}

// senderName returns the name of a request's sender in the server's own metrics.
func senderName(ctx context.Context) string { return cmp.Or(access.From(ctx).Name, "local") }

// localSender returns the sender of a request who may send only the figures of own work. It returns nil for other senders.
func (s *Server) localSender(ctx context.Context) *ingest.RestrictedSender {
	v := access.From(ctx)
	if !v.Figures {
		return nil
	}
	o := &ingest.RestrictedSender{Owner: v.Name, Site: s.config.Site, Runs: func(ctx context.Context, workload string) (bool, error) {
		rows, _, err := s.catalogue.Workloads(ctx, store.Filter{IDs: []string{workload}, Owners: []string{v.Name}})
		return slices.ContainsFunc(rows, func(w store.Workload) bool { return w.Owner == v.Name }), err // the whole workload, not a part
	}}
	if s.agent != nil {
		o.Node = s.agent.Node()
	} else {
		o.Node, _ = os.Hostname()
	}
	return o
}

// scrapeSender is the name of this server among senders, for the targets that it scrapes.
const scrapeSender = "scraping"

// maxSizes returns the maximum sizes of a request, packed and unpacked.
func (s *Server) maxSizes() (body, unpacked int64) {
	c := s.limits.Config()
	return c.Body(), c.Unpacked()
}

// limitedEngines returns an engine for each role with limits. Engines are recreated when the limits change.
func (s *Server) limitedEngines() func(access.Role) *query.Engine {
	type made struct {
		of    *limits.Config
		roles map[access.Role]*query.Engine
	}
	var last atomic.Pointer[made]
	return func(role access.Role) *query.Engine {
		m, now := last.Load(), s.limits.Config()
		if m == nil || m.of != now {
			m = &made{now, map[access.Role]*query.Engine{}}
			for _, r := range []access.Role{access.Public, access.User, access.Support, access.Admin} {
				q := now.QueryLimits(r.String())
				m.roles[r] = s.engine.Within(q.Samples, q.Time)
			}
			last.Store(m)
		}
		return m.roles[role]
	}
}

// limitsInterval is the interval at which the file of limits is read. A change takes effect after it was seen twice.
const limitsInterval = 15 * time.Second

// limitsFile is the last state of the limits file. It is not safe for concurrent use.
type limitsFile struct {
	s      *Server
	text   []byte // in force
	seen   []byte // at the last look
	logged string // last error that was logged
}

// reload reads the file of limits if it changed or if asked is set. A change applies only after it was seen twice,
// because the file may still be written. An invalid file is logged once, and the previous limits remain in use.
func (f *limitsFile) reload(asked bool) {
	file := f.s.config.Access.Limits
	now, err := os.ReadFile(file)
	settled := bytes.Equal(now, f.seen)
	f.seen = now
	if err == nil && bytes.Equal(now, f.text) && !asked {
		f.logged = ""
		return
	}
	if !settled && !asked {
		return
	}
	var c limits.Config
	if err == nil {
		c, err = limits.Read(bytes.NewReader(now))
	}
	switch {
	case err == nil && bytes.Equal(now, f.text):
	case err == nil:
		f.text, f.logged = now, ""
		f.s.limits.Set(c)
		f.s.log.Warn("the limits changed and are in force", "file", file)
	case err.Error() != f.logged || asked:
		f.logged = err.Error()
		f.s.log.Error("the file of limits became wrong; the limits before stay in force", "file", file, "err", err)
	}
}

// runLimits watches the file of limits, if there is one.
func (s *Server) runLimits(ctx context.Context) error {
	if s.config.Access.Limits == "" {
		return nil
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(limitsInterval)
	defer tick.Stop()
	f := limitsFile{s: s, text: s.limitsText, seen: s.limitsText}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
			f.reload(true)
		case <-tick.C:
			f.reload(false)
		}
	}
}

// roleEngines selects the engine of the viewer's role for each query.
type roleEngines struct {
	own   *query.Engine // for rules and other questions of our own
	roles func(access.Role) *query.Engine
	// lookback is the time that a query has to look back; nil for as usual.
	lookback func(start time.Time, step time.Duration) time.Duration
}

var _ promql.QueryEngine = roleEngines{}

func (e roleEngines) engineFor(ctx context.Context) *query.Engine {
	if own := e.roles(access.From(ctx).Role); own != nil {
		return own
	}
	return e.own
}

// lookback returns the lookback of a store with one sample per hour, or nil.
func (s *Server) lookback() func(time.Time, time.Duration) time.Duration {
	if s.hourly == nil {
		return nil
	}
	return s.hourly.Lookback
}

// withLookback extends the lookback of queries over hourly samples beyond an hour, unless the caller set one.
func (e roleEngines) withLookback(o promql.QueryOpts, start time.Time, step time.Duration) promql.QueryOpts {
	if e.lookback == nil || (o != nil && o.LookbackDelta() > 0) {
		return o
	}
	back := e.lookback(start, step)
	if back == 0 {
		return o
	}
	return promql.NewPrometheusQueryOpts(o != nil && o.EnablePerStepStats(), back)
}

// NewInstantQuery implements promql.QueryEngine.
func (e roleEngines) NewInstantQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, text string, at time.Time) (promql.Query,
	error) {
	return e.engineFor(ctx).NewInstantQuery(ctx, q, e.withLookback(o, at, 0), text, at)
}

// NewRangeQuery implements promql.QueryEngine.
func (e roleEngines) NewRangeQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, text string, start, end time.Time,
	step time.Duration) (promql.Query, error) {
	return e.engineFor(ctx).NewRangeQuery(ctx, q, e.withLookback(o, start, step), text, start, end, step)
}
