package account

import "reckon/figure"

// counting is the time since which a source counts the activity of processes, and whether some
// of it was lost. It belongs to the ledger's goroutine.
type counting struct {
	since uint64  // boot time at which counting began, 0 while the source does not count
	began int64   // the same in milliseconds since the Unix epoch, preserved over a restart
	fresh bool    // no export since counting began
	at    uint64  // boot time of the last pass
	span  float64 // seconds between the last two, the length of the tick at the first
	full  bool    // since the last export, something could not be counted or charged to its process
}

// begin begins a pass of the source, at the tick that the ledger took last.
func (c *counting) begin(l *Ledger) {
	if c.span = l.span; c.at != 0 {
		c.span = float64(grown(c.at, l.lastAt)) / 1e9
	}
	c.at = l.lastAt
	if c.since != 0 {
		return
	}
	c.since, c.fresh = l.lastAt, true
	if c.began == 0 {
		c.began = (l.epoch + int64(l.lastAt)) / 1e6
	}
}

// exported begins the next export interval.
func (c *counting) exported() { c.fresh, c.full = false, false }

// certainty returns the exactness of the counts, taken from the given source, of a part that
// began at start.
func (c *counting) certainty(start uint64, source origin) certainty {
	switch {
	case c.fresh && start < c.since:
		return certainty{figure.AtLeast, fromStart}
	case c.full:
		return certainty{figure.AtLeast, fromFullTable}
	}
	return certainty{figure.Exact, source}
}
