package stress

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// readInterval is the interval at which the CPU use of other threads is read. window is the interval over which the deviation
// of the CPU use is computed.
const (
	readInterval    = 20 * time.Millisecond
	deviationWindow = 100 * time.Millisecond
)

// useMeter reads the use of this process at the start and end of steps and windows. It tells the spinners how much CPU
// time the other threads use, because that is part of the load.
type useMeter struct {
	clock    programClock
	curve    *targetCurve // of CPU; its steps are the program's
	spinners []*spinner
	bytes    func() [resources]int64 // read, written and sent since the start
	step     func(i int, m reading)  // called at the beginning of each step

	zero   int64 // CPU time of the process at the start, nanoseconds
	most   int64 // highest use by others so far
	shares []float64
	begin  reading // of the window
}

// reading is a reading.
type reading struct {
	at    time.Duration
	cpu   int64 // nanoseconds of the process since the start
	bytes [resources]int64
}

func (m *useMeter) readAll() reading {
	return reading{at: m.clock.elapsed(), cpu: readClock(unix.CLOCK_PROCESS_CPUTIME_ID) - m.zero}
}

// run measures until the program ends or stop is set. At the start of each step it calls step with the shares of the
// previous windows. It returns the number and the reading of the last boundary, because the counts are complete only
// after all threads have ended.
func (m *useMeter) run(stop *atomic.Bool) (i int, last reading) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTimerSlack()
	m.step(0, reading{}) // the start, however late this thread runs
	for i := range m.curve.level {
		from, to := m.curve.begin[i], m.curve.begin[i+1]
		if i > 0 {
			m.reportBoundary(i)
		}
		m.begin = m.readAll()
		for n := time.Duration(1); ; n++ {
			next := min(from+n*readInterval, to)
			if late := (m.clock.elapsed() - next) / readInterval; late > 0 && next < to {
				n += late
				next = min(from+n*readInterval, to)
			}
			m.clock.sleepUntil(next)
			if stop.Load() {
				return i + 1, m.readAll()
			}
			m.updateOthers()
			if next == to {
				break
			}
			if (next-from)%deviationWindow == 0 {
				m.closeWindow()
			}
		}
		m.closeWindow()
	}
	return len(m.curve.level), m.readAll()
}

// closeWindow ends the current window and records its share of CPU time. It skips a window that is a tenth shorter or longer
// than intended, such as the last one of a step, because each window has the same weight.
func (m *useMeter) closeWindow() {
	now := m.readAll()
	if d := now.at - m.begin.at; d >= deviationWindow*9/10 && d <= deviationWindow*11/10 {
		m.shares = append(m.shares, float64(now.cpu-m.begin.cpu)/float64(d))
	}
	m.begin = now
}

func (m *useMeter) reportBoundary(i int) {
	now := m.readAll()
	now.bytes = m.bytes()
	m.step(i, now)
	m.shares = m.shares[:0]
}

// updateOthers passes the CPU time of all other threads to the spinners. It reads the clock of the process before those
// of the spinners. Work that a spinner does in between makes the result too small, never too large. The highest result
// so far counts.
func (m *useMeter) updateOthers() {
	if len(m.spinners) == 0 {
		return
	}
	rest := readClock(unix.CLOCK_PROCESS_CPUTIME_ID) - m.zero
	for _, s := range m.spinners {
		rest -= s.cpuTimeUsed()
	}
	if rest <= m.most {
		return
	}
	m.most = rest
	for _, s := range m.spinners {
		s.others.Store(rest / int64(len(m.spinners)))
	}
}

// cpuTimeUsed returns the CPU time of the thread since the start, read from another thread.
func (s *spinner) cpuTimeUsed() int64 {
	begun := s.begun.Load()
	if begun == 0 {
		return 0 // not started yet
	}
	return max(0, readClock(threadClock(int(s.tid.Load())))-begun)
}

// standardDeviation returns the standard deviation; NaN for fewer than two values.
func standardDeviation(v []float64) float64 {
	if len(v) < 2 {
		return math.NaN()
	}
	var mean, sum float64
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}
