// Package cray reads the energy that the blade controller of HPE Cray EX and older Cray systems
// publishes ten times a second (the man page of pm_counters):
//
//	/sys/cray/pm_counters/energy        4711 J      the node
//	/sys/cray/pm_counters/power         312 W
//	/sys/cray/pm_counters/cpu_energy    and memory_energy, accel0_energy ... (EX)
//	/sys/cray/pm_counters/freshness     123456      grows with every update
//	/sys/cray/pm_counters/generation    17          changes when the power cap is changed
//
// A controller that hangs leaves the last values in place, so meters are valid only while freshness
// increases. After [MaxAge] without an update there are no meters. Freshness is read before and
// after, and values updated in between are read once more, so that energy and power come from one
// update.
//
// Joules and watts, as in the files. A Sensor is used from one goroutine.
package cray

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// MaxAge is the maximum time without an update: thirty updates, or three readings.
const MaxAge = 3 * time.Second

var (
	freshness = &metric.Desc{Name: "reckon_cray_freshness_total", Kind: metric.Counter,
		Help: "Updates of pm_counters by the blade controller; without updates there are no meters."}
	generation = &metric.Desc{Name: "reckon_cray_generation", Kind: metric.Gauge,
		Help: "Generation of pm_counters; it changes when a power cap is changed."}
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return append(sensor.MeterDescs(), freshness, generation) }

// Sensor reads the counters of one node.
type Sensor struct {
	dir        string
	domains    []*domainFiles
	freshness  *sysfs.File
	generation *sysfs.File
	last       int64
	moved      time.Time
	meters     []sensor.Meter
	series     sensor.MeterSeries
	rows       [2]*metric.Series
	now        func() time.Time
}

type domainFiles struct {
	domain        sensor.Domain
	zone          string
	energy, power *sysfs.File
	cap           *sysfs.File // watts, 0 for none
	total         sensor.Odometer
}

func (d *domainFiles) powerLimit() float64 {
	if d.cap == nil {
		return 0
	}
	w, _ := d.cap.Int()
	return float64(w)
}

// New opens the counters below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	dir := sysfs.Path(root, "sys/cray/pm_counters")
	f, err := sysfs.Open(filepath.Join(dir, "freshness"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, sensor.Unavailable("not a Cray", "", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, sensor.Unavailable("no permission to read pm_counters", "run as root, or make "+dir+" readable", err)
	case err != nil:
		return nil, fmt.Errorf("open pm_counters: %w", err)
	}
	s := &Sensor{dir: dir, freshness: f, now: time.Now, rows: [2]*metric.Series{metric.NewSeries(freshness), metric.NewSeries(generation)}}
	s.generation, _ = sysfs.Open(filepath.Join(dir, "generation")) // not everywhere
	names, _ := filepath.Glob(filepath.Join(dir, "*energy"))
	slices.Sort(names)
	for _, n := range names {
		base := filepath.Base(n)
		d, zone, ok := classifyFile(base)
		if !ok {
			continue
		}
		energy, err := sysfs.Open(n)
		if err != nil {
			continue
		}
		power, _ := sysfs.Open(filepath.Join(dir, strings.TrimSuffix(base, "energy")+"power"))
		limit, _ := sysfs.Open(filepath.Join(dir, strings.TrimSuffix(base, "energy")+"power_cap"))
		s.domains = append(s.domains, &domainFiles{domain: d, zone: zone, energy: energy, power: power, cap: limit})
	}
	if len(s.domains) == 0 {
		_ = s.Close()
		return nil, sensor.Unavailable("pm_counters has no energy that can be read", "run as root", errors.New("nothing in "+dir))
	}
	return s, nil
}

// classifyFile returns the domain and zone of an energy file.
func classifyFile(name string) (d sensor.Domain, zone string, ok bool) {
	part, found := strings.CutSuffix(name, "_energy")
	switch {
	case name == "energy":
		return sensor.DomainBoard, "node", true
	case !found:
		return "", "", false
	case strings.HasPrefix(part, "cpu"):
		return sensor.DomainPackage, numberAfter(part, "cpu"), true
	case strings.HasPrefix(part, "memory"):
		return sensor.DomainDRAM, numberAfter(part, "memory"), true
	case strings.HasPrefix(part, "accel"):
		return sensor.DomainGPU, part, true
	}
	return sensor.DomainRail, part, true
}

// numberAfter returns the number after a prefix; cpu_energy alone counts all packages.
func numberAfter(part, prefix string) string {
	if n := strings.TrimPrefix(part, prefix); n != "" {
		return n
	}
	return "all"
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "cray" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	begin := len(dst)
	for try := 0; ; try++ {
		before, err := s.freshness.Int()
		if err != nil {
			return dst, fmt.Errorf("read freshness: %w", err)
		}
		if now := s.now(); before != s.last || s.moved.IsZero() {
			s.last, s.moved = before, now
		} else if now.Sub(s.moved) > MaxAge {
			return dst, fmt.Errorf("read %s: the blade controller has not updated it for more than %v (freshness stands at %d)", s.dir,
				MaxAge, before)
		}
		dst, err = s.readDomains(dst[:begin])
		if after, bad := s.freshness.Int(); bad == nil && after != before && try == 0 {
			continue // an update came in between
		}
		return dst, err
	}
}

func (s *Sensor) readDomains(dst []sensor.Meter) ([]sensor.Meter, error) {
	var failed error
	for _, d := range s.domains {
		joules, err := d.energy.Int()
		m := sensor.Meter{Domain: d.domain, Zone: d.zone}
		if err == nil {
			m.Joules, err = d.total.Add(s.now(), "energy", d.zone, float64(joules), sensor.PowerLimit(d.powerLimit()))
			m.HasJoules = err == nil
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("read %s: %w", d.energy.Path(), err))
		}
		if d.power != nil {
			if w, err := d.power.Int(); err == nil && w > 0 && w < sensor.MaxWatts {
				m.Watts, m.HasWatts = float64(w), m.HasJoules
			}
		}
		if m.HasJoules {
			dst = append(dst, m)
		}
	}
	return dst, failed
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.ReadMeters(s.meters[:0])
	s.series.Append(b, s.meters)
	if s.last >= 0 {
		b.Add(s.rows[0], float64(s.last))
	}
	if s.generation != nil {
		if g, bad := s.generation.Int(); bad == nil {
			b.Add(s.rows[1], float64(g))
		}
	}
	return err
}

// Close closes the files.
func (s *Sensor) Close() error {
	errs := []error{s.freshness.Close(), s.generation.Close()}
	for _, d := range s.domains {
		errs = append(errs, d.energy.Close(), d.power.Close(), d.cap.Close())
	}
	return errors.Join(errs...)
}
