package recording

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"reckon/metric"
	"reckon/sensor"
)

// decoder decodes readings.json. It returns the same series pointer for the same series in every pass, because
// consumers use the pointer as a key.
type decoder struct {
	descs  map[string]*metric.Desc
	series map[*metric.Desc]map[string]*metric.Series
}

// The same structures as in wire.go, with undecoded figures.
type (
	rawProcess struct {
		wireProcess
		Figures json.RawMessage `json:"figures"`
	}
	rawCgroup struct {
		wireCgroup
		Figures json.RawMessage `json:"figures"`
	}
	rawRecord struct {
		Figures json.RawMessage `json:"figures"`
	}
	rawTasks struct {
		wireTasks
		Live   []rawProcess `json:"live"`
		Exited []rawProcess `json:"exited"`
	}
	rawPass struct {
		wirePass
		Tasks   *rawTasks   `json:"tasks"`
		Machine *rawRecord  `json:"machine"`
		Cgroups []rawCgroup `json:"cgroups"`
	}
)

func (d *decoder) decodePass(data []byte) (*PassData, error) {
	var w rawPass
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, err
	}
	p := &PassData{Time: w.Time, Users: w.Users, Errors: w.Errors, About: map[int32]About{}, Paths: map[uint64][]sensor.CgroupPath{}}
	for pid, a := range w.About {
		p.About[pid] = About{a.Cgroups.decode(), a.LoginSession, a.Env}
	}
	for n, paths := range w.Paths {
		p.Paths[n] = paths.decode()
	}
	var err error
	if t := w.Tasks; t != nil {
		p.Tasks = &sensor.Pass{Boot: t.Boot, Lost: t.Lost, Joined: t.Joined}
		for _, o := range t.Opens {
			p.Tasks.Opens = append(p.Tasks.Opens, sensor.Open(o))
		}
		if p.Tasks.Live, err = decodeProcesses(t.Live); err != nil {
			return nil, fmt.Errorf("live processes: %w", err)
		}
		if p.Tasks.Exited, err = decodeProcesses(t.Exited); err != nil {
			return nil, fmt.Errorf("exited processes: %w", err)
		}
	}
	if w.Machine != nil {
		m, err := decodeShape[sensor.Machine](w.Machine.Figures, machineShape())
		if err != nil {
			return nil, fmt.Errorf("machine: %w", err)
		}
		p.Machine = &m
	}
	for i := range w.Cgroups {
		c := &w.Cgroups[i]
		f, err := decodeShape[sensor.Cgroup](c.Figures, cgroupShape())
		if err != nil {
			return nil, fmt.Errorf("cgroup %v: %w", c.Paths, err)
		}
		f.Have = namesToBits(cgroupNames, c.Have)
		p.Cgroups = append(p.Cgroups, Cgroup{c.Paths.decode(), f})
	}
	for _, r := range w.Sensors {
		samples, err := d.decodeSamples(r.Families)
		if err != nil {
			return nil, fmt.Errorf("sensor %s: %w", r.Sensor, err)
		}
		gpus, err := decodeGPUs(r.GPU)
		if err != nil {
			return nil, fmt.Errorf("sensor %s: %w", r.Sensor, err)
		}
		p.Sensors = append(p.Sensors, Reading{r.Sensor, samples, r.Error, gpus})
	}
	return p, nil
}

func decodeProcesses(ws []rawProcess) ([]sensor.Process, error) {
	out := make([]sensor.Process, len(ws))
	for i := range ws {
		w := &ws[i]
		p, err := decodeShape[sensor.Process](w.Figures, processShape())
		if err != nil {
			return nil, err
		}
		p.Have = namesToBits(fieldNames, w.Have)
		p.Comm = decodeComm(w.Comm)
		if w.State != "" {
			p.State = w.State[0]
		}
		out[i] = p
	}
	return out, nil
}

func (d *decoder) decodeSamples(families []wireFamily) ([]metric.Sample, error) {
	var out []metric.Sample
	for i := range families {
		f := &families[i]
		desc, err := d.descFor(f)
		if err != nil {
			return nil, err
		}
		for j := range f.Series {
			w := &f.Series[j]
			if len(w.Values) != len(desc.Labels) {
				return nil, fmt.Errorf("%s: %d labels with %d values", desc.Name, len(desc.Labels), len(w.Values))
			}
			s := metric.Sample{Series: d.seriesFor(desc, w), Last: w.Last}
			switch {
			case desc.Kind == metric.NativeHistogram && w.Histogram != nil:
				h := w.Histogram
				s.Histogram = &metric.Histogram{Count: h.Count, ZeroCount: h.Zero, Sum: float64(h.Sum), Offset: h.Offset,
					Buckets: h.Buckets}
			case desc.Kind != metric.NativeHistogram && w.Value != nil:
				s.Value = float64(*w.Value)
			default:
				return nil, fmt.Errorf("%s: a series of kind %s without its value", desc.Name, f.Kind)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

func (d *decoder) descFor(f *wireFamily) (*metric.Desc, error) {
	key := strings.Join(append([]string{f.Name, f.Kind, f.Unit, f.Help}, f.Labels...), "\x00")
	if known := d.descs[key]; known != nil {
		return known, nil
	}
	desc := &metric.Desc{Name: f.Name, Help: f.Help, Unit: metric.Unit(f.Unit), Labels: f.Labels}
	for _, k := range []metric.Kind{metric.Gauge, metric.Counter, metric.NativeHistogram} {
		if k.String() == f.Kind {
			desc.Kind = k
		}
	}
	if desc.Kind == 0 || f.Name == "" {
		return nil, fmt.Errorf("metric %q is of the unknown kind %q", f.Name, f.Kind)
	}
	if d.descs == nil {
		d.descs = map[string]*metric.Desc{}
		d.series = map[*metric.Desc]map[string]*metric.Series{}
	}
	d.descs[key], d.series[desc] = desc, map[string]*metric.Series{}
	return desc, nil
}

func (d *decoder) seriesFor(desc *metric.Desc, w *wireSeries) *metric.Series {
	key := strings.Join(w.Values, "\xff")
	s := d.series[desc][key]
	if s == nil || s.Created != w.Created {
		s = &metric.Series{Desc: desc, Values: slices.Clone(w.Values), Created: w.Created}
		d.series[desc][key] = s
	}
	return s
}
