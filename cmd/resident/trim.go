package resident

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// shedEvery is the time between two times that pages of the program are unmapped; each trimEvery-th time its heap is looked at.
const shedEvery, trimEvery = 10 * time.Second, 6

// Trim starts to keep the resident memory of a small program near its need until ctx ends, and returns at once. It
// unmaps the program's pages every 10 s. Once a minute, it collects garbage and releases free memory if both exceed
// spare bytes, as after a block was written. A collection takes about half a millisecond per live megabyte, and
// reloading pages about a millisecond in total.
func Trim(ctx context.Context, spare uint64) {
	go func() {
		all, _ := programAreas() // none if /proc is missing
		splitMappings(all)
		ticker := time.NewTicker(shedEvery)
		defer ticker.Stop()
		for n := 1; ; n++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if n%trimEvery == 0 {
				releaseMemory(spare)
			}
			releasePages(all)
		}
	}()
}

// releaseMemory releases memory if there is more than spare to be released, and reports whether it did.
func releaseMemory(spare uint64) bool {
	if idleHeap() <= spare {
		return false
	}
	debug.FreeOSMemory()
	return true
}

// idleHeap returns the bytes of the heap that are resident but not in use: free, or garbage as of the last collection.
func idleHeap() (bytes uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	for _, x := range s {
		if x.Value.Kind() != metrics.KindUint64 {
			return 0
		}
	}
	used := liveHeap()
	return s[0].Value.Uint64() + max(s[1].Value.Uint64(), used) - used
}

// liveHeap returns the bytes in use according to the last collection.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
