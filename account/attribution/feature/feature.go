// Package feature is the single registry of the inputs of power models. For each feature it has the
// name and unit, the live series, the PromQL query for building a data set, and the computation of
// the same figure from the samples of an agent. An agent can therefore bind everything that a data
// set can contain.
//
// A feature is a product of factors, each a sum or mean of series or of their rates. That is less
// than PromQL, and enough to be computed on every node without a query engine. A feature with any
// other name is taken for a series or an expression of this form, so that a model may use any
// series or counter that its agent exports; see [Find].
//
// Units are SI base units. The package is pure. Values of type [Feature] are read-only; a [Live] is
// used from one goroutine.
package feature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Feature is one figure of a whole node.
type Feature struct {
	// Name is the name in model files and in headers of data sets.
	Name string
	// Unit is "ratio", "1/s", "B/s", "B", "Hz" or the unit of the series.
	Unit string
	Help string
	// Factors are multiplied.
	Factors []Factor
	// Expr is the PromQL query of a feature that cannot be expressed by factors. The agent computes
	// such a feature in its own way.
	Expr string
}

// Factor is a sum or mean over series.
type Factor struct {
	// Series are the metric names; all count.
	Series []string
	Match  []Match
	// Rate takes the increase a second; the series are counters.
	Rate bool
	// Mean takes the mean of the series, not their sum.
	Mean bool
	// Divide divides the product by the factor.
	Divide bool
}

// Match is a condition on a label.
type Match struct {
	Label string
	// Values are compared in full; a trailing * matches any suffix.
	Values []string
	// Not inverts the condition.
	Not bool
}

// layeredDisks excludes disks that are layered on other disks. virtualNetworks excludes networks with packets that also pass through
// other networks.
var (
	layeredDisks    = []Match{{Label: "device", Not: true, Values: []string{"dm-*", "md*", "loop*", "ram*", "zram*"}}}
	virtualNetworks = []Match{{Label: "device", Not: true, Values: []string{"lo", "veth*", "docker*", "br-*"}}}
)

func rateFactor(match []Match, series ...string) Factor {
	return Factor{Series: series, Match: match, Rate: true}
}

func meanFactor(match []Match, series ...string) Factor {
	return Factor{Series: series, Match: match, Mean: true}
}

func dividedFactor(f Factor) Factor {
	f.Divide = true
	return f
}

var busyCores = rateFactor([]Match{{Label: "mode", Not: true, Values: []string{"idle", "iowait", "steal"}}}, "node_cpu_seconds_total")

// registry has the features in the order of data set columns.
var registry = []Feature{
	{Name: CPU, Unit: "ratio", Help: "share of the processors' time in use",
		Expr: `clamp(1 - sum(rate(node_cpu_seconds_total{mode=~"idle|iowait|steal",NODE}[WINDOW])) / ` +
			`count(node_cpu_seconds_total{mode="idle",NODE}), 0, 1)`},
	{Name: "cpu_cycles", Unit: "1/s", Help: "cores in use times their mean clock",
		Factors: []Factor{busyCores, meanFactor(nil, "node_cpu_scaling_frequency_hertz", "reckon_tegra_cpu_frequency_hertz")}},
	{Name: "gpu_utilization", Unit: "ratio", Help: "devices that compute, added up",
		Factors: []Factor{rateFactor(nil, "reckon_gpu_busy_seconds_total")}},
	{Name: "gpu_cycles", Unit: "1/s", Help: "devices that compute times their mean clock",
		Factors: []Factor{rateFactor(nil, "reckon_gpu_busy_seconds_total"),
			meanFactor([]Match{{Label: "clock", Values: []string{"graphics", "compute"}}}, "reckon_gpu_clock_hertz")}},
	{Name: "gpu_memory_load", Unit: "ratio", Help: "memory interfaces of devices in use, added up",
		Factors: []Factor{rateFactor([]Match{{Label: "engine", Values: []string{"memory"}}}, "reckon_gpu_engine_busy_seconds_total")}},
	{Name: "gpu_memory_used", Unit: "B", Help: "memory of devices in use",
		Factors: []Factor{{Series: []string{"reckon_gpu_memory_bytes"}}}},
	{Name: "memory_controller_load", Unit: "ratio", Help: "share of the memory controller's bandwidth in use",
		Factors: []Factor{meanFactor(nil, "reckon_tegra_memory_controller_busy_ratio")}},
	{Name: "memory_controller_frequency", Unit: "Hz", Help: "clock of the memory controller",
		Factors: []Factor{meanFactor(nil, "reckon_tegra_memory_controller_frequency_hertz")}},
	{Name: "memory_free", Unit: "ratio", Help: "share of the memory that is available",
		Factors: []Factor{meanFactor(nil, "node_memory_MemAvailable_bytes"), dividedFactor(meanFactor(nil, "node_memory_MemTotal_bytes"))}},
	{Name: "disk_read_bytes", Unit: "B/s", Help: "read from disks",
		Factors: []Factor{rateFactor(layeredDisks, "node_disk_read_bytes_total")}},
	{Name: "disk_write_bytes", Unit: "B/s", Help: "written to disks",
		Factors: []Factor{rateFactor(layeredDisks, "node_disk_written_bytes_total")}},
	{Name: "disk_bytes", Unit: "B/s", Help: "read from and written to disks",
		Factors: []Factor{rateFactor(layeredDisks, "node_disk_read_bytes_total", "node_disk_written_bytes_total")}},
	{Name: "disk_operations", Unit: "1/s", Help: "reads and writes of disks",
		Factors: []Factor{rateFactor(layeredDisks, "node_disk_reads_completed_total", "node_disk_writes_completed_total")}},
	{Name: "network_bytes", Unit: "B/s", Help: "received and sent",
		Factors: []Factor{rateFactor(virtualNetworks, "node_network_receive_bytes_total", "node_network_transmit_bytes_total")}},
	{Name: "network_packets", Unit: "1/s", Help: "received and sent",
		Factors: []Factor{rateFactor(virtualNetworks, "node_network_receive_packets_total", "node_network_transmit_packets_total")}},
	{Name: "context_switches", Unit: "1/s", Help: "of all processors",
		Factors: []Factor{rateFactor(nil, "node_context_switches_total")}},
	{Name: "interrupts", Unit: "1/s", Help: "of all processors",
		Factors: []Factor{rateFactor(nil, "node_intr_total")}},
}

