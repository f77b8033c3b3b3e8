package account

import (
	"reckon/account/tally"
	"reckon/figure"
	"reckon/sensor"
)

// origin is the source of a figure, exported as the label source.
type origin string

const (
	fromNothing  origin = ""
	fromCgroup   origin = "cgroup"       // a control group's own counters
	fromRecords  origin = "exit_records" // every end of a process is recorded
	fromChildren origin = "child_times"  // child times reported by parents; see children.go
	fromReadings origin = "readings"     // the task table, once a tick
	fromStart    origin = tally.FromStart
	fromRSS      origin = "rss"     // resident memory
	fromPSS      origin = "pss"     // resident memory, shared pages split; see shared.go
	fromRSSSum   origin = "rss_sum" // resident memory, shared pages more than once: an upper bound
	fromMeter    origin = "meter"
	fromModel    origin = "model"
	fromMonitors origin = "resctrl"        // monitoring groups of the kernel
	fromSeen     origin = "seen_processes" // processes that a reading or a record showed
	fromReduced  origin = "reduced"        // partly short work: the group was too idle to be exported in full; see reduced.go
	fromThreads  origin = "ended_threads"  // ended threads with last moments that were not counted
	fromMapped   origin = "mapped"         // memory that processes map; files of tmpfs and memfd need not be
	fromDeletes  origin = "deletes"        // files were deleted before they reached storage
)

// certainty is the exactness of a figure and its source.
type certainty struct {
	degree figure.Exactness
	source origin
}

// lacking returns the certainty of a figure if its source does not see all of it.
func lacking(what sensor.Lack, from origin) certainty { return certainty{what.Exactness(), from} }

// worse returns the less exact one. A lower and an upper bound are an estimate.
func (c certainty) worse(o certainty) certainty {
	degree := c.degree.Worse(o.degree)
	if c.source == fromNothing || o.degree > c.degree {
		c = o
	}
	c.degree = degree
	return c
}
