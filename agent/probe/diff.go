package probe

import (
	"cmp"
	"slices"
	"time"

	"reckon/web/client"
)

// addKnown adds up counters that may be unknown: a sum with an unknown part is unknown.
func addKnown(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// totals returns the counters of a whole pod. They include ended processes, because the kernel adds the CPU time, bytes
// and page faults of a reaped process to its parent.
func (t *table) totals() counters {
	out := counters{}
	for _, p := range t.processes {
		c := p.counters
		out.cpu += c.cpu + c.childCPU
		out.minor += c.minor + c.childMinor
		out.major += c.major + c.childMajor
		if p.zombie { // its bytes count to its parent as soon as that has waited for it
			continue
		}
		out.read, out.write, out.cancelled = addKnown(out.read, c.read), addKnown(out.write, c.write), addKnown(out.cancelled, c.cancelled)
	}
	return out
}

// roundingLoss is the amount in nanoseconds by which the counters of a pod may fall through rounding. The clock of a process
// counts nanoseconds, but child times count ticks. A larger fall means that a process ended without being reaped.
const roundingLoss = 50 * int64(time.Millisecond)

// sampleBetween returns the use between two readings. high is the processor time counted up to the first reading, and next the
// processor time counted up to the second.
func sampleBetween(before, after *table, o Options, high int64) (s client.ProbeSample, next int64) {
	s = client.ProbeSample{From: before.at, To: after.at}
	rows := map[key]counters{}
	own := counters{} // of all rows
	var resident, virtual, threads, files int64
	for k, p := range after.processes {
		was := counters{}
		if old := before.processes[k]; old != nil {
			was = old.counters
		}
		d := counterGrowth(was, p.counters)
		rows[k] = d
		resident, virtual, threads = resident+p.resident, virtual+p.virtual, threads+p.threads
		if p.zombie {
			own.cpu, own.minor, own.major = own.cpu+d.cpu, own.minor+d.minor, own.major+d.major
			continue
		}
		own, files = addCounters(own, d), addKnown(files, p.files)
	}
	last := after.totals()
	total := counterGrowth(before.totals(), last)
	total.user, total.system = -1, -1
	total.guest, total.wait, total.ioWait, total.voluntary, total.involuntary = own.guest, own.wait, own.ioWait, own.voluntary,
		own.involuntary
	// A process that ended without being reaped takes its counters along, so the use of the others
	// is a lower bound.
	total.cpu, next = max(last.cpu-high, own.cpu, 0), max(last.cpu, high)
	if last.cpu < high-roundingLoss {
		next = last.cpu
	}
	total.minor, total.major = max(total.minor, own.minor, 0), max(total.major, own.major, 0)
	total.childCPU = -1
	s.Total = convert(total)
	s.Total.ResidentBytes, s.Total.VirtualBytes, s.Total.Threads, s.Total.Files = inUnit(resident, 1), inUnit(virtual, 1),
		inUnit(threads, 1), inUnit(files, 1)
	s.Ended = client.ProbeUse{CPUSeconds: inUnit(max(0, total.cpu-own.cpu), 1e9), MinorFaults: inUnit(max(0, total.minor-own.minor), 1),
		MajorFaults: inUnit(max(0, total.major-own.major), 1)}
	s.Commands = byCommand(after, rows)
	if o.Processes {
		s.Processes = o.rows(after.processes, rows)
	}
	if o.Threads {
		d := map[key]counters{}
		for k, th := range after.threads {
			was := counters{}
			if old := before.threads[k]; old != nil {
				was = old.counters
			}
			d[k] = counterGrowth(was, th.counters)
		}
		s.Threads = o.threadRows(after.threads, d)
	}
	return s, next
}

// counterGrowth returns the growth of a counter. It is unknown if one end is unknown, and never negative.
func counterGrowth(a, b counters) counters {
	d := func(a, b int64) int64 {
		if b < 0 || a < 0 {
			return -1
		}
		return max(0, b-a)
	}
	return counters{
		user: d(a.user, b.user), system: d(a.system, b.system), cpu: d(a.cpu, b.cpu), guest: d(a.guest, b.guest), wait: d(a.wait, b.wait),
		ioWait: d(a.ioWait, b.ioWait),
		read:   d(a.read, b.read), write: d(a.write, b.write), cancelled: d(a.cancelled, b.cancelled), minor: d(a.minor, b.minor),
		major:     d(a.major, b.major),
		voluntary: d(a.voluntary, b.voluntary), involuntary: d(a.involuntary, b.involuntary),
		childCPU: d(a.childCPU, b.childCPU), childMinor: d(a.childMinor, b.childMinor), childMajor: d(a.childMajor, b.childMajor),
	}
}

func addCounters(a, b counters) counters {
	return counters{
		user: addKnown(a.user, b.user), system: addKnown(a.system, b.system), cpu: addKnown(a.cpu, b.cpu), guest: addKnown(a.guest,
			b.guest),
		wait: addKnown(a.wait, b.wait), ioWait: addKnown(a.ioWait, b.ioWait),
		read: addKnown(a.read, b.read), write: addKnown(a.write, b.write), cancelled: addKnown(a.cancelled, b.cancelled),
		minor:     addKnown(a.minor, b.minor),
		major:     addKnown(a.major, b.major),
		voluntary: addKnown(a.voluntary, b.voluntary), involuntary: addKnown(a.involuntary, b.involuntary),
		childCPU: addKnown(a.childCPU, b.childCPU), childMinor: addKnown(a.childMinor, b.childMinor), childMajor: addKnown(a.childMajor,
			b.childMajor),
	}
}

func inUnit(v int64, unit float64) *float64 {
	if v < 0 {
		return nil
	}
	f := float64(v) / unit
	return &f
}

func convert(c counters) client.ProbeUse {
	return client.ProbeUse{
		UserSeconds: inUnit(c.user, 1e9), SystemSeconds: inUnit(c.system, 1e9), CPUSeconds: inUnit(c.cpu, 1e9),
		GuestSeconds: inUnit(c.guest, 1e9),
		WaitSeconds:  inUnit(c.wait, 1e9), IOWaitSeconds: inUnit(c.ioWait, 1e9), ReadBytes: inUnit(c.read, 1),
		WriteBytes: inUnit(c.write, 1), CancelledBytes: inUnit(c.cancelled, 1),
		MinorFaults: inUnit(c.minor, 1), MajorFaults: inUnit(c.major, 1), Voluntary: inUnit(c.voluntary, 1),
		Involuntary: inUnit(c.involuntary, 1), ChildCPUSeconds: inUnit(c.childCPU, 1e9),
	}
}

// row returns the table row of a process.
func (o *Options) row(t *task, d counters) client.ProbeRow {
	r := client.ProbeRow{PID: t.pid, Parent: t.parent, Command: t.command, Container: t.container, Policy: policyName(t.policy),
		Priority: &t.priority, Processor: &t.processor, ProbeUse: convert(d)}
	if !o.boot.IsZero() {
		r.Started = o.boot.Add(time.Duration(t.start) * 10 * time.Millisecond)
	}
	r.ResidentBytes, r.VirtualBytes, r.StackBytes, r.Threads, r.Files = inUnit(t.resident, 1), inUnit(t.virtual, 1), inUnit(t.stack, 1),
		inUnit(t.threads, 1), inUnit(t.files, 1)
	return r
}

func (o *Options) rows(tasks map[key]*task, d map[key]counters) (out []client.ProbeRow) {
	for k, t := range tasks {
		if t.matched {
			out = append(out, o.row(t, d[k]))
		}
	}
	slices.SortFunc(out, func(a, b client.ProbeRow) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

func (o *Options) threadRows(tasks map[key]*task, d map[key]counters) []client.ProbeRow {
	out := o.rows(tasks, d)
	for i := range out {
		r := &out[i]
		// Figures shared by threads belong to their process.
		r.TID, r.PID, r.Parent = r.PID, r.Parent, 0
		r.ResidentBytes, r.VirtualBytes, r.StackBytes, r.Threads, r.Files, r.ChildCPUSeconds = nil, nil, nil, nil, nil, nil
	}
	slices.SortFunc(out, func(a, b client.ProbeRow) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID)) })
	return out
}

// byCommand adds up the processes of each command.
func byCommand(t *table, d map[key]counters) (out []client.ProbeRow) {
	type group struct {
		counters          counters
		resident, threads int64
		count             int
	}
	groups := map[string]*group{}
	for k, p := range t.processes {
		if !p.matched {
			continue
		}
		g := groups[p.command]
		if g == nil {
			g = &group{counters: d[k]}
			groups[p.command] = g
		} else {
			g.counters = addCounters(g.counters, d[k])
		}
		g.resident, g.threads, g.count = g.resident+p.resident, g.threads+p.threads, g.count+1
	}
	for name, g := range groups {
		r := client.ProbeRow{Command: name, Count: g.count, ProbeUse: convert(g.counters)}
		r.ResidentBytes, r.Threads = inUnit(g.resident, 1), inUnit(g.threads, 1)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b client.ProbeRow) int { return cmp.Compare(a.Command, b.Command) })
	return out
}

// policyName returns the name of a scheduling policy as in sched(7).
func policyName(n int) string {
	names := []string{"NORMAL", "FIFO", "RR", "BATCH", "ISO", "IDLE", "DEADLINE", "EXT"}
	if n < 0 || n >= len(names) {
		return ""
	}
	return names[n]
}
