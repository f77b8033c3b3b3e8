package account

import "slices"

// spareAwaited is the number of elements up to which the memory of a list is kept.
const spareAwaited = 256

// awaited is activity of a process that is not in the table yet, or that has ended and has no exit record yet.
type awaited[T any] struct {
	pid   int32
	start uint64
	until uint64 // tick
	use   T
}

// settle charges awaited activity to the parts of its processes. It keeps the rest until the deadline and then charges
// it to other.
func settle[T any](l *Ledger, list *[]awaited[T], charge func(*Part, *T)) {
	kept, came := (*list)[:0], len(*list)
	for i := range *list {
		w := &(*list)[i]
		if p := l.chargeable(w.pid, w.start, w.until); p != nil {
			charge(p, &w.use)
			continue
		}
		kept = append(kept, *w)
	}
	if cap(kept) > spareAwaited && came < cap(kept)/8 {
		kept = slices.Clone(kept) // the memory of a reading of many processes that ended at once
	}
	*list = kept
}
