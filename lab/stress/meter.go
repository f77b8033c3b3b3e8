package stress

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Intervals of the meter: tick for accounting the threads other than spinners, and window for
// computing the deviation of CPU use.
const (
	tick   = 20 * time.Millisecond
	window = 100 * time.Millisecond
)

// meter reads the use of the process at the boundaries of steps and windows, and passes the use of
// other threads to the spinners.
type meter struct {
	clock    clock
	curve    *curve // of CPU; its steps are the program's
	spinners []*spinner
	bytes    func() [resources]int64 // read, written and sent since the start
	step     func(i int, m mark)     // called at the beginning of each step

	zero   int64 // CPU time of the process at the start, nanoseconds
	most   int64 // highest use by others so far
	shares []float64
	begin  mark // of the window
}

// mark is a reading.
type mark struct {
	at    time.Duration
	cpu   int64 // nanoseconds of the process since the start
	bytes [resources]int64
}

func (m *meter) read() mark {
	return mark{at: m.clock.elapsed(), cpu: read(unix.CLOCK_PROCESS_CPUTIME_ID) - m.zero}
}

// run measures until the end of the program or until stop is set. It calls step at every
// boundary with the shares of the previous windows. It returns the last boundary instead, because
// counts are complete only after all threads ended.
func (m *meter) run(stop *atomic.Bool) (i int, last mark) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTimerSlack()
	m.step(0, mark{}) // the start, however late this thread runs
	for i := range m.curve.level {
		from, to := m.curve.begin[i], m.curve.begin[i+1]
		if i > 0 {
			m.border(i)
		}
		m.begin = m.read()
		for n := time.Duration(1); ; n++ {
			next := min(from+n*tick, to)
			if late := (m.clock.elapsed() - next) / tick; late > 0 && next < to {
				n += late
				next = min(from+n*tick, to)
			}
			m.clock.sleepUntil(next)
			if stop.Load() {
				return i + 1, m.read()
			}
			m.updateOthers()
			if next == to {
				break
			}
			if (next-from)%window == 0 {
				m.window()
			}
		}
		m.window()
	}
	return len(m.curve.level), m.read()
}

// window ends a window that has at least nine tenths of its length. A shorter one at the end of a
// step would weigh as much as the others.
func (m *meter) window() {
	now := m.read()
	if d := now.at - m.begin.at; d >= window*9/10 && d <= window*11/10 {
		m.shares = append(m.shares, float64(now.cpu-m.begin.cpu)/float64(d))
	}
	m.begin = now
}

func (m *meter) border(i int) {
	now := m.read()
	now.bytes = m.bytes()
	m.step(i, now)
	m.shares = m.shares[:0]
}

// updateOthers passes the use of the rest of the process to the spinners. It reads the process clock
// first, so that concurrent use of a spinner makes the rest look smaller, never larger. The highest
// value counts.
func (m *meter) updateOthers() {
	if len(m.spinners) == 0 {
		return
	}
	rest := read(unix.CLOCK_PROCESS_CPUTIME_ID) - m.zero
	for _, s := range m.spinners {
		rest -= s.used0()
	}
	if rest <= m.most {
		return
	}
	m.most = rest
	for _, s := range m.spinners {
		s.others.Store(rest / int64(len(m.spinners)))
	}
}

// used0 returns the CPU time of the thread since the start, read from another thread.
func (s *spinner) used0() int64 {
	begun := s.begun.Load()
	if begun == 0 {
		return 0 // not started yet
	}
	return max(0, read(threadClock(int(s.tid.Load())))-begun)
}

// deviation returns the standard deviation; NaN for fewer than two values.
func deviation(v []float64) float64 {
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
