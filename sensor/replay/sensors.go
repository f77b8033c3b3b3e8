package replay

import (
	"errors"
	"slices"

	"reckon/metric"
	"reckon/sensor"
)

// Sensors returns the sensors of the recording's first pass, under their own names.
func (p *Player) Sensors() []sensor.Sensor {
	var out []sensor.Sensor
	for _, r := range p.first.Sensors {
		s := &recordedSensor{p: p, name: r.Sensor}
		for _, x := range r.Samples {
			s.addDesc(x.Series.Desc)
		}
		switch meters := len(s.meters(nil, r.Samples)) > 0; {
		case r.GPU != nil && meters:
			out = append(out, &recordedGPUMeterSensor{&recordedGPUSensor{s}})
		case r.GPU != nil:
			out = append(out, &recordedGPUSensor{s})
		case meters:
			out = append(out, &recordedMeterSensor{s})
		default:
			out = append(out, s)
		}
	}
	return out
}

// recordedGPUSensor is a sensor of the recording that read GPUs.
type recordedGPUSensor struct{ *recordedSensor }

// ReadGPU appends the devices and their uses in the current pass: see [sensor.GPUSource].
func (s *recordedGPUSensor) ReadGPU(p *sensor.GPUPass) error {
	for i := range s.p.cur.Sensors {
		if r := &s.p.cur.Sensors[i]; r.Sensor == s.name && r.GPU != nil {
			p.Devices = append(p.Devices, r.GPU.Devices...)
			p.Uses = append(p.Uses, r.GPU.Uses...)
		}
	}
	return nil // Read reports errors
}

// recordedMeterSensor is a sensor of the recording with meters, and recordedGPUMeterSensor one that has GPUs as well.
type (
	recordedMeterSensor    struct{ *recordedSensor }
	recordedGPUMeterSensor struct{ *recordedGPUSensor }
)

// ReadMeters appends the meters in the current pass: see [sensor.MeterSource].
func (s *recordedMeterSensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	return s.readMeters(dst), nil
}

// ReadMeters does the same for a sensor with GPUs.
func (s *recordedGPUMeterSensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	return s.readMeters(dst), nil
}

func (s *recordedSensor) readMeters(dst []sensor.Meter) []sensor.Meter {
	for i := range s.p.cur.Sensors {
		if r := &s.p.cur.Sensors[i]; r.Sensor == s.name {
			dst = s.meters(dst, r.Samples)
		}
	}
	return dst // Read reports errors
}

// meters appends meters from their series among the samples, except modelled ones.
func (s *recordedSensor) meters(dst []sensor.Meter, samples []metric.Sample) []sensor.Meter {
	for _, x := range samples {
		energy := x.Series.Desc.Name == sensor.NodeEnergy.Name
		if v := x.Series.Values; (energy || x.Series.Desc.Name == sensor.NodePower.Name) && len(v) == 3 && v[2] == "measured" {
			m := sensor.Meter{Domain: sensor.Domain(v[0]), Zone: v[1]}
			at := slices.IndexFunc(dst, func(o sensor.Meter) bool { return o.Domain == m.Domain && o.Zone == m.Zone })
			if at < 0 {
				at, dst = len(dst), append(dst, m)
			}
			if energy {
				dst[at].Joules, dst[at].HasJoules = x.Value+s.p.shift.counters[seriesKey(x.Series)], true
			} else {
				dst[at].Watts, dst[at].HasWatts = x.Value, true
			}
		}
	}
	return dst
}

// recordedSensor replays one sensor of the recording.
type recordedSensor struct {
	p     *Player
	name  string
	descs []*metric.Desc
	known map[*metric.Desc]bool
}

func (s *recordedSensor) addDesc(d *metric.Desc) {
	if !s.known[d] {
		if s.known == nil {
			s.known = map[*metric.Desc]bool{}
		}
		s.known[d] = true
		s.descs = append(s.descs, d)
	}
}

// Name returns the name of the sensor that was recorded.
func (s *recordedSensor) Name() string { return s.name }

// Descs lists the descriptions that have occurred in the recording so far.
func (s *recordedSensor) Descs() []*metric.Desc { return s.descs }

// Close does nothing: the file is the player's.
func (s *recordedSensor) Close() error { return nil }

// Read appends the sensor's samples in the current pass.
func (s *recordedSensor) Read(b *metric.Batch) error {
	for i := range s.p.cur.Sensors {
		r := &s.p.cur.Sensors[i]
		if r.Sensor != s.name {
			continue
		}
		for _, x := range r.Samples {
			s.addDesc(x.Series.Desc)
			if x.Series.Desc.Kind == metric.Counter {
				x.Value += s.p.shift.counters[seriesKey(x.Series)]
			}
			b.Samples = append(b.Samples, x)
		}
		if r.Error != "" {
			return errors.New("recorded: " + r.Error)
		}
		return nil
	}
	return sensor.Unavailable("the recording does not hold sensor "+s.name+" at this pass", "", nil)
}
