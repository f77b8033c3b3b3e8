package account

import (
	"maps"
	"slices"
	"time"

	"reckon/sensor"
	"reckon/workload"
)

// Names of some parts come from elsewhere (the kubelet) and later than the first reading. Such a part has a place
// (workload.Identity.Place), which identifies it through all renamings.
//
// A batch job without a place may have a provisional name as well. The name of an array task is only in the environment
// of its processes, and the first ones may have ended before it could be read. Its control group identifies such a
// part: a group has one account regardless of the names of its processes.
//
// A part that was never exported is renamed with its counters. An exported part ends under the provisional name and
// continues under the new name from zero, because exported names cannot be changed. Nothing thus counts twice.

// nameGrace is the time in nanoseconds for which exports omit a part with a provisional name. An ended part waits as
// long for the report of the kubelet.
const nameGrace = uint64(2 * time.Second)

// startGrace is the longest time in nanoseconds for which exports omit a container without its final name while its
// runtime starts the program. The start takes seconds on a busy node and more than half a minute on an emulated one.
// The kubelet reports the name only afterwards, and fails a start after two minutes (runtimeRequestTimeout).
const startGrace = uint64(2 * time.Minute)

// isStarting reports whether the part is running and has run only the stages of a container runtime so far.
func (p *Part) isStarting() bool {
	program, ok := p.commands.mainProgram()
	return ok && p.end == 0 && workload.RuntimeStage(program.String())
}

// nameGrace returns the time in nanoseconds that an export holds back a part without its final name.
func (r *registry) nameGrace() uint64 {
	if r.config.NameGrace == nil {
		return nameGrace
	}
	return max(nameGrace, uint64(r.config.NameGrace()))
}

// partNames holds the names of a part and their state.
type partNames struct {
	place, run string
	naming     workload.Naming
	superseded bool   // another waits behind it
	met        uint64 // boot time at which the part was first seen
	// behind is the earlier run of the same name, which is exported to its end first.
	behind *Part
}

// mustWait reports whether exports have to omit the part for now, because its final name or the end of the previous run
// is still unknown. boot is the time since boot and grace the longest wait, both in nanoseconds.
func (p *Part) mustWait(boot, grace uint64) bool {
	if p.phase >= exported {
		return false
	}
	if p.behind != nil && p.behind.phase < flushed {
		return true
	}
	since := counterIncrease(p.met, boot)
	return p.naming != workload.Named && (since < grace || since < startGrace && p.isStarting())
}

// isEndReported reports whether the kubelet has reported the end of an ended part, or will not report it.
func (p *Part) isEndReported(boot uint64) bool {
	return p.place == "" || p.container == nil || p.container.facts.Ended || p.container.facts.Type == sandbox ||
		counterIncrease(p.end, boot) >= nameGrace
}

// partAtPlace returns the open part of a place, or nil.
func (r *registry) partAtPlace(place string) *Part {
	if place == "" {
		return nil
	}
	if p := r.places[place]; p != nil && !p.rejectsCharges() {
		return p
	}
	return nil
}

// isBetterName reports whether the new names should replace the names of the part.
func (p *Part) isBetterName(found *Identified) bool {
	k := partKey{found.Workload, found.Part, found.Owner}
	return found.Naming < p.naming || found.Naming == p.naming && k != p.partKey && (p.phase < exported || found.Naming == workload.Named)
}

// RenameParts looks up better names for parts with provisional ones. [Ledger.Tick] calls it, and so may callers that get names later.
func (l *Ledger) RenameParts() {
	if l.config.Rename == nil {
		return
	}
	for i := 0; i < len(l.parts.order); i++ { // a part that continues under another name is appended
		p := l.parts.order[i]
		if p.place == "" || p.naming == workload.Named || p.rejectsCharges() || p.phase == exported && p.end != 0 {
			continue
		}
		program, _ := p.commands.mainProgram()
		if found := (Identified{Identity: l.config.Rename(p.place, program.String())}); p.isBetterName(&found) {
			l.parts.rename(p, found)
		}
	}
}

