package probe

import (
	"cmp"
	"slices"
	"time"

	"reckon/web/client"
)

// addUnlessUnknown adds two counters. The sum is unknown if one of them is unknown.
func addUnlessUnknown(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// sumCounters returns the counters of a whole pod. They include ended processes, because the kernel adds the CPU time, bytes
// and page faults of a reaped process to its parent.
func (t *processTable) sumCounters() counters {
	out := counters{}
	for _, p := range t.processes {
		c := p.counters
		out.cpu += c.cpu + c.childCPU
		out.minor += c.minor + c.childMinor
		out.major += c.major + c.childMajor
		if p.zombie { // its bytes count to its parent as soon as that has waited for it
			continue
		}
		out.read, out.write, out.cancelled = addUnlessUnknown(out.read, c.read), addUnlessUnknown(out.write, c.write),
			addUnlessUnknown(out.cancelled, c.cancelled)
	}
	return out
}

// roundingLoss is the amount in nanoseconds by which the counters of a pod may fall through rounding. The clock of a process
// counts nanoseconds, but child times count ticks. A larger fall means that a process ended without being reaped.
const roundingLoss = 50 * int64(time.Millisecond)

// sampleBetween returns the use between two readings. high is the processor time counted up to the first reading, and next the
// processor time counted up to the second.
func sampleBetween(before, after *processTable, o Options, high int64) (s client.ProbeSample, next int64) {
	s = client.ProbeSample{From: before.at, To: after.at}
	rows := map[processKey]counters{}
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
		own, files = addCounters(own, d), addUnlessUnknown(files, p.files)
	}
	last := after.sumCounters()
	total := counterGrowth(before.sumCounters(), last)
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
	s.Total = toProbeUse(total)
	s.Total.ResidentBytes, s.Total.VirtualBytes, s.Total.Threads, s.Total.Files = toUnit(resident, 1), toUnit(virtual, 1),
		toUnit(threads, 1), toUnit(files, 1)
	s.Ended = client.ProbeUse{CPUSeconds: toUnit(max(0, total.cpu-own.cpu), 1e9), MinorFaults: toUnit(max(0, total.minor-own.minor), 1),
		MajorFaults: toUnit(max(0, total.major-own.major), 1)}
	s.Commands = commandRows(after, rows)
	if o.Processes {
		s.Processes = o.processRows(after.processes, rows)
	}
	if o.Threads {
		d := map[processKey]counters{}
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
func counterGrowth(before, after counters) counters {
	d := func(a, b int64) int64 {
		if b < 0 || a < 0 {
			return -1
		}
		return max(0, b-a)
	}
	return counters{
		user: d(before.user, after.user), system: d(before.system, after.system), cpu: d(before.cpu, after.cpu), guest: d(before.guest,
			after.guest), wait: d(before.wait, after.wait), ioWait: d(before.ioWait, after.ioWait),
		read: d(before.read, after.read), write: d(before.write, after.write), cancelled: d(before.cancelled, after.cancelled),
		minor: d(before.minor, after.minor), major: d(before.major, after.major),
		voluntary: d(before.voluntary, after.voluntary), involuntary: d(before.involuntary, after.involuntary),
		childCPU: d(before.childCPU, after.childCPU), childMinor: d(before.childMinor, after.childMinor), childMajor: d(before.childMajor,
			after.childMajor),
	}
}

func addCounters(a, b counters) counters {
	return counters{
		user: addUnlessUnknown(a.user, b.user), system: addUnlessUnknown(a.system, b.system), cpu: addUnlessUnknown(a.cpu, b.cpu),
		guest: addUnlessUnknown(a.guest, b.guest),
		wait:  addUnlessUnknown(a.wait, b.wait), ioWait: addUnlessUnknown(a.ioWait, b.ioWait),
		read: addUnlessUnknown(a.read, b.read), write: addUnlessUnknown(a.write, b.write), cancelled: addUnlessUnknown(a.cancelled,
			b.cancelled), minor: addUnlessUnknown(a.minor, b.minor),
		major:     addUnlessUnknown(a.major, b.major),
		voluntary: addUnlessUnknown(a.voluntary, b.voluntary), involuntary: addUnlessUnknown(a.involuntary, b.involuntary),
		childCPU: addUnlessUnknown(a.childCPU, b.childCPU), childMinor: addUnlessUnknown(a.childMinor, b.childMinor),
		childMajor: addUnlessUnknown(a.childMajor, b.childMajor),
	}
}

func toUnit(v int64, unit float64) *float64 {
	if v < 0 {
		return nil
	}
	f := float64(v) / unit
	return &f
}

func toProbeUse(c counters) client.ProbeUse {
	return client.ProbeUse{
		UserSeconds: toUnit(c.user, 1e9), SystemSeconds: toUnit(c.system, 1e9), CPUSeconds: toUnit(c.cpu, 1e9),
		GuestSeconds: toUnit(c.guest, 1e9),
		WaitSeconds:  toUnit(c.wait, 1e9), IOWaitSeconds: toUnit(c.ioWait, 1e9), ReadBytes: toUnit(c.read, 1),
		WriteBytes: toUnit(c.write, 1), CancelledBytes: toUnit(c.cancelled, 1),
		MinorFaults: toUnit(c.minor, 1), MajorFaults: toUnit(c.major, 1), Voluntary: toUnit(c.voluntary, 1),
		Involuntary: toUnit(c.involuntary, 1), ChildCPUSeconds: toUnit(c.childCPU, 1e9),
	}
}

// processRow returns the table row of a process.
func (o *Options) processRow(t *threadOrProcess, d counters) client.ProbeRow {
	r := client.ProbeRow{PID: t.pid, Parent: t.parent, Command: t.command, Container: t.container, Policy: policyName(t.policy),
		Priority: &t.priority, Processor: &t.processor, ProbeUse: toProbeUse(d)}
	if !o.boot.IsZero() {
		r.Started = o.boot.Add(time.Duration(t.start) * 10 * time.Millisecond)
	}
	r.ResidentBytes, r.VirtualBytes, r.StackBytes, r.Threads, r.Files = toUnit(t.resident, 1), toUnit(t.virtual, 1), toUnit(t.stack, 1),
		toUnit(t.threads, 1), toUnit(t.files, 1)
	return r
}

func (o *Options) processRows(tasks map[processKey]*threadOrProcess, d map[processKey]counters) (out []client.ProbeRow) {
	for k, t := range tasks {
		if t.matched {
			out = append(out, o.processRow(t, d[k]))
		}
	}
	slices.SortFunc(out, func(a, b client.ProbeRow) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

func (o *Options) threadRows(tasks map[processKey]*threadOrProcess, d map[processKey]counters) []client.ProbeRow {
	out := o.processRows(tasks, d)
	for i := range out {
		r := &out[i]
		// Figures shared by threads belong to their process.
		r.TID, r.PID, r.Parent = r.PID, r.Parent, 0
		r.ResidentBytes, r.VirtualBytes, r.StackBytes, r.Threads, r.Files, r.ChildCPUSeconds = nil, nil, nil, nil, nil, nil
	}
	slices.SortFunc(out, func(a, b client.ProbeRow) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID)) })
	return out
}

// commandRows sums the processes of each command.
func commandRows(t *processTable, d map[processKey]counters) (out []client.ProbeRow) {
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
		r := client.ProbeRow{Command: name, Count: g.count, ProbeUse: toProbeUse(g.counters)}
		r.ResidentBytes, r.Threads = toUnit(g.resident, 1), toUnit(g.threads, 1)
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
