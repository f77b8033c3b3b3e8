package efficiency

import (
	"reckon/figure"
	"reckon/internal/phrase"
)

// Congestion is one direction of a network device of a node that was full at times while the workload used it.
type Congestion struct {
	Node, Device string
	Direction    string  // receive or transmit
	Speed        float64 // of the device, bytes per second
	Observed     float64 // seconds looked at: the run, or its last day
	Seconds      float64 // seconds of these in which it was full
	// Means over these seconds: bytes per second through the device, bytes of the workload, and cores that the workload used on the node.
	Rate, Own, Cores float64
}

const (
	mostlyOwn    = 0.5  // share of the traffic of a full device above which the workload itself fills it
	lossy        = 0.01 // share of TCP segments sent again that slows transfers
	someResent   = 100  // segments sent again worth mentioning
	smallSegment = 1200 // bytes of payload of a TCP segment on a path with the smallest packets of IPv6; others carry 1448 or more
)

// reportNetwork reports that the network of the workload was full or lost packets.
func (j *judge) reportNetwork() {
	if j.reportCongestion() {
		c := j.u.Congestion
		able, _ := j.usableCores()
		key := "network.others"
		if c.Own >= mostlyOwn*c.Rate {
			key = "network.own"
		}
		j.addVerdict("network", Warning, c.Seconds/c.Observed, "ratio", key, phrase.Words{
			"time": phrase.Time(c.Seconds), "share": phrase.Percent(c.Seconds / c.Observed), "its": j.observedTime(c.Observed),
			"node":   c.Node,
			"device": c.Device,
			"rate":   phrase.BitRate(c.Rate), "speed": phrase.BitRate(c.Speed),
			"moved": map[string]string{"receive": "received", "transmit": "sent"}[c.Direction],
			"own":   phrase.Percent(min(c.Own/c.Rate, 1)), "cores": cores(c.Cores), "able": quantity(able, "core", "cores")})
	}
	resent, ok := figure.Known(j.u.Resent)
	sent, has := figure.Known(j.u.Sent)
	calls, counts := figure.Known(j.u.SentCalls)
	if !ok || !has || !counts || resent < someResent {
		return
	}
	if share := resent / (resent + sent/smallSegment + calls); share >= lossy { // no more segments than that
		j.addVerdict("network", Warning, share, "ratio", "network.resent",
			phrase.Words{"share": phrase.Percent(share), "count": phrase.Count(resent)})
	}
}

// reportCongestion reports whether a device of one of the nodes was full for long while most of the workload's cores slept.
func (j *judge) reportCongestion() bool {
	c := j.u.Congestion
	return c != nil && j.wasSlowed(c.Seconds, c.Observed, c.Cores)
}

// wasSlowed reports whether a limit applied for a large part of the observed seconds while most usable cores were idle.
// seconds is the time for which it applied, and cores the mean number of busy cores.
func (j *judge) wasSlowed(seconds, observed, cores float64) bool {
	if seconds < worth || seconds < waiting*observed || j.u.Exactness["cpu_seconds"] != figure.Exact {
		return false
	}
	able, ok := j.usableCores()
	return ok && cores < low*able
}

// observedTime describes the observed time: all of it, or the last part.
func (j *judge) observedTime(observed float64) phrase.Text {
	if observed < 0.99*j.u.WallSeconds {
		return phrase.Join("its last ", phrase.Time(observed))
	}
	return phrase.Join("its time")
}

// usableCores returns the number of cores that the workload can use on each of its nodes. This is the smaller of its cores and its threads.
func (j *judge) usableCores() (float64, bool) {
	given, ok := figure.Known(j.u.Cores)
	if !ok || given <= 0 || j.u.Resized {
		return 0, false
	}
	given /= float64(max(len(j.u.PerNode), 1))
	if threads, counted := figure.Known(j.u.MostThreads); counted && threads > 0 {
		given = min(given, threads)
	}
	return given, true
}
