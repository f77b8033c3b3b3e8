package rapl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Without readable powercap zones, the power PMU counts the same registers (perf_event_open(2),
// /sys/bus/event_source/devices/power). Its counters are 64 bits wide, start at zero when opened,
// and are scaled by the event's file:
//
//	type                     25
//	cpumask                  0,24                   one processor of each package
//	events/energy-pkg        event=0x02
//	events/energy-pkg.scale  2.3283064365386962890625e-10
//	events/energy-pkg.unit   Joules
const pmuDir = "sys/bus/event_source/devices/power"

// pmuEvents are the events of the power PMU and their domains.
var pmuEvents = []struct {
	name   string
	domain sensor.Domain
}{
	{"energy-pkg", sensor.DomainPackage},
	{"energy-ram", sensor.DomainDRAM},
	{"energy-cores", sensor.DomainCore},
	{"energy-gpu", sensor.DomainUncore},
	{"energy-psys", sensor.DomainPsys},
}

// eventCounter is an open event.
type eventCounter interface {
	Count() (uint64, error)
	Close() error
}

// openedEvent is a counter of one domain of one package.
type openedEvent struct {
	name  string
	count eventCounter
	scale float64 // joules per count
	meter sensor.Meter
	total energyTotal // joules
}

// openEvents opens the events of the power PMU of the machine at root.
func openEvents(root string, open func(typ uint32, config uint64, cpu int) (eventCounter, error)) ([]*openedEvent, error) {
	dir := filepath.Join("/", root, pmuDir)
	text, err := readLine(filepath.Join(dir, "type"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sensor.Unavailable("the kernel has no power PMU", "", err)
	} else if err != nil {
		return nil, fmt.Errorf("read the power PMU: %w", err)
	}
	typ, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("type of the power PMU: %w", err)
	}
	mask, err := readLine(filepath.Join(dir, "cpumask"))
	if err != nil {
		return nil, fmt.Errorf("read the power PMU: %w", err)
	}
	cpus, err := parseCPUList(mask)
	if err != nil {
		return nil, fmt.Errorf("cpumask of the power PMU: %w", err)
	}
	var out []*openedEvent
	var denied, broken error
	for _, e := range pmuEvents {
		spec, err := readLine(filepath.Join(dir, "events", e.name))
		if err != nil {
			continue // this processor does not have it
		}
		config, err := parseEvent(spec)
		if err != nil {
			broken = fmt.Errorf("event %s: %w", e.name, err)
			continue
		}
		scale, err := readScale(filepath.Join(dir, "events", e.name))
		if err != nil {
			broken = err
			continue
		}
		for i, cpu := range cpus {
			if e.domain == sensor.DomainPsys && i > 0 {
				break // there is one platform
			}
			c, err := open(uint32(typ), config, cpu)
			switch {
			case errors.Is(err, fs.ErrPermission):
				denied = err
			case err != nil:
				broken = fmt.Errorf("open %s on processor %d: %w", e.name, cpu, err)
			default:
				out = append(out, &openedEvent{name: e.name, count: c, scale: scale,
					meter: sensor.Meter{Domain: e.domain, Zone: packageOf(root, cpu, i), HasJoules: true}})
			}
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case denied != nil:
		return nil, sensor.Unavailable("no permission to count energy", "grant CAP_PERFMON, or set kernel.perf_event_paranoid to 0", denied)
	case broken != nil:
		return nil, fmt.Errorf("power PMU: %w", broken)
	}
	return nil, sensor.Unavailable("the power PMU has no events", "", nil)
}

// packageOf returns the package number of a processor, or its index in the mask if the file is missing.
func packageOf(root string, cpu, at int) string {
	p, err := readLine(filepath.Join("/", root, "sys/devices/system/cpu", "cpu"+strconv.Itoa(cpu), "topology/physical_package_id"))
	if err != nil || p == "" || p[0] == '-' {
		return strconv.Itoa(at)
	}
	return p
}

// readScale reads the number of joules per count.
func readScale(path string) (float64, error) {
	unit, err := readLine(path + ".unit")
	if err == nil && unit != "Joules" {
		return 0, fmt.Errorf("%s counts in %q, want Joules", path, unit)
	}
	text, err := readLine(path + ".scale")
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) || v > 1 {
		return 0, fmt.Errorf("%s.scale: %q is no scale", path, text)
	}
	return v, nil
}

// parseEvent reads "event=0x02" or "event=0x02,umask=0x01".
func parseEvent(s string) (config uint64, err error) {
	for term := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(term), "=")
		n, err := strconv.ParseUint(v, 0, 8)
		switch {
		case !ok || err != nil:
			return 0, fmt.Errorf("%q is no event", s)
		case k == "event":
			config |= n
		case k == "umask":
			config |= n << 8
		default:
			return 0, fmt.Errorf("%q has a term %q that is not known", s, k)
		}
	}
	return config, nil
}

