package sensor

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// MaxWatts is more power than a single node can draw. It is the limit for devices that do not report one. Higher
// readings are placeholders of the hardware for a missing value, such as 65535 or 9223372036854775794.
const MaxWatts = 100e3

// ImplausibleError reports an impossible reading, which is dropped. A single one is an accident. A series of them means
// that the sensor is faulty.
type ImplausibleError struct {
	What string // was read: "energy of 0000:03:00.0"
	Why  string // "rose by 3.69e+12 in 1 s, at most 1200 are possible"
}

func (e *ImplausibleError) Error() string { return e.What + " " + e.Why + ": the reading is left out" }

// Implausible returns the number of [ImplausibleError]s in err, and whether err contains no other error.
func Implausible(err error) (n int, alone bool) {
	switch e := err.(type) {
	case nil:
		return 0, true
	case *ImplausibleError:
		return 1, true
	case interface{ Unwrap() []error }:
		alone = true
		for _, part := range e.Unwrap() {
			more, only := Implausible(part)
			n, alone = n+more, alone && only
		}
		return n, alone
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Implausible(inner)
	}
	return 0, false
}

// JoinRefused returns err, joined with refused if that is not nil.
func JoinRefused(err, refused error) error {
	switch {
	case refused == nil:
		return err
	case err == nil:
		return refused
	}
	return errors.Join(err, refused)
}

// CheckRange returns an [ImplausibleError] for a reading of a device that is no number, or not between low and most.
func CheckRange(figure, device string, v, low, highest float64) error {
	switch {
	case v >= low && v <= highest:
		return nil
	case v > highest:
		return implausibleError(figure, device, "is %.6g, at most %.6g is possible", v, highest)
	}
	return implausibleError(figure, device, "is %.6g, which is not possible", v)
}

func implausibleError(figure, device, reason string, args ...any) error {
	return &ImplausibleError{figure + " of " + device, fmt.Sprintf(reason, args...)}
}

// maxMappings is the maximum number of times that a process maps the same shared pages. The resident size counts
// every mapping, and garbage collectors map their heap three times.
const maxMappings = 4

// RefuseMemory drops the memory figures of processes that exceed total, the memory of the machine in bytes. A total of
// 0 is unknown, and nothing is dropped. The returned error lists the dropped readings.
func (p *Pass) RefuseMemory(total uint64) (refused error) {
	if total == 0 {
		return nil
	}
	for _, list := range [...][]Process{p.Live, p.Exited} {
		for i := range list {
			q := &list[i]
			if q.Anon <= total && max(q.File, q.Shmem, q.PeakBytes) <= maxMappings*total {
				continue
			}
			err := CheckRange("memory", fmt.Sprintf("process %d (%s)", q.PID, q.Comm.String()), float64(q.Anon), 0, float64(total))
			if err == nil {
				err = CheckRange("memory", fmt.Sprintf("process %d (%s)", q.PID, q.Comm.String()), float64(max(q.File, q.Shmem,
					q.PeakBytes)),
					0,
					maxMappings*float64(total))
			}
			refused = errors.Join(refused, err)
			q.Anon, q.File, q.Shmem, q.Swap, q.Huge, q.PeakBytes, q.Blank = 0, 0, 0, 0, 0, 0, true
			q.Have &^= FieldMemory | FieldPeak
		}
	}
	return refused
}

// PowerLimit returns the power in watts that a reading of a device cannot exceed. It is twice the highest of the stated
// limits of the device, or [MaxWatts] if none is stated.
func PowerLimit(stated ...float64) float64 {
	most := 0.0
	for _, w := range stated {
		if w > most && w < MaxWatts {
			most = w
		}
	}
	if most == 0 {
		return MaxWatts
	}
	return min(2*most, MaxWatts)
}

// Register validates the readings of a hardware counter. Its zero value is ready for use. It is not safe for concurrent
// use and allocates only when it rejects a reading.
//
// It rejects a rise that exceeds the possible rate. After [minRefusedRises] such readings, it accepts the current value as a
// new start and drops the rise. A fall may be a reset or a false reading, so the next reading decides. If that
// continues from before the fall, nothing is lost.
type Register struct {
	// Wrap is the number after which the register starts again from 0; 0 if it does not, or that is unknown.
	Wrap float64

	last, low        float64
	at, lowAt, since time.Time // of last and low; of the first of the refused rises
	primed, fell     bool
	rises            int // refused in a row
}

const (
	// minRefusedRises and minRefusedTime are the minimum number and duration of refused rises after which a register restarts.
	minRefusedRises = 3
	minRefusedTime  = 2 * time.Second
)

// Add records a reading and returns the rise since the last one. most is the largest possible rise per second. If it
// rejects the reading, it returns an [ImplausibleError] that names what and device. The next rise then includes the
// rise up to this reading.
func (r *Register) Add(now time.Time, figure, device string, raw, maxRate float64) (rise float64, err error) {
	if !(raw >= 0) || math.IsInf(raw, 1) {
		return 0, implausibleError(figure, device, "is %v, which is no count", raw)
	}
	bound := func(since time.Time) float64 { return maxRate * (max(now.Sub(since), 0).Seconds() + 1) }
	begin, rise := r.at, raw-r.last
	if wrapped := r.Wrap - r.last + raw; rise < 0 && r.Wrap > r.last && wrapped <= min(r.Wrap/2, bound(r.at)) {
		rise = wrapped
	}
	fell := r.fell && (rise < 0 || rise > bound(r.at)) && raw >= r.low
	if fell { // it was reset, and has counted since
		begin, rise = r.lowAt, raw-r.low
	}
	switch {
	case !r.primed:
		rise = 0
	case rise < 0:
		r.low, r.lowAt, r.fell = raw, now, true
		return 0, implausibleError(figure, device, "fell from %.6g to %.6g", r.last, raw)
	case rise > bound(begin):
		if r.rises++; r.rises == 1 {
			r.since = now
		}
		if r.rises < minRefusedRises || now.Sub(r.since) < minRefusedTime {
			return 0, implausibleError(figure, device, "rose by %.6g in %.3g s, at most %.6g is possible", rise, now.Sub(begin).Seconds(),
				bound(begin))
		}
		rise = 0
	}
	r.last, r.at, r.primed, r.fell, r.rises = raw, now, true, false, 0
	return rise, nil
}

// Odometer converts the readings of a register, which may be reset, to a total that never decreases. Its zero value
// starts at zero and is ready for use.
type Odometer struct {
	Register
	total float64
}

// Add reads the register and returns the increase since the first reading; see [Register.Add].
func (o *Odometer) Add(now time.Time, figure, device string, raw, maxRate float64) (total float64, err error) {
	rise, err := o.Register.Add(now, figure, device, raw, maxRate)
	o.total += rise
	return o.total, err
}
