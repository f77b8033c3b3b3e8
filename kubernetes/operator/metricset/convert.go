package metricset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"reckon/kubernetes/operator/api/v1alpha2"
)

// Convert moves fields of older versions of a MetricSet to their current place and sets defaults. notes describe the
// moved fields, and problems describe fields that cannot be moved.
func Convert(spec *v1alpha2.MetricSetSpec) (notes []string, problems []Problem) {
	notes, problems, _ = convertSpec(spec)
	return notes, problems
}

// fieldOrigin is the former place of a field, because messages about a problem must name the place in the user's older file.
type fieldOrigin struct{ now, before string }

// convertSpec is like Convert and also returns the origins of fields.
func convertSpec(spec *v1alpha2.MetricSetSpec) (notes []string, problems []Problem, moved []fieldOrigin) {
	setDefaults(spec)
	for i := range spec.Metrics {
		n, p, o := moveNumbers(&spec.Metrics[i], fmt.Sprintf("spec.metrics[%d]", i))
		notes, problems, moved = append(notes, n...), append(problems, p...), append(moved, o...)
	}
	if spec.Completions != nil {
		if n := *spec.Completions; n != 0 && n != *spec.Pods {
			problems = append(problems, Problem{"spec.completions",
				fmt.Sprintf("%d differs from spec.pods (%d), and each pod completes once", n, *spec.Pods),
				"set spec.pods, or options.completions of a metric for the number of samples"})
		}
		spec.Completions = nil
	}
	if app := spec.Application; app != nil {
		n, p, o := moveApplication(spec, app)
		notes, problems, moved = append(notes, n...), append(problems, p...), append(moved, o...)
		spec.Application = nil
	}
	if st := spec.Storage; st != nil {
		n, p, o := moveStorage(spec, st)
		notes, problems, moved = append(notes, n...), append(problems, p...), append(moved, o...)
		spec.Storage = nil
	}
	return notes, problems, moved
}

// useWrittenNames names the fields of problems as the file does.
func useWrittenNames(problems []Problem, moved []fieldOrigin) {
	for i, p := range problems {
		for _, o := range moved {
			if rest, ok := strings.CutPrefix(p.Field, o.now); ok &&
				(rest == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "[")) {
				problems[i].Field = o.before + rest
				break
			}
		}
	}
}

func setDefaults(spec *v1alpha2.MetricSetSpec) {
	if spec.Pods == nil {
		n := v1alpha2.DefaultPods
		spec.Pods = &n
	}
	if spec.DeadlineSeconds == nil {
		n := v1alpha2.DefaultDeadlineSeconds
		spec.DeadlineSeconds = &n
	}
	if spec.ServiceName == "" {
		spec.ServiceName = v1alpha2.DefaultServiceName
	}
}

// moveNumbers moves the fields rate and completions of v1alpha1 to the metrics that sample. In v1alpha1 every metric
// had both fields, but the other metrics never used them. Their default was 0.
func moveNumbers(m *v1alpha2.Metric, at string) (notes []string, problems []Problem, moved []fieldOrigin) {
	kind, known := FindKind(m.Name)
	for _, old := range []struct {
		name  string
		value **int32
	}{{"rate", &m.Rate}, {"completions", &m.Completions}} {
		if *old.value == nil {
			continue
		}
		n, field, to := **old.value, at+"."+old.name, at+".options."+old.name
		*old.value = nil
		_, both := m.Options[old.name]
		switch {
		case known && !slices.ContainsFunc(kind.Options, func(o Option) bool { return o.Name == old.name }):
			notes = append(notes, field+" was left out: "+m.Name+" runs once and takes no samples")
		case both:
			problems = append(problems, Problem{field, "is also in options", "leave out one of them"})
		case n == 0:
			notes = append(notes, field+" was left out: 0 means the default")
		default:
			setOption(&m.Options, old.name, intstr.FromInt32(n))
			notes, moved = append(notes, field+" is now "+to), append(moved, fieldOrigin{to, field})
		}
	}
	return notes, problems, moved
}

func setOption(to *map[string]intstr.IntOrString, name string, v intstr.IntOrString) {
	if *to == nil {
		*to = map[string]intstr.IntOrString{}
	}
	(*to)[name] = v
}

// findShapes returns the indexes of metrics of some shape.
func findShapes(spec *v1alpha2.MetricSetSpec, shapes ...Shape) (at []int) {
	for i, m := range spec.Metrics {
		if k, ok := FindKind(m.Name); ok && slices.Contains(shapes, k.Shape) {
			at = append(at, i)
		}
	}
	return at
}

