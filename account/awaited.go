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

// await writes the members of an awaitedState.
func (s *saver) await(l *Ledger) {
	awaiting(s, `"traffic":[`, l.network.waiting)
	awaiting(s, `],"waits":[`, l.waits.waiting)
	awaiting(s, `],"disks":[`, l.waits.disks)
	awaiting(s, `],"queues":[`, l.queues.waiting)
	awaiting(s, `],"mounts":[`, l.mounting.waiting)
	awaiting(s, `],"counters":[`, l.counters.waiting)
	s.buf.WriteByte(']')
}

func awaiting[T any](s *saver, before string, list []awaited[T]) {
	s.list(before)
	for i := range list {
		s.next()
		s.value(&list[i])
	}
}

// restoreAwaited restores activity that waits, which it does as long as if it had just been read.
func (l *Ledger) restoreAwaited(s *awaitedState) {
	l.network.waiting = anew(s.Traffic)
	l.waits.waiting, l.waits.disks = anew(s.Waits), anew(s.Disks)
	l.queues.waiting, l.mounting.waiting, l.counters.waiting = anew(s.Queues), anew(s.Mounts), anew(s.Counters)
}

func anew[T any](list []awaited[T]) []awaited[T] {
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
