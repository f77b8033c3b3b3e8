package agent

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"reckon/account"
	"reckon/sensor"
)

// sharedReader reads the shared memory of a process, which takes time in proportion to its size.
type sharedReader interface {
	SharedMemory(pid int32) (sensor.SharedMemory, error)
}

// sharedMeasuring measures the shared pages of the few processes for which they matter, within a CPU time budget.
type sharedMeasuring struct {
	list  []account.Sharer
	purse time.Duration
	aside time.Duration // part saved for a process that costs more than the purse has
	last  uint64        // boot time of the tick before
	clock func() time.Duration
}

// Measuring shared memory may use 1/sharingFraction of a processor. Unused time is saved, up to the cost of a process of
// about 10 GiB, and a tick may use only a part. A process is measured if its estimated cost, 17 µs per MiB, has been
// saved, or if no more can be saved. Processes that cost more are skipped, and half of the new time is saved for them.
const (
	sharingFraction   = 1000
	maxSharingSavings = 200 * time.Millisecond
	reservedSavings   = maxSharingSavings / 4 // kept for processes that no measurement covers
	maxSharingPerTick = 40 * time.Millisecond
	costPerMiB        = 17 * time.Microsecond
	minSharingCost    = 50 * time.Microsecond
)

// measureShared measures processes within the budget of a tick. It must be called after the ledger took the tick.
func (a *Agent) measureShared() {
	look, ok := a.look.(sharedReader)
	s := &a.sharing
	if s.clock == nil {
		s.clock = func() time.Duration { return readClock(unix.CLOCK_THREAD_CPUTIME_ID) }
		s.purse = maxSharingSavings / 2
	}
	income := time.Duration(0)
	if s.last != 0 && a.pass.Boot > s.last {
		income = time.Duration(a.pass.Boot-s.last) / sharingFraction
		s.purse = min(s.purse+income, maxSharingSavings)
	}
	s.last = a.pass.Boot
	if ok && s.purse <= 0 {
		return
	}
	if s.list = a.ledger.AppendSharers(s.list[:0]); len(s.list) == 0 {
		return
	}
	runtime.LockOSThread() // the thread clock measures the cost
	defer runtime.UnlockOSThread()
	began := s.clock()
	spent := time.Duration(0)
	dear := false
	for _, p := range s.list {
		cost := max(time.Duration(p.RSS>>20)*costPerMiB, minSharingCost)
		if spent >= maxSharingPerTick {
			break
		}
		if !a.ledger.NeedsMeasurement(p) {
			continue
		}
		left := s.purse - spent
		if p.Refines() {
			left -= reservedSavings
		}
		if left < cost && s.purse < maxSharingSavings {
			dear = dear || !p.Refines() // smaller processes may still be measured
			continue
		}
		if dear && left-cost < s.aside {
			continue
		}
		if !ok { // as in a recording
			a.ledger.RecordSharing(p, sensor.SharedMemory{}, false)
			continue
		}
		m, err := look.SharedMemory(p.PID)
		a.ledger.RecordSharing(p, m, err == nil)
		spent = s.clock() - began
	}
	if s.aside += income / 2; !dear {
		s.aside = 0
	}
	s.purse -= spent
}
