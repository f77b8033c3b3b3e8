package account

import (
	"cmp"
	"maps"
	"strings"

	"reckon/account/tally"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// maxLiveGroups and maxBusyGroups limit the accounts of one login. A user can start any number of process groups, scopes,
// containers, or jobs named by a variable, and each would have its series. Beyond maxLiveGroups live workloads, a new one
// gets no account until it becomes busy; until then it is charged to the short work of its owner. Busy ones get
// accounts up to maxBusyGroups. Batch jobs, pods, system units and root are not limited.
const (
	maxLiveGroups = 200
	maxBusyGroups = 1000
	// A pending group is busy from maxReducedCPU, maxReducedIO or maxIdleMemory on.
)

// loginLimits holds the workloads that have no account because their login exceeds its limit.
type loginLimits struct {
	live   map[string]int                // bounded parts by login, at the last count, and those since
	at     map[string]uint64             // tick of that count
	groups map[workload.ID]*pendingGroup // without an account
	of     map[*process]*pendingGroup    // their processes
	rows   map[string]*metric.Series     // by owner, for shortLive
}

// pendingGroup is the use of a workload that has no account yet.
type pendingGroup struct {
	owner, login string
	used         usage
	tally        tally.Account // handed over to the short work of the owner at each export
	memory       uint64        // present
	tick         uint64        // of memory
	busy         bool
}

func newLoginLimits() loginLimits {
	return loginLimits{live: map[string]int{}, at: map[string]uint64{}, groups: map[workload.ID]*pendingGroup{},
		of: map[*process]*pendingGroup{}, rows: map[string]*metric.Series{}}
}

// hasNumberLimit reports whether the number of workloads of a kind is limited. A user's unit has the user in its name.
func hasNumberLimit(id workload.ID, inCgroup bool, owner string) bool {
	kind := id.Kind()
	return owner != "root" && owner != "" && (kind.Group() || kind.Session() || kind.Container() || kind.Batch() && !inCgroup ||
		kind.Unit() && strings.Contains(id.Name(), "/"))
}

// limitedUser returns the user with the limit that a part counts against.
func (p *Part) limitedUser() string {
	if p.set == nil {
		return p.owner
	}
	return cmp.Or(p.set.login, p.owner)
}

// countRunning counts the bounded parts of a login that run.
func (x *loginLimits) countRunning(login string, tick uint64, parts []*Part) {
	x.at[login], x.live[login] = tick, 0
	for _, p := range parts {
		if p.end == 0 && p.phase != absorbed && p.limitedUser() == login && hasNumberLimit(p.id, p.cgroup != nil, p.owner) {
			x.live[login]++
		}
	}
}

// limitGroups charges a process to the short work of its owner if its workload is over the limit. was holds the earlier use of a workload
// that gets an account only now. late reports whether the account starts to be charged with this tick.
func (tab *table) limitGroups(e *process, found *Identified) (was *pendingGroup, login string, late bool) {
	x := &tab.excess
	delete(x.of, e)
	if !hasNumberLimit(found.Workload, found.Cgroup != "", found.Owner) {
		return nil, "", false
	}
	if p := tab.parts.byKey[partKey{found.Workload, found.Part, found.Owner}]; p != nil && !p.rejectsCharges() {
		return nil, p.limitedUser(), false
	}
	login = found.Owner
	if tab.config.Login != nil {
		login = cmp.Or(tab.config.Login(e.pid), login)
	}
	h := x.groups[found.Workload]
	most := maxLiveGroups
	if h != nil && h.busy {
		most = maxBusyGroups
	}
	if at, counted := x.at[login]; !counted || x.live[login] >= most && at != tab.tick { // after a restart accounts are there
		x.countRunning(login, tab.tick, tab.parts.order)
	}
	if x.live[login] < most {
		x.live[login]++
		delete(x.groups, found.Workload)
		if h != nil {
			maps.DeleteFunc(x.of, func(q *process, of *pendingGroup) bool {
				q.retry = q.retry || of == h // its other processes follow
				return of == h
			})
		}
		return h, login, h != nil
	}
	if h == nil {
		h = &pendingGroup{owner: found.Owner, login: login}
		x.groups[found.Workload] = h
	}
	x.of[e], h.tick = h, tab.tick
	found.Identity = workload.Identity{Workload: workload.MakeID(workload.Short, found.Owner+"/"+tab.config.Node), Owner: found.Owner}
	if found.Handle != nil {
		_ = found.Handle.Close() // it was only read
	}
	found.Handle, found.Whole = nil, nil
	return nil, "", true
}

// addUse adds the use of a process to the pending group of its workload. A busy group is identified again in the next tick.
func (x *loginLimits) addUse(e *process, p *sensor.Process, d usage, tick uint64) {
	h := x.of[e]
	if h == nil {
		return
	}
	if h.tick != tick {
		h.tick, h.memory = tick, 0
	}
	h.used.add(d)
	h.memory += p.Anon + p.File + p.Shmem
	h.busy = h.busy || h.used.user+h.used.system >= maxReducedCPU || h.used.read+h.used.write >= maxReducedIO ||
		h.memory >= maxIdleMemory || exceedsIdle(&h.tally, sensor.WeightActive)
	e.retry = e.retry || h.busy && x.live[h.login] < maxBusyGroups
}

// startFromPending starts an account with the use of a pending group. As with reduced parts, its counters lack the amounts in short work.
func (p *Part) startFromPending(h *pendingGroup) {
	p.total.add(h.used.reducedCounters())
	p.ensureSeparate().handed.add(h.used.reducedCounters())
	p.set.heldCPU = h.used.user + h.used.system
	p.tally = h.tally
	p.cgBase += int64(p.cg.UsageNanos)
	for i, v := range cgroupCounters(&p.cg) {
		p.past[i] -= int64(v)
	}
}

// handOverPending adds the counts of pending groups to the short work of their owners.
func (tab *table) handOverPending() {
	for _, h := range tab.excess.groups {
		if !h.tally.Empty() {
			tab.parts.tallies.HandOver(&h.tally, &tab.parts.shortWork(h.owner).tally)
		}
	}
}

// EachExcessOwner calls f with each owner of workloads that have no account because of a limit.
func (l *Ledger) EachExcessOwner(f func(owner string)) {
	for owner := range l.table.excess.rows {
		f(owner)
	}
}

// exportExcess appends for each owner the number of groups without an account, and the number that ended as short work.
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
