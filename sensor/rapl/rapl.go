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
	"time"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Source reads the zones of one machine.
type Source struct {
	zones  []*powerZone
	events []*openedEvent // instead of zones, if those cannot be read
	now    func() time.Time
}

type powerZone struct {
	path  string
	file  *os.File
	meter sensor.Meter
	dir   string      // of the zone that limits it: its own, or the package that it is part of
	most  float64     // watts
	total energyTotal // µJ
	buf   [32]byte
}

// energyTotal is the sum of a register since the start, with wraps corrected and without implausible readings.
type energyTotal struct {
	sensor.Register
	sum    float64
	primed bool
}

func (t *energyTotal) add(now time.Time, device string, raw, maxRate float64) error {
	if !t.primed {
		t.sum, t.primed = raw, true
	}
	rise, err := t.Add(now, "energy", device, raw, maxRate)
	t.sum += rise
	return err
}

// Open opens the powercap zones below root, which is "" or "/" for this machine. Without zones it opens the events of
// the power PMU. It returns sensor.ErrUnavailable if it can read neither.
func Open(root string) (*Source, error) {
	s, err := openZones(root)
	if err == nil {
		return s, nil
	}
	list, perf := openEvents(root, openPerf)
	if perf == nil && !anyHasCounted(list) {
		_ = (&Source{events: list}).Close()
		perf = sensor.Unavailable("the energy counters stay at zero, as in a virtual machine",
			"measure the energy on the host, or load a power model", nil)
	}
	if perf == nil {
		return &Source{events: list, now: time.Now}, nil
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
	s := &Source{now: time.Now}
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
	s.zones = dropDuplicates(s.zones)
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

// openZone opens one zone. It returns nil without an error for an unused zone.
func openZone(dir, name string) (*powerZone, error) {
	path := filepath.Join(dir, name)
	label, err := readLine(filepath.Join(path, "name"))
	if err != nil {
		return nil, err
	}
	domain, number := classifyZone(label)
	if domain == "" {
		return nil, nil
	}
	if number == "" { // dram, core and uncore are below the package of their number
		parent := name[:strings.LastIndexByte(name, ':')]
		if above, err := readLine(filepath.Join(dir, parent, "name")); err == nil {
			_, number = classifyZone(above)
		}
	}
	if number == "" {
		number = "0"
	}
	z := &powerZone{path: filepath.Join(path, "energy_uj"), meter: sensor.Meter{Domain: domain, Zone: number, HasJoules: true}}
	if s, err := readLine(filepath.Join(path, "max_energy_range_uj")); err == nil {
		z.total.Wrap, _ = strconv.ParseFloat(s, 64)
	}
	z.dir = path
	if domain == sensor.DomainCore || domain == sensor.DomainUncore {
		z.dir = filepath.Join(dir, name[:strings.LastIndexByte(name, ':')])
	}
	z.most = powerLimit(z.dir)
	if z.file, err = os.Open(z.path); err != nil {
		return nil, err
	}
	if _, err := z.read(); err != nil {
		_ = z.file.Close()
		return nil, err
	}
	return z, nil
}

// powerLimit returns the power that a zone can not exceed, by the limits that it states. A limit may be raised at any time.
func powerLimit(dir string) float64 {
	names, _ := filepath.Glob(filepath.Join(dir, "constraint_*_uw")) // power_limit and max_power of each
	stated := make([]float64, len(names))
	for i, n := range names {
		stated[i] = sysfs.Micro(n)
	}
	return sensor.PowerLimit(stated...)
}

// classifyZone returns the domain for the name of a zone and, for packages, its number.
func classifyZone(name string) (d sensor.Domain, number string) {
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

// dropDuplicates drops zones that measure the same as another zone. The interface intel-rapl-mmio lists the package a second
// time.
func dropDuplicates(zones []*powerZone) []*powerZone {
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
	now := s.now()
	dst, failed := readEvents(s.events, dst, now)
	for _, z := range s.zones {
		raw, err := z.read()
		if err == nil {
			if err = z.total.add(now, z.path, float64(raw), z.most*1e6); err != nil {
				z.most = powerLimit(z.dir)
			}
		}
		if err != nil {
			if n, _ := sensor.Implausible(err); n > 0 || failed == nil {
				failed = errors.Join(failed, fmt.Errorf("read %s: %w", z.path, err))
			}
			continue
		}
		if z.total.sum == 0 {
			continue // nothing uses no energy: it does not count
		}
		m := z.meter
		m.Joules = z.total.sum / 1e6
		dst = append(dst, m)
	}
	return dst, failed
}

func (z *powerZone) read() (uint64, error) {
	n, err := z.file.ReadAt(z.buf[:], 0)
	if n == 0 {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return parseCounter(z.buf[:n])
}

// parseCounter reads a decimal number with an optional newline.
func parseCounter(b []byte) (v uint64, err error) {
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
