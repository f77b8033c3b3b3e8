package dataset

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"reckon/attribution/feature"
)

// PowerFeature is a feature of a power model as PromQL over the series of a node; NODE
// stands for its matcher and WINDOW for the time of a rate: [OnNode] fills them in.
type PowerFeature struct{ Name, Unit, Help, Expr string }

// PowerFeatures are the columns of the registry that agents bind by name.
func PowerFeatures() []PowerFeature {
	var out []PowerFeature
	for _, f := range feature.Columns() {
		out = append(out, PowerFeature{Name: f.Name, Unit: f.Unit, Help: f.Help, Expr: f.PromQL()})
	}
	return out
}

// FindPowerFeature returns the feature of the registry that has this name.
func FindPowerFeature(name string) (PowerFeature, bool) {
	for _, f := range feature.All() {
		if f.Name == name {
			return PowerFeature{Name: f.Name, Unit: f.Unit, Help: f.Help, Expr: f.PromQL()}, true
		}
	}
	return PowerFeature{}, false
}

// LiveSource is what a model keeps of how a column was made, so that an agent can read it
// from its own samples: nothing where the name says it, or where no agent could.
func LiveSource(name, expr string) string {
	if expr == "" {
		return ""
	}
	made, err := feature.Find(name, expr)
	if err != nil {
		return ""
	}
	if named, err := feature.Find(name, ""); err == nil && reflect.DeepEqual(named.Factors, made.Factors) {
		return ""
	}
	return expr
}

// Bindable says why no agent could read a feature of a model, or nil.
func Bindable(name, source string) error {
	_, err := feature.Find(name, source)
	return err
}

// PowerMeters are ways to the measured power of a whole node, the widest first.
func PowerMeters() []string {
	return []string{
		`sum(rate(reckon_node_energy_joules_total{domain="board",method="measured",NODE}[WINDOW]))`,
		`sum(rate(reckon_node_energy_joules_total{domain="psys",method="measured",NODE}[WINDOW]))`,
		`sum(rate(reckon_node_energy_joules_total{domain=~"package|dram|gpu",method="measured",NODE}[WINDOW]))`,
	}
}

// OnNode fills in the matcher of a node, which may be empty, and the window of rates.
func OnNode(expr, node string, window time.Duration) string {
	matcher := ""
	if node != "" {
		matcher = fmt.Sprintf("node=%q", node)
	}
	return strings.NewReplacer(",NODE", strings.TrimSuffix(","+matcher, ","), "{NODE}", "{"+matcher+"}", "WINDOW", fmt.Sprintf("%dms", window.Milliseconds())).Replace(expr)
}
