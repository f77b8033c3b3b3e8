// Package rapl reads the energy counters of processor packages, memory and platform from
// the kernel's power capping framework (Documentation/power/powercap/powercap.rst,
// Documentation/ABI/testing/sysfs-class-powercap):
//
//	/sys/class/powercap/intel-rapl:0/name                 package-0
//	/sys/class/powercap/intel-rapl:0/energy_uj            262143328850
//	/sys/class/powercap/intel-rapl:0/max_energy_range_uj  262143328850
//	/sys/class/powercap/intel-rapl:0:2/name               dram
//
// AMD processors since family 17h appear under the same names. Energy is in microjoules
// and wraps after max_energy_range_uj; a [Source] corrects that as long as it is read
// more often than the counter wraps (some 20 minutes at 200 W).
//
// Since Linux 5.10 only root may read the counters (CVE-2020-8694). A Source is used from
// one goroutine.
package rapl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Source reads the zones of one machine.
type Source struct {
	zones  []*zone
	events []*event // instead of zones, if those cannot be read
}

type zone struct {
	path   string
	file   *os.File
	meter  sensor.Meter
	span   uint64 // µJ after which the counter wraps, 0 if unknown
	last   uint64
	total  uint64 // µJ with wraps corrected
	primed bool
	buf    [32]byte
}

// Open finds the zones below root, "" or "/" for our own machine, or, without zones, the
// events of the power PMU. It returns sensor.ErrUnavailable if there are neither, or none
// is readable.
func Open(root string) (*Source, error) {
	s, err := openZones(root)
	if err == nil {
		return s, nil
	}
	list, perf := openEvents(root, openPerf)
	if perf == nil && !counts(list) {
		_ = (&Source{events: list}).Close()
		perf = sensor.Unavailable("the energy counters stay at zero, as in a virtual machine",
			"measure the energy on the host, or load a power model", nil)
	}
	if perf == nil {
		return &Source{events: list}, nil
	}
	var zones, pmu *sensor.UnavailableError
	if errors.As(err, &zones) && errors.As(perf, &pmu) && pmu.Fix != "" {
		if zones.Fix == "" { // no zones at all: the remedy concerns the events
			return nil, perf
		}
		return nil, sensor.Unavailable(zones.Reason, zones.Fix+"; or "+pmu.Fix, zones.Err)
	}
	return nil, err
}

// openZones finds the zones below root.
func openZones(root string) (*Source, error) {
	dir := filepath.Join("/", root, "sys/class/powercap")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sensor.Unavailable("the kernel shows no power capping zones", "", err)
	} else if err != nil {
		return nil, fmt.Errorf("list RAPL zones: %w", err)
	}
	s := new(Source)
	var denied, broken error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "intel-rapl") || !strings.Contains(e.Name(), ":") {
			continue // a control type or another kind of zone
		}
		z, err := openZone(dir, e.Name())
		switch {
		case errors.Is(err, fs.ErrPermission):
			denied = err
		case err != nil:
			broken = err
		case z != nil:
			s.zones = append(s.zones, z)
		}
	}
	s.zones = distinct(s.zones)
	switch {
	case len(s.zones) > 0:
		return s, nil
	case denied != nil:
		return nil, sensor.Unavailable("no permission to read the energy counters",
			"run as root, grant CAP_DAC_READ_SEARCH, or let a udev rule make energy_uj readable", denied)
	case broken != nil:
		return nil, fmt.Errorf("open RAPL zones: %w", broken)
	}
	return nil, sensor.Unavailable("no RAPL zones: not an Intel or AMD processor, or a virtual machine", "", nil)
}

