package attribution

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"reckon/sensor"
)

// Source holds the readings of the meters of one source in a tick. Failed readings are absent.
type Source struct {
	Name   string
	Meters []sensor.Meter
	// Model marks figures from a power model. They count only while there is no measurement and,
	// unless Named, only if there never was one, because a figure that switches from a meter to a
	// model is not comparable over time. Idle is then the modelled idle power of the machine in
	// watts, and GPU means that it includes GPUs.
	Model bool
	Named bool
	Idle  float64
	GPU   bool
}

// Load is the activity of the machine since the previous tick.
type Load struct {
	// Boot is the time of the tick, in nanoseconds since boot.
	Boot uint64
	// CPU is the busy fraction of the processors' time, NaN when unknown.
	CPU float64
	// Packages is the CPU time spent on each package, by its number; nil when unknown.
	Packages []float64
	// Devices returns the fraction of time that a GPU computed, by the zone of its meter, or false if unknown.
	Devices func(zone string) (busy float64, ok bool)
}

const (
	// maxWatts limits the power of a reading. The sensors apply the same limit ([sensor.Register]).
	maxWatts = sensor.MaxWatts
	// deadAfter is the time without a reading, in nanoseconds, after which a meter is ignored.
	deadAfter = uint64(10e9)
	// stalledAfter is the time in nanoseconds after which a counter that does not increase under load is ignored.
	stalledAfter = uint64(60e9)
	// maxBridge is the longest time without a reading, in nanoseconds, over which power is integrated.
	maxBridge = uint64(60e9)
	// minLoad is the minimum utilisation at which a meter must show an increase.
	minLoad = 0.05
	// maxImplausible is the number of implausible readings in a row after which the counter is taken as restarted.
	maxImplausible = 3
	// idleGap is the number of unused seconds after which a stream starts again.
	idleGap = 60.0
	// maxMeterLead limits how far the energy of narrow meters may be ahead of the wide meter that includes them, in seconds
	// of their power. The hardware updates meters at different instants.
	maxMeterLead = 120.0
)

// Meters converts readings into streams. The zero value is ready.
type Meters struct {
	gauges  map[gaugeKey]*gauge
	picks   map[sensor.Domain]string // the source in use
	streams []Stream
	index   map[streamKey]int
	// modelled reports that a model was in use in the previous tick.
	modelled bool
	wide     wideMeter // the last one in use
	debt     float64   // joules that narrow meters counted ahead of the wide one
	last     uint64
	problem  string
	resumed  bool // restored, and no tick since
}

type streamKey struct{ domain, zone, method string }

// wideMeter is a meter that includes others.
type wideMeter struct {
	source string
	psys   bool
}

// sourcePreference lists the sources that measure the same power, the best first. Counters in the device come before sensors
// beside it, and local sources before remote ones. Unlisted sources follow in the given order.
var sourcePreference = []string{"rapl", "nvml", "amdgpu", "drm", "cray", "tegra", "hwmon", "redfish", "battery", "host"}

// deviceSources lists the sources that identify single GPUs. All of them are used, because each covers only the GPUs of its
// vendor. GPU readings of other sources are ignored once a node has one of these.
var deviceSources = []string{"nvml", "amdgpu", "drm", "tegra"}

// Streams returns all streams so far, with their energy of the last tick.
func (m *Meters) Streams() []Stream { return m.streams }

// Measures reports whether any energy is measured or modelled.
func (m *Meters) Measures() bool { return len(m.picks) > 0 }

// Modelled reports whether a model was in use in the last tick.
func (m *Meters) Modelled() bool { return m.modelled }

// Problem describes the fault of an ignored meter, or returns "".
func (m *Meters) Problem() string { return m.problem }

// Advance records the readings of a tick. sources must be in the same order each time.
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
	m.readGauges(&l, sources)
	for _, d := range [...]sensor.Domain{sensor.DomainPackage, sensor.DomainDRAM, sensor.DomainPsys, sensor.DomainGPU, sensor.DomainBoard} {
		m.selectSource(d, sources)
	}
	for i := range m.streams {
		m.streams[i].addWaiting(seconds, &l)
		if m.resumed {
			m.streams[i].unseen = 0 // nothing was observed while the agent was down
		}
	}
	m.addTick(sources)
	for k, g := range m.gauges {
		if !g.alive && !m.resumed && m.isCovered(k) {
			g.covered = true
		}
	}
	m.resumed = false
	return m.streams
}

// readGauges brings the gauges up to date.
func (m *Meters) readGauges(l *Load, sources []Source) {
	for k, g := range m.gauges {
		g.delta, g.came, g.resync = 0, false, false
		g.alive = g.primed && l.Boot-g.at <= deadAfter
		if g.alive && k.domain != sensor.DomainGPU {
			g.excludeIfStalled(l)
		}
		if g.alive && g.still {
			g.alive = false
			if g.proven { // otherwise it is a zone without a sensor rather than a failed meter
				m.keepProblem(k, "has not moved for a minute under load")
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
				continue // core, uncore and rails are included in a meter that counts
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
				m.keepProblem(k, why)
			}
		}
	}
}

