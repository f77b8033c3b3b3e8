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

// sharing measures the shared pages of the few processes for which they matter, within a CPU time budget.
type sharing struct {
	list  []account.Sharer
	purse time.Duration
	aside time.Duration // part saved for a process that costs more than the purse has
	last  uint64        // boot time of the tick before
	clock func() time.Duration
}

// Measuring shared memory may use 1/sharingShare of a processor. Unused time is saved, up to the cost of a process of
// about 10 GiB, and a tick may use only a part. A process is measured if its estimated cost, 17 µs per MiB, has been
// saved, or if no more can be saved. Processes that cost more are skipped, and half of the new time is saved for them.
const (
	sharingShare   = 1000
	sharingSavings = 200 * time.Millisecond
	sharingSpare   = sharingSavings / 4 // kept for processes that no measurement covers
	sharingTick    = 40 * time.Millisecond
	sharingPerMiB  = 17 * time.Microsecond
	sharingLeast   = 50 * time.Microsecond
)

// tickShared must be called after the ledger took a tick.
func (a *Agent) tickShared() {
	look, ok := a.look.(sharedReader)
	s := &a.sharing
	if s.clock == nil {
		s.clock = func() time.Duration { return clockOf(unix.CLOCK_THREAD_CPUTIME_ID) }
		s.purse = sharingSavings / 2
	}
	income := time.Duration(0)
	if s.last != 0 && a.pass.Boot > s.last {
		income = time.Duration(a.pass.Boot-s.last) / sharingShare
		s.purse = min(s.purse+income, sharingSavings)
	}
	s.last = a.pass.Boot
	if ok && s.purse <= 0 {
		return
	}
	if s.list = a.ledger.Crowded(s.list[:0]); len(s.list) == 0 {
		return
	}
	runtime.LockOSThread() // the thread clock measures the cost
	defer runtime.UnlockOSThread()
	began := s.clock()
	spent := time.Duration(0)
	dear := false
	for _, p := range s.list {
		cost := max(time.Duration(p.RSS>>20)*sharingPerMiB, sharingLeast)
		if spent >= sharingTick {
			break
		}
		if !a.ledger.Wanted(p) {
			continue
		}
		left := s.purse - spent
		if p.Refines() {
			left -= sharingSpare
		}
		if left < cost && s.purse < sharingSavings {
			dear = dear || !p.Refines() // smaller processes may still be measured
			continue
		}
		if dear && left-cost < s.aside {
			continue
		}
		if !ok { // as in a recording
			a.ledger.Share(p, sensor.SharedMemory{}, false)
			continue
		}
		m, err := look.SharedMemory(p.PID)
		a.ledger.Share(p, m, err == nil)
		spent = s.clock() - began
	}
	if s.aside += income / 2; !dear {
		s.aside = 0
	}
	s.purse -= spent
}