// partOfCgroup returns the open part that reads a control group, nil for none.
func (r *registry) partOfCgroup(h sensor.CgroupHandle) *Part {
	if h == nil {
		return nil
	}
	for _, p := range r.order {
		if p.cgroup == h && !p.rejectsCharges() {
			return p
		}
	}
	return nil
}

// partOfSameGroup returns the part for a process that is in p's control group but was identified under other names. If these
// names are better, it renames p. Two parts for one control group would both be charged its use.
func (r *registry) partOfSameGroup(p *Part, found Identified) *Part {
	p.resume()
	if found.Naming >= p.naming {
		return p
	}
	found.Handle = nil // it stays with the part
	if w := p.group.whole; w != nil && w.handle != nil && w.handle == found.Whole {
		w.handle = nil // it moves along
	}
	return r.rename(p, found)
}

// rename gives a part its new names and returns the part to charge for its processes from now on.
func (r *registry) rename(p *Part, found Identified) *Part {
	k := partKey{found.Workload, found.Part, found.Owner}
	into := r.byKey[k]
	switch {
	case k == p.partKey:
		r.addDetails(p, found)
		return p
	case p.phase >= exported:
		return r.continueAs(p, found)
	case into != nil && !into.rejectsCharges() && into.run == p.run:
		r.mergeUnexported(into, p)
		r.addDetails(into, found)
		return into
	}
	if r.byKey[p.partKey] == p {
		delete(r.byKey, p.partKey)
	}
	from := p.group
	if w := from.whole; w != nil && w.handle != nil && (found.Whole == w.handle ||
		found.Whole == nil && k.id.Kind().BarePod() && workload.PartOfPod(k.id, k.part) == "") {
		found.Whole, w.handle = w.handle, nil // the whole is still this one pod, and is not closed with its old name
	}
	r.leaveGroup(p)
	p.partKey, p.kind, p.labels, p.rows = k, k.id.Kind(), nil, nil
	r.register(p)
	if g := p.group; g.cores.Count == 0 {
		g.cores, g.wanted = from.cores, from.wanted
	}
	r.addDetails(p, found)
	return p
}

// register registers a part under its name. An earlier run of that name is exported to its end first.
func (r *registry) register(p *Part) {
	if before := r.byKey[p.partKey]; before != nil {
		if before.rejectsCharges() {
			p.startAfterRun(before)
			r.removePart(before)
			r.order = slices.DeleteFunc(r.order, func(q *Part) bool { return q == before })
		} else {
			if before.end == 0 && before.live == 0 {
				before.finish(r.now)
			}
			p.behind, before.superseded = before, true
		}
	}
	r.byKey[p.partKey] = p
	if p.kind.Folded() {
		r.shortOf[p.owner] = p
	}
	r.joinGroup(p)
}

// startAfterRun moves the start of the part behind the last export of an earlier run with the same series. A store accepts
// no sample older than the newest one of a series.
func (p *Part) startAfterRun(before *Part) {
	if p.created != 0 && before.rows != nil && before.rows.shown >= p.created {
		p.created = before.rows.shown + 2 // the marker of its end is 1 ms after it
	}
}

// addDetails adds other new details of a part.
func (r *registry) addDetails(p *Part, found Identified) {
	if found.Place != "" {
		p.place, p.run, p.naming = found.Place, found.Run, found.Naming
		r.places[found.Place] = p
	}
	p.naming = min(p.naming, found.Naming)
	p.setCgroup(found.Handle)
	p.group.setCgroup(found.Whole)
	p.facts.merge(found.Facts)
}

