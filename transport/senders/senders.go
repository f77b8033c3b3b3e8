// Package senders tracks which agent sends for which node. A second machine with the same name is refused and reported. It keeps its
// samples, so that its figures are not added to the first machine's.
//
// A name belongs to the agent that sent for it last. Another one takes its place when the first has been silent for [ReleaseAfter]; or for
// [TakeoverAfter], if it was started after the last request of the first: that is a reboot, a machine that was set up again, or an agent
// that lost its state. An administrator releases a name by [Registry.Release]. Agents that do not identify themselves are accepted.
//
// A [Registry] is safe for concurrent use.
package senders

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"reckon/internal/durable"
	"reckon/transport/instance"
)

const (
	// ReleaseAfter frees a name.
	ReleaseAfter = 10 * time.Minute
	// TakeoverAfter is the silence of the first sender after which an agent that started since then takes over.
	TakeoverAfter = 90 * time.Second
	// RetryAfter is the time after which a refused machine should try again.
	RetryAfter = time.Minute
)

// maxNames is the maximum number of remembered names.
const maxNames = 100_000

// Options configures the registry.
type Options struct {
	// File stores the claims on names across restarts; empty for none.
	File   string
	Logger *slog.Logger
	Clock  func() time.Time // time.Now unless a test states otherwise
}

// Registry records which machine sends under which node name, and rejects a second machine with the same name.
type Registry struct {
	o       Options
	started time.Time

	mu    sync.Mutex
	names map[nodeName]*holder
	dirty bool // the file is older than names
}

type nodeName struct{ site, node string }

type holder struct {
	id       instance.ID
	since    time.Time // it holds the name
	seen     time.Time // last request
	skew     time.Duration
	addr     string
	other    *Other
	after    time.Time // Samples up to this time are refused because another machine sent by the name; zero for none.
	notified time.Time // time at which other servers were notified of the claim
	afar     bool      // its last request came to another server
}

// Other is a second machine with the same name.
type Other struct {
	ID          instance.ID
	Address     string
	First, Last time.Time
	Refused     int // requests
}

// Sender is the sender for a node.
type Sender struct {
	Site, Node string
	ID         instance.ID
	Address    string
	Since      time.Time // it holds the name
	Seen       time.Time // its last request
	// Skew is by how much the clock of the sender is ahead of the clock here, the way of the request included.
	Skew time.Duration
	// Other is a second machine of the name that was refused within [ReleaseAfter]; nil for none.
	Other *Other
}

// TakenError rejects a machine because another machine sends under the same name.
type TakenError struct{ Node, Address string }

func (e *TakenError) Error() string {
	return fmt.Sprintf(
		"another machine sends as node %q (from %s): give this one a name of its own with --node, or let it take the place with `reckon "+
			"node replace %s`; what it measures is kept meanwhile", e.Node, e.Address, e.Node)
}

// New returns a registry with the senders from the file of an earlier registry.
func New(o Options) *Registry {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{o: o, started: o.Clock(), names: map[nodeName]*holder{}}
	r.load()
	return r
}

// Admit records a request of a sender from an address. If the name of the sender belongs to another machine, it returns
// a [*TakenError]. The caller must drop measurements from before the time after. They belong to the previous machine
// with that name or would be counted twice. after is zero if there are none.
func (r *Registry) Admit(s instance.Sender, address string) (after time.Time, err error) {
	now := r.o.Clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := nodeName{s.Site, s.Node}
	h := r.names[k]
	switch {
	case h == nil && len(r.names) >= maxNames:
		return after, nil
	case h == nil, h.id != s.ID && h.isFreeFor(now, now.Add(-s.Age)):
		next := &holder{id: s.ID, since: now}
		if h != nil {
			r.o.Logger.Info("another machine sends for a node", "node", s.Node, "from", address, "before", h.addr)
			if h.ranBeside(s.ID, now.Add(-s.Age)) {
				next.after = h.seen
			}
		}
		h = next
		r.names[k] = h
		r.dirty = true
	case h.id != s.ID:
		if h.other == nil || h.other.ID != s.ID {
			h.other = &Other{ID: s.ID, First: now}
			r.o.Logger.Warn(
				"a second machine sends by the name of a node and is refused; give it another name, or let it take the place with "+
					"`reckon node replace`",
				"node", s.Node, "site", s.Site, "from", address, "first", h.addr)
		}
		h.other.Last, h.other.Address = now, address
		h.other.Refused++
		return after, &TakenError{s.Node, h.addr}
	}
	h.seen, h.skew, h.addr, h.afar = now, s.Sent.Sub(now), address, false
	if r.dirty {
		r.save()
	}
	return h.after, nil
}

