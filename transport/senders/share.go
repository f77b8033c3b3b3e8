package senders

import (
	"time"

	"reckon/transport/instance"
)

// Claim is the holder of a name in the form that servers exchange. Since and Seen are durations, because the clocks may differ.
type Claim struct {
	Site, Node  string
	ID          instance.ID
	Address     string
	Since, Seen time.Duration
	Skew        time.Duration
}

// claimRefreshInterval is the interval at which a server renews the claim of a sender that still sends. The sum of this
// interval and the longest pause of an agent between two requests (one minute) must be less than [TakeoverAfter].
const claimRefreshInterval = 20 * time.Second

// Claims returns the senders of this server with claims due for renewal.
func (r *Registry) Claims() []Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock()
	var out []Claim
	for k, h := range r.names {
		if h.addr == "" || h.afar || now.Sub(h.notified) < claimRefreshInterval || !h.seen.After(h.notified) {
			continue
		}
		h.notified = now
		out = append(out, Claim{k.site, k.node, h.id, h.addr, now.Sub(h.since), now.Sub(h.seen), h.skew})
	}
	return out
}

// Learn applies the claims that all servers agreed on. If another server has admitted a different machine with the same
// name before, Learn rejects further requests of the machine that this server admitted.
func (r *Registry) Learn(all []Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock()
	for _, c := range all {
		k := nodeName{c.Site, c.Node}
		h, seen := r.names[k], now.Add(-c.Seen)
		switch {
		case h == nil && len(r.names) >= maxNames:
		case h == nil:
			r.names[k] = &holder{id: c.ID, since: now.Add(-c.Since), seen: seen, skew: c.Skew, addr: c.Address, afar: true}
		case h.id == c.ID:
			if seen.After(h.seen) {
				h.seen, h.skew, h.addr, h.afar = seen, c.Skew, c.Address, true
			}
		default:
			lost := &Other{ID: h.id, Address: h.addr, First: h.since, Last: h.seen}
			if h.addr == "" || now.Sub(h.seen) >= ReleaseAfter {
				lost = nil
			} else {
				r.o.Logger.Warn(
					"a second machine sends by the name of a node, to another server, and is refused; give it another name, or let it "+
						"take the place with `reckon node replace`",
					"node", c.Node, "site", c.Site, "from", h.addr, "first", c.Address)
			}
			next := &holder{id: c.ID, since: now.Add(-c.Since), seen: seen, skew: c.Skew, addr: c.Address, afar: true, other: lost}
			if c.ID.Agent != h.id.Agent || h.ranBeside(c.ID, h.seen) {
				next.after = h.seen
			}
			r.names[k] = next
			r.dirty = true
		}
	}
	if r.dirty {
		r.save()
	}
}
