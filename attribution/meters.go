package attribution

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"reckon/sensor"
)

// Source is what one source of meters gave in a tick. What it could not read is absent.
type Source struct {
	Name   string
	Meters []sensor.Meter
	// Model says that the figures come from a power model: they count only where nothing
	// measures and, unless Named, nothing ever did: a figure that changes from a meter's to
	// a curve's when the meter fails is no figure of the node. Idle is then what the model
	// gives for an idle machine, in watts, and GPU says that GPUs are in it.
	Model bool
	Named bool
	Idle  float64
	GPU   bool
}

// Load is what the machine did since the previous tick.
type Load struct {
	// Boot is when the tick was, in nanoseconds since boot.
	Boot uint64
	// CPU is the share of the processors' time that was busy, NaN when unknown.
	CPU float64
	// Packages is the CPU time spent on each package, by its number; nil when unknown.
	Packages []float64
	// Devices is the share of its time that a GPU computed, by the zone of its meter.
	// One that is not in it is unknown.
	Devices func(zone string) (busy float64, ok bool)
}

const (
	// mostWatts is more than any node draws: a reading beyond it is a blank or a fault.
	mostWatts = 100e3
	// dead is after how many nanoseconds without a reading a meter counts no more.
	dead = uint64(10e9)
	// stalled is after how many nanoseconds without a move, under load, it does not.
	stalled = uint64(60e9)
	// bridge is over how many nanoseconds without a reading power is integrated.
	bridge = uint64(60e9)
	// loaded is the utilisation from which on a meter has to show something.
	loaded = 0.05
	// patience is how many implausible readings in a row begin a new scale.
	patience = 3
	// idleGap is after how many seconds a stream that did not count begins anew.
	idleGap = 60.0
	// mostDebt is how much narrow meters may be ahead of a wide one, in seconds of what
	// they count: meters are not read by the hardware in the same instant.
	mostDebt = 120.0
)

// Meters turns readings into streams. The zero value is ready.
type Meters struct {
	gauges  map[gaugeKey]*gauge
	picks   map[sensor.Domain]string // which source counts
	streams []Stream
	index   map[streamKey]int
	// modelled says that a model counted in the previous tick.
	modelled bool
	wide     wideMeter // the last one that counted
	debt     float64   // joules that narrow meters counted before the wide one did
	last     uint64
	problem  string
	resumed  bool // restored, and no tick since
}

type streamKey struct{ domain, zone, method string }

// wideMeter is a meter that holds others.
type wideMeter struct {
	source string
	psys   bool
}

// preference is the order in which sources of the same power are believed: counters in
// the device before sensors beside it, and what is near before what is asked over a
// network. Sources that are not in it follow in the order in which they are given.
var preference = []string{"rapl", "nvml", "amdgpu", "drm", "cray", "tegra", "hwmon", "redfish", "battery", "host"}

// devices are the sources that name each GPU: all of them count, as each knows the
// devices of its own vendor only, and then no other source's GPUs do.
var devices = []string{"nvml", "amdgpu", "drm", "tegra"}

// Streams are all streams so far, with what came in the last tick.
func (m *Meters) Streams() []Stream { return m.streams }

// Measures reports whether anything is measured or modelled at all.
func (m *Meters) Measures() bool { return len(m.picks) > 0 }

// Modelled reports whether a model counted in the last tick.
func (m *Meters) Modelled() bool { return m.modelled }

// Problem says what is wrong with a meter that is here and does not count, "" if none.
func (m *Meters) Problem() string { return m.problem }

// Advance takes the readings of a tick. sources come in the same order each time.
func (m *Meters) Advance(l Load, sources []Source) []Stream {
	if m.gauges == nil {
		m.gauges = make(map[gaugeKey]*gauge)
		m.picks = make(map[sensor.Domain]string)
		m.index = make(map[streamKey]int)
	}
	seconds := 0.0
	if m.last != 0 && l.Boot > m.last {
		seconds = float64(l.Boot-m.last) / 1e9
	}
	m.last = l.Boot
	m.problem = ""
	m.read(&l, sources)
	for _, d := range [...]sensor.Domain{sensor.DomainPackage, sensor.DomainDRAM, sensor.DomainPsys, sensor.DomainGPU, sensor.DomainBoard} {
		m.pick(d, sources)
	}
	for i := range m.streams {
		m.streams[i].pass(seconds, &l)
		if m.resumed {
			m.streams[i].unseen = 0 // nobody looked
		}
	}
	m.count(sources)
	for k, g := range m.gauges {
		if !g.alive && !m.resumed && m.covered(k) {
			g.covered = true
		}
	}
	m.resumed = false
	return m.streams
}

