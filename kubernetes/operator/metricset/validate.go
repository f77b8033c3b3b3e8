package metricset

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"reckon/kubernetes/operator/api/v1alpha2"
)

// Set is a valid MetricSet, converted and with all defaults.
type Set struct {
	Name, Namespace string
	Spec            *v1alpha2.MetricSetSpec
	Metrics         []Measure
	// Notes describe values that were moved out of older fields, Warnings those without effect.
	Notes, Warnings []string
}

// Measure is one metric of a set.
type Measure struct {
	Kind
	// Job is the name of its ReplicatedJob.
	Job    string
	Given  *v1alpha2.Metric
	Values Values
	Lists  map[string][]string
	Attach Attach
	Addons []Extra
}

// Extra is an add-on of a metric.
type Extra struct {
	AddonKind
	Values Values
	Maps   map[string]map[string]string
	// Resources of the add-on application.
	Limits, Requests v1alpha2.ContainerResource
}

// Attach is the way an application is measured.
type Attach string

// The ways to attach.
const (
	AttachNone      Attach = "" // the metric is an independent program
	AttachAgent     Attach = "agent"
	AttachSidecar   Attach = "sidecar"
	AttachEphemeral Attach = "ephemeral"
)

// FindKind returns a metric by name.
func FindKind(name string) (Kind, bool) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// FindAddon returns an add-on by name.
func FindAddon(name string) (AddonKind, bool) {
	i := slices.IndexFunc(Addons(), func(k AddonKind) bool { return k.Name == name })
	if i < 0 {
		return AddonKind{}, false
	}
	return Addons()[i], true
}

// Read converts and validates a MetricSet without changing ms. If there are problems, the set must not be run.
func Read(ms *v1alpha2.MetricSet) (*Set, []Problem) {
	spec := ms.Spec.DeepCopy()
	s := &Set{Name: ms.Name, Namespace: ms.Namespace, Spec: spec}
	notes, problems, moved := convertSpec(spec)
	s.Notes = notes
	defer func() { useWrittenNames(problems, moved) }()
	problems = append(problems, checkSpec(spec)...)
	seen := map[string]int{}
	for i := range spec.Metrics {
		m, at := &spec.Metrics[i], fmt.Sprintf("spec.metrics[%d]", i)
		if first, twice := seen[m.Name]; twice && m.Name != "" {
			problems = append(problems, Problem{at + ".name", fmt.Sprintf("%s is already spec.metrics[%d]", m.Name, first),
				"give it a MetricSet of its own"})
			continue
		}
		seen[m.Name] = i
		measure, warnings, found := readMetric(spec, m, at, i)
		s.Warnings, problems = append(s.Warnings, warnings...), append(problems, found...)
		if len(found) == 0 {
			problems = append(problems, checkNames(ms.Name, *spec.Pods, measure, at)...)
			s.Metrics = append(s.Metrics, measure)
			if !spec.DontSetFQDN && !s.FQDN(&measure) {
				s.Warnings = append(s.Warnings,
					fmt.Sprintf(
						"%s: full host names of its pods would be longer than the %d characters that Linux takes: the pods have the "+
							"short ones, as with dontSetFQDN", at, maxHostname))
			}
		}
	}
	return s, problems
}

