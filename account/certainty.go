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

// certaintyOfLack returns the certainty of a figure with a source that does not see all activity.
func certaintyOfLack(lack sensor.Lack, from origin) certainty {
	return certainty{lack.Exactness(), from}
}

// worse returns the less exact of two certainties. A lower bound together with an upper bound gives an estimate.
func (c certainty) worse(other certainty) certainty {
	degree := c.degree.Worse(other.degree)
	if c.source == fromNothing || other.degree > c.degree {
		c = other
	}
	c.degree = degree
	return c
}
