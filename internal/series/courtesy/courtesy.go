// Package courtesy makes background work yield to interactive queries. On a large site, alert
// rules, the catalogue and other background work read millions of series again and again. On few
// processors, a query that runs at the same time as one of them takes twice as long.
//
// A context states the kind of its work. Background work is done in small parts. While a query
// reads, it rests after each part for three times as long as the part took, or until no query reads
// any more. It is thus slowed down to a quarter, and never stops.
package courtesy

import (
	"context"
	"sync"
	"time"
)

const (
	// stepsPerPart is the number of steps between two pauses. That is about a millisecond of reading series.
	stepsPerPart = 256
	// restFactor is the ratio of rest to work of background work.
	restFactor = 3
	// maxRest is the longest rest.
	maxRest = 100 * time.Millisecond
)

// A Gate counts the requests that read series. The zero value is ready for use, and safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	reading int
	idle    chan struct{} // closed when reading becomes 0; nil before that is awaited
}

type contextKey struct{}

// workKind is the kind of work stored in a context.
type workKind struct {
	gate       *Gate
	background bool
}

// Question marks the work of a context as work for a question.
func (g *Gate) Question(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, workKind{gate: g})
}

// Background marks the work of a context as background work.
func (g *Gate) Background(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, workKind{gate: g, background: true})
}

// Aside marks ctx as background work that a request started but does not wait for.
func Aside(ctx context.Context) context.Context {
	if a, ok := ctx.Value(contextKey{}).(workKind); ok {
		return a.gate.Background(ctx)
	}
	return ctx
}

// Turn is the permission for one background reading. Its methods do nothing on a nil Turn, which a context without a
// Turn returns. A caller must not hold a lock that requests need while it calls Step.
type Turn struct {
	workKind
	ctx   context.Context //nolint:containedctx // a turn belongs to one reading
	steps int
	since time.Time // the part began
}

// Enter begins a reading; the caller ends it with [Turn.Leave].
func Enter(ctx context.Context) *Turn {
	a, ok := ctx.Value(contextKey{}).(workKind)
	if !ok {
		return nil
	}
	t := &Turn{workKind: a, ctx: ctx}
	if a.background {
		t.since = time.Now()
		return t
	}
	a.gate.mu.Lock()
	a.gate.reading++
	a.gate.mu.Unlock()
	return t
}

// Leave ends the reading. Further calls do nothing.
func (t *Turn) Leave() {
	if t == nil || t.gate == nil {
		return
	}
	g := t.gate
	t.gate = nil
	if t.background {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reading--; g.reading == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Step records a small completed step, such as reading a series, and pauses if background work has to.
func (t *Turn) Step() {
	if t == nil || !t.background || t.gate == nil {
		return
	}
	if t.steps++; t.steps%stepsPerPart != 0 {
		return
	}
	if idle := t.gate.idleSignal(); idle != nil {
		rest := time.NewTimer(min(restFactor*time.Since(t.since), maxRest))
		defer rest.Stop()
		select {
		case <-idle:
		case <-rest.C:
		case <-t.ctx.Done():
		}
	}
	t.since = time.Now()
}

// idleSignal returns nil if no request is reading, and otherwise a channel that is closed when none is.
func (g *Gate) idleSignal() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reading == 0 {
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle
}
