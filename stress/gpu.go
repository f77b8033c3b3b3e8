package stress

import (
	"fmt"
	"sync/atomic"
)

// gpuLoad keeps the first GPU busy for a share of the time.
type gpuLoad struct {
	busy atomic.Int64 // nanoseconds that the device was busy for us, by its own events
}

func openGPU() (*gpuLoad, error) {
	return nil, fmt.Errorf("%w: gpu", ErrUnavailable)
}

func (g *gpuLoad) run(c clock, w *curve, stop *atomic.Bool) error { return nil }
func (g *gpuLoad) close() error                                   { return nil }
