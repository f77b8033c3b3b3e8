package findings

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"reckon/analysis/misuse"
)

//go:embed policy.yaml
var policyFrame string

// DefaultPolicy returns the commented policy file with the default thresholds.
func DefaultPolicy() []byte {
	var rules []string
	for _, r := range misuse.Rules() {
		rules = append(rules, misuse.Defaults(r))
	}
	return []byte(strings.Replace(policyFrame, "  # RULES\n", strings.Join(rules, "\n"), 1))
}

// Policy selects the thresholds for a workload.
type Policy struct {
	base  *misuse.Policy
	rules []override
	memo  map[string]*misuse.Policy
	// briefest is the run time below which no rule of any workload looks at a process group that ended, but for its sums.
	briefest time.Duration
	// alone is the run time below which no rule finds anything about a process group by itself.
	// short is the run time below which it counts as a short one.
	alone, short time.Duration
}

// includeRules widens the limits of p so that they also cover the given rules about single workloads.
func (p *Policy) includeRules(rules *misuse.Policy) {
	p.briefest, p.alone = min(p.briefest, rules.ShortRunTime()), min(p.alone, rules.HarmlessRunTime())
	if rules.ManySmallJobs.On {
		p.short = max(p.short, time.Duration(rules.ManySmallJobs.Short))
	}
}

type override struct {
	partition, node string
	rules           yaml.Node
}

// policyFile is the policy file. The rules are decoded later, because their durations use the usual notation.
type policyFile struct {
	Rules     yaml.Node `yaml:"rules"`
	Overrides []struct {
		Partition string    `yaml:"partition"`
		Node      string    `yaml:"node"`
		Rules     yaml.Node `yaml:"rules"`
	} `yaml:"overrides"`
}

// ReadPolicy parses a policy. Omitted values have their defaults; an empty text is the default policy.
func ReadPolicy(text []byte) (*Policy, error) {
	base := new(misuse.Policy)
	var f policyFile
	if err := decodeStrictly(DefaultPolicy(), &f); err != nil {
		return nil, fmt.Errorf("the policy of the program: %w", err)
	}
	if err := overrideValues(base, &f.Rules); err != nil {
		return nil, fmt.Errorf("the policy of the program: %w", err)
	}
	p := &Policy{base: base, memo: map[string]*misuse.Policy{}, briefest: base.ShortRunTime(), alone: base.HarmlessRunTime()}
	p.includeRules(base)
	if len(bytes.TrimSpace(text)) == 0 {
		return p, nil
	}
	f = policyFile{}
	if err := decodeStrictly(text, &f); err != nil {
		return nil, err
	}
	if err := overrideValues(base, &f.Rules); err != nil {
		return nil, err
	}
	if err := checkThresholds(base); err != nil {
		return nil, err
	}
	p.briefest, p.alone, p.short = base.ShortRunTime(), base.HarmlessRunTime(), 0
	p.includeRules(base)
	for i, o := range f.Overrides {
		if o.Partition == "" && o.Node == "" {
			return nil, fmt.Errorf("override %d: no partition or node given", i+1)
		}
		for _, pattern := range []string{o.Partition, o.Node} {
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("override %d: %q is no pattern", i+1, pattern)
			}
		}
		if word := nodeRule(&o.Rules); word != "" && o.Partition != "" {
			return nil, fmt.Errorf(
				"override %d: %s is of a node as a whole, whatever the partition of the work on it; give it with node: alone", i+1, word)
		}
		probe := *base
		if err := overrideValues(&probe, &o.Rules); err != nil {
			return nil, fmt.Errorf("override %d: %w", i+1, err)
		}
		if err := checkThresholds(&probe); err != nil {
			return nil, fmt.Errorf("override %d: %w", i+1, err)
		}
		p.includeRules(&probe)
		p.rules = append(p.rules, override{o.Partition, o.Node, o.Rules})
	}
	return p, nil
}

// threshold is one value of the policy of a rule.
type threshold struct {
	rule, key string
	limit     string // valid values: share, above 0, or anything
	ofNode    bool   // it is of a node as a whole, whatever the partition of the work on it
	value     reflect.Value
}

// listThresholds returns all values of a policy, as the tags of the rules describe them.
func listThresholds(p *misuse.Policy) (out []threshold) {
	rules := reflect.ValueOf(p).Elem()
	for i := range rules.NumField() {
		field, values := rules.Type().Field(i), rules.Field(i)
		for k := range values.NumField() {
			f := values.Type().Field(k)
			out = append(out, threshold{
				field.Tag.Get("yaml"), f.Tag.Get("yaml"), f.Tag.Get("limit"), f.Tag.Get("of") == "node" ||
					field.Tag.Get("yaml") == misuse.OverShare, values.Field(k),
			})
		}
	}
	return out
}

