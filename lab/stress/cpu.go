package stress

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// spinner loads the CPU in one thread: a burst in every period.
type spinner struct {
	clock  programClock
	curve  *targetCurve
	period time.Duration
	phase  time.Duration // the bursts of the threads are staggered, so that their sum is smooth
	parts  float64       // number of threads that share the target
	cpu    int           // to be pinned to; -1 is anywhere

	// others is the CPU time in nanoseconds of the rest of the process. The meter writes it, and this thread
	// subtracts it from its own share.
	others atomic.Int64
	tid    atomic.Int64 // 0 until the thread has started
	begun  atomic.Int64 // its CPU time at the start of the program

	perNano float64 // rounds of work in a nanosecond, measured all the time
	sink    uint64
}

// catchUpShare is the maximum fraction of a period that a thread works beyond its target in order to catch up.
const catchUpShare = 0.25

// prepare locks the goroutine to its thread, pins the thread to a CPU if configured, and measures its speed. If pinning
// fails, it returns the error, but the spinner can still be used.
func (s *spinner) prepare() error {
	// Never unlocked: the thread is pinned and ends with the goroutine.
	runtime.LockOSThread()
	setTimerSlack()
	s.perNano = 0.5
	for range 20 { // a millisecond, to measure the speed before the first burst
		s.spinMeasured(50_000)
	}
	s.tid.Store(int64(unix.Gettid()))
	if s.cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(s.cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", s.cpu, err)
	}
	return nil
}

// run works until the program ends or stop is set. prepare must be called first, in the same goroutine.
func (s *spinner) run(stop *atomic.Bool) {
	s.begun.Store(readClock(unix.CLOCK_THREAD_CPUTIME_ID))
	p := pacer{targetCurve: s.curve}
	end := s.curve.end()
	for n := time.Duration(0); ; n++ {
		begin := s.phase + n*s.period
		if begin >= end {
			return
		}
		// The burst is in the middle of its period. If other load delays it, it still ends within
		// the period, and no window boundary cuts through it.
		wish := (s.curve.integralTo(min(begin+s.period, end)) - s.curve.integralTo(begin)) / s.parts
		start := begin + max(0, (s.period-time.Duration(wish))/2)
		if now := s.clock.elapsed(); now < start {
			s.clock.sleepUntil(start)
		} else if late := (now - begin) / s.period; late > 0 {
			n += late // these periods are over
			begin += late * s.period
		}
		if stop.Load() {
			return
		}
		until := min(begin+s.period, end)
		done := s.cpuTime() + s.others.Load()
		owed := p.amountDue(until, float64(done)*s.parts) / s.parts
		burst := min(owed, wish+catchUpShare*float64(s.period))
		if burst > 0 {
			s.useCPU(int64(burst), until)
		}
	}
}

func (s *spinner) cpuTime() int64 { return readClock(unix.CLOCK_THREAD_CPUTIME_ID) - s.begun.Load() }

// maxPiece and enough limit a piece of work between two readings of the thread clock, in nanoseconds. Reading that clock
// takes a system call, so pieces must not be too short.
const (
	maxPiece = 200_000
	minPiece = 1_000 // below this another piece is not worthwhile
)

// useCPU works for some nanoseconds of CPU time, but not beyond the time until.
func (s *spinner) useCPU(cpu int64, until time.Duration) {
	last := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	goal := last + cpu
	for {
		left := goal - last
		if left < minPiece || s.clock.elapsed() >= until {
			return
		}
		rounds := max(16, int(float64(min(left, maxPiece))*0.9*s.perNano))
		s.spin(rounds)
		now := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
		s.trackSpeed(rounds, now-last)
		last = now
	}
}

// spinMeasured calls spin and measures its duration to track the speed of the CPU.
func (s *spinner) spinMeasured(rounds int) {
	before := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	s.spin(rounds)
	s.trackSpeed(rounds, readClock(unix.CLOCK_THREAD_CPUTIME_ID)-before)
}

// trackSpeed tracks the speed of the CPU, which changes with its frequency.
func (s *spinner) trackSpeed(rounds int, nanos int64) {
	if rounds < 1000 || nanos <= 0 {
		return // too short for a measurement
	}
	if speed := float64(rounds) / float64(nanos); speed < 100 {
		s.perNano += (speed - s.perNano) / 4
	}
}

// spin computes the given number of rounds of integer and floating-point operations. It uses only registers, so that
// its speed does not depend on how others use the caches.
//
//go:noinline
func (s *spinner) spin(rounds int) {
	x, y := s.sink|1, 1.0
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		y = y*0.999 + float64(x>>40)
	}
	s.sink = x ^ math.Float64bits(y)
}

// allowedCPUs returns the CPUs that this process may run on, in order.
func allowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPUs of this process: %w", err)
	}
	var cpus []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}