// openZone opens one zone; nil without an error is a zone that is not used.
func openZone(dir, name string) (*zone, error) {
	path := filepath.Join(dir, name)
	label, err := readLine(filepath.Join(path, "name"))
	if err != nil {
		return nil, err
	}
	domain, number := classify(label)
	if domain == "" {
		return nil, nil
	}
	if number == "" { // dram, core and uncore are below the package of their number
		parent := name[:strings.LastIndexByte(name, ':')]
		if above, err := readLine(filepath.Join(dir, parent, "name")); err == nil {
			_, number = classify(above)
		}
	}
	if number == "" {
		number = "0"
	}
	z := &zone{path: filepath.Join(path, "energy_uj"), meter: sensor.Meter{Domain: domain, Zone: number, HasJoules: true}}
	if s, err := readLine(filepath.Join(path, "max_energy_range_uj")); err == nil {
		z.span, _ = strconv.ParseUint(s, 10, 64)
	}
	if z.file, err = os.Open(z.path); err != nil {
		return nil, err
	}
	if _, err := z.read(); err != nil {
		_ = z.file.Close()
		return nil, err
	}
	return z, nil
}

// classify returns the domain for the name of a zone and, for packages, its number.
func classify(name string) (d sensor.Domain, number string) {
	switch {
	case strings.HasPrefix(name, "package-"):
		number = strings.TrimPrefix(name, "package-")
		number, _, _ = strings.Cut(number, "-") // package-0-die-1: one meter for each die
		if rest := strings.TrimPrefix(name, "package-"); rest != number {
			number = rest
		}
		return sensor.DomainPackage, number
	case name == "core":
		return sensor.DomainCore, ""
	case name == "uncore":
		return sensor.DomainUncore, ""
	case name == "dram":
		return sensor.DomainDRAM, ""
	case name == "psys":
		return sensor.DomainPsys, "0"
	}
	return "", ""
}

// distinct drops zones that measure the same as another one: the memory-mapped interface
// (intel-rapl-mmio) lists the package a second time.
func distinct(zones []*zone) []*zone {
	sort.SliceStable(zones, func(i, j int) bool {
		return !strings.Contains(zones[i].path, "-mmio") && strings.Contains(zones[j].path, "-mmio")
	})
	seen := make(map[[2]string]bool)
	kept := zones[:0]
	for _, z := range zones {
		k := [2]string{string(z.meter.Domain), z.meter.Zone}
		if seen[k] {
			_ = z.file.Close()
			continue
		}
		seen[k] = true
		kept = append(kept, z)
	}
	return kept
}

// Name implements sensor.MeterSource.
func (s *Source) Name() string { return "rapl" }

// ReadMeters implements sensor.MeterSource.
func (s *Source) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	dst, failed := readEvents(s.events, dst)
	for _, z := range s.zones {
		now, err := z.read()
		if err != nil {
			if failed == nil {
				failed = fmt.Errorf("read %s: %w", z.path, err)
			}
			continue
		}
		if z.advance(now); z.total == 0 {
			continue // nothing uses no energy: it does not count
		}
		m := z.meter
		m.Joules = float64(z.total) / 1e6
		dst = append(dst, m)
	}
	return dst, failed
}

// advance adds the energy since the last reading.
func (z *zone) advance(now uint64) {
	switch {
	case !z.primed:
		z.total, z.primed = now, true
	case now >= z.last:
		z.total += now - z.last
	case z.span > z.last && z.span-z.last+now <= z.span/2:
		z.total += z.span - z.last + now // wrapped
	case z.span == 0 || z.last > z.span:
		z.total += now // reset, from an unknown value
	} // otherwise it decreased: a wrap by more than half the range is implausible, and counts nothing
	z.last = now
}

func (z *zone) read() (uint64, error) {
	n, err := z.file.ReadAt(z.buf[:], 0)
	if n == 0 {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return parse(z.buf[:n])
}

// parse reads a decimal number with an optional newline.
func parse(b []byte) (v uint64, err error) {
	v, rest, ok := sysfs.Uint(b)
	if !ok || v > 1<<63 || len(rest) > 0 && rest[0] != '\n' {
		return 0, fmt.Errorf("%q is no energy in microjoules", b)
	}
	return v, nil
}

// Close closes the zones.
func (s *Source) Close() error {
	var errs []error
	for _, z := range s.zones {
		errs = append(errs, z.file.Close())
	}
	for _, e := range s.events {
		errs = append(errs, e.count.Close())
	}
	s.zones, s.events = nil, nil
	return errors.Join(errs...)
}

func readLine(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}