// nodeRule returns the first of the rules that applies to nodes instead of workloads, or "". Such a rule cannot be set
// for a partition.
func nodeRule(rules *yaml.Node) string {
	for i := 0; i+1 < len(rules.Content) && rules.Kind == yaml.MappingNode; i += 2 {
		key, value := rules.Content[i].Value, rules.Content[i+1]
		if key == misuse.OverShare {
			return key
		}
		for k := 0; k+1 < len(value.Content); k += 2 {
			word := value.Content[k].Value
			if slices.ContainsFunc(listThresholds(new(misuse.Policy)),
				func(t threshold) bool { return t.ofNode && t.rule == key && t.key == word }) {
				return key + "." + word
			}
		}
	}
	return ""
}

func decodeStrictly(text []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return shortError(err)
	}
	return nil
}

// overrideValues overrides values of a policy.
func overrideValues(p *misuse.Policy, n *yaml.Node) error {
	if n.IsZero() {
		return nil
	}
	if err := convertDurations(n); err != nil {
		return err
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return shortError(err)
	}
	return decodeStrictly(text, p)
}

// convertedTag marks durations that are already converted.
const convertedTag = yaml.TaggedStyle

// convertDurations converts values such as 10m in a YAML node to nanoseconds, the unit of misuse.Duration. Package misuse
// cannot do this, because it does not depend on YAML.
func convertDurations(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.ScalarNode && value.Style != convertedTag && isDuration(key.Value) {
			d, err := time.ParseDuration(value.Value)
			if err != nil || d < 0 {
				return fmt.Errorf("line %d: %s: %q is no duration; write 10m or 2h", value.Line, key.Value, value.Value)
			}
			value.Value, value.Tag, value.Style = fmt.Sprint(d.Nanoseconds()), "!!int", convertedTag
			continue
		}
		if err := convertDurations(value); err != nil {
			return err
		}
	}
	return nil
}

// isDuration reports whether a key of some rule is a duration.
func isDuration(key string) bool {
	return slices.ContainsFunc(listThresholds(new(misuse.Policy)), func(t threshold) bool {
		_, is := t.value.Interface().(misuse.Duration)
		return is && t.key == key
	})
}

// checkThresholds rejects implausible thresholds.
func checkThresholds(p *misuse.Policy) error {
	for _, t := range listThresholds(p) {
		var v float64
		switch value := t.value.Interface().(type) {
		case float64:
			v = value
		case int:
			v = float64(value)
		case []string:
			for _, pattern := range value {
				if _, err := path.Match(pattern, ""); err != nil {
					return fmt.Errorf("%s.%s: %q is no pattern", t.rule, t.key, pattern)
				}
			}
		}
		switch {
		case t.limit == "share" && !(v >= 0 && v <= 1):
			return fmt.Errorf("%s.%s: %g is no share; give 0 to 1", t.rule, t.key, v)
		case t.limit == "above 0" && !(v > 0):
			return fmt.Errorf("%s.%s: %g; give a number above 0, or on: false", t.rule, t.key, v)
		}
	}
	return nil
}

func shortError(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return errors.New(strings.NewReplacer("yaml: ", "", "unmarshal errors: ", "", " in type findings.file", "", " in type misuse.",
		" in ").Replace(text))
}

// For returns the thresholds for a workload of the partition on the given nodes. It is not safe for concurrent use.
func (p *Policy) For(partition string, nodes []string) *misuse.Policy {
	if len(p.rules) == 0 {
		return p.base
	}
	key := partition
	for _, o := range p.rules {
		key += "\x00" + fmt.Sprint(o.appliesTo(partition, nodes))
	}
	if m := p.memo[key]; m != nil {
		return m
	}
	m := *p.base
	for i := range p.rules {
		if p.rules[i].appliesTo(partition, nodes) {
			// It was merged successfully when it was read, so there is no error.
			_ = overrideValues(&m, &p.rules[i].rules)
		}
	}
	p.memo[key] = &m
	return &m
}

func (o *override) appliesTo(partition string, nodes []string) bool {
	if o.partition != "" {
		if ok, err := path.Match(o.partition, partition); err != nil || !ok {
			return false
		}
	}
	return o.node == "" || slices.ContainsFunc(nodes, func(n string) bool {
		ok, err := path.Match(o.node, n)
		return ok && err == nil
	})
}
