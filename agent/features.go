package agent

import (
	"fmt"
	"strings"

	"reckon/account/attribution/feature"
	"reckon/account/attribution/powermodel"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/node"
)

// modelInputs reads the features of a power model. It reads processor, disk, network and GPU activity at every tick.
// All others may be any series of this node; it reads them at each export and uses the values until the next one.
type modelInputs struct {
	names  []string
	values []float64
	known  []bool
	live   []*feature.Live // nil for features read in another way
	quick  []bool          // read from the sensors below, at every tick
	cpu    int             // index of the processors' use, -1 when it is not asked
	gpu    int             // and of the GPUs'
	gpus   func() (float64, bool)

	sensors []sensor.Sensor
	batch   metric.Batch
}

// openFeatures returns a reader for all features of m. If no series provides a feature, the error names the feature and
// the available series.
func openFeatures(root string, m *powermodel.Model) (*modelInputs, error) {
	f := &modelInputs{cpu: -1, gpu: -1}
	disk, network := false, false
	var unknown []string
	for _, x := range m.Features {
		if f.inputIndex(x.Name) >= 0 {
			continue // a lag of one that is read
		}
		found, err := feature.Find(x.Name, x.Source)
		if err != nil {
			unknown = append(unknown, err.Error())
			continue
		}
		i := len(f.names)
		f.names = append(f.names, x.Name)
		f.values, f.known = append(f.values, 0), append(f.known, false)
		f.live, f.quick = append(f.live, nil), append(f.quick, false)
		switch {
		case x.Name == feature.CPU && x.Source == "":
			f.cpu = i
		case x.Name == "gpu_utilization" && x.Source == "":
			f.gpu = i
		default:
			f.live[i] = feature.NewLive(found)
			d, n := isReadBySensor(&found, "node_disk_"), isReadBySensor(&found, "node_network_")
			f.quick[i] = d || n
			disk, network = disk || d, network || n
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%s; features known by name: %s: %w", strings.Join(unknown, "; "), strings.Join(feature.Names(), ", "),
			powermodel.ErrFeature)
	}
	if disk {
		if err := f.openSensor(func() (sensor.Sensor, error) { return node.NewDisk(root) }); err != nil {
			return nil, err
		}
	}
	if network {
		if err := f.openSensor(func() (sensor.Sensor, error) { return node.NewNetwork(root) }); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *modelInputs) openSensor(with func() (sensor.Sensor, error)) error {
	s, err := with()
	if err != nil {
		f.close()
		return sensor.Unavailable("the power model needs disk and network figures", "", err)
	}
	f.sensors = append(f.sensors, s)
	return nil
}

func (f *modelInputs) close() {
	for _, s := range f.sensors {
		_ = s.Close()
	}
}

// isReadBySensor reports whether all of a feature is read by the sensor with this prefix.
func isReadBySensor(f *feature.Feature, prefix string) bool {
	for _, x := range f.Factors {
		for _, name := range x.Series {
			if !strings.HasPrefix(name, prefix) {
				return false
			}
		}
	}
	return true
}

func (f *modelInputs) inputIndex(name string) int {
	for i, n := range f.names {
		if n == name {
			return i
		}
	}
	return -1
}

// readTick reads the features that change within an export interval. boot is the time since boot in nanoseconds.
func (f *modelInputs) readTick(cpu float64, boot uint64) {
	if f.cpu >= 0 {
		f.values[f.cpu], f.known[f.cpu] = cpu, true // NaN is missing to the model
	}
	if f.gpu >= 0 {
		f.known[f.gpu] = false
		if f.gpus != nil {
			f.values[f.gpu], f.known[f.gpu] = f.gpus()
		}
	}
	if len(f.sensors) == 0 {
		return
	}
	f.batch.Samples = f.batch.Samples[:0]
	for _, s := range f.sensors {
		if s.Read(&f.batch) != nil {
			f.batch.Samples = f.batch.Samples[:0] // an incomplete set would give too low a power
			break
		}
	}
	f.observe(float64(boot)/1e9, f.batch.Samples, true)
}

// readExport reads the other features from the samples of an export.
func (f *modelInputs) readExport(boot uint64, samples []metric.Sample) {
	f.observe(float64(boot)/1e9, samples, false)
}

func (f *modelInputs) observe(seconds float64, samples []metric.Sample, quick bool) {
	for i, l := range f.live {
		if l != nil && f.quick[i] == quick {
			l.Observe(seconds, samples)
			f.values[i], f.known[i] = l.Value()
		}
	}
}

// describeMissing names the features without a known value, with the series that they are computed from.
func (f *modelInputs) describeMissing() []string {
	var out []string
	for i, ok := range f.known {
		switch {
		case ok:
		case i == f.gpu:
			out = append(out, f.names[i]+" (no GPU reports how busy it is)")
		case f.live[i] != nil && !f.live[i].Found():
			out = append(out, fmt.Sprintf("%s (no sensor of this node gives %s)", f.names[i], strings.Join(f.live[i].Series(), " or ")))
		default:
			out = append(out, f.names[i])
		}
	}
	return out
}
