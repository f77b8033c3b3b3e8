package energy

import (
	"slices"

	"reckon/account/attribution"
	"reckon/sensor"
)

// A process that opened a device but is in no list of the driver may have computed there and ended between two
// readings, or only queried it, as monitors and desktops do. It is a candidate only if the device computed and no other
// process can have caused that: no process has the device open by the driver's lists, or the kernel counts time per
// process and some is left, which an ended process took with it.

// opener is a process that opened a device.
type opener struct {
	pid     int32
	node    uint32
	account *Account // nil while the process is not known
	ticks   int      // since the open
	ended   bool
	after   int // readings since it ended
}

const (
	// maxStartTicks is the number of ticks after opening a device in which a process may start to
	// compute, because drivers take seconds to initialize.
	maxStartTicks = 30
	// readingsAfterEnd is the number of readings that may still show the use of an ended process.
	readingsAfterEnd = 2
	// maxOpeners is the maximum number of openers kept at a time.
	maxOpeners = 256
)

// recordOpens records which processes opened a device, and finds their accounts.
func (e *NodeEnergy) recordOpens(find func(pid int32) (*Account, bool)) {
	for i := range e.openers {
		e.openers[i].ticks++
	}
	for _, o := range e.Opens {
		at := slices.IndexFunc(e.openers, func(p opener) bool { return p.pid == o.PID && p.node == o.Node && !p.ended })
		switch {
		case at >= 0:
			e.openers[at].ticks = 0
		case len(e.openers) < maxOpeners:
			e.openers = append(e.openers, opener{pid: o.PID, node: o.Node})
		}
	}
	e.Opens = e.Opens[:0]
	for i := range e.openers {
		o := &e.openers[i]
		switch p, ended := find(o.pid); {
		case p != nil && !o.ended:
			o.account, o.ended = p, ended
		case p == nil && o.account != nil:
			o.ended = true
		}
	}
}

// dropOpens drops ended processes after the devices have reported all time up to their end. It waits readingsAfterEnd ticks
// longer, because device counters lag.
func (e *NodeEnergy) dropOpens() {
	waits := slices.ContainsFunc(e.devices, func(d *gpuDevice) bool {
		return d.there && (d.putOff || d.stale > 0 && d.stale < maxStartTicks)
	})
	kept := e.openers[:0]
	for _, o := range e.openers {
		if o.ended && !waits {
			o.after++
		}
		if o.ticks < maxStartTicks && o.after < readingsAfterEnd && (o.account != nil || o.ticks <= maxPostponedReadings) {
			kept = append(kept, o)
		}
	}
	e.openers = kept
}

// addOpeners adds the parts that opened the device at index at to its candidates, if no listed process can account for its
// use. late reports whether a process without a part may still be attributed to one.
func (e *NodeEnergy) addOpeners(at int) (late bool) {
	d := e.devices[at]
	counted := d.hasUse && !d.sampled
	if len(e.openers) == 0 || d.now.Have&sensor.GPUBusy == 0 || d.now.Busy+d.owed.busy <= 0 || len(e.gpuPart) > 0 &&
		!(counted && d.now.Busy > d.useBusy) {
		return false
	}
	for _, ended := range [...]bool{true, false} { // one that lives and is in no list has most likely computed nothing yet
		if len(e.gpuPart) > 0 && !(ended && counted) {
			break
		}
		late = e.addOpenersIf(at, ended) || late
	}
	return late
}

func (e *NodeEnergy) addOpenersIf(at int, ended bool) (late bool) {
	d := e.devices[at]
	for i := range e.openers {
		o := &e.openers[i]
		if o.node == 0 || !slices.Contains(d.now.Nodes[:], o.node) || o.account != nil && o.ended != ended ||
			slices.ContainsFunc(d.held, func(h holder) bool { return h.pid == o.pid }) {
			continue
		}
		if o.account == nil {
			late = late || o.ticks <= maxPostponedReadings
			continue
		}
		p := o.account.successor()
		if k := slices.Index(e.gpuPart, p); k >= 0 {
			e.gpuLeft[k] = e.gpuLeft[k] || ended
			continue
		}
		e.gpuPart, e.gpuUse, e.gpuLeft = append(e.gpuPart, p), append(e.gpuUse, attribution.DeviceUse{}), append(e.gpuLeft, true)
		p.deviceAt(at)
	}
	return late
}
