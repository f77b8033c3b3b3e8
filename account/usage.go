package account

import "reckon/sensor"

// usage holds the counters of a process or of a part.
type usage struct {
	user, system       uint64 // nanoseconds
	wait               uint64 // nanoseconds
	voluntary, involun uint64
	majorFaults        uint64
	read, write        uint64 // bytes
}

func readUsage(p *sensor.Process) usage {
	return usage{
		user: p.UserNanos, system: p.SystemNanos, wait: p.WaitNanos,
		voluntary: p.Voluntary, involun: p.Involuntary,
		majorFaults: p.MajorFaults,
		read:        p.ReadBytes, write: p.WriteBytes,
	}
}

// increase sets last to now for the figures in have and returns the increase. A counter that fell, through rounding or
// a hostile reading, adds nothing until it exceeds its previous maximum. For the fields in partial, the reading lacks
// ended threads because its source restarted; they continue from the new value.
func (last *usage) increase(now usage, have, partial sensor.Fields) (delta usage) {
	if partial&sensor.FieldWait != 0 {
		last.wait = min(last.wait, now.wait)
	}
	if partial&sensor.FieldIO != 0 {
		last.read, last.write = min(last.read, now.read), min(last.write, now.write)
	}
	// The kernel scales user and system against each other, so each may fall while their sum grows.
	// The sum is decisive; the two only split it.
	was, is := last.user+last.system, now.user+now.system
	if is > was {
		total := is - was
		if have&sensor.FieldCPUSplit != 0 {
			du, ds := counterIncrease(last.user, now.user), counterIncrease(last.system, now.system)
			delta.user = shareOf(total, du, ds)
		} else {
			delta.user = total
		}
		delta.system = total - delta.user
		last.user, last.system = now.user, now.system
	}
	advanceCounter(&last.wait, now.wait, &delta.wait, have&sensor.FieldWait)
	advanceCounter(&last.voluntary, now.voluntary, &delta.voluntary, have&sensor.FieldSwitches)
	advanceCounter(&last.involun, now.involun, &delta.involun, have&sensor.FieldSwitches)
	advanceCounter(&last.majorFaults, now.majorFaults, &delta.majorFaults, have&sensor.FieldFaults)
	advanceCounter(&last.read, now.read, &delta.read, have&sensor.FieldIO)
	advanceCounter(&last.write, now.write, &delta.write, have&sensor.FieldIO)
	return delta
}

func (u *usage) add(delta usage) {
	u.user += delta.user
	u.system += delta.system
	u.wait += delta.wait
	u.voluntary += delta.voluntary
	u.involun += delta.involun
	u.majorFaults += delta.majorFaults
	u.read += delta.read
	u.write += delta.write
}

// subtract subtracts counters that u includes.
func (u *usage) subtract(delta usage) {
	u.user -= delta.user
	u.system -= delta.system
	u.wait -= delta.wait
	u.voluntary -= delta.voluntary
	u.involun -= delta.involun
	u.majorFaults -= delta.majorFaults
	u.read -= delta.read
	u.write -= delta.write
}

// lackedFigures is a set of figures that lack some threads, as one byte of [sensor.Fields].
type lackedFigures uint8

const (
	lackWait lackedFigures = 1 << iota
	lackIO
)

func lacksOf(partial sensor.Fields) (l lackedFigures) {
	if partial&sensor.FieldWait != 0 {
		l |= lackWait
	}
	if partial&sensor.FieldIO != 0 {
		l |= lackIO
	}
	return l
}

func advanceCounter(last *uint64, now uint64, d *uint64, known sensor.Fields) {
	if known != 0 && now > *last {
		*d = now - *last
		*last = now
	}
}

func counterIncrease(a, b uint64) uint64 {
	if b > a {
		return b - a
	}
	return 0
}

// shareOf returns the share of total that falls to a, if total is split in the ratio a to b.
func shareOf(total, a, b uint64) uint64 {
	if a+b == 0 {
		return total
	}
	return min(total, uint64(float64(total)*(float64(a)/float64(a+b))))
}

// cpuCapacity returns an upper bound of the CPU nanoseconds that the machine delivered between boot and the end of
// the pass. A pass takes seconds if hundreds of processes compete for processors. The bound includes a margin of a
// quarter and a tenth of a second, because counters are not read at one instant.
func cpuCapacity(elapsed, boot uint64, m *sensor.Machine) uint64 {
	if m == nil {
		return 1 << 62
	}
	return (elapsed+counterIncrease(boot, m.Boot))*uint64(max(m.Cores, 1))*5/4 + 1e8
}

// isZombie reports whether the process has no thread left.
func isZombie(p *sensor.Process) bool { return p.State == 'Z' && p.Threads <= 1 }
