package stress

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// gpuDevice is a GPU that can be kept busy. It is used from one thread, which must call enter first.
type gpuDevice interface {
	name() string
	enter() error
	// spin runs a kernel for about the given number of turns on the whole device and waits for its
	// end without using a CPU. It returns the busy time by the device's own clock.
	spin(turns uint64) (time.Duration, error)
	close() error
}

// gpuLoad keeps a GPU busy for a fraction of the time.
type gpuLoad struct {
	dev  gpuDevice
	pace gpuPacer
	busy atomic.Int64 // busy nanoseconds of the device
}

// gpuPeriod is the interval between two kernel starts. It is shorter than the sampling windows of measuring tools (1/6
// s or more) and much longer than a kernel start takes.
const gpuPeriod = 20 * time.Millisecond

// minKernelTime is the duration of the shortest kernel that is worth starting.
const minKernelTime = 50 * time.Microsecond

// openGPU opens a device for a program with a GPU load.
func openGPU(p Program, device int, open func(int) (gpuDevice, error)) (*gpuLoad, error) {
	if top := p.Peak()[GPU]; top > 1 {
		return nil, fmt.Errorf("%w: %.4g GPUs are wished; one is loaded at a time: give at most 100%%, or leave out --gpu", ErrUnavailable,
			top)
	}
	dev, err := open(device)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; leave out --gpu, or the column gpus of a trace (--cpu-only plays the CPU part)", ErrUnavailable,
			err)
	}
	return &gpuLoad{dev: dev, pace: gpuPacer{pacer: pacer{targetCurve: newCurve(p, GPU)}}}, nil
}

// run loads the device until the program is over or wait returns false.
func (g *gpuLoad) run(c programClock, wait func(time.Duration) bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.dev.enter(); err != nil {
		return fmt.Errorf("GPU load: %w", err)
	}
	end := g.pace.end()
	for at := time.Duration(0); at < end; at = max(at+gpuPeriod, c.elapsed().Truncate(gpuPeriod)) {
		if !wait(at) {
			return nil
		}
		turns := g.pace.kernelLength(min(at+gpuPeriod, end), time.Duration(g.busy.Load()))
		if turns == 0 {
			continue
		}
		took, err := g.dev.spin(turns)
		if err != nil {
			return fmt.Errorf("GPU load: %w", err)
		}
		g.busy.Add(int64(took))
		g.pace.recordKernel(turns, took)
	}
	return nil
}

// gpuPacer converts an amount due to turns of the kernel's loop. It measures the length of a turn again and again,
// because the clocks of a GPU change with the load.
type gpuPacer struct {
	pacer
	turn float64 // nanoseconds; 0 is unknown
}

// firstTurns is the length of the first kernel in turns, which is far below a period on any device.
const firstTurns = 10_000

// kernelLength returns the number of turns of the next kernel, so that the device reaches its target busy time at time
// by. done is the busy time of the device so far.
func (p *gpuPacer) kernelLength(by, done time.Duration) uint64 {
	owed := min(p.amountDue(by, float64(done)), float64(gpuPeriod)*0.98)
	if owed < float64(minKernelTime) {
		return 0
	}
	if p.turn == 0 {
		return firstTurns
	}
	return uint64(owed / p.turn)
}

// recordKernel records the busy time of the device for a kernel.
func (p *gpuPacer) recordKernel(turns uint64, busy time.Duration) {
	if turns == 0 || busy <= 0 {
		return
	}
	now := float64(busy) / float64(turns)
	if p.turn == 0 || now > 4*p.turn || now < p.turn/4 {
		p.turn = now
		return
	}
	p.turn += (now - p.turn) / 4
}