// isCovered reports whether another meter counts the same energy.
func (m *Meters) isCovered(k gaugeKey) bool {
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

func (m *Meters) keepProblem(k gaugeKey, reason string) {
	if m.problem == "" {
		m.problem = strings.TrimSpace(fmt.Sprintf("%s %s %s", k.source, k.domain, k.zone)) + " " + reason
	}
}

// selectSource selects the source of a domain. It stays with a source while the source works.
func (m *Meters) selectSource(d sensor.Domain, sources []Source) {
	now := m.picks[d]
	best, rank := "", math.MaxInt
	for i := range sources {
		s := &sources[i]
		if !m.hasWorkingMeter(s.Name, d) || (s.Model && (m.isMetered(sources) || !s.Named && m.wasEverMetered(sources))) {
			continue
		}
		if s.Name == now {
			best = now
			break
		}
		if r := sourceRank(s.Name, i); r < rank {
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

func sourceRank(name string, position int) int {
	if i := slices.Index(sourcePreference, name); i >= 0 {
		return i
	}
	return len(sourcePreference) + position
}

// hasWorkingMeter reports whether a source has a working meter of the domain.
func (m *Meters) hasWorkingMeter(source string, d sensor.Domain) bool {
	for k, g := range m.gauges {
		if k.source == source && k.domain == d && g.alive {
			return true
		}
	}
	return false
}

// isMetered reports whether a meter other than a model covers processors or the board.
func (m *Meters) isMetered(sources []Source) bool {
	for i := range sources {
		if s := &sources[i]; !s.Model &&
			(m.hasWorkingMeter(s.Name, sensor.DomainPackage) || m.hasWorkingMeter(s.Name, sensor.DomainPsys) || m.hasWorkingMeter(s.Name,
				sensor.DomainBoard)) {
			return true
		}
	}
	return false
}

// wasEverMetered reports whether a meter other than a model has ever covered processors or the board.
func (m *Meters) wasEverMetered(sources []Source) bool {
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

// isUsed reports whether the meters of a source are used in a domain.
func (m *Meters) isUsed(source string, d sensor.Domain) bool {
	if d == sensor.DomainGPU && slices.Contains(deviceSources, m.picks[d]) {
		return slices.Contains(deviceSources, source)
	}
	return m.picks[d] == source
}

// meterReading is the energy counted in a reading.
type meterReading struct {
	cpu, gpu         float64 // of narrow meters
	haveCPU, haveGPU bool
	wide             float64 // of the meter of the whole machine
	wideCame         bool
	model            *Source // of the whole machine, if it is one
	modelled         bool
}

// readMeters adds the energy of the narrow meters to the streams, and returns the sums over all meters. wide is the name of the
// source of the wide meter, and widePsys reports whether that is psys.
func (m *Meters) readMeters(sources []Source, wide string, widePsys bool) (c meterReading) {
	for i := range sources {
		s := &sources[i]
		var by *Source // the model, if it is one
		if s.Model {
			by = s
		}
		for j := range s.Meters {
			r := &s.Meters[j]
			g := m.gauges[gaugeKey{s.Name, r.Domain, r.Zone}]
			if g == nil || !m.isUsed(s.Name, r.Domain) {
				continue
			}
			switch r.Domain {
			case sensor.DomainPackage, sensor.DomainDRAM:
				c.haveCPU, c.cpu = true, c.cpu+g.delta
				m.addEnergy(string(r.Domain), r.Zone, g.delta, g.came, by)
				c.modelled = c.modelled || s.Model
			case sensor.DomainGPU:
				c.haveGPU, c.gpu = true, c.gpu+g.delta
				m.addEnergy(string(r.Domain), r.Zone, g.delta, g.came, nil)
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

// addTick adds the energy of a tick to the streams.
func (m *Meters) addTick(sources []Source) {
	wide, widePsys := m.picks[sensor.DomainBoard], false
	if wide == "" {
		wide, widePsys = m.picks[sensor.DomainPsys], m.picks[sensor.DomainPsys] != ""
	}
	c := m.readMeters(sources, wide, widePsys)
	m.modelled = c.modelled
	if wide == "" { // it may return, and will have counted the energy of the narrow ones
		m.debt = max(m.debt-c.cpu-c.gpu, -maxMeterLead*m.narrowWatts())
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
		m.debt = max(rest, -maxMeterLead*m.narrowWatts())
		m.addEnergy(domain, "", 0, false, c.model)
		return
	}
	m.debt = 0
	m.addEnergy(domain, "", rest, true, c.model)
}

// narrowWatts returns the power of the narrow streams at their last readings, at least 1 W.
func (m *Meters) narrowWatts() float64 {
	w := 1.0
	for i := range m.streams {
		if s := &m.streams[i]; s.Domain == string(sensor.DomainPackage) || s.Domain == string(sensor.DomainDRAM) ||
			s.Domain == string(sensor.DomainGPU) {
			w += s.watts
		}
	}
	return w
}

// addEnergy adds energy to a stream.
func (m *Meters) addEnergy(domain, zone string, joules float64, came bool, model *Source) {
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
		s.addEnergy(joules, model)
	}
}

// packageOf returns the number of the package in a zone such as "1" or "1-die-0".
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
