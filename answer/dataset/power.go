package dataset

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"reckon/account/attribution/feature"
)

// PowerFeature is a power model feature as a PromQL expression over the series of a node. [OnNode] replaces NODE by a
// label matcher and WINDOW by the range of a rate.
type PowerFeature struct{ Name, Unit, Help, Expr string }

// PowerFeatures returns the columns of the registry that agents bind by name.
func PowerFeatures() []PowerFeature {
	var out []PowerFeature
	for _, f := range feature.Columns() {
		out = append(out, PowerFeature{Name: f.Name, Unit: f.Unit, Help: f.Help, Expr: f.PromQL()})
	}
	return out
}

// FindPowerFeature returns the feature of the registry with this name.
func FindPowerFeature(name string) (PowerFeature, bool) {
	for _, f := range feature.All() {
		if f.Name == name {
			return PowerFeature{Name: f.Name, Unit: f.Unit, Help: f.Help, Expr: f.PromQL()}, true
		}
	}
	return PowerFeature{}, false
}

// LiveSource returns the expression to write into a model file, with which an agent computes the feature from its own
// samples. It is empty if the feature's name suffices, or if no agent could compute the expression.
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

// Bindable returns why no agent could compute a feature of a model, or nil.
func Bindable(name, source string) error {
	_, err := feature.Find(name, source)
	return err
}

// PowerDomains returns the power domains that can be a target: the whole node, as far as it is metered, or one kind of meter.
func PowerDomains() []string { return []string{"node", "package", "dram", "gpu", "board"} }

// PowerMeters returns expressions for the measured power of a domain, the most complete first; "" is the whole node.
func PowerMeters(domain string) []string {
	switch domain {
	case "", "node":
	case "gpu": // a meter beside the device, or its own
		return []string{
			`sum(rate(reckon_node_energy_joules_total{domain="gpu",method="measured",NODE}[WINDOW]))`,
			`sum(rate(reckon_gpu_energy_joules_total{NODE}[WINDOW]))`,
		}
	default:
		return []string{fmt.Sprintf(`sum(rate(reckon_node_energy_joules_total{domain=%q,method="measured",NODE}[WINDOW]))`, domain)}
	}
	return []string{
		`sum(rate(reckon_node_energy_joules_total{domain="board",method="measured",NODE}[WINDOW]))`,
		`sum(rate(reckon_node_energy_joules_total{domain="psys",method="measured",NODE}[WINDOW]))`,
		`sum(rate(reckon_node_energy_joules_total{domain=~"package|dram|gpu",method="measured",NODE}[WINDOW]))`,
	}
}

// OnNode fills in the matcher of a node, which may be empty, and the range of rates.
func OnNode(expr, node string, window time.Duration) string {
	matcher := ""
	if node != "" {
		matcher = fmt.Sprintf("node=%q", node)
	}
	return strings.NewReplacer(",NODE", strings.TrimSuffix(","+matcher, ","), "{NODE}", "{"+matcher+"}", "WINDOW",
		fmt.Sprintf("%dms", window.Milliseconds())).Replace(expr)
}
