package gcstart

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// The first collection restores the usual percentage, and keeps one that the program chose.
func TestFirstCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	percent := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	start()
	if percent() != first {
		t.Fatalf("%d %% before the first collection, want %d", percent(), first)
	}
	for range 1000 {
		if runtime.GC(); percent() == usual {
			break
		}
		runtime.Gosched()
	}
	if percent() != usual {
		t.Errorf("%d %% after the first collection, want %d", percent(), usual)
	}
	debug.SetGCPercent(50)
	start()
	if percent() != 50 {
		t.Errorf("a percentage of 50 became %d", percent())
	}
}
