package resident

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTrim: garbage and free memory above the bound are released, below it nothing is done.
func TestTrim(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // garbage stays until it is collected on purpose
	debug.FreeOSMemory()
	before := idleHeap()
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = 1
	}
	runtime.KeepAlive(block)
	if got := idleHeap(); got < before+60<<20 {
		t.Fatalf("%d bytes are idle after 64 MiB of garbage, %d before", got, before)
	}
	if releaseMemory(128 << 20) {
		t.Error("released below the bound")
	}
	if !releaseMemory(32 << 20) {
		t.Error("not released above the bound")
	}
	if got := idleHeap(); got > before+16<<20 {
		t.Errorf("%d bytes are idle after the release", got)
	}
	if releaseMemory(32 << 20) {
		t.Error("released again")
	}
}
