package metricset

import (
	"slices"
	"strings"
	"testing"
)

// TestVariants reads what people write beside the published files: objects as `kubectl get -o yaml` wrote them of v1alpha1, where every
// metric had a rate, options in the wrong place or of the wrong type. Each is converted, or refused by the field as it was written.
func TestVariants(t *testing.T) {
	const app = "  application: {image: a, command: b}\n"
	const addon = "addons: [{name: application, options: {image: a, command: b}}]"
	for _, c := range []struct {
		name, file string
		notes      string // of a set that is accepted
		refused    string
	}{
		{"stored storage metric", "  completions: 1\n  deadlineSeconds: 31500000\n  serviceName: ms\n  storage: {volume: {hostPath: /tmp, path: /tmp, readOnly: false}}\n  metrics: [{name: io-fio, rate: 10, completions: 0}]\n",
			"spec.metrics[0].rate was left out: io-fio runs once and takes no samples", ""},
		{"stored network metric", "  pods: 4\n  metrics: [{name: network-netmark, rate: 10, completions: 0, options: {tasks: 4}}]\n", "spec.metrics[0].rate was left out: network-netmark runs once", ""},
		{"stored application metric", app + "  metrics: [{name: perf-sysstat, rate: 10, completions: 0}]\n", "spec.metrics[0].completions was left out: 0 means the default", ""},
		{"rate 0", app + "  metrics: [{name: perf-sysstat, rate: 0}]\n", "spec.metrics[0].rate was left out: 0 means the default", ""},
		{"rate -1", app + "  metrics: [{name: perf-sysstat, rate: -1}]\n", "", "spec.metrics[0].rate: -1 is too small"},
		{"application and storage", app + "  storage: {volume: {claimName: c, path: /data}}\n  metrics: [{name: perf-sysstat}, {name: io-sysstat}]\n", "spec.storage.volume is now the add-on volume-pvc of spec.metrics[1]", ""},
		{"what runs differs from what is watched", "  application: {image: a, command: lmp, entrypoint: mpirun lmp}\n  metrics: [{name: perf-sysstat}]\n", "spec.application.entrypoint runs, and spec.application.command is now spec.metrics[0].options.command", ""},
		{"application without a command", "  application: {image: a}\n  metrics: [{name: perf-sysstat}]\n", "", "spec.application.command: is required"},
		{"application with half a quote", "  application: {image: a, command: 'sh -c \"x'}\n  metrics: [{name: perf-sysstat}]\n", "", "spec.application.command: \"sh -c \\\"x\" has a quote without an end; close the quote"},
		{"application with a blank command", "  application: {image: a, command: ' '}\n  metrics: [{name: perf-sysstat}]\n", "", "spec.application.command: is empty"},
		{"application of a network metric", app + "  pods: 2\n  metrics: [{name: network-netmark}]\n", "", "spec.application: no metric of this set measures an application"},
		{"limits of an application", "  application: {image: a, command: b, resources: {limits: {cpu: many}}}\n  metrics: [{name: perf-sysstat}]\n", "", `spec.application.resources.limits.cpu: "many" is not a quantity`},
		{"claim without a path", "  storage: {volume: {claimName: data}}\n  metrics: [{name: io-fio}]\n", "", "spec.storage.volume.path: is required"},
		{"ConfigMap of an application without items", "  application: {image: a, command: b, volumes: {conf: {path: /c, configMapName: m}}}\n  metrics: [{name: perf-sysstat}]\n", "", "spec.application.volumes.conf.items: is required"},
		{"list among options", "  pods: 2\n  metrics: [{name: network-osu-benchmark, options: {commands: osu_bw}}]\n", "", "spec.metrics[0].options.commands: there is no such option; write it as listOptions.commands"},
		{"option among lists", "  pods: 2\n  metrics: [{name: network-osu-benchmark, listOptions: {tasks: [2]}}]\n", "", "spec.metrics[0].listOptions.tasks: there is no such option; write it as options.tasks"},
		{"map among options", "  metrics: [{name: perf-sysstat, options: {commands: mpirun}, " + addon + "}]\n", "", "write it as mapOptions.commands"},
		{"items among options", "  metrics: [{name: sys-hwloc, addons: [{name: volume-cm, options: {name: c, path: /c, configMapName: m, items: k}}]}]\n", "", "spec.metrics[0].addons[0].options.items: there is no such option; write it as mapOptions.items"},
		{"other case", "  metrics: [{name: io-fio, options: {blockSize: 4k}, addons: [{name: volume-empty, options: {name: d, path: /tmp}}]}]\n", "", "write it as options.blocksize"},
		{"other style", "  pods: 2\n  metrics: [{name: network-netmark, options: {send_receive_cycles: 2}}]\n", "", "write it as options.sendReceiveCycles"},
		{"truth", "  metrics: [{name: perf-sysstat, options: {pids: true}, " + addon + "}]\n", "", `spec.metrics[0].options.pids: true is neither a number nor a text; write it in quotes: "true"`},
		{"a fraction", "  metrics: [{name: perf-sysstat, options: {rate: 0.5}, " + addon + "}]\n", "", `spec.metrics[0].options.rate: 0.5 is no whole number`},
		{"half a processor", "  metrics: [{name: sys-hwloc, resources: {limits: {cpu: 0.5}}}]\n", "", `spec.metrics[0].resources.limits.cpu: 0.5 is no whole number; write one, or a text in quotes such as "0.5"`},
		{"a list for an option", "  metrics: [{name: perf-sysstat, options: {command: [a]}, " + addon + "}]\n", "", "spec.metrics[0].options.command: is a list"},
		{"a map for an option", "  metrics: [{name: perf-sysstat, options: {command: {all: a}}, " + addon + "}]\n", "", "spec.metrics[0].options.command: is a map"},
		{"nothing for an option", "  metrics: [{name: perf-sysstat, options: {command: }, " + addon + "}]\n", "", "spec.metrics[0].options.command: has no value"},
		{"truth of an add-on", "  metrics: [{name: io-sysstat, addons: [{name: volume-pvc, options: {name: d, path: /d, claimName: c, readOnly: true}}]}]\n", "", `spec.metrics[0].addons[0].options.readOnly: true is neither`},
		{"pods in quotes", "  pods: \"2\"\n  metrics: [{name: sys-hwloc}]\n", "", `spec.pods: "2" is a text, and a number is needed`},
		{"entrypoint of today's add-on", "  metrics: [{name: perf-sysstat, addons: [{name: application, options: {image: a, command: b, entrypoint: c}}]}]\n", "spec.metrics[0].addons[0].options.entrypoint has no effect", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			sets, err := Decode(strings.NewReader(head + c.file))
			if err != nil {
				if c.refused == "" || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v\nwant %s", err, c.refused)
				}
				return
			}
			set, problems := Read(sets[0])
			if c.refused == "" && (len(problems) > 0 || !slices.ContainsFunc(slices.Concat(set.Notes, set.Warnings), func(n string) bool { return strings.HasPrefix(n, c.notes) })) {
				t.Errorf("refused %v, notes %q, warnings %q; want %s", problems, set.Notes, set.Warnings, c.notes)
			}
			if c.refused != "" && !slices.ContainsFunc(problems, func(p Problem) bool {
				return strings.HasPrefix(p.Error(), c.refused) || strings.HasSuffix(p.Error(), c.refused)
			}) {
				t.Errorf("got %v\nwant %s", problems, c.refused)
			}
		})
	}
}

// TestApplicationRunsOnce: a metric that looks at the machine does not get the application of another one.
func TestApplicationRunsOnce(t *testing.T) {
	sets, err := Decode(strings.NewReader(head + "  application: {image: a, command: b}\n  metrics: [{name: perf-sysstat}, {name: sys-hwloc}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, problems := Read(sets[0])
	if len(problems) > 0 || len(set.Metrics[0].Addons) != 1 || len(set.Metrics[1].Addons) != 0 {
		t.Errorf("%v %+v", problems, set.Metrics)
	}
}
