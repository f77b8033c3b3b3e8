package node

import (
	"errors"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Machine reads the machine totals that workloads are compared with. It implements [sensor.MachineReader].
type Machine struct {
	stat, meminfo *kernelFile
	last          [8]uint64 // ticks, so that no mode decreases
}

// NewMachine opens /proc/stat and /proc/meminfo below root, "" for "/".
func NewMachine(root string) (*Machine, error) {
	stat, err := openFile(root, "proc/stat")
	if err != nil {
		return nil, err
	}
	meminfo, err := openFile(root, "proc/meminfo")
	if err != nil {
		return nil, errors.Join(err, stat.Close())
	}
	return &Machine{stat: stat, meminfo: meminfo}, nil
}

// Close closes the files.
func (r *Machine) Close() error { return errors.Join(r.stat.Close(), r.meminfo.Close()) }

// ReadMachine fills m without allocating. CPU times never decrease; their resolution is 10 ms.
func (r *Machine) ReadMachine(m *sensor.Machine) error {
	*m = sensor.Machine{}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return err
	}
	t, err := r.stat.read()
	if err != nil {
		return err
	}
	f, cores, ok := parseTotals(t)
	if !ok {
		return r.stat.malformedError("no line cpu")
	}
	const tick = 1e9 / userHZ
	for i, into := range []*uint64{&m.User, &m.Nice, &m.System, &m.Idle, &m.IOWait, &m.IRQ, &m.SoftIRQ, &m.Steal} {
		r.last[i] = monotonic(r.last[i], f[i])
		*into = r.last[i] * tick
	}
	m.Forks = parseForks(t)
	if t, err = r.meminfo.read(); err != nil {
		return err
	}
	if ok = parseMemoryTotals(t, m); !ok {
		return r.meminfo.malformedError("no MemTotal or MemAvailable")
	}
	m.Boot, m.Cores = uint64(ts.Nano()), cores
	return nil
}

// parseTotals reads the line of all processors and counts those online.
func parseTotals(t []byte) (f [8]uint64, cores int, ok bool) {
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		if len(l) < 4 || string(l[:3]) != "cpu" {
			break // they are the first lines
		}
		if l[3] == ' ' {
			ok = parseNumbers(l[4:], f[:]) >= 4
			continue
		}
		cores++
	}
	return f, cores, ok && cores > 0
}

// parseForks returns the number of processes and threads created since boot, or 0 if it is missing.
func parseForks(t []byte) uint64 {
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		if key, rest := sysfs.Field(l); string(key) == "processes" {
			w, _ := sysfs.Field(rest)
			v, _ := sysfs.Unsigned(w)
			return v
		}
	}
	return 0
}

// parseMemoryTotals parses MemTotal, MemAvailable (since 3.14) and, if present, AnonPages, Mapped and Shmem of /proc/meminfo, in bytes.
func parseMemoryTotals(t []byte, m *sensor.Machine) (ok bool) {
	found := 0
	for len(t) > 0 && found < 5 {
		var l []byte
		l, t = sysfs.Line(t)
		key, rest := sysfs.Field(l)
		var into *uint64
		switch string(key) {
		case "MemTotal:":
			into = &m.MemoryTotal
		case "MemAvailable:":
			into = &m.MemoryAvailable
		case "AnonPages:":
			into = &m.MemoryAnon
		case "Mapped:": // it comes after the others
			if found < 2 {
				return false
			}
			into = &m.MemoryMapped
		case "Shmem:":
			into = &m.MemoryShared
		default:
			continue
		}
		w, _ := sysfs.Field(rest)
		v, valid := sysfs.Unsigned(w)
		if !valid || v > (1<<64-1)>>10 {
			return false
		}
		*into = v << 10
		found++
	}
	return found >= 2
}
