package account

import (
	"reckon/sensor"
	"reckon/workload"
)

// Standing is the state of an identity in the ledger after an export.
type Standing uint8

// The standings.
const (
	// Unknown means that no part has this name. It may have ended, or may have been folded into short work.
	Unknown Standing = iota
	// Pending: it was not exported yet, since it may turn out to be short work.
	Pending
	// Shown means that the last export included it.
	Shown
)

// StandingOf returns the standing of a part. Call it after [Ledger.Export].
func (l *Ledger) StandingOf(id workload.ID, part, owner string) Standing {
	switch p := l.parts.byKey[partKey{id, part, owner}]; {
	case p == nil || p.rejectsCharges():
		return Unknown
	case p.phase == exported:
		return Shown
	}
	return Pending
}

// ReserveSeries reserves series for a part that might otherwise be counted as short work. If the part is not exported
// yet, it does so only if may returns true. known is false if no reading has seen the part. own is false if the part is
// short work, exceeds the limit of its owner, or may refused.
func (l *Ledger) ReserveSeries(id workload.ID, part, owner string, may func() bool) (known, own bool) {
	p := l.parts.byKey[partKey{id, part, owner}]
	switch {
	case p == nil || p.rejectsCharges():
		return l.table.excess.groups[id] != nil, false
	case !p.pushed && p.phase < exported && !may():
		return true, false
	}
	p.pushed = true
	return true, true
}

// Holds reports whether the ledger has an account of the part. That includes a part that the last export included for the last time.
func (l *Ledger) Holds(id *workload.Identity) bool {
	return l.parts.byKey[partKey{id.Workload, id.Part, id.Owner}] != nil
}

// OwnerOf returns the owner of a workload that runs on this node, or false if it does not run here.
func (l *Ledger) OwnerOf(id workload.ID) (owner string, ok bool) {
	g := l.parts.groups[id]
	if g == nil {
		return "", false
	}
	for _, p := range l.parts.order {
		if p.group == g && p.end == 0 {
			return p.owner, true
		}
	}
	return "", false
}

// JobOwner returns the first user other than root that has a process in the workload on this node. It returns an empty
// string if only root has processes, or if the workload does not run here. The result survives a restart of the agent.
func (l *Ledger) JobOwner(id workload.ID) string {
	g := l.parts.groups[id]
	if g == nil {
		return ""
	}
	for _, p := range l.parts.order {
		if p.group == g && p.end == 0 && p.owner != "root" {
			return p.owner
		}
	}
	return ""
}

// PartOf returns the part that a process is charged to, or nil.
func (l *Ledger) PartOf(pid int32, start uint64) *Part {
	if e := l.table.byID[pid]; e != nil && sensor.SameStart(e.start, start) && !e.gone {
		return e.part
	}
	return nil
}
