package sensortest

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"reckon/metric"
)

var (
	ownName     = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	foreignName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)
)

// nonBaseUnits are units that the conventions forbid as the last word of a name.
var nonBaseUnits = []string{
	"milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "kilobytes", "megabytes", "gigabytes",
	"kib", "mib", "gib", "bits", "percent", "millijoules", "microjoules", "kilowatthours", "milliwatts", "microwatts",
	"millivolts", "milliamperes", "megahertz", "mhz", "ghz", "fahrenheit", "kelvin",
}

// reservedLabels are set by the agent, by a server, or by the format.
var reservedLabels = []string{"site", "node", "job", "instance", "le", "quantile"}

// Lint returns the faults that promtool check metrics or https://prometheus.io/docs/practices/naming/ would find in a
// description. If foreign is set, the names are given by another program and need only be valid.
func Lint(d *metric.Desc, foreign bool) []string {
	var problems []string
	add := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	lintHelp(d.Help, add)
	switch d.Kind {
	case metric.Gauge, metric.Counter, metric.NativeHistogram:
	default:
		add("unknown kind %v", d.Kind)
	}
	seen := make(map[string]bool)
	for _, l := range d.Labels {
		if !labelName.MatchString(l) || strings.HasPrefix(l, "__") {
			add("label %q is not valid", l)
		}
		if seen[l] {
			add("label %q appears twice", l)
		}
		seen[l] = true
		for _, r := range reservedLabels {
			if l == r {
				add("label %q is reserved", l)
			}
		}
	}
	if foreign {
		if !foreignName.MatchString(d.Name) {
			add("the name is not valid")
		}
		return problems
	}
	lintName(d, add)
	return problems
}

func lintHelp(help string, add func(string, ...any)) {
	switch {
	case len(help) < 10:
		add("help %q does not explain it", help)
	case !unicode.IsUpper(rune(help[0])) && !unicode.IsDigit(rune(help[0])):
		add("help %q does not begin like a sentence", help)
	case !strings.HasSuffix(help, "."):
		add("help %q does not end like a sentence", help)
	case strings.ContainsAny(help, "\n\r"):
		add("help %q has more than one line", help)
	}
}

func lintName(d *metric.Desc, add func(string, ...any)) {
	if !ownName.MatchString(d.Name) {
		add("the name is not in snake_case")
	}
	base, total := strings.CutSuffix(d.Name, "_total")
	switch {
	case d.Kind == metric.Counter && !total:
		add("a counter ends in _total")
	case d.Kind != metric.Counter && total:
		add("only a counter ends in _total")
	}
	if d.Unit != metric.None && !strings.HasSuffix(base, "_"+string(d.Unit)) && d.Kind != metric.NativeHistogram {
		add("the name does not end in its unit %s", d.Unit)
	}
	if d.Unit == metric.None {
		for _, u := range []metric.Unit{metric.Seconds, metric.Bytes, metric.Joules, metric.Watts, metric.Volts, metric.Amperes,
			metric.Hertz, metric.Celsius, metric.Ratio} {
			if strings.HasSuffix(base, "_"+string(u)) {
				add("the name ends in the unit %s, the description has none", u)
			}
		}
	}
	for _, u := range nonBaseUnits {
		if strings.HasSuffix(base, "_"+u) {
			add("%s is not a base unit", u)
		}
	}
	for _, k := range []string{"gauge", "counter", "histogram", "metric"} {
		if strings.Contains("_"+base+"_", "_"+k+"_") {
			add("the name holds its type %q", k)
		}
	}
}