// continueAs ends an exported part and moves its processes and control group to a part with the new name.
// It must run before anything is charged in the tick.
func (r *registry) continueAs(p *Part, found Identified) *Part {
	h, since := p.cgroup, p.cg
	since.UsageNanos = min(since.UsageNanos, uint64(max(0, p.cgBase+int64(p.CPU())))) // the remainder belongs to the other
	p.cgroup, p.place, p.naming = nil, "", workload.Named                             // so that r.part does not find it by its place
	p.cg.Have &= fieldsAfterRemoval
	delete(r.places, found.Place)
	q := r.ensurePart(found, r.now)
	if h != nil {
		q.replaceCgroup(h, &since)
	}
	r.repoint(p, q)
	return q
}

// mergeUnexported merges p, a restarted container that was never exported, into the part that it belongs to.
func (r *registry) mergeUnexported(into, p *Part) {
	if p.cgroup != nil {
		into.replaceCgroup(p.cgroup, nil)
	} else {
		for i, v := range cgroupCounters(&p.cg) {
			into.past[i] += int64(v)
		}
		into.cgBase -= int64(p.CPU())
	}
	r.mergeEnded(into, p)
	into.folded--
	into.now.used.add(p.now.used)
	into.now.live, into.now.threads = into.now.live+p.now.live, into.now.threads+p.now.threads
	into.now.swap += p.now.swap
	for i, v := range p.now.memory {
		into.now.memory[i] += v
	}
	into.left = max(into.left, p.left)
	if into.end = 0; p.end != 0 && into.live == 0 {
		into.end = p.end
	}
	if r.byKey[p.partKey] == p {
		delete(r.byKey, p.partKey)
	}
	p.phase, p.end, p.cgroup = absorbed, r.now, nil
	p.total, p.cg, p.now = usage{}, sensor.Cgroup{}, tickUse{} // nothing is left to charge
	r.repoint(p, into)
}

// moveProcesses charges the processes of one part to another part from now on.
func (tab *table) moveProcesses(from, to *Part) {
	for _, e := range tab.byID {
		if e.part == from {
			e.part = to
		}
	}
}

// Runs calls f for each exported run that has a report, such as a pod. part is the part that represents the run, facts
// is the report, and pid is the lowest process id.
func (l *Ledger) Runs(f func(id workload.ID, part, owner string, facts *workload.ContainerFacts, pid int32)) {
	l.table.eachPod(func(p *Part) string { return p.run }, func(p *Part, pid int32) {
		f(p.id, workload.PartOfPod(p.id, p.part), p.owner, p.container.facts, pid)
	})
}

// Containers calls f for each exported container that has a report. run is the pod that the container belongs to, facts
// is the report, and pid is the lowest process id.
func (l *Ledger) Containers(f func(run string, id workload.ID, part, owner string, facts *workload.ContainerFacts, pid int32)) {
	l.table.eachPod(func(p *Part) string { return p.place }, func(p *Part, pid int32) {
		if p.container.facts.Name != "" {
			f(p.run, p.id, p.part, p.owner, p.container.facts, pid)
		}
	})
}

// eachPod calls f for one part of each distinct name among the parts of pods, in order. pid is the lowest process id
// among the parts of that name.
func (tab *table) eachPod(name func(*Part) string, f func(p *Part, pid int32)) {
	first := map[string]*process{}
	for _, e := range tab.byID {
		p := e.part
		if p.run == "" || p.container == nil || p.phase != exported || e.gone || e.dead != 0 {
			continue
		}
		if q := first[name(p)]; q == nil || e.pid < q.pid {
			first[name(p)] = e
		}
	}
	for _, n := range slices.Sorted(maps.Keys(first)) {
		f(first[n].part, first[n].pid)
	}
}

// RunOf returns the workload of a live run, and the part that represents the whole run. run is an identifier such as a
// pod UID. ok is false if there is no such run.
func (l *Ledger) RunOf(run string) (id workload.ID, part, owner string, ok bool) {
	for _, p := range l.parts.order {
		if p.run == run && run != "" && p.end == 0 && !p.rejectsCharges() {
			return p.id, workload.PartOfPod(p.id, p.part), p.owner, true
		}
	}
	return "", "", "", false
}
