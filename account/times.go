package account

import "reckon/account/tally"

// times holds the times of the ticks of a ledger. Boot times are nanoseconds since boot.
type times struct {
	tick    uint64
	now     uint64 // boot time of this tick
	exports uint64
	// exported is the boot time of the last export, 0 before the first.
	exported uint64
	began    uint64  // boot time of the first tick
	lastAt   uint64  // boot time of the last tick
	before   uint64  // boot time of the tick before that
	booted   int64   // see Ledger.SetBooted
	first    bool    // this tick is the first of the ledger, or of the restored ledger
	epoch    int64   // nanoseconds between the Unix epoch and boot
	span     float64 // seconds between the last two ticks
}

// interval returns the number of the current export interval. The first is 1.
func (t *times) interval() uint32 { return uint32(t.exports) + 1 }

// unixSeconds converts a boot time to seconds since the Unix epoch.
func (t *times) unixSeconds(boot uint64) float64 { return float64(t.epoch+int64(boot)) / 1e9 }

// lastTick returns the last tick of the ledger.
func (t *times) lastTick() tally.Moment {
	return tally.Moment{Tick: t.tick, Boot: t.lastAt, Span: t.span, Epoch: t.epoch}
}

// unixMillis returns the time of the last tick in milliseconds since the Unix epoch.
func (t *times) unixMillis() int64 { return (t.epoch + int64(t.lastAt)) / 1e6 }
