package account

// awaited is what a process did that is not in the table yet, or whose exit record is still to come.
type awaited[T any] struct {
	pid   int32
	start uint64
	until uint64 // tick
	use   T
}

// settle charges what was awaited to the parts of its processes, and keeps the rest until it goes to other.
func settle[T any](l *Ledger, list *[]awaited[T], charge func(*Part, *T)) {
	kept := (*list)[:0]
	for i := range *list {
		w := &(*list)[i]
		if p := l.chargeable(w.pid, w.start, w.until); p != nil {
			charge(p, &w.use)
			continue
		}
		kept = append(kept, *w)
	}
	*list = kept
}
