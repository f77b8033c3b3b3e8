package resident

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// leastPercent is the minimum garbage that may accumulate, in percent of the live heap: below it a large heap
// would be collected all the time.
const leastPercent = 10

// Spare limits the garbage of this program until ctx ends: it may grow to percent of the live
// heap (see runtime/debug.SetGCPercent), but in a heap so large that this exceeds spare bytes to
// no more than spare, and in any case to a tenth of the heap. It returns at once; the size is checked
// every minute.
func Spare(ctx context.Context, percent int, spare uint64) {
	debug.SetGCPercent(percent)
	go func() {
		set := percent
		timer := time.NewTimer(20 * time.Second)
		defer timer.Stop()
		for ; ; timer.Reset(time.Minute) {
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			if p := percentFor(live(), percent, spare); p != set {
				set = p
				debug.SetGCPercent(p)
			}
		}
	}()
}

// percentFor returns how much garbage may accumulate next to live bytes, in percent of them.
func percentFor(live uint64, most int, spare uint64) int {
	if live == 0 {
		return most
	}
	return max(leastPercent, min(most, int(100*spare/live)))
}

// live returns the bytes in use according to the last collection.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