func checkSpec(spec *v1alpha2.MetricSetSpec) (problems []Problem) {
	if len(spec.Metrics) == 0 {
		problems = append(problems, Problem{"spec.metrics", "is empty", "name at least one metric: " + strings.Join(kindNames(), ", ")})
	}
	if *spec.Pods < 1 {
		problems = append(problems, Problem{"spec.pods", fmt.Sprintf("%d is too small", *spec.Pods), "write 1 or more"})
	}
	if *spec.DeadlineSeconds <= 0 {
		problems = append(problems, Problem{"spec.deadlineSeconds", fmt.Sprintf("%d would end the jobs at once", *spec.DeadlineSeconds),
			"write the seconds they may take, or leave it out"})
	}
	for _, why := range validation.IsDNS1035Label(spec.ServiceName) {
		problems = append(problems, Problem{"spec.serviceName", why, "write a name such as ms"})
	}
	problems = append(problems, checkQuantities("spec.resources", spec.Resources)...)
	for _, name := range slices.Sorted(maps.Keys(spec.Resources)) {
		if name != "cpu" && name != "memory" && !strings.HasPrefix(name, "hugepages-") {
			problems = append(problems, Problem{"spec.resources." + name,
				"is no resource of a pod as a whole: those are cpu, memory and hugepages",
				"write it under spec.metrics[].resources.limits"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Pod.Labels)) {
		for _, why := range append(validation.IsQualifiedName(name), validation.IsValidLabelValue(spec.Pod.Labels[name])...) {
			problems = append(problems, Problem{"spec.pod.labels." + name, why, ""})
		}
	}
	return problems
}

func readMetric(spec *v1alpha2.MetricSetSpec, m *v1alpha2.Metric, at string, index int) (out Measure, warnings []string,
	problems []Problem) {
	kind, known := FindKind(m.Name)
	if !known {
		remedy := "known are " + strings.Join(kindNames(), ", ")
		if _, addon := FindAddon(m.Name); addon {
			remedy = "it is an add-on: write it under addons of a metric"
		}
		return out, nil, []Problem{{at + ".name", fmt.Sprintf("there is no metric %q", shorten(m.Name)), remedy}}
	}
	out = Measure{Kind: kind, Given: m, Job: fmt.Sprintf("%s-%d", kind.Name, index), Lists: map[string][]string{}}
	out.Values, warnings, problems = readOptions(at, m.Options, &kind)
	for _, name := range slices.Sorted(maps.Keys(m.ListOptions)) {
		problems = append(problems, readList(&out, at, name, m.ListOptions[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(m.MapOptions)) {
		if !slices.Contains(kind.Maps, name) {
			problems = append(problems, unknownOption(at, "mapOptions", name, &kind))
		}
	}
	if kind.ImageRequired && m.Image == "" {
		problems = append(problems, Problem{at + ".image", "is required: " + kind.Name + " has no image of its own",
			"name the image of the application"})
	}
	if *spec.Pods < kind.MinPods && *spec.Pods > 0 {
		problems = append(problems, Problem{"spec.pods", fmt.Sprintf("%d is too small for %s", *spec.Pods, kind.Name),
			fmt.Sprintf("it needs %d or more", kind.MinPods)})
	}
	if m.Image != "" && kind.Image == "" && !kind.ImageRequired {
		warnings = append(warnings, at+".image has no effect: "+kind.Name+" is measured by the agent or its probe")
	}
	problems = append(problems, checkQuantities(at+".resources.limits", m.Resources.Limits)...)
	problems = append(problems, checkQuantities(at+".resources.requests", m.Resources.Requests)...)
	w, p := readAddons(&out, m, at)
	warnings, problems = append(warnings, w...), append(problems, p...)
	if len(problems) == 0 {
		w, p = checkPairs(&out, m, at)
		warnings, problems = append(warnings, w...), append(problems, p...)
	}
	return out, warnings, problems
}

func readList(out *Measure, at, name string, given []intstr.IntOrString) (problems []Problem) {
	field := at + ".listOptions." + name
	i := slices.IndexFunc(out.Kind.Lists, func(o Option) bool { return o.Name == name || o.Alias == name })
	if i < 0 {
		return []Problem{unknownOption(at, "listOptions", name, &out.Kind)}
	}
	o := out.Kind.Lists[i]
	for n, v := range given {
		text, problem := o.parseValue(v)
		if problem.Message != "" {
			problem.Field = fmt.Sprintf("%s[%d]", field, n)
			problems = append(problems, problem)
			continue
		}
		if slices.Contains(out.Lists[o.Name], text) {
			problems = append(problems, Problem{fmt.Sprintf("%s[%d]", field, n), fmt.Sprintf("%q is there twice", shorten(text)),
				"leave out one of them"})
		}
		out.Lists[o.Name] = append(out.Lists[o.Name], text)
	}
	return problems
}

func readAddons(out *Measure, m *v1alpha2.Metric, at string) (warnings []string, problems []Problem) {
	volumes, paths, names := map[string]string{}, map[string]string{}, map[string]bool{}
	for j, a := range m.Addons {
		field := fmt.Sprintf("%s.addons[%d]", at, j)
		kind, known := FindAddon(a.Name)
		if !known {
			problems = append(problems, Problem{field + ".name", fmt.Sprintf("there is no add-on %q", shorten(a.Name)),
				"known are " + strings.Join(addonNames(), ", ")})
			continue
		}
		values, w, p := readOptions(field, a.Options, &Kind{Options: kind.Options, Maps: kind.Maps})
		warnings, problems = append(warnings, w...), append(problems, p...)
		for _, name := range slices.Sorted(maps.Keys(a.ListOptions)) {
			problems = append(problems, unknownOption(field, "listOptions", name, &Kind{Options: kind.Options, Maps: kind.Maps}))
		}
		e := Extra{AddonKind: kind, Values: values, Maps: map[string]map[string]string{}}
		problems = append(problems, readMaps(&e, a, field)...)
		switch {
		case len(p) > 0:
		case kind.Family == "volume":
			problems = append(problems, checkVolume(&e, field, volumes, paths)...)
		case names[kind.Name]:
			problems = append(problems, Problem{field + ".name", kind.Name + " is there twice", "leave out one of them"})
		case kind.Name == "application":
			problems = append(problems, checkCommand(values["command"], field+".options.command")...)
		case len(kind.AnyOf) > 0 && !slices.ContainsFunc(kind.AnyOf, func(n string) bool { return values[n] != "" }):
			problems = append(problems, Problem{field + ".options", kind.Name + " does nothing",
				"give one of " + strings.Join(kind.AnyOf, ", ")})
		}
		names[kind.Name] = true
		out.Addons = append(out.Addons, e)
	}
	return warnings, problems
}

// checkCommand checks that the command of an application can be split into a program and its arguments.
func checkCommand(command, field string) []Problem {
	words, err := SplitCommand(command)
	switch {
	case err != nil:
		return []Problem{{field, err.Error(), "close the quote"}}
	case len(words) == 0:
		return []Problem{{field, "is empty", "write a program and its arguments"}}
	}
	return nil
}

// SplitCommand splits a command into words at blanks outside of single or double quotes. It does not expand variables,
// because the command runs without a shell.
func SplitCommand(text string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	inside := false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case strings.ContainsRune(" \t\n", r):
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%q has a quote without an end", shorten(text))
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}

func readMaps(e *Extra, a v1alpha2.MetricAddon, field string) (problems []Problem) {
	for _, name := range slices.Sorted(maps.Keys(a.MapOptions)) {
		at := field + ".mapOptions." + name
		switch {
		case !slices.Contains(e.AddonKind.Maps, name):
			problems = append(problems, unknownOption(field, "mapOptions", name, &Kind{Options: e.Options, Maps: e.AddonKind.Maps}))
		case name == "resourceLimits":
			e.Limits = a.MapOptions[name]
			problems = append(problems, checkQuantities(at, e.Limits)...)
		case name == "resourceRequests":
			e.Requests = a.MapOptions[name]
			problems = append(problems, checkQuantities(at, e.Requests)...)
		default:
			e.Maps[name] = map[string]string{}
			for key, v := range a.MapOptions[name] {
				e.Maps[name][key] = v.String()
			}
		}
	}
	for _, name := range e.MapsRequired {
		if len(a.MapOptions[name]) == 0 {
			problems = append(problems, Problem{field + ".mapOptions." + name, "is required", "write at least one entry, KEY: PATH"})
		}
	}
	return problems
}

func checkVolume(e *Extra, field string, names, paths map[string]string) (problems []Problem) {
	name, mount := e.Values["name"], path.Clean(e.Values["path"])
	if why := validation.IsDNS1123Label(name); len(why) > 0 {
		problems = append(problems, Problem{field + ".options.name", why[0], "write a name such as data"})
	}
	if !path.IsAbs(mount) || mount == "/" || strings.Contains(mount, ":") {
		problems = append(problems, Problem{field + ".options.path", fmt.Sprintf("%q is no folder to mount at", shorten(e.Values["path"])),
			"write an absolute path below /, without a colon"})
	}
	if first := names[name]; first != "" {
		problems = append(problems, Problem{field + ".options.name", name + " is the name of " + first + " too",
			"give each volume its own"})
	}
	if first := paths[mount]; first != "" {
		problems = append(problems, Problem{field + ".options.path", mount + " is the path of " + first + " too",
			"mount each volume elsewhere"})
	}
	names[name], paths[mount] = field, field
	return problems
}

func checkQuantities(field string, list v1alpha2.ContainerResource) (problems []Problem) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		v := list[name]
		q, err := resource.ParseQuantity(v.String())
		if err != nil {
			problems = append(problems, Problem{field + "." + name, fmt.Sprintf("%q is not a quantity", shorten(v.String())),
				"write one such as 500m or 2Gi"})
		} else if q.Sign() < 0 {
			problems = append(problems, Problem{field + "." + name, v.String() + " is negative", "write 0 or more"})
		}
	}
	return problems
}

// checkSelector parses the label selector of pods that run already.
func checkSelector(text, field string) []Problem {
	sel, err := labels.Parse(text)
	if err != nil {
		return []Problem{{field, err.Error(), "write labels such as app=web"}}
	}
	if sel.Empty() {
		return []Problem{{field, "selects every pod of the namespace", "write labels such as app=web"}}
	}
	return nil
}

func kindNames() (names []string) {
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}

func addonNames() (names []string) {
	for _, k := range Addons() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}

func nameAlternatives(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
