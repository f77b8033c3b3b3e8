package efficiency

import (
	"reckon/internal/phrase"
)

// DiskLimit is a limit of a control group on a disk that the workload reached.
type DiskLimit struct {
	Node, Device string
	Direction    string  // read or write
	Limit        float64 // bytes per second
	Observed     float64 // seconds looked at: the run, or its last day
	Seconds      float64 // seconds of these in which it was reached
	// means over these seconds: bytes per second that it moved, and cores that it used, both in the limited control group
	Rate, Cores float64
}

// diskLimit reports that a limit of its control group on a disk slowed it down.
func (j *judge) diskLimit() {
	if !j.isDiskLimited() {
		return
	}
	d := j.u.DiskLimit
	able, _ := j.usableCores()
	j.addVerdict("storage", Warning, d.Seconds/d.Observed, "ratio", "storage.limit", phrase.Words{
		"time": phrase.Time(d.Seconds), "share": phrase.Percent(d.Seconds / d.Observed), "its": j.observedTime(d.Observed), "node": d.Node,
		"device": d.Device,
		"moved":  map[string]string{"read": "read", "write": "wrote"}[d.Direction], "rate": phrase.Bytes(d.Rate),
		"limit": phrase.Bytes(d.Limit),
		"cores": cores(d.Cores), "able": quantity(able, "core", "cores")})
}

// isDiskLimited reports whether it reached a limit on a disk for long while most of its cores slept.
func (j *judge) isDiskLimited() bool {
	d := j.u.DiskLimit
	return d != nil && j.wasSlowed(d.Seconds, d.Observed, d.Cores)
}
