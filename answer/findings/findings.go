// Package findings detects misuse in the measurements: it reads the series and the catalogue,
// applies the rules of analysis/fairshare and analysis/misuse, and stores the findings with a
// state, so that users are notified once.
//
// A finding is new when it is first found, open while it lasts, and gone when a later evaluation no
// longer confirms it. If it recurs within a day, it is the same finding.
//
// Times are UTC. A [Keeper] and an [Evaluator] are safe for concurrent use.
package findings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reckon/analysis/misuse"
	"reckon/figure/wire"
	"reckon/internal/phrase"
	"reckon/store"
)

// Keeper evaluates the rules and stores the findings.
type Keeper struct {
	Evaluator *Evaluator
	Store     store.Findings
	Policy    []byte        // of the server; empty is the default
	Window    time.Duration // covered by each evaluation; 0 is a day
	Clock     func() time.Time
	// Odd finds anomalies and manages its own state; nil for none.
	Odd func(context.Context) ([]misuse.Finding, error)

	mu   sync.Mutex // one evaluation at a time
	last atomic.Pointer[time.Time]
}

// ErrUnknown is wrapped by the error for an unknown finding.
var ErrUnknown = errors.New("no such finding")

func (k *Keeper) evaluationWindow() time.Duration { return cmp.Or(k.Window, 24*time.Hour) }

// recurrenceWindow is the time within which a finding that disappeared and recurs is the same finding.
const recurrenceWindow = 24 * time.Hour

// Look evaluates the window up to now and stores the findings.
func (k *Keeper) Look(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	policy, err := ReadPolicy(k.Policy)
	if err != nil {
		return err
	}
	now := k.Clock()
	from := now.Add(-k.evaluationWindow())
	work, err := k.Evaluator.readRuns(ctx, from, now, policy)
	if err != nil {
		return err
	}
	latest := map[string]time.Time{} // time of the latest sample of each site
	for i := range work.passed {
		if p := &work.passed[i]; p.Last.After(latest[p.Site]) {
			latest[p.Site] = p.Last
		}
	}
	for i := range work.rows {
		if w := &work.rows[i]; w.Seen.After(latest[w.Site]) {
			latest[w.Site] = w.Seen
		}
	}
	muted, _, err := k.Store.Findings(ctx, store.FindingFilter{Muted: new(true), Now: now})
	if err != nil {
		return err
	}
	k.Evaluator.setMuted(muted)
	byPolicy, err := k.Evaluator.applyPolicies(ctx, from, now, work, policy)
	if err != nil {
		return err
	}
	found := byPolicy[0]
	if k.Odd != nil && policy.base.Anomaly.On {
		odd, err := k.Odd(ctx)
		if err != nil {
			return err
		}
		found = append(found, odd...)
	}
	if err := k.storeFindings(ctx, found, latest, now); err != nil {
		return err
	}
	k.last.Store(&now)
	return nil
}

