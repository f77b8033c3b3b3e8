package account

import "reckon/figure"

// counting is since when a source counts what processes did, and what of it got lost. It belongs
// to the ledger's goroutine.
type counting struct {
	since uint64 // boot time from which on it counts, 0 while it does not
	began int64  // the same in milliseconds since the Unix epoch; a restart keeps it
	fresh bool   // no export was made since
	full  bool   // since the last export something could not be charged to its process, or counted
}

// begin notes the first pass of the source, at the tick that the ledger took last.
func (c *counting) begin(l *Ledger) {
	if c.since != 0 {
		return
	}
	c.since, c.fresh = l.lastAt, true
	if c.began == 0 {
		c.began = (l.epoch + int64(l.lastAt)) / 1e6
	}
}

// exported begins the time until the next export.
func (c *counting) exported() { c.fresh, c.full = false, false }

// certainty is how exact the counts of a part are that began at a time, where they are from a
// source of its own.
func (c *counting) certainty(start uint64, source origin) certainty {
	switch {
	case c.fresh && start < c.since:
		return certainty{figure.AtLeast, fromStart}
	case c.full:
		return certainty{figure.AtLeast, fromFullTable}
	}
	return certainty{figure.Exact, source}
}