// ranBeside reports whether an agent that started at the time begun measured at the same time as the holder of the name. Its queue then
// has samples of that time. An agent that was rejected may have restarted since, so begun alone does not decide.
func (h *holder) ranBeside(id instance.ID, begun time.Time) bool {
	return begun.Before(h.seen) || h.other != nil && h.other.ID.Agent == id.Agent && h.other.ID.Machine == id.Machine
}

// isFreeFor reports whether the name is free for an agent that started at begun.
func (h *holder) isFreeFor(now, begun time.Time) bool {
	silent := now.Sub(h.seen)
	return silent >= ReleaseAfter || (silent >= TakeoverAfter && begun.After(h.seen))
}

// Release makes a name free for the next sender. It reports whether the name was taken.
func (r *Registry) Release(site, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.names[nodeName{site, node}]
	if h == nil {
		return false
	}
	if h.other == nil { // the next sender may claim the name, except for the previous one
		delete(r.names, nodeName{site, node})
	} else {
		r.names[nodeName{site, node}] = &holder{id: h.other.ID, since: r.o.Clock(), seen: r.o.Clock(), addr: h.other.Address, after: h.seen}
	}
	r.dirty = true
	r.save()
	return true
}

// Sender returns the sender of a node's samples.
func (r *Registry) Sender(site, node string) (Sender, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := nodeName{site, node}
	h := r.names[k]
	if h == nil || (h.addr == "" && h.other == nil) { // known from before the restart alone
		return Sender{}, false
	}
	return h.toSender(k, r.o.Clock()), true
}

// Senders returns all senders, sorted by site and name.
func (r *Registry) Senders() []Sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock()
	out := make([]Sender, 0, len(r.names))
	for k, h := range r.names {
		out = append(out, h.toSender(k, now))
	}
	slices.SortFunc(out, func(a, b Sender) int { return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node)) })
	return out
}

func (h *holder) toSender(k nodeName, now time.Time) Sender {
	s := Sender{Site: k.site, Node: k.node, ID: h.id, Address: h.addr, Since: h.since, Seen: h.seen, Skew: h.skew}
	if h.other != nil && now.Sub(h.other.Last) < ReleaseAfter {
		other := *h.other
		s.Other = &other
	}
	return s
}

// storedHolder is the form of a holder in the file.
type storedHolder struct {
	Site    string `json:"site,omitempty"`
	Node    string `json:"node"`
	Agent   string `json:"agent"`
	Machine string `json:"machine,omitempty"`
	Boot    string `json:"boot,omitempty"`
	Since   int64  `json:"since_ms"`
	After   int64  `json:"after_ms,omitempty"`
}

// load reads the file. All holders of a name count as seen now, so that they have time to send.
func (r *Registry) load() {
	if r.o.File == "" {
		return
	}
	var list []storedHolder
	err := durable.ReadJSON(r.o.File, &list)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.o.Logger.Warn("which machine sends for which node is not known; the first that sends has the name", "file", r.o.File, "err", err)
		return
	}
	for _, e := range list {
		h := &holder{id: instance.ID{Agent: e.Agent, Machine: e.Machine, Boot: e.Boot}, since: time.UnixMilli(e.Since), seen: r.started}
		if e.After != 0 {
			h.after = time.UnixMilli(e.After)
		}
		r.names[nodeName{e.Site, e.Node}] = h
	}
}

// save writes the file, and forgets names that have been silent for a month. The caller holds mu.
func (r *Registry) save() {
	now := r.o.Clock()
	list := make([]storedHolder, 0, len(r.names))
	for k, h := range r.names {
		if now.Sub(h.seen) > 30*24*time.Hour {
			delete(r.names, k)
			continue
		}
		e := storedHolder{Site: k.site, Node: k.node, Agent: h.id.Agent, Machine: h.id.Machine, Boot: h.id.Boot, Since: h.since.UnixMilli()}
		if !h.after.IsZero() {
			e.After = h.after.UnixMilli()
		}
		list = append(list, e)
	}
	r.dirty = false
	if r.o.File == "" {
		return
	}
	slices.SortFunc(list, func(a, b storedHolder) int { return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node)) })
	if err := durable.WriteJSON(r.o.File, list, 0o640); err != nil {
		r.o.Logger.Warn("which machine sends for which node could not be kept", "file", r.o.File, "err", err)
	}
}
