package push

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"reckon/metric"
)

// Filter selects the series that are sent to an endpoint. A line has a pattern for the metric name and, in braces, patterns for labels:
// reckon_workload_*{kind="slurm"}. In a pattern, * matches any text and ? matches one character. A series is sent if Keep is empty or one
// of its lines matches, and no line of Drop matches. The zero Filter selects all series.
type Filter struct{ keep, drop []selector }

type selector struct {
	name   string
	labels []labelPair
}

// NewFilter parses the lines of a filter.
func NewFilter(keep, drop []string) (f Filter, err error) {
	if f.keep, err = parseSelectors(keep); err != nil {
		return Filter{}, err
	}
	f.drop, err = parseSelectors(drop)
	return f, err
}

func parseSelectors(lines []string) ([]selector, error) {
	var out []selector
	for _, l := range lines {
		s, err := parseSelector(l)
		if err != nil {
			return nil, fmt.Errorf("filter %q: %w", l, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseSelector(line string) (selector, error) {
	name, rest, braces := strings.Cut(strings.TrimSpace(line), "{")
	s := selector{name: strings.TrimSpace(name)}
	if s.name == "" {
		s.name = "*"
	}
	if err := checkPattern(s.name); err != nil {
		return s, err
	}
	if !braces {
		return s, nil
	}
	rest, closed := strings.CutSuffix(strings.TrimSpace(rest), "}")
	if !closed {
		return s, fmt.Errorf("the brace is not closed; write name{label=\"pattern\"}")
	}
	for part := range strings.SplitSeq(rest, ",") {
		label, value, ok := strings.Cut(part, "=")
		label, value = strings.TrimSpace(label), strings.TrimSpace(value)
		if !ok || label == "" || len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
			return s, fmt.Errorf("%q is not label=\"pattern\"", strings.TrimSpace(part))
		}
		value = value[1 : len(value)-1]
		if err := checkPattern(value); err != nil {
			return s, err
		}
		s.labels = append(s.labels, labelPair{label, value})
	}
	return s, nil
}

func checkPattern(p string) error {
	if strings.ContainsAny(p, `[\`) {
		return fmt.Errorf("%q: only * and ? have a meaning in a pattern", p)
	}
	return nil
}

// matchesPattern is like path.Match, but the slash is an ordinary character.
func matchesPattern(pattern, s string) bool {
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00"))
	return ok && err == nil
}

// keepName reports whether a series of that name can be sent.
func (f *Filter) keepName(name string) bool {
	for _, s := range f.drop {
		if len(s.labels) == 0 && matchesPattern(s.name, name) {
			return false
		}
	}
	return len(f.keep) == 0 || slices.ContainsFunc(f.keep, func(s selector) bool { return matchesPattern(s.name, name) })
}

// keepSeries reports whether a series is sent after its name passed keepName.
func (f *Filter) keepSeries(s *metric.Series) bool {
	for i := range f.drop {
		if l := &f.drop[i]; len(l.labels) > 0 && l.matchesSeries(s) {
			return false
		}
	}
	if len(f.keep) == 0 {
		return true
	}
	for i := range f.keep {
		if f.keep[i].matchesSeries(s) {
			return true
		}
	}
	return false
}

func (l *selector) matchesSeries(s *metric.Series) bool {
	if !matchesPattern(l.name, s.Desc.Name) {
		return false
	}
	for _, want := range l.labels {
		value := ""
		if i := slices.Index(s.Desc.Labels, want.name); i >= 0 {
			value = s.Values[i]
		}
		if !matchesPattern(want.value, value) {
			return false
		}
	}
	return true
}
