package access

import "reckon/figure/wire"

// Live returns the tick l with the viewer's own workloads and a sum of all others.
func (v Viewer) Live(l wire.Live) wire.Live {
	if v.All() {
		return l
	}
	all := l.Workloads
	l.Workloads = make([]wire.LiveWorkload, 0, len(all))
	var rest wire.LiveWorkload
	for _, w := range all {
		if v.Sees(w.Owner) {
			l.Workloads = append(l.Workloads, w)
		} else {
			addAnonymously(&rest, &w)
		}
	}
	if len(l.Workloads) < len(all) {
		rest.ID = "others"
		l.Workloads = append(l.Workloads, rest)
	}
	return l
}

// addAnonymously adds the activity of a workload to a total without names.
func addAnonymously(total, w *wire.LiveWorkload) {
	total.Cores += w.Cores
	total.CPUSeconds += w.CPUSeconds
	total.Processes += w.Processes
	total.Threads += w.Threads
	for _, f := range []struct{ to, from **float64 }{
		{&total.MemoryBytes, &w.MemoryBytes}, {&total.ReadRate, &w.ReadRate}, {&total.WriteRate, &w.WriteRate},
		{&total.ReceiveRate, &w.ReceiveRate}, {&total.TransmitRate, &w.TransmitRate}, {&total.MemoryTrafficRate, &w.MemoryTrafficRate},
		{&total.Wait, &w.Wait},
	} {
		if *f.from == nil {
			continue
		}
		sum := **f.from
		if *f.to != nil {
			sum += **f.to
		}
		*f.to = &sum
	}
}