// Last returns when the latest evaluation ended; zero before the first.
func (k *Keeper) Last() time.Time {
	if at := k.last.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// ID returns the id of a finding. It stays the same while the finding lasts, even if the rule is renamed.
func ID(f *misuse.Finding) string {
	start, node := "", f.Node
	if f.Workload != "" { // batch systems reuse ids
		start = fmt.Sprint(f.First.Unix() / 60)
	}
	if f.Rule == misuse.OverShare { // summed over nodes: the node that represents them may change
		node = ""
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q %q %q %q %q %q %q", misuse.Key(f.Rule), f.Site, f.Owner, f.Workload, start, node, f.Part)))
	return hex.EncodeToString(sum[:6])
}

// readStored returns the findings of the last days, and open ones of any age, by id.
func (k *Keeper) readStored(ctx context.Context, now time.Time) (map[string]*store.Finding, error) {
	out := map[string]*store.Finding{}
	for _, f := range []store.FindingFilter{{Since: now.Add(-k.evaluationWindow() - 2*recurrenceWindow)},
		{States: []string{store.FindingNew, store.FindingOpen}}} {
		list, _, err := k.Store.Findings(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range list {
			out[list[i].ID] = &list[i]
		}
	}
	return out, nil
}

// storeFindings merges the findings found into the stored ones. latest is the last sample time of each site. Findings of a site
// without new samples stay unchanged, including muted ones. A disconnected site or server does not show that the cause
// of a finding has ended.
func (k *Keeper) storeFindings(ctx context.Context, found []misuse.Finding, latest map[string]time.Time, now time.Time) error {
	old, err := k.readStored(ctx, now)
	if err != nil {
		return err
	}
	looked := map[string]time.Time{}
	for _, f := range old {
		if f.Seen.After(looked[f.Site]) {
			looked[f.Site] = f.Seen
		}
	}
	silent := func(site string) bool { return !looked[site].IsZero() && !latest[site].After(looked[site]) }
	var put []store.Finding
	seen := map[string]bool{}
	for i := range found {
		f := &found[i]
		id := ID(f)
		if seen[id] || silent(f.Site) {
			continue
		}
		seen[id] = true
		row, err := toRow(f, now)
		if err != nil {
			return err
		}
		row.ID, row.State, row.Found = id, store.FindingNew, now
		if was := old[id]; was != nil && (was.State != store.FindingGone || now.Sub(was.Seen) < recurrenceWindow) {
			row.State, row.Found = store.FindingOpen, was.Found
			row.AckBy, row.AckAt, row.MutedUntil, row.MuteReason = was.AckBy, was.AckAt, was.MutedUntil, was.MuteReason
			if was.First.Before(row.First) && f.Workload == "" {
				row.First = was.First // the window has moved on; the finding began earlier
			}
		}
		put = append(put, row)
	}
	for _, was := range old {
		if !seen[was.ID] && was.State != store.FindingGone && !silent(was.Site) {
			was.State = store.FindingGone
			put = append(put, *was)
		}
	}
	return k.Store.PutFindings(ctx, put)
}

// storedFinding is the stored JSON of a finding. Until 2026 it contained only the evidence.
type storedFinding struct {
	Evidence []misuse.Evidence `json:"evidence"`
	Values   []wire.Value      `json:"values"`
}

// Values returns the figures and names in a sentence.
func Values(list []phrase.Value) []wire.Value {
	out := []wire.Value{}
	for _, v := range list {
		if v.Number != nil && (math.IsNaN(*v.Number) || math.IsInf(*v.Number, 0)) {
			v.Number = nil
		}
		out = append(out, wire.Value{Name: v.Name, Text: v.Text, Value: v.Number, Unit: v.Unit, Run: v.Run})
	}
	return out
}

// Figures returns the evidence of a stored finding, and the figures and names in its text.
func Figures(f *store.Finding) (evidence []misuse.Evidence, values []wire.Value, err error) {
	var k storedFinding
	if err = json.Unmarshal(f.Evidence, &k); err != nil {
		err = json.Unmarshal(f.Evidence, &k.Evidence)
	}
	return k.Evidence, k.Values, err
}

func toRow(f *misuse.Finding, now time.Time) (store.Finding, error) {
	evidence, err := json.Marshal(storedFinding{f.Evidence, Values(f.Values)})
	if err != nil {
		return store.Finding{}, fmt.Errorf("evidence of %s: %w", f.Rule, err)
	}
	return store.Finding{
		Rule: f.Rule, Severity: string(f.Severity), Site: f.Site, Owner: f.Owner, Workload: f.Workload, Node: f.Node, Part: f.Part,
		Text: f.Text, Evidence: evidence, First: f.First, Last: f.Last, Seen: now,
	}, nil
}

// Acknowledge records that a user handles a finding.
func (k *Keeper) Acknowledge(ctx context.Context, id, by string) (store.Finding, error) {
	return k.updateFinding(ctx, id, func(f *store.Finding) { f.AckBy, f.AckAt = by, k.Clock() })
}

// Mute excludes a finding from lists and alerts until a time. A time in the past ends the muting.
func (k *Keeper) Mute(ctx context.Context, id, reason string, until time.Time) (store.Finding, error) {
	return k.updateFinding(ctx, id, func(f *store.Finding) { f.MutedUntil, f.MuteReason = until, reason })
}

func (k *Keeper) updateFinding(ctx context.Context, id string, set func(*store.Finding)) (store.Finding, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list, _, err := k.Store.Findings(ctx, store.FindingFilter{ID: id})
	if err != nil {
		return store.Finding{}, err
	}
	if len(list) == 0 {
		return store.Finding{}, fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	set(&list[0])
	return list[0], k.Store.PutFindings(ctx, list)
}

// Imported returns the findings about unused allocations in imported history, by the current policy. They are for a
// report and are not stored.
func (k *Keeper) Imported(ctx context.Context, since time.Time) ([]misuse.Finding, error) {
	policy, err := ReadPolicy(k.Policy)
	if err != nil {
		return nil, err
	}
	return k.Evaluator.Imported(ctx, policy, since, k.Clock())
}

// Difference is the effect of another policy.
type Difference struct {
	Now, Then      []misuse.Finding
	Added, Removed []misuse.Finding
}

// WhatIf evaluates the past with another policy and with the current one.
func (k *Keeper) WhatIf(ctx context.Context, text []byte, since time.Time) (Difference, error) {
	var d Difference
	other, err := ReadPolicy(text)
	if err != nil {
		return d, err
	}
	present, err := ReadPolicy(k.Policy)
	if err != nil {
		return d, err
	}
	now := k.Clock()
	work, err := k.Evaluator.readRuns(ctx, since, now, present, other)
	if err != nil {
		return d, err
	}
	found, err := k.Evaluator.applyPolicies(ctx, since, now, work, present, other)
	if err != nil {
		return d, err
	}
	d.Now, d.Then = found[0], found[1]
	d.Added, d.Removed = subtractFindings(d.Then, d.Now), subtractFindings(d.Now, d.Then)
	return d, nil
}

// subtractFindings returns the findings of a that are not in b.
func subtractFindings(a, b []misuse.Finding) (out []misuse.Finding) {
	have := map[string]bool{}
	for i := range b {
		have[ID(&b[i])] = true
	}
	for i := range a {
		if !have[ID(&a[i])] {
			out = append(out, a[i])
		}
	}
	return slices.Clip(out)
}
