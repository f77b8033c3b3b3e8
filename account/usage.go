package account

import "reckon/sensor"

// usage is a set of counters, of a process or of a part.
type usage struct {
	user, system       uint64 // nanoseconds
	wait               uint64 // nanoseconds
	voluntary, involun uint64
	majorFaults        uint64
	read, write        uint64 // bytes
}

func usageOf(p *sensor.Process) usage {
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
func (last *usage) increase(now usage, have, partial sensor.Fields) (d usage) {
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
			du, ds := increase(last.user, now.user), increase(last.system, now.system)
			d.user = split(total, du, ds)
		} else {
			d.user = total
		}
		d.system = total - d.user
		last.user, last.system = now.user, now.system
	}
	advanceCounter(&last.wait, now.wait, &d.wait, have&sensor.FieldWait)
	advanceCounter(&last.voluntary, now.voluntary, &d.voluntary, have&sensor.FieldSwitches)
	advanceCounter(&last.involun, now.involun, &d.involun, have&sensor.FieldSwitches)
	advanceCounter(&last.majorFaults, now.majorFaults, &d.majorFaults, have&sensor.FieldFaults)
	advanceCounter(&last.read, now.read, &d.read, have&sensor.FieldIO)
	advanceCounter(&last.write, now.write, &d.write, have&sensor.FieldIO)
	return d
}

func (u *usage) add(d usage) {
	u.user += d.user
	u.system += d.system
	u.wait += d.wait
	u.voluntary += d.voluntary
	u.involun += d.involun
	u.majorFaults += d.majorFaults
	u.read += d.read
	u.write += d.write
}

// subtract subtracts counters that are part of u.
func (u *usage) subtract(d usage) {
	u.user -= d.user
	u.system -= d.system
	u.wait -= d.wait
	u.voluntary -= d.voluntary
	u.involun -= d.involun
	u.majorFaults -= d.majorFaults
	u.read -= d.read
	u.write -= d.write
}

// lacks is a set of figures that lack some threads: one byte of [sensor.Fields].
type lacks uint8

const (
	lackWait lacks = 1 << iota
	lackIO
)

func lacksOf(partial sensor.Fields) (l lacks) {
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

func increase(a, b uint64) uint64 {
	if b > a {
		return b - a
	}
	return 0
}

// split returns the share of total that falls to a, in the ratio a to b.
func split(total, a, b uint64) uint64 {
	if a+b == 0 {
		return total
	}
	return min(total, uint64(float64(total)*(float64(a)/float64(a+b))))
}

// capacity returns an upper bound of the CPU nanoseconds that the machine delivered between boot and the end of the
// pass. A pass takes seconds if hundreds of processes compete for processors. The bound includes a margin of a quarter
// and a tenth of a second, because counters are not read at one instant.
func capacity(elapsed, boot uint64, m *sensor.Machine) uint64 {
	if m == nil {
		return 1 << 62
	}
	return (elapsed+increase(boot, m.Boot))*uint64(max(m.Cores, 1))*5/4 + 1e8
}

// isZombie reports whether the process has no thread left.
func isZombie(p *sensor.Process) bool { return p.State == 'Z' && p.Threads <= 1 }