// read brings the gauges up to date.
func (m *Meters) read(l *Load, sources []Source) {
	for k, g := range m.gauges {
		g.delta, g.came, g.resync = 0, false, false
		g.alive = g.primed && l.Boot-g.at <= dead
		if g.alive && k.domain != sensor.DomainGPU {
			g.rest(l)
		}
		if g.alive && g.still {
			g.alive = false
			if g.proven { // else it is a zone without a sensor, and no meter that failed
				m.complain(k, "has not moved for a minute under load")
			}
		}
	}
	for i := range sources {
		s := &sources[i]
		for j := range s.Meters {
			r := &s.Meters[j]
			switch r.Domain {
			case sensor.DomainPackage, sensor.DomainDRAM, sensor.DomainPsys, sensor.DomainGPU, sensor.DomainBoard:
			default:
				continue // core, uncore and rails are part of something that counts
			}
			k := gaugeKey{s.Name, r.Domain, r.Zone}
			g := m.gauges[k]
			if g == nil {
				if !r.HasJoules && !r.HasWatts {
					continue
				}
				k.zone = strings.Clone(k.zone)
				g = &gauge{moved: l.Boot}
				m.gauges[k] = g
			}
			if why := g.read(r, l); why != "" {
				m.complain(k, why)
			}
		}
	}
}

// covered reports whether something else counts what a meter would.
func (m *Meters) covered(k gaugeKey) bool {
	if p := m.picks[k.domain]; p != "" && p != k.source {
		return true
	}
	switch k.domain {
	case sensor.DomainPackage, sensor.DomainDRAM:
		return m.modelled || m.picks[sensor.DomainBoard] != "" || m.picks[sensor.DomainPsys] != ""
	case sensor.DomainGPU:
		return m.picks[sensor.DomainBoard] != "" && !m.modelled
	}
	return m.modelled
}

func (m *Meters) complain(k gaugeKey, why string) {
	if m.problem == "" {
		m.problem = strings.TrimSpace(fmt.Sprintf("%s %s %s", k.source, k.domain, k.zone)) + " " + why
	}
}

// pick chooses the source that counts in a domain, and stays with it while it lives.
func (m *Meters) pick(d sensor.Domain, sources []Source) {
	now := m.picks[d]
	best, rank := "", math.MaxInt
	for i := range sources {
		s := &sources[i]
		if !m.lives(s.Name, d) || (s.Model && (m.measured(sources) || !s.Named && m.metered(sources))) {
			continue
		}
		if s.Name == now {
			best = now
			break
		}
		if r := rankOf(s.Name, i); r < rank {
			best, rank = s.Name, r
		}
	}
	switch {
	case best == "":
		delete(m.picks, d)
	case best != now:
		m.picks[d] = best
	}
}

func rankOf(name string, at int) int {
	if i := slices.Index(preference, name); i >= 0 {
		return i
	}
	return len(preference) + at
}

// lives reports whether a source has a meter of the domain that can be believed.
func (m *Meters) lives(source string, d sensor.Domain) bool {
	for k, g := range m.gauges {
		if k.source == source && k.domain == d && g.alive {
			return true
		}
	}
	return false
}

// measured reports whether anything but a model meters processors or the board.
func (m *Meters) measured(sources []Source) bool {
	for i := range sources {
		if s := &sources[i]; !s.Model && (m.lives(s.Name, sensor.DomainPackage) || m.lives(s.Name, sensor.DomainPsys) || m.lives(s.Name, sensor.DomainBoard)) {
			return true
		}
	}
	return false
}

// metered reports whether anything but a model ever metered processors or the board.
func (m *Meters) metered(sources []Source) bool {
	for k, g := range m.gauges {
		if !g.proven || k.domain != sensor.DomainPackage && k.domain != sensor.DomainPsys && k.domain != sensor.DomainBoard {
			continue
		}
		if slices.ContainsFunc(sources, func(s Source) bool { return s.Name == k.source && !s.Model }) {
			return true
		}
	}
	return false
}

// counts reports whether the meters of a source count in a domain.
func (m *Meters) counts(source string, d sensor.Domain) bool {
	if d == sensor.DomainGPU && slices.Contains(devices, m.picks[d]) {
		return slices.Contains(devices, source)
	}
	return m.picks[d] == source
}

// counted is what the meters of a reading counted.
type counted struct {
	cpu, gpu         float64 // of narrow meters
	haveCPU, haveGPU bool
	wide             float64 // of the meter of the whole machine
	wideCame         bool
	model            *Source // of the whole machine, if it is one
	modelled         bool
}

