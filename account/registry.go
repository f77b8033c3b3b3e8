package account

import (
	"slices"

	"reckon/account/tally"
	"reckon/metric"
	"reckon/workload"
)

// registry holds the parts of a ledger by name and folds short work; see short.go.
type registry struct {
	*times
	config *Config
	byKey  map[partKey]*Part
	places map[string]*Part
	// reported are containers that have ended, with a closed account, but which the supervisor still reports.
	reported map[partKey]*Part
	order    []*Part // in order of appearance, for stable exports
	groups   map[workload.ID]*group
	other    *Part
	// unclaimed is the shared memory of the machine that belongs to no part, bytes; it is in other.
	unclaimed uint64
	// forgotten is the CPU time of parts that were flushed, nanoseconds.
	forgotten uint64
	shorts    map[string]*metric.Series // by owner, for shortWorkloads
	counts    map[string]uint64
	bounded   []*Part          // with memory that is an upper bound in this tick
	shortOf   map[string]*Part // the short work registered last, by owner
	tallies   *tally.Tallies
	deletes   deletedBytes
	repoint   func(from, to *Part) // charges the processes of one part to another from now on
}

func newRegistry(c *Config, at *times) *registry {
	return &registry{
		times: at, config: c,
		byKey: make(map[partKey]*Part), places: make(map[string]*Part), reported: make(map[partKey]*Part),
		groups: make(map[workload.ID]*group), shorts: make(map[string]*metric.Series), counts: make(map[string]uint64),
		shortOf: make(map[string]*Part), deletes: deletedBytes{last: make(map[deleterKey]uint64), of: make(map[*Part]uint64),
			recent: make(map[*Part]*recentWrites)},
	}
}

// ensurePart returns the account of an identity and creates it if needed.
func (r *registry) ensurePart(found Identified, start uint64) *Part {
	if p := r.partAtPlace(found.Place); p != nil {
		if p.phase < exported && p.isBetterName(&found) {
			return r.rename(p, found)
		}
		p.setCgroup(found.Handle)
		p.group.setCgroup(found.Whole)
		p.facts.merge(found.Facts)
		p.resume()
		return p
	}
	k := partKey{found.Workload, found.Part, found.Owner}
	p := r.byKey[k]
	if p == nil || p.cgroup != found.Handle {
		if q := r.partOfCgroup(found.Handle); q != nil {
			return r.partOfSameGroup(q, found)
		}
	}
	if p != nil && !p.rejectsCharges() && (p.run == found.Run || p.run == "") {
		if found.Place != p.place { // a restarted container
			p.replaceCgroup(found.Handle, nil)
		}
		r.addDetails(p, found)
		p.resume()
		return p
	}
	p = &Part{partKey: k, kind: k.id.Kind(), start: start}
	p.met, p.naming = r.now, found.Naming
	if !r.first && start >= r.began {
		p.created = (r.epoch + int64(start)) / 1e6
	}
	r.register(p)
	r.addDetails(p, found)
	r.order = append(r.order, p)
	return p
}

// resume continues a part that ended a moment ago and has not exported its end, as when a service or container restarts.
func (p *Part) resume() {
	if p.end != 0 {
		p.end, p.emptySince = 0, 0
	}
}

// dropFlushed drops the parts that the last export completed. It runs at the start of the next tick, so that a state saved
// before the export is sent still has them.
func (r *registry) dropFlushed() {
	gone := false
	for _, p := range r.order {
		if p.phase == absorbed || (p.phase >= flushed && p.end != 0 && !p.mustLinger(r.lastAt, r.config.Linger)) {
			gone = true
			r.removePart(p)
		}
	}
	if gone {
		r.order = slices.DeleteFunc(r.order, func(p *Part) bool { return p.group == nil })
	}
}

// removePart removes a part from the maps. Its group goes with its last part.
func (r *registry) removePart(p *Part) {
	if p.phase == reported {
		r.reported[p.partKey] = p
	}
	p.closeCgroup()
	delete(r.deletes.of, p)
	delete(r.deletes.recent, p)
	if r.byKey[p.partKey] == p {
		delete(r.byKey, p.partKey)
	}
	if p.phase != absorbed {
		r.forgotten += p.CPU()
		if r.other != nil && p != r.other { // its use since the last meter readings
			p.energy.LeaveTo(p.CPU(), &r.other.energy)
		}
	}
	if r.places[p.place] == p {
		delete(r.places, p.place)
	}
	r.leaveGroup(p)
}

// joinGroup adds a part to the group of its workload and creates the group if needed.
func (r *registry) joinGroup(p *Part) {
	g := r.groups[p.id]
	if g == nil {
		g = &group{id: p.id}
		r.groups[p.id] = g
	}
	g.parts++
	p.group = g
	if g.lead == nil {
		g.lead = p
	}
}

// leaveGroup removes a part from the group of its workload. The group is removed with its last part.
func (r *registry) leaveGroup(p *Part) {
	g := p.group
	p.group = nil
	if g.parts--; g.parts == 0 {
		if g.whole != nil {
			g.whole.close()
		}
		delete(r.groups, g.id)
	} else if g.lead == p {
		g.lead = nil
		for _, q := range r.order {
			if q.group == g {
				g.lead = q
				break
			}
		}
	}
}

// accountOf returns the part that the use of p is charged to: p, or the short work that it was folded into.
func (r *registry) accountOf(p *Part) *Part {
	if p.phase != absorbed {
		return p
	}
	id := r.foldTarget(p)
	if into := r.byKey[partKey{id.Workload, id.Part, id.Owner}]; into != nil {
		return into
	}
	return p
}

// shortWork returns the account of an owner's short work. A new account counts from the last export on.
func (r *registry) shortWork(owner string) *Part {
	p := r.shortOf[owner]
	if p == nil || r.byKey[p.partKey] != p || p.rejectsCharges() {
		p = r.ensurePart(Identified{Identity: workload.Identity{
			Workload: workload.MakeID(workload.Short, owner+"/"+r.config.Node), Owner: owner,
		}}, max(r.began, r.exported))
	}
	return p
}