// maxListedCPUs is the maximum number of processors in a list.
const maxListedCPUs = 1 << 16

// parseCPUList reads a list of processors, "0,24" or "0-1".
func parseCPUList(s string) (cpus []int, err error) {
	for r := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		first, last, isRange := strings.Cut(r, "-")
		a, err := strconv.Atoi(first)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b >= maxListedCPUs || len(cpus)+b-a >= maxListedCPUs {
			return nil, fmt.Errorf("%q is no list of processors", s)
		}
		for ; a <= b; a++ {
			cpus = append(cpus, a)
		}
	}
	return cpus, nil
}

// perfCounter is a counter of the kernel.
type perfCounter struct {
	fd  int
	buf [8]byte
}

// openPerf opens an event for everything that runs on a processor.
func openPerf(typ uint32, config uint64, cpu int) (eventCounter, error) {
	attr := unix.PerfEventAttr{Type: typ, Config: config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	return &perfCounter{fd: fd}, nil
}

// Count implements counter.
func (c *perfCounter) Count() (uint64, error) {
	n, err := unix.Read(c.fd, c.buf[:])
	if err != nil {
		return 0, err
	}
	if n != len(c.buf) {
		return 0, fmt.Errorf("%d bytes, want %d", n, len(c.buf))
	}
	return binary.NativeEndian.Uint64(c.buf[:]), nil
}

// Close implements counter.
func (c *perfCounter) Close() error { return unix.Close(c.fd) }

// maxFirstWait is the maximum wait for the first count. Processors count each millisecond, platforms more slowly.
const maxFirstWait = 100 * time.Millisecond

// anyHasCounted reports whether one of the events counts. All counters start at zero. Some virtual machines list the
// events but lack the registers, so their counters stay at zero.
func anyHasCounted(list []*openedEvent) bool {
	for waited := time.Duration(0); waited < maxFirstWait; waited += maxFirstWait / 10 {
		for _, e := range list {
			if n, err := e.count.Count(); err != nil || n > 0 {
				return true // an error is for the first reading to report
			}
		}
		time.Sleep(maxFirstWait / 10)
	}
	return false
}

// readEvents appends the readings of the events that have counted something.
func readEvents(list []*openedEvent, dst []sensor.Meter, now time.Time) ([]sensor.Meter, error) {
	var failed error
	for _, e := range list {
		n, err := e.count.Count()
		m := e.meter
		if err == nil {
			err = e.total.add(now, e.name, float64(n)*e.scale, sensor.MaxWatts)
		}
		if m.Joules = e.total.sum; err != nil {
			failed = errors.Join(failed, fmt.Errorf("read %s of package %s: %w", e.name, e.meter.Zone, err))
			continue
		}
		if n == 0 {
			continue // nothing uses no energy: it does not count
		}
		dst = append(dst, m)
	}
	return dst, failed
}