// CPU is the feature that every agent has at every tick.
const CPU = "cpu_utilization"

// derivedFeatures are sums of other features. They would be redundant in a data set.
var derivedFeatures = []string{"disk_bytes"}

// uncountedFeatures are features of public data sets that none of our sensors counts.
var uncountedFeatures = []string{"cpu_instructions", "llc_loads", "llc_misses", "memory_bytes"}

var errUncounted = errors.New(
	"no sensor counts it, so an agent can not use a model of it; give it a source, NAME=PROMQL, where an exporter counts it")

// All returns the registered features; see Columns for the default columns of a data set.
func All() []Feature { return slices.Clone(registry) }

// Columns returns the default features of a data set.
func Columns() []Feature {
	return slices.DeleteFunc(All(), func(f Feature) bool { return slices.Contains(derivedFeatures, f.Name) })
}

// Names returns the names in the registry.
func Names() []string {
	var out []string
	for _, f := range registry {
		out = append(out, f.Name)
	}
	return out
}

// Find returns the feature registered under name. If there is none, it parses source, or name if
// source is empty, as an expression; see [Parse]. A bare series name is a valid expression.
func Find(name, source string) (Feature, error) {
	if i := slices.IndexFunc(registry, func(f Feature) bool { return f.Name == name }); i >= 0 && source == "" {
		return registry[i], nil
	}
	expr := source
	if expr == "" && slices.Contains(uncountedFeatures, name) {
		return Feature{}, fmt.Errorf("feature %s: %w", name, errUncounted)
	}
	if expr == "" {
		expr = name
	}
	factors, err := Parse(expr)
	if err != nil {
		return Feature{}, fmt.Errorf("feature %s: %w", name, err)
	}
	return Feature{Name: name, Factors: factors}, nil
}

// PromQL returns the query for a remote store, with the placeholders NODE for the node matcher and
// WINDOW for the rate window.
func (f *Feature) PromQL() string {
	if f.Expr != "" {
		return f.Expr
	}
	var b strings.Builder
	for i := range f.Factors {
		switch {
		case f.Factors[i].Divide:
			b.WriteString(" / ")
		case i > 0:
			b.WriteString(" * ")
		}
		b.WriteString(f.Factors[i].promQL())
	}
	return b.String()
}

// promQL writes a separate sum for each metric name of a rate, because rate drops the names and
// would leave duplicate series.
func (f *Factor) promQL() string {
	match := ""
	for _, m := range f.Match {
		match += m.promQL() + ","
	}
	aggregate := "sum"
	if f.Mean {
		aggregate = "avg"
	}
	if !f.Rate && len(f.Series) > 1 {
		return fmt.Sprintf("%s({__name__=~%q,%sNODE})", aggregate, strings.Join(f.Series, "|"), match)
	}
	var sums []string
	for _, name := range f.Series {
		inner := name + "{" + match + "NODE}"
		if f.Rate {
			inner = "rate(" + inner + "[WINDOW])"
		}
		sums = append(sums, aggregate+"("+inner+")")
	}
	if len(sums) == 1 {
		return sums[0]
	}
	return "(" + strings.Join(sums, " + ") + ")"
}

func (m *Match) promQL() string {
	op, value := "=", ""
	if len(m.Values) != 1 || strings.HasSuffix(m.Values[0], "*") {
		op = "=~"
	}
	if m.Not {
		op = map[string]string{"=": "!=", "=~": "!~"}[op]
	}
	for i, v := range m.Values {
		if i > 0 {
			value += "|"
		}
		if rest, ok := strings.CutSuffix(v, "*"); ok {
			value += rest + ".*"
		} else {
			value += v
		}
	}
	return fmt.Sprintf("%s%s%q", m.Label, op, value)
}

// matches reports whether a label value fulfils the condition.
func (m *Match) matches(value string) bool {
	for _, v := range m.Values {
		rest, any := strings.CutSuffix(v, "*")
		if value == v || any && strings.HasPrefix(value, rest) {
			return !m.Not
		}
	}
	return m.Not
}
