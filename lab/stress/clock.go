package stress

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// programClock measures the time since the program's start and sleeps until a given time, both by CLOCK_MONOTONIC.
type programClock struct {
	start time.Time
	zero  int64 // nanoseconds of CLOCK_MONOTONIC at start
}

func newClock() programClock {
	return programClock{time.Now(), readClock(unix.CLOCK_MONOTONIC)}
}

func (c programClock) elapsed() time.Duration { return time.Since(c.start) }

// sleepUntil blocks the thread until time at. It sleeps until an absolute time, because a relative delay would add the
// time between reading the clock and sleeping to each step.
func (c programClock) sleepUntil(at time.Duration) {
	ts := unix.NsecToTimespec(c.zero + int64(at))
	for {
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
		if !errors.Is(err, unix.EINTR) { // the runtime interrupts threads by signals
			return
		}
	}
}

// readClock returns a clock of the kernel in nanoseconds.
func readClock(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // only an unknown clock fails: a thread that has ended
	}
	return ts.Nano()
}

// threadClock returns the id of the CPU clock of a thread in this process. As in clock_getres(2), it is the complement
// of the thread id, shifted left by 3 bits, with the bits for "thread" and "scheduled time" set.
func threadClock(tid int) int32 { return int32(^tid<<3 | 4 | 2) }

// setTimerSlack sets the timer slack to the minimum; for ordinary threads it is 50 microseconds.
func setTimerSlack() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it wake-ups are late, and the report shows it
}
