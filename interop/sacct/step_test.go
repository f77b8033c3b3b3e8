package sacct

import (
	"testing"
	"time"
)

// TestPeaksOfSteps: the highest memory of any step is the job's, in whatever order the steps come, and the memory of a job that
// changed its size the highest of all its parts.
func TestPeaksOfSteps(t *testing.T) {
	for _, peaks := range [][]float64{{5}, {3, 5, 4}, {5, 3}, {0.5, 5, 5}} {
		var j Job
		for _, p := range peaks {
			j.AddStep(&Job{PeakMemory: pointer(p)})
		}
		if j.AddStep(&Job{}); j.PeakMemory == nil || *j.PeakMemory != 5 {
			t.Errorf("steps of %v come to %v, want 5", peaks, j.PeakMemory)
		}
	}
	at := time.Unix(1_700_000_000, 0)
	for _, parts := range [][2]*float64{{pointer(3.0), pointer(5.0)}, {pointer(5.0), pointer(3.0)}, {pointer(5.0), nil}, {nil, pointer(5.0)}} {
		before := Job{Raw: "7", State: resizedState, Start: at, End: at.Add(time.Minute), PeakMemory: parts[0]}
		next := Job{Raw: "7", Submit: before.End, Start: at, PeakMemory: parts[1]}
		if !before.resizedTo(&next) || next.PeakMemory == nil || *next.PeakMemory != 5 {
			t.Errorf("parts %v come to %v, want 5", parts, next.PeakMemory)
		}
	}
}
