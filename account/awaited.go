package account

import (
	"slices"

	"reckon/sensor"
)

// spareAwaited is the number of elements up to which the memory of a list is kept.
const spareAwaited = 256

// awaited is activity of a process that is not in the table yet, or that has ended and has no exit record yet.
type awaited[T any] struct {
	PID   int32  `json:"p"`
	Start uint64 `json:"s"`
	until uint64 // tick
	Use   T      `json:"u"`
}

// awaitedState is the activity that waits, at rest.
type awaitedState struct {
	Traffic  []awaited[sensor.Traffic] `json:"traffic"`
	Waits    []awaited[sensor.Wait]    `json:"waits"`
	Disks    []awaited[diskWait]       `json:"disks"`
	Queues   []awaited[sensor.Queue]   `json:"queues"`
	Mounts   []awaited[mounted]        `json:"mounts"`
	Counters []awaited[counterUse]     `json:"counters"`
}

// writeAwaited writes the members of an awaitedState.
func (s *saver) writeAwaited(l *Ledger) {
	writeList(s, `"traffic":[`, l.network.waiting)
	writeList(s, `],"waits":[`, l.waits.waiting)
	writeList(s, `],"disks":[`, l.waits.disks)
	writeList(s, `],"queues":[`, l.queues.waiting)
	writeList(s, `],"mounts":[`, l.mounting.waiting)
	writeList(s, `],"counters":[`, l.counters.waiting)
	s.buf.WriteByte(']')
}

func writeList[T any](s *saver, before string, list []awaited[T]) {
	s.list(before)
	for i := range list {
		s.next()
		s.value(&list[i])
	}
}

// restoreAwaited restores awaited activity. It waits as long as activity that was just read.
func (l *Ledger) restoreAwaited(s *awaitedState) {
	l.network.waiting = resume(s.Traffic)
	l.waits.waiting, l.waits.disks = resume(s.Waits), resume(s.Disks)
	l.queues.waiting, l.mounting.waiting, l.counters.waiting = resume(s.Queues), resume(s.Mounts), resume(s.Counters)
}

func resume[T any](list []awaited[T]) []awaited[T] {
	for i := range list {
		list[i].until = patience
	}
	return list
}

// settle charges awaited activity to the parts of its processes. It keeps the rest until the deadline and then charges
// it to other.
func settle[T any](l *Ledger, list *[]awaited[T], charge func(*Part, *T)) {
	kept, came := (*list)[:0], len(*list)
	for i := range *list {
		w := &(*list)[i]
		if p := l.chargeable(w.PID, w.Start, w.until); p != nil {
			charge(p, &w.Use)
			continue
		}
		kept = append(kept, *w)
	}
	if cap(kept) > spareAwaited && came < cap(kept)/8 {
		kept = slices.Clone(kept) // the memory of a reading of many processes that ended at once
	}
	*list = kept
}
