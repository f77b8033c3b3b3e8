package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"reckon/account/attribution"
	"reckon/account/attribution/powermodel"
	"reckon/metric"
	"reckon/sensor"
)

// noModel is the setting that turns power models off.
const noModel = "none"

var modelInfo = metric.NewDesc("reckon_power_model_info", metric.Gauge, metric.None, []string{"model", "domain", "protocol", "error"},
	"The power model that replaces a meter on this node: what it models, how it was validated, and its mean absolute error as a "+
		"ratio. The error is empty where too little data was available. The value is always 1.")

// powerModel estimates the power of a node without a meter.
type powerModel struct {
	model   *powermodel.Model
	tracker *powermodel.Tracker
	inputs  *modelInputs
	domain  sensor.Domain
	idle    float64
	meters  [1]sensor.Meter
	watts   float64
	stepped uint64   // boot time of the last observation
	named   bool     // by the configuration
	counts  bool     // it gave a figure in the last tick
	waiting []string // missing features
	exports int      // that it waits for
	blamed  bool     // that it waits was reported
	info    *metric.Series
	power   *metric.Series
}

// openPowerModel opens the model in file. If file is empty, it returns the built-in default for this kind of machine.
// If file is "none", it returns nil without an error.
func openPowerModel(root, file string) (*powerModel, error) {
	if file == noModel {
		return nil, nil
	}
	here := describeMachine(root)
	var m *powermodel.Model
	var err error
	if file == "" {
		if m, err = powermodel.Builtin(here); err != nil {
			return nil, noModelError(here, err)
		}
	} else if m, err = readModel(file, here); err != nil {
		return nil, fmt.Errorf(
			"the power model can not be used (fit it again with `reckon power fit`, or leave out the setting power-model): %w", err)
	}
	p := &powerModel{model: m, named: file != ""}
	switch m.Domain {
	case "node", "board", "":
		p.domain = sensor.DomainBoard
	case "package":
		p.domain = sensor.DomainPackage
	default:
		return nil, fmt.Errorf("the power model is of %s, not of the node (give a model of domain node or package)", m.Domain)
	}
	if p.inputs, err = openFeatures(root, m); err != nil {
		return nil, fmt.Errorf("the power model needs figures that this machine does not have (fit it with others, see --feature): %w", err)
	}
	if p.tracker, err = powermodel.NewTracker(m, p.inputs.names); err != nil {
		return nil, err
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

// noModelError returns the reason why no power is modelled, and the remedy.
func noModelError(here powermodel.Machine, err error) error {
	if here.Virtual != "" {
		return sensor.Unavailable("a virtual machine ("+here.Virtual+") has no meter of its own",
			"see the guide energy: the host can share its meter by the setting guest-energy, or power-model names a model", nil)
	}
	return sensor.Unavailable("no power model for this kind of machine",
		"fit one with `reckon power fit` on a machine of the kind that has a meter, or write one with `reckon power builtin`, and give "+
			"it with the setting power-model", err)
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

// readPower returns the power in this tick. It returns false while an input is unknown.
func (p *powerModel) readPower(cpu float64, boot uint64) (power attribution.Source, ok bool) {
	p.counts = false
	p.inputs.readTick(cpu, boot)
	if p.waiting = p.inputs.describeMissing(); len(p.waiting) > 0 {
		return attribution.Source{}, false
	}
	if step := p.model.StepSeconds; step > 0 && p.stepped != 0 && float64(boot-p.stepped) < step*0.999e9 {
		// Its lags count steps: between two of them the last figure holds.
		p.counts = p.watts > 0
		return p.asSource(), p.counts
	}
	p.stepped = boot
	w := p.tracker.Observe(p.inputs.values)
	if w.Missing > 0 || !(w.Watts >= 0) {
		return attribution.Source{}, false
	}
	p.watts, p.counts = w.Watts, true
	return p.asSource(), true
}

func (p *powerModel) asSource() attribution.Source {
	p.meters[0] = sensor.Meter{Domain: p.domain, Watts: p.watts, HasWatts: true}
	if p.domain == sensor.DomainPackage {
		p.meters[0].Zone = "0"
	}
	return attribution.Source{Name: "model", Meters: p.meters[:], Model: true, Named: p.named, Idle: p.idle}
}

// missingError reports the features that are still missing after two exports.
func (p *powerModel) missingError() error {
	if len(p.waiting) == 0 {
		p.exports = 0
		return nil
	}
	if p.exports++; p.exports < 3 {
		return nil
	}
	return sensor.Unavailable("the power model waits for "+strings.Join(p.waiting, "; "),
		"fit it with features that this node has, see `reckon power fit --feature`", nil)
}

func (p *powerModel) exportModel(b *metric.Batch) {
	b.Add(p.info, 1)
	if p.counts {
		b.Add(p.power, p.watts)
	}
}
