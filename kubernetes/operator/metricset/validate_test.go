package metricset

import (
	"strings"
	"testing"
)

const head = "apiVersion: flux-framework.org/v1alpha2\nkind: MetricSet\nmetadata: {name: demo}\nspec:\n"

// spec is a set of one metric, in YAML's flow style.
func one(metric string) string { return head + "  metrics: [" + metric + "]\n" }

func TestRefused(t *testing.T) {
	const app = "{name: application, options: {image: a, command: b}}"
	for _, c := range []struct{ name, file, want string }{
		{"no metric", head + "  pods: 1\n", "spec.metrics: is empty; name at least one metric: app-amg,"},
		{"unknown metric", one("{name: perf-top}"), `spec.metrics[0].name: there is no metric "perf-top"; known are app-amg,`},
		{"add-on as metric", one("{name: volume-pvc}"), "it is an add-on: write it under addons of a metric"},
		{"unknown option", one("{name: perf-sysstat, options: {speed: 1}, addons: [" + app + "]}"), "spec.metrics[0].options.speed: there is no such option; known are rate, completions,"},
		{"number as a string", one(`{name: perf-sysstat, options: {rate: "10"}, addons: [` + app + "]}"), `spec.metrics[0].options.rate: "10" is a text, and a number is needed; write it without quotes: rate: 10`},
		{"not a number", one(`{name: perf-sysstat, options: {rate: often}, addons: [` + app + "]}"), `"often" is not a number`},
		{"rate 0", one(`{name: perf-sysstat, options: {rate: 0}, addons: [` + app + "]}"), "spec.metrics[0].options.rate: 0 is too small; write 1 or more"},
		{"negative completions", one(`{name: perf-sysstat, options: {completions: -1}, addons: [` + app + "]}"), "-1 is too small; write 0 or more"},
		{"no application", one("{name: perf-sysstat, options: {command: sleep 10}}"), "spec.metrics[0].addons: there is no application to measure; add the add-on application"},
		{"no image", one("{name: perf-sysstat, addons: [{name: application, options: {command: b}}]}"), "spec.metrics[0].addons[0].options.image: is required"},
		{"threads by agent", one(`{name: perf-sysstat, options: {attach: agent, threads: "true"}, addons: [` + app + "]}"), "spec.metrics[0].options.attach: the node's agent measures pods as a whole, and threads asks for their processes; write attach: sidecar"},
		{"unknown way", one(`{name: perf-sysstat, options: {attach: ptrace}, addons: [` + app + "]}"), `spec.metrics[0].options.attach: "ptrace" is unknown; one of agent, sidecar, ephemeral`},
		{"ephemeral without selector", one("{name: perf-sysstat, options: {attach: ephemeral, completions: 3}}"), "spec.metrics[0].options.selector: is required by attach: ephemeral"},
		{"ephemeral without end", one(`{name: perf-sysstat, options: {selector: "app=web"}}`), "spec.metrics[0].options.completions: an ephemeral container cannot be taken out"},
		{"bad selector", one(`{name: perf-sysstat, options: {selector: "app==,", completions: 3}}`), "spec.metrics[0].options.selector: "},
		{"selector beside an application", one(`{name: perf-sysstat, options: {attach: sidecar, selector: "app=web"}, addons: [` + app + "]}"), "only attach: ephemeral selects pods"},
		{"storage without volume", one("{name: io-fio}"), "spec.metrics[0].addons: io-fio measures a volume, and there is none; add volume-pvc"},
		{"read-only storage", one(`{name: io-fio, addons: [{name: volume-pvc, options: {name: d, path: /d, claimName: c, readOnly: "true"}}]}`), `the volume d is read-only, and io-fio writes; write readOnly: "false"`},
		{"claim without a name", one("{name: io-fio, addons: [{name: volume-pvc, options: {name: d, path: /d}}]}"), "spec.metrics[0].addons[0].options.claimName: is required"},
		{"mount at the root", one("{name: io-fio, addons: [{name: volume-empty, options: {name: d, path: /}}]}"), `spec.metrics[0].addons[0].options.path: "/" is no folder to mount at`},
		{"two volumes of one name", one("{name: io-fio, addons: [{name: volume-empty, options: {name: d, path: /a}}, {name: volume-empty, options: {name: d, path: /b}}]}"), "spec.metrics[0].addons[1].options.name: d is the name of spec.metrics[0].addons[0] too"},
		{"two volumes at one path", one("{name: io-fio, addons: [{name: volume-empty, options: {name: d, path: /a}}, {name: volume-empty, options: {name: e, path: /a/}}]}"), "spec.metrics[0].addons[1].options.path: /a is the path of spec.metrics[0].addons[0] too"},
		{"a metric twice", one("{name: sys-hwloc}, {name: sys-hwloc}"), "spec.metrics[1].name: sys-hwloc is already spec.metrics[0]; give it a MetricSet of its own"},
		{"launcher alone", one("{name: app-amg}"), "spec.pods: 1 is too small for app-amg; it needs 2 or more"},
		{"pods 0", head + "  pods: 0\n  metrics: [{name: sys-hwloc}]\n", "spec.pods: 0 is too small"},
		{"deadline 0", head + "  deadlineSeconds: 0\n  metrics: [{name: sys-hwloc}]\n", "spec.deadlineSeconds: 0 would end the jobs at once"},
		{"bad quantity", one("{name: sys-hwloc, resources: {limits: {cpu: many}}}"), `spec.metrics[0].resources.limits.cpu: "many" is not a quantity; write one such as 500m or 2Gi`},
		{"negative quantity", one("{name: sys-hwloc, resources: {requests: {cpu: -1}}}"), "spec.metrics[0].resources.requests.cpu: -1 is negative"},
		{"device of a pod as a whole", head + "  resources: {example.com/gpu: 1}\n  metrics: [{name: sys-hwloc}]\n", "spec.resources.example.com/gpu: is no resource of a pod as a whole"},
		{"custom without image", one("{name: app-custom, options: {command: x}}"), "spec.metrics[0].image: is required: app-custom has no image of its own"},
		{"commands without a script", one("{name: perf-sysstat, addons: [" + app + ", {name: commands, options: {prefix: time}}]}"), "spec.metrics[0].addons[1].name: commands edits the script of a metric, and perf-sysstat has none"},
		{"commands without text", head + "  pods: 2\n  metrics: [{name: app-amg, addons: [{name: commands}]}]\n", "commands does nothing; give one of preBlock, prefix, suffix, postBlock"},
		{"unknown benchmark", head + "  pods: 2\n  metrics: [{name: network-osu-benchmark, listOptions: {commands: [osu_fast]}}]\n", `spec.metrics[0].listOptions.commands[0]: "osu_fast" is unknown`},
		{"a benchmark twice", head + "  pods: 2\n  metrics: [{name: network-osu-benchmark, listOptions: {commands: [osu_bw, osu_bw]}}]\n", `spec.metrics[0].listOptions.commands[1]: "osu_bw" is there twice`},
		{"one option by two names", head + "  pods: 2\n  metrics: [{name: network-osu-benchmark, options: {soleTenancy: no-, sole-tenancy: x}}]\n", "is the same option as sole-tenancy"},
		{"unknown target", head + "  pods: 2\n  metrics: [{name: app-amg, addons: [{name: commands, options: {prefix: time, target: x}}]}]\n", `spec.metrics[0].addons[0].options.target: there is no job "x"; one of l, w,`},
		{"other completions", head + "  pods: 2\n  completions: 3\n  metrics: [{name: sys-hwloc}]\n", "spec.completions: 3 differs from spec.pods (2)"},
		{"rate twice", one(`{name: perf-sysstat, rate: 2, options: {rate: 3}, addons: [` + app + "]}"), "spec.metrics[0].rate: is also in options; leave out one of them"},
		{"storage of nothing", head + "  storage: {volume: {hostPath: /d}}\n  metrics: [{name: sys-hwloc}]\n", "spec.storage: no metric of this set measures storage"},
		{"volume of no kind", head + "  storage: {volume: {path: /d}}\n  metrics: [{name: io-fio}]\n", "spec.storage.volume: names no kind of volume"},
		{"volume of two kinds", head + "  storage: {volume: {path: /d, hostPath: /d, claimName: c}}\n  metrics: [{name: io-fio}]\n", "spec.storage.volume: names several kinds of volume: hostPath, claimName"},
		{"name too long", strings.Replace(one("{name: sys-hwloc}"), "demo", strings.Repeat("x", 42), 1), "63 are allowed; shorten the name by 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sets, err := Decode(strings.NewReader(c.file))
			if err != nil {
				t.Fatal(err)
			}
			_, problems := Read(sets[0])
			var all []string
			for _, p := range problems {
				all = append(all, p.Error())
			}
			if got := strings.Join(all, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestEdges holds what is just allowed: the other side of the thresholds above.
func TestEdges(t *testing.T) {
	const app = "{name: application, options: {image: a, command: b}}"
	for _, c := range []struct{ name, file string }{
		{"longest name", strings.Replace(one("{name: sys-hwloc}"), "demo", strings.Repeat("x", 41), 1)},
		{"rate 1", one(`{name: perf-sysstat, options: {rate: 1}, addons: [` + app + "]}")},
		{"two pods", head + "  pods: 2\n  metrics: [{name: app-amg}]\n"},
		{"number for a text", one("{name: io-fio, options: {size: 1048576}, addons: [{name: volume-empty, options: {name: d, path: /d}}]}")},
		{"completions as pods", head + "  pods: 2\n  completions: 2\n  metrics: [{name: sys-hwloc}]\n"},
		{"quantity 0", one("{name: sys-hwloc, resources: {limits: {cpu: 0}}}")},
		{"different metrics", one("{name: sys-hwloc}, {name: io-probe, addons: [{name: volume-empty, options: {name: d, path: /d}}]}")},
	} {
		sets, err := Decode(strings.NewReader(c.file))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, problems := Read(sets[0]); len(problems) > 0 {
			t.Errorf("%s: %v", c.name, problems)
		}
	}
}

// TestDefaultWay holds how an application is measured where a file does not set it.
func TestDefaultWay(t *testing.T) {
	const app = "addons: [{name: application, options: {image: a, command: b}}]"
	for options, want := range map[string]Attach{
		"{rate: 1}":                              AttachAgent,
		`{threads: "true"}`:                      AttachSidecar,
		`{pids: "yes"}`:                          AttachSidecar,
		`{pids: "false"}`:                        AttachAgent,
		`{attach: sidecar}`:                      AttachSidecar,
		`{selector: "app=web", completions: 3}`:  AttachEphemeral,
		`{attach: agent, command: "sleep 10"}`:   AttachAgent,
		`{attach: sidecar, command: "sleep 10"}`: AttachSidecar,
	} {
		addon := app
		if want == AttachEphemeral {
			addon = "addons: []"
		}
		sets, err := Decode(strings.NewReader(one("{name: perf-sysstat, options: " + options + ", " + addon + "}")))
		if err != nil {
			t.Fatal(err)
		}
		set, problems := Read(sets[0])
		if len(problems) > 0 || set.Metrics[0].Attach != want {
			t.Errorf("%s: %+v, %v, want %s", options, set.Metrics, problems, want)
		}
	}
}

// TestReadLeavesObject: reading changes nothing of the object, which may be in a cache.
func TestReadLeavesObject(t *testing.T) {
	sets, err := Decode(strings.NewReader(head + "  application: {image: a, command: b}\n  metrics: [{name: perf-sysstat, rate: 2}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	before := sets[0].DeepCopy()
	if _, problems := Read(sets[0]); len(problems) > 0 {
		t.Fatal(problems)
	}
	if sets[0].Spec.Application == nil || sets[0].Spec.Metrics[0].Rate == nil || len(sets[0].Spec.Metrics[0].Options) != len(before.Spec.Metrics[0].Options) {
		t.Error("the object was changed")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(one("{name: sys-hwloc}"))
	f.Add(head + "  application: {image: a, command: b}\n  metrics: [{name: perf-sysstat, rate: 2}]\n")
	f.Add("apiVersion: flux-framework.org/v1alpha1\nkind: MetricSet\n---\n- x")
	f.Fuzz(func(t *testing.T, file string) {
		sets, err := Decode(strings.NewReader(file))
		if err != nil {
			return
		}
		for _, ms := range sets {
			set, problems := Read(ms)
			if len(problems) == 0 && len(set.Metrics) == 0 {
				t.Error("accepted without a metric")
			}
		}
	})
}
