package account

import (
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// A user can start any number of process groups, or jobs that nothing but a variable names, and each would have series of its own.
// Beyond mostLive live ones of an owner a new one has none until it does something: it is charged to the short work of the owner, and
// begins its own account at zero then. Of those that do something mostBusy have one. What batch systems, pods and units run in control
// groups is not bounded, and nor is root.
const (
	mostLive = 200
	mostBusy = 1000
	// A held group is busy from reducedCPU, reducedIO or quietMemory on.
)

// excess holds the groups that have no account of their own.
type excess struct {
	live   map[string]int            // bounded parts by owner, at the last count, and those since
	at     map[string]uint64         // tick of that count
	groups map[workload.ID]*held     // without an account
	of     map[*process]*held        // their processes
	rows   map[string]*metric.Series // by owner, for shortLive
}

// held is what a group did without an account of its own.
type held struct {
	owner           string
	cpu, io, memory uint64
	tick            uint64 // of memory
	busy            bool
}

func newExcess() excess {
	return excess{live: map[string]int{}, at: map[string]uint64{}, groups: map[workload.ID]*held{}, of: map[*process]*held{},
		rows: map[string]*metric.Series{}}
}

// numbered reports whether there may be so many of a kind only.
func numbered(kind workload.Kind, cgroup string, owner string) bool {
	return (kind.Group() || kind.Batch() && cgroup == "") && owner != "root" && owner != ""
}

// bound has a process belong to the short work of its owner instead of a group that gets no account. late says that the account it is
// charged to knows nothing of what the process did before.
func (tab *table) bound(e *process, found *Identified) (late bool) {
	x := &tab.excess
	delete(x.of, e)
	owner := found.Owner
	if !numbered(found.Workload.Kind(), found.Cgroup, owner) {
		return false
	}
	if p := tab.parts.byKey[key{found.Workload, found.Part, owner}]; p != nil && !p.closed() {
		return false
	}
	h := x.groups[found.Workload]
	most := mostLive
	if h != nil && h.busy {
		most = mostBusy
	}
	if at, counted := x.at[owner]; !counted || x.live[owner] >= most && at != tab.tick { // after a restart accounts are there
		x.at[owner], x.live[owner] = tab.tick, 0
		for _, p := range tab.parts.order {
			if p.owner == owner && p.end == 0 && p.phase != absorbed && p.cgroup == nil && numbered(p.kind, "", owner) {
				x.live[owner]++
			}
		}
	}
	if x.live[owner] < most {
		x.live[owner]++
		delete(x.groups, found.Workload)
		return h != nil
	}
	if h == nil {
		h = &held{owner: owner}
		x.groups[found.Workload] = h
	}
	x.of[e], h.tick = h, tab.tick
	found.Identity = workload.Identity{Workload: workload.MakeID(workload.Short, owner+"/"+tab.config.Node), Owner: owner}
	found.Handle, found.Whole = nil, nil
	return true
}

// take adds what a process of a held group did. A group that is busy is identified again at the next tick.
func (x *excess) take(e *process, p *sensor.Process, d usage, tick uint64) {
	h := x.of[e]
	if h == nil {
		return
	}
	if h.tick != tick {
		h.tick, h.memory = tick, 0
	}
	h.cpu += d.user + d.system
	h.io += d.read + d.write
	h.memory += p.Anon + p.File + p.Shmem
	h.busy = h.busy || h.cpu >= reducedCPU || h.io >= reducedIO || h.memory >= quietMemory
	e.retry = e.retry || h.busy && x.live[h.owner] < mostBusy
}

// Excess calls f with each owner who has process groups without an account of their own.
func (l *Ledger) Excess(f func(owner string)) {
	for owner := range l.table.excess.rows {
		f(owner)
	}
}

// exportExcess appends how many groups of each owner are held, and counts those that ended as short work.
func (tab *table) exportExcess(b *metric.Batch) {
	x := &tab.excess
	if len(x.groups) == 0 && len(x.rows) == 0 {
		return
	}
	n := map[string]int{}
	for id, h := range x.groups {
		if tab.tick > h.tick+lateTicks {
			tab.parts.counts[h.owner]++
			delete(x.groups, id)
			continue
		}
		n[h.owner]++
	}
	for owner := range n {
		if x.rows[owner] == nil {
			x.rows[owner] = metric.NewSeries(shortLive, owner)
		}
	}
	for owner, row := range x.rows {
		b.Add(row, float64(n[owner]))
		if n[owner] == 0 {
			b.Samples[len(b.Samples)-1].Last = true
			delete(x.rows, owner)
		}
	}
}
