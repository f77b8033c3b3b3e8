package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"reckon/answer"
	"reckon/catalogue"
	"reckon/web/client"
)

const (
	proofKey = "proof"
	// proofHour is the hour of the night, in local time, at which the usage proof runs.
	proofHour = 3
	// firstProof is the time after the start at which a proof is made if the latest is more than a day old.
	firstProof = 10 * time.Minute
	// proofRest is the time that a nightly proof rests after each slice, by the time that it took.
	proofRest = 2
)

// proofs compares usage with the counters, every night and on demand.
type proofs struct {
	builder *catalogue.Builder
	states  catalogue.StateKeeper
	log     *slog.Logger

	shared bool // others may make proofs too: the last one is read again

	running sync.Mutex // one at a time
	mu      sync.Mutex
	last    *client.Proof
	loaded  bool
	found   int // figures that differed, since the start
}

// Last implements api.Proof.
func (p *proofs) Last(ctx context.Context) (client.Proof, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded || p.shared {
		raw, err := p.states.State(ctx, proofKey)
		if err != nil {
			return client.Proof{}, err
		}
		var last client.Proof
		if len(raw) > 0 && json.Unmarshal(raw, &last) == nil {
			p.last = &last
		}
		p.loaded = true
	}
	if p.last == nil {
		return client.Proof{Differences: []client.ProofDifference{}}, nil
	}
	return *p.last, nil
}

// differenceCount returns the number of figures that were found to differ since the start.
func (p *proofs) differenceCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// Summary describes in a sentence how far usage is proven, or returns "" if unknown.
func (p *proofs) Summary(ctx context.Context) string {
	last, err := p.Last(ctx)
	if err != nil {
		return ""
	}
	return last.Summary(time.Now())
}

// Prove implements api.Proof.
func (p *proofs) Prove(ctx context.Context, q client.ProofQuery) (client.Proof, error) {
	if !p.running.TryLock() {
		return client.Proof{}, answer.Busy("wait for its end; `reckon verify --last` shows the result",
			errors.New("usage is being verified already"))
	}
	defer p.running.Unlock()
	return p.runProof(ctx, catalogue.ProofOptions{Since: q.Since, Until: q.Until, Mend: q.Mend})
}

func (p *proofs) runProof(ctx context.Context, o catalogue.ProofOptions) (client.Proof, error) {
	made, err := p.builder.Prove(ctx, o)
	if err != nil {
		return client.Proof{}, err
	}
	out := toWireProof(&made)
	whole := o.Since.IsZero() && o.Until.IsZero()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found += made.Differing
	if made.Differing > 0 {
		d := made.Differences[0]
		p.log.Warn("usage differs from the counters that it was made of", "figures", made.Differing, "accounted", out.Percent(), "mended",
			made.Mended,
			"first_hour", d.Hour, "node", d.Node, "figure", d.Figure)
	}
	if !whole {
		return out, nil
	}
	p.last, p.loaded = &out, true
	raw, err := json.Marshal(out)
	if err == nil {
		err = p.states.SetState(ctx, proofKey, raw)
	}
	return out, err
}

// Run makes a proof every night until ctx ends.
func (p *proofs) Run(ctx context.Context) error {
	for {
		last, err := p.Last(ctx)
		now := time.Now()
		wait := nextProofTime(now).Sub(now)
		if err == nil && (last.Made == nil || now.Sub(*last.Made) > 26*time.Hour) {
			wait = min(wait, firstProof)
		}
		if err := sleepFor(ctx, wait); err != nil {
			return nil //nolint:nilerr // the server stops
		}
		p.running.Lock()
		_, err = p.runProof(ctx, catalogue.ProofOptions{Mend: true,
			Pause: func(ctx context.Context, took time.Duration) error { return sleepFor(ctx, proofRest*took) }})
		p.running.Unlock()
		if err != nil && ctx.Err() == nil {
			p.log.Error("usage could not be verified", "err", err)
			if sleepFor(ctx, time.Hour) != nil {
				return nil
			}
		}
	}
}

// nextProofTime returns the next night.
func nextProofTime(now time.Time) time.Time {
	at := time.Date(now.Year(), now.Month(), now.Day(), proofHour, 0, 0, 0, now.Location())
	if !at.After(now) {
		at = time.Date(now.Year(), now.Month(), now.Day()+1, proofHour, 0, 0, 0, now.Location())
	}
	return at
}

func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func toWireProof(p *catalogue.Proof) client.Proof {
	out := client.Proof{
		Made: &p.Made, Hours: p.Hours, NodeHours: p.Nodes, Accounted: p.Accounted(),
		Differing: p.Differing, Differences: []client.ProofDifference{}, Mended: p.Mended, LeftOut: p.LeftOut,
	}
	if p.Hours > 0 {
		from, to := p.From.UTC(), p.To.UTC()
		out.From, out.To = &from, &to
	}
	for _, d := range p.Differences {
		out.Differences = append(out.Differences,
			client.ProofDifference{Hour: d.Hour, Site: d.Site, Node: d.Node, Figure: d.Figure, Usage: d.Rolled, Raw: d.Raw})
	}
	return out
}

// Verify compares the usage of a stopped server with the counters.
func Verify(ctx context.Context, at Places, q client.ProofQuery, log *slog.Logger) (p client.Proof, err error) {
	if err := CheckStores(at.Store, at.Catalogue); err != nil {
		return p, err
	}
	rows, err := at.openDatabase(ctx, log)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	series, closeSeries, err := at.openSeries(log, rows)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, closeSeries()) }()
	b := catalogue.NewBuilder(series, rows, catalogue.BuilderOptions{Logger: log})
	if _, err := b.Advance(ctx); err != nil {
		return p, err
	}
	v := &proofs{builder: b, states: rows, log: log}
	return v.Prove(ctx, q)
}
