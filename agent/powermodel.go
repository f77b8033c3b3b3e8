package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"reckon/attribution"
	"reckon/attribution/powermodel"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/node"
)

// noModel is the word for no power model at all.
const noModel = "none"

var modelInfo = &metric.Desc{
	Name: "reckon_power_model_info", Kind: metric.Gauge,
	Help:   "The power model that stands in for a meter on this node, what it models, how it was validated, and its mean absolute error as a ratio, empty where it was fitted to too little to state one; the value is always 1.",
	Labels: []string{"model", "domain", "protocol", "error"},
}

// powerModel gives the power of the node where no meter does.
type powerModel struct {
	model   *powermodel.Model
	tracker *powermodel.Tracker
	names   []string
	values  []float64
	io      *ioRates // nil when the model needs none
	domain  sensor.Domain
	idle    float64
	meters  [1]sensor.Meter
	watts   float64
	stepped uint64 // boot time of the last observation
	named   bool   // by the configuration
	counts  bool   // it gave a figure in the last tick
	info    *metric.Series
	power   *metric.Series
}

// openPowerModel opens the model in file, or where that is empty the starting point
// that is built in for machines of this kind. It returns nil without an error when file
// is the word none.
func openPowerModel(root, file string) (*powerModel, error) {
	if file == noModel {
		return nil, nil
	}
	here := describe(root)
	var m *powermodel.Model
	var err error
	if file == "" {
		if m, err = powermodel.Builtin(here); err != nil {
			return nil, noCurve(here, err)
		}
	} else if m, err = readModel(file, here); err != nil {
		return nil, fmt.Errorf("the power model can not be used (fit it again with `reckon power fit`, or leave --power-model out): %w", err)
	}
	p := &powerModel{model: m, named: file != "", names: []string{"cpu_utilization", "disk_bytes", "disk_read_bytes", "disk_write_bytes", "network_bytes"}}
	switch m.Domain {
	case "node", "board", "":
		p.domain = sensor.DomainBoard
	case "package":
		p.domain = sensor.DomainPackage
	default:
		return nil, fmt.Errorf("the power model is of %s, not of the node (give a model of domain node or package)", m.Domain)
	}
	if p.tracker, err = powermodel.NewTracker(m, p.names); err != nil {
		return nil, fmt.Errorf("the power model needs figures that this machine does not have (fit it with fewer features): %w", err)
	}
	p.values = make([]float64, len(p.names))
	for _, f := range m.Features {
		if f.Name != "cpu_utilization" && p.io == nil {
			if p.io, err = openRates(root); err != nil {
				return nil, sensor.Unavailable("the power model needs disk and network figures", "", err)
			}
		}
	}
	p.idle = m.Predict(make([]float64, len(m.Features))).Watts
	stated := ""
	if m.Training.Score.Points > 0 {
		stated = strconv.FormatFloat(m.Training.Score.MAPE, 'f', 3, 64)
	}
	p.info = metric.NewSeries(modelInfo, m.Name, m.Domain, m.Training.Protocol, stated)
	p.power = metric.NewSeries(sensor.NodePower, string(p.domain), "model", attribution.Modelled)
	return p, nil
}

// noCurve gives the reason why nothing is modelled, and what to do.
func noCurve(here powermodel.Machine, err error) error {
	if here.Virtual != "" {
		return sensor.Unavailable("a virtual machine ("+here.Virtual+"): only its host can meter what it draws",
			"run the agent on the host, or give a model of this machine with --power-model", nil)
	}
	return sensor.Unavailable("no power model for this kind of machine",
		"fit one with `reckon power fit` on a machine of the kind that has a meter, or write one with `reckon power builtin`, and give it with --power-model", err)
}

func readModel(file string, here powermodel.Machine) (*powermodel.Model, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := powermodel.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := m.Fits(here); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// read gives the power of this tick, and false while a figure that it needs is unknown.
func (p *powerModel) read(cpu float64, boot uint64) (attribution.Source, bool) {
	p.counts = false
	p.values[0] = cpu
	if p.io != nil && !p.io.read(boot, p.values[1:]) {
		return attribution.Source{}, false
	}
	if step := p.model.StepSeconds; step > 0 && p.stepped != 0 && float64(boot-p.stepped) < step*0.999e9 {
		// Its lags count steps: between two of them the last figure stands.
		p.counts = p.watts > 0
		return p.source(), p.counts
	}
	p.stepped = boot
	w := p.tracker.Observe(p.values)
	if w.Missing > 0 || !(w.Watts >= 0) {
		return attribution.Source{}, false
	}
	p.watts, p.counts = w.Watts, true
	return p.source(), true
}

func (p *powerModel) source() attribution.Source {
	p.meters[0] = sensor.Meter{Domain: p.domain, Watts: p.watts, HasWatts: true}
	if p.domain == sensor.DomainPackage {
		p.meters[0].Zone = "0"
	}
	return attribution.Source{Name: "model", Meters: p.meters[:], Model: true, Named: p.named, Idle: p.idle}
}

func (p *powerModel) export(b *metric.Batch) {
	b.Add(p.info, 1)
	if p.counts {
		b.Add(p.power, p.watts)
	}
}

// ioRates are the bytes a second that disks and networks of the node move.
type ioRates struct {
	disk, network sensor.Sensor
	batch         metric.Batch
	last          [3]float64 // disk read, disk written, network
	at            uint64
}

func openRates(root string) (*ioRates, error) {
	d, err := node.NewDisk(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	n, err2 := node.NewNetwork(root)
	if err != nil || err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return &ioRates{disk: d, network: n}, nil
}

// read sets v to the rates of all disks, of reads, of writes, and of networks.
func (r *ioRates) read(boot uint64, v []float64) bool {
	r.batch.Samples = r.batch.Samples[:0]
	if r.disk.Read(&r.batch) != nil || r.network.Read(&r.batch) != nil {
		return false
	}
	var now [3]float64
	for i := range r.batch.Samples {
		s := &r.batch.Samples[i]
		device := ""
		for k, l := range s.Series.Desc.Labels {
			if l == "device" {
				device = s.Series.Values[k]
			}
		}
		switch s.Series.Desc.Name {
		case "node_disk_read_bytes_total":
			if !stackedDisk(device) {
				now[0] += s.Value
			}
		case "node_disk_written_bytes_total":
			if !stackedDisk(device) {
				now[1] += s.Value
			}
		case "node_network_receive_bytes_total", "node_network_transmit_bytes_total":
			if device != "lo" && !strings.HasPrefix(device, "veth") && !strings.HasPrefix(device, "docker") && !strings.HasPrefix(device, "br-") {
				now[2] += s.Value
			}
		}
	}
	was, at := r.last, r.at
	r.last, r.at = now, boot
	if at == 0 || boot <= at {
		return false
	}
	seconds := float64(boot-at) / 1e9
	read, written := max(now[0]-was[0], 0)/seconds, max(now[1]-was[1], 0)/seconds
	v[0], v[1], v[2], v[3] = read+written, read, written, max(now[2]-was[2], 0)/seconds
	return true
}

// stackedDisk reports whether a block device lies on others, whose traffic counts.
func stackedDisk(device string) bool {
	for _, p := range [...]string{"dm-", "md", "loop", "ram", "zram"} {
		if strings.HasPrefix(device, p) {
			return true
		}
	}
	return false
}