func moveApplication(spec *v1alpha2.MetricSetSpec, app *v1alpha2.LegacyApplication) (notes []string, problems []Problem,
	moved []fieldOrigin) {
	to := findShapes(spec, Application)
	if len(to) == 0 {
		to = findShapes(spec, System) // they look at the machine, beside the application if there is one
	}
	if len(to) == 0 {
		return nil, []Problem{
			{"spec.application", "no metric of this set measures an application",
				"add the metric perf-sysstat, or leave the application out"}}, nil
	}
	addon := v1alpha2.MetricAddon{Name: "application", Options: map[string]intstr.IntOrString{}}
	run, watched := app.Command, ""
	if app.Entrypoint != "" && app.Entrypoint != app.Command { // Entrypoint was run, and Command was the name of the process to watch.
		run, watched = app.Entrypoint, app.Command
	}
	for name, v := range map[string]string{"image": app.Image, "command": run, "workdir": app.WorkingDir, "pullSecret": app.PullSecret} {
		if v != "" {
			addon.Options[name] = intstr.FromString(v)
		}
	}
	if app.Attributes.SecurityContext.Privileged {
		addon.Options["privileged"] = intstr.FromString("true")
	}
	for name, list := range map[string]v1alpha2.ContainerResource{"resourceLimits": app.Resources.Limits,
		"resourceRequests": app.Resources.Requests} {
		if len(list) > 0 {
			if addon.MapOptions == nil {
				addon.MapOptions = map[string]map[string]intstr.IntOrString{}
			}
			addon.MapOptions[name] = list
		}
	}
	addons, from := []v1alpha2.MetricAddon{addon}, []string{"spec.application"}
	for _, name := range slices.Sorted(maps.Keys(app.Volumes)) {
		v, problem := moveVolume("spec.application.volumes."+name, name, app.Volumes[name])
		if problem.Message != "" {
			problems = append(problems, problem)
			continue
		}
		addons, from = append(addons, v), append(from, "spec.application.volumes."+name)
	}
	for _, i := range to {
		m := &spec.Metrics[i]
		for j := range addons {
			moved = append(moved, addonOrigins(fmt.Sprintf("spec.metrics[%d].addons[%d]", i, len(m.Addons)+j), from[j])...)
		}
		m.Addons = append(m.Addons, addons...)
		notes = append(notes, fmt.Sprintf("spec.application is now the add-on application of spec.metrics[%d]", i))
		if _, given := m.Options["command"]; watched != "" && !given && m.Name == "perf-sysstat" {
			setOption(&m.Options, "command", intstr.FromString(watched))
			notes = append(
				notes, fmt.Sprintf("spec.application.entrypoint runs, and spec.application.command is now spec.metrics[%d].options.command",
					i))
		}
	}
	return notes, problems, moved
}

// addonOrigins returns the places of an add-on that was made of a block of an older file.
func addonOrigins(now, before string) []fieldOrigin {
	return []fieldOrigin{{now + ".options.workdir", before + ".workingDir"}, {now + ".options", before},
		{now + ".mapOptions.resourceLimits", before + ".resources.limits"},
		{now + ".mapOptions.resourceRequests", before + ".resources.requests"}, {now + ".mapOptions", before}, {now, before}}
}

func moveStorage(spec *v1alpha2.MetricSetSpec, st *v1alpha2.LegacyStorage) (notes []string, problems []Problem, moved []fieldOrigin) {
	to := findShapes(spec, Storage)
	if len(to) == 0 {
		return nil, []Problem{
			{"spec.storage", "no metric of this set measures storage",
				"add io-fio, io-ior, io-sysstat or io-probe, or leave the storage out"}}, nil
	}
	for _, i := range to {
		m := &spec.Metrics[i]
		if st.Volume != nil {
			v, problem := moveVolume("spec.storage.volume", "storage", *st.Volume)
			if problem.Message != "" {
				return notes, append(problems, problem), moved
			}
			moved = append(moved, addonOrigins(fmt.Sprintf("spec.metrics[%d].addons[%d]", i, len(m.Addons)), "spec.storage.volume")...)
			m.Addons = append(m.Addons, v)
			notes = append(notes, fmt.Sprintf("spec.storage.volume is now the add-on %s of spec.metrics[%d]", v.Name, i))
		}
		for _, c := range [][2]string{{"pre", st.Commands.Pre}, {"prefix", st.Commands.Prefix}, {"post", st.Commands.Post}} {
			if c[1] == "" {
				continue
			}
			if _, both := m.Options[c[0]]; both {
				problems = append(problems, Problem{"spec.storage.commands." + c[0], fmt.Sprintf("is also in spec.metrics[%d].options", i),
					"leave out one of them"})
				continue
			}
			setOption(&m.Options, c[0], intstr.FromString(c[1]))
			now := fmt.Sprintf("spec.metrics[%d].options.%s", i, c[0])
			notes, moved = append(notes, fmt.Sprintf("spec.storage.commands.%s is now %s", c[0], now)),
				append(moved, fieldOrigin{now, "spec.storage.commands." + c[0]})
		}
	}
	return notes, problems, moved
}

// moveVolume creates the add-on for a volume of v1alpha1, which had no names for kinds.
func moveVolume(field, name string, v v1alpha2.LegacyVolume) (v1alpha2.MetricAddon, Problem) {
	var kinds []string
	addon := v1alpha2.MetricAddon{Options: map[string]intstr.IntOrString{"name": intstr.FromString(name)}}
	for _, k := range [][3]string{{"volume-hostpath", "hostPath", v.HostPath}, {"volume-pvc", "claimName", v.ClaimName},
		{"volume-secret", "secretName", v.SecretName}, {"volume-cm", "configMapName", v.ConfigMapName}} {
		if k[2] != "" {
			addon.Name = k[0]
			addon.Options[k[1]] = intstr.FromString(k[2])
			kinds = append(kinds, k[1])
		}
	}
	if v.EmptyVol {
		addon.Name, kinds = "volume-empty", append(kinds, "emptyVol")
	}
	switch {
	case len(kinds) == 0:
		return addon, Problem{field, "names no kind of volume", "one of hostPath, claimName, secretName, configMapName, emptyVol"}
	case len(kinds) > 1:
		return addon, Problem{field, "names several kinds of volume: " + strings.Join(kinds, ", "), "leave one of them"}
	case v.Path == "" && v.HostPath != "":
		v.Path = v.HostPath
	}
	if v.Path != "" {
		addon.Options["path"] = intstr.FromString(v.Path)
	}
	if v.ReadOnly {
		addon.Options["readOnly"] = intstr.FromString("true")
	}
	for key, path := range v.Items {
		if addon.MapOptions == nil {
			addon.MapOptions = map[string]map[string]intstr.IntOrString{"items": {}}
		}
		addon.MapOptions["items"][key] = intstr.FromString(path)
	}
	return addon, Problem{}
}