// narrowAndWide gives what narrow meters counted to the streams, and adds up what all counted.
func (m *Meters) narrowAndWide(sources []Source, wide string, widePsys bool) (c counted) {
	for i := range sources {
		s := &sources[i]
		var by *Source // the model, if it is one
		if s.Model {
			by = s
		}
		for j := range s.Meters {
			r := &s.Meters[j]
			g := m.gauges[gaugeKey{s.Name, r.Domain, r.Zone}]
			if g == nil || !m.counts(s.Name, r.Domain) {
				continue
			}
			switch r.Domain {
			case sensor.DomainPackage, sensor.DomainDRAM:
				c.haveCPU, c.cpu = true, c.cpu+g.delta
				m.give(string(r.Domain), r.Zone, g.delta, g.came, by)
				c.modelled = c.modelled || s.Model
			case sensor.DomainGPU:
				c.haveGPU, c.gpu = true, c.gpu+g.delta
				m.give(string(r.Domain), r.Zone, g.delta, g.came, nil)
			case sensor.DomainBoard, sensor.DomainPsys:
				if (r.Domain == sensor.DomainPsys) == widePsys && s.Name == wide {
					if g.resync {
						m.debt = 0
					}
					c.wide, c.wideCame = c.wide+g.delta, c.wideCame || g.came
					if s.Model {
						c.model = s
					}
					c.modelled = c.modelled || s.Model
				}
			}
			g.delta, g.came = 0, false // a meter that is listed twice counts once
		}
	}
	return c
}

// count gives what came to the streams.
func (m *Meters) count(sources []Source) {
	wide, widePsys := m.picks[sensor.DomainBoard], false
	if wide == "" {
		wide, widePsys = m.picks[sensor.DomainPsys], m.picks[sensor.DomainPsys] != ""
	}
	c := m.narrowAndWide(sources, wide, widePsys)
	m.modelled = c.modelled
	if wide == "" { // it may come back, and then it has counted what the narrow ones did
		m.debt = max(m.debt-c.cpu-c.gpu, -mostDebt*m.narrowWatts())
		return
	}
	if now := (wideMeter{wide, widePsys}); now != m.wide {
		m.wide, m.debt = now, 0
	}
	domain, narrow := string(sensor.DomainBoard), c.cpu+c.gpu
	inside := c.haveCPU || c.haveGPU
	if widePsys {
		domain, narrow, inside = string(sensor.DomainPsys), c.cpu, c.haveCPU
	}
	if c.model != nil && !c.model.GPU {
		narrow, inside = 0, false
	}
	if inside {
		domain = Rest
	}
	rest := c.wide - narrow + m.debt
	if !c.wideCame || rest < 0 {
		m.debt = max(rest, -mostDebt*m.narrowWatts())
		m.give(domain, "", 0, false, c.model)
		return
	}
	m.debt = 0
	m.give(domain, "", rest, true, c.model)
}

// narrowWatts is what the narrow streams drew when they last came, at least 1 W.
func (m *Meters) narrowWatts() float64 {
	w := 1.0
	for i := range m.streams {
		if s := &m.streams[i]; s.Domain == string(sensor.DomainPackage) || s.Domain == string(sensor.DomainDRAM) || s.Domain == string(sensor.DomainGPU) {
			w += s.watts
		}
	}
	return w
}

// give adds energy to a stream.
func (m *Meters) give(domain, zone string, joules float64, came bool, model *Source) {
	k := streamKey{domain, zone, ""}
	if model != nil {
		k.method = Modelled
	}
	i, ok := m.index[k]
	if !ok {
		k.domain, k.zone = strings.Clone(domain), strings.Clone(zone)
		i = len(m.streams)
		m.streams = append(m.streams, Stream{Domain: k.domain, Zone: k.zone, Model: model != nil, Package: packageOf(domain, zone)})
		m.index[k] = i
	}
	s := &m.streams[i]
	if s.unseen > idleGap || !ok {
		s.wait, s.load, s.known, s.busy = 0, 0, 0, 0
		s.Anew = true
	}
	s.unseen = 0
	if came {
		s.come(joules, model)
	}
}

// packageOf is the number of the package in a zone such as "1" or "1-die-0".
func packageOf(domain, zone string) int {
	if domain != string(sensor.DomainPackage) && domain != string(sensor.DomainDRAM) {
		return -1
	}
	digits, _, _ := strings.Cut(zone, "-")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 63 {
		return -1
	}
	return n
}
