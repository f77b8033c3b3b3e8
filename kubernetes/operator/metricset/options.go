package metricset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Problem is the reason why a set is refused.
type Problem struct {
	// Field is the path of the field, such as spec.metrics[0].options.rate.
	Field string
	// Message describes the problem, Remedy the replacement.
	Message, Remedy string
}

// Error returns the field, the reason and the remedy.
func (p Problem) Error() string {
	if p.Remedy == "" {
		return p.Field + ": " + p.Message
	}
	return p.Field + ": " + p.Message + "; " + p.Remedy
}

// Values are the options of a metric or an add-on, with their defaults.
type Values map[string]string

// Int returns an option that was found to be a number.
func (v Values) Int(name string) int64 {
	n, _ := strconv.ParseInt(v[name], 10, 64) // validated
	return n
}

// On reports whether an option of type Bool or Present is switched on.
func (v Values) On(name string) bool { return v[name] == "true" }

// readOptions reads the options of a metric or an add-on at a field: values with defaults, warnings and problems.
func readOptions(at string, given map[string]intstr.IntOrString, kind *Kind) (Values, []string, []Problem) {
	field, known := at+".options", kind.Options
	values, seen := Values{}, map[string]string{}
	var warnings []string
	var problems []Problem
	for _, o := range known {
		if o.Default != "" {
			values[o.Name] = o.Default
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		path := field + "." + name
		i := slices.IndexFunc(known, func(o Option) bool { return o.Name == name || o.Alias == name })
		if i < 0 {
			problems = append(problems, unknownOption(at, "options", name, kind))
			continue
		}
		o := known[i]
		if first := seen[o.Name]; first != "" {
			problems = append(problems, Problem{path, "is the same option as " + first, "leave out one of them"})
			continue
		}
		seen[o.Name] = name
		text, problem := o.parseValue(given[name])
		if problem.Message != "" {
			problem.Field = path
			problems = append(problems, problem)
			continue
		}
		if o.Ignored != "" {
			warnings = append(warnings, path+" has no effect: "+o.Ignored)
		}
		values[o.Name] = text
	}
	for _, o := range known {
		if o.Required && values[o.Name] == "" &&
			!slices.ContainsFunc(problems, func(p Problem) bool { return p.Field == field+"."+o.Name }) {
			problems = append(problems, Problem{field + "." + o.Name, "is required", "write " + o.Name + ": VALUE"})
		}
	}
	return values, warnings, problems
}

// unknownOption returns the problem of an unknown option, with the name of the most similar option.
func unknownOption(at, where, name string, kind *Kind) Problem {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	names := map[string][]string{"options": optionNames(kind.Options), "listOptions": optionNames(kind.Lists), "mapOptions": kind.Maps}
	p := Problem{at + "." + where + "." + shorten(name), "there is no such option", "known are " + nameAlternatives(names[where])}
	for _, other := range []string{"options", "listOptions", "mapOptions"} {
		for _, n := range names[other] {
			if plain(n) == plain(name) {
				p.Remedy = "write it as " + other + "." + n
				return p
			}
		}
	}
	return p
}

// parseValue returns the value of an option as text.
func (o Option) parseValue(v intstr.IntOrString) (string, Problem) {
	switch o.Type {
	case Int:
		if v.Type != intstr.Int {
			if _, err := strconv.ParseInt(v.StrVal, 10, 64); err == nil {
				return "", Problem{"", fmt.Sprintf("%q is a text, and a number is needed", v.StrVal),
					fmt.Sprintf("write it without quotes: %s: %s", o.Name, v.StrVal)}
			}
			return "", Problem{"", fmt.Sprintf("%q is not a number", shorten(v.StrVal)),
				fmt.Sprintf("write a whole number: %s: %s", o.Name, o.Default)}
		}
		if int64(v.IntVal) < o.Min {
			return "", Problem{"", fmt.Sprintf("%d is too small", v.IntVal), fmt.Sprintf("write %d or more", o.Min)}
		}
	case Bool, Present:
		switch strings.ToLower(v.String()) {
		case "true", "yes":
			return "true", Problem{}
		case "false", "no":
			return "false", Problem{}
		}
		if o.Type == Present {
			return "true", Problem{}
		}
		return "", Problem{"", fmt.Sprintf("%q is neither true nor false", shorten(v.String())),
			fmt.Sprintf("write %s: \"true\" or \"false\", in quotes", o.Name)}
	}
	text := v.String()
	if strings.ContainsRune(text, 0) {
		return "", Problem{"", "holds a zero byte", "leave it out"}
	}
	if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, text) {
		return "", Problem{"", fmt.Sprintf("%q is unknown", shorten(text)), "one of " + strings.Join(o.OneOf, ", ")}
	}
	return text, Problem{}
}

func optionNames(known []Option) []string {
	names := make([]string, len(known))
	for i, o := range known {
		names[i] = o.Name
	}
	return names
}

// shorten shortens external text for a message.
func shorten(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
