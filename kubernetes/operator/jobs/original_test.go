package jobs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"reckon/kubernetes/operator/metricset"
)

// TestBesideOriginal holds the JobSet of each published file, field by field, against the one that the metrics-operator made of it.
// testdata/original.jsonl is what its GetJobSet returned at 8f15755 (MIT, see ../metricset/testdata/published/LICENSE) for each file in the
// namespace demo, with the defaults of its definition. Jobs are matched by what they do (m, l, w, n), lists of named things by name. Each
// difference has its reason in intended, or is an error; so is a reason that nothing needs.
func TestBesideOriginal(t *testing.T) {
	f, err := os.Open("testdata/original.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := &differences{t: t, used: map[string]int{}}
	sets := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var original struct {
			File string
			Spec map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &original); err != nil {
			t.Fatal(err)
		}
		for _, s := range published(t, "../metricset/testdata/published/"+original.File) {
			sets++
			d.file = original.File
			text, err := json.Marshal(build(t, s).JobSet.Spec)
			if err != nil {
				t.Fatal(err)
			}
			var ours map[string]any
			if err := json.Unmarshal(text, &ours); err != nil {
				t.Fatal(err)
			}
			names := roles(s)
			names["metrics-operator"] = s.Name // the volume of the scripts
			d.compare("", named(original.Spec, nil), named(ours, names))
		}
	}
	if sets < 50 {
		t.Errorf("%d sets were compared", sets)
	}
	total := 0
	for _, i := range intended() {
		if d.used[i.path] == 0 {
			t.Errorf("nothing differs at %s any more", i.path)
		}
		total += d.used[i.path]
	}
	t.Logf("%d sets: %d fields are the same, %d differ, for %d reasons", sets, d.same, total, len(intended()))
}

// roles maps our names of jobs to those of the original, counted where it has several of one name.
func roles(s *metricset.Set) map[string]string {
	out, n := map[string]string{}, map[string]int{}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		for k, job := range []string{m.Job, m.Workers()} {
			if role := m.Targets()[k]; role != m.Job { // else it has no workers
				out[job] = fmt.Sprint(role, n[role])
				n[role]++
			}
		}
	}
	return out
}

// named makes maps of lists of named things, with the names of a map in place of others, and leaves out what is empty.
func named(v any, names map[string]string) any {
	rename := func(s string) string {
		if n, ok := names[s]; ok {
			return n
		}
		return s
	}
	switch v := v.(type) {
	case string:
		return rename(v)
	case map[string]any:
		out := map[string]any{}
		for key, e := range v {
			if e = named(e, names); !empty(e) {
				out[key] = e
			}
		}
		return out
	case []any:
		keyed, counts := map[string]any{}, map[string]int{}
		for _, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				return plain(v, names)
			}
			key, _ := m["mountPath"].(string)
			if key == "" {
				key, _ = m["name"].(string)
			}
			if key == "" {
				return plain(v, names)
			}
			if key = rename(key); len(key) == 1 { // m, l, w or n
				key, counts[key] = fmt.Sprint(key, counts[key]), counts[key]+1
			}
			rest := maps.Clone(m)
			if m["mountPath"] == nil {
				delete(rest, "name")
			}
			keyed["["+key+"]"] = named(rest, names)
		}
		return keyed
	}
	return v
}

func plain(list []any, names map[string]string) (out []any) {
	for _, e := range list {
		e = named(e, names)
		if s, ok := e.(string); ok && slices.Contains([]string{"m", "l", "w", "n"}, s) {
			e = s + "0" // a role
		}
		out = append(out, e)
	}
	return out
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

type differences struct {
	t    *testing.T
	file string
	used map[string]int
	same int
}

// compare walks both; a path has * for names.
func (d *differences) compare(path string, old, now any) {
	a, ok := old.(map[string]any)
	b, ok2 := now.(map[string]any)
	if !ok || !ok2 {
		if reflect.DeepEqual(old, now) {
			d.same++
			return
		}
		for _, i := range intended() {
			if i.path == path && (i.old == "" || i.old == short(old)) && (i.now == "" || i.now == short(now)) {
				d.used[path]++
				return
			}
		}
		d.t.Errorf("%s: %s\n  was %s\n  is  %s", d.file, path, short(old), short(now))
		return
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		next := path + "." + key
		if strings.HasPrefix(key, "[") {
			next = path + "[*]"
		}
		d.compare(next, a[key], b[key])
	}
}

func short(v any) string {
	text, _ := json.Marshal(v)
	return string(text[:min(len(text), 300)])
}

// intent is a difference that is meant at a path, of one value to another as JSON; of any where they are empty.
type intent struct{ path, old, now, why string }

func intended() []intent {
	const job, pod = ".replicatedJobs[*].template.spec", ".replicatedJobs[*].template.spec.template.spec"
	const labels, files = job + ".template.metadata.labels.", pod + ".volumes[*].configMap.items"
	return []intent{
		{".replicatedJobs[*].dependsOn", "null", `{"[w0]":{"status":"Ready"}}`, "a launcher begins when its workers run, instead of after a pause"},
		{".ttlSecondsAfterFinished", "null", "86400", "what has ended goes away: the result is the run"},
		{".successPolicy.targetReplicatedJobs", "null", `["m0"]`, "success is that of named jobs where it named none"},
		{job + ".backoffLimit", "100", "0", "a workload that is started again would be measured as the first"},
		{pod + ".restartPolicy", `"OnFailure"`, `"Never"`, "the same"},
		{job + ".podFailurePolicy", "null", `{"rules":[{"action":"Ignore","onPodConditions":[{"status":"True","type":"DisruptionTarget"}]}]}`, "a pod whose node is drained is made again"},
		{labels + "app.kubernetes.io/managed-by", "null", `"reckon-operator"`, "what the operator watches"},
		{labels + "metrics.reckon/metric", "null", "", "which metric a pod belongs to"},
		{labels + "metrics.reckon/service", "null", "", "what the shared service selects"},
		{job + ".template.metadata.annotations", "null", "", "attach: agent tells the agent of the node how often it is to export the pod"},
		{pod + ".shareProcessNamespace", "true", "null", "attach: agent adds nothing to a pod"},
		{pod + ".dnsConfig", "null", `{"searches":["ms.demo.svc.cluster.local"]}`, "mpirun of Open MPI 4 uses short names"},
		{pod + ".setHostnameAsFQDN", "true", "false", "full names that are longer than 64 characters start on no kubelet"},
		{pod + ".affinity", "", "null", "soleTenancy false of network-chatterbug is read"},
		{files, "", "", "each pod gets its own scripts only"},
		{pod + ".volumes", "", "null", "an application that is measured runs as it is, without a script"},
		{pod + ".volumes[*]", "", "", "volumes of other volumes' programs have other names; ConfigMaps of the file, which the original left out"},
		{pod + ".containers[*]", "", "", "the metric's container gave way to the probe; Flux starts the container instead of running beside it"},
		{pod + ".initContainers", "null", "", "the probe is a native sidecar; Flux's programs are copied first"},
		{pod + ".containers[*].env", "null", "", "options go as variables instead of into the text of a script"},
		{pod + ".initContainers[*].env", "null", "", "the same"},
		{pod + ".initContainers[*].stdin", "true", "null", "a program that copies files needs no terminal"},
		{pod + ".initContainers[*].tty", "true", "null", "the same"},
		{pod + ".containers[*].workingDir", "null", "", "the folder is the container's; a script changed to it"},
		{pod + ".containers[*].volumeMounts", "", "null", "an application that is measured runs without a script"},
		{pod + ".containers[*].volumeMounts[*]", "", "", "volumes stand where the file has them: it left out some, and mounted the claim at /"},
		{pod + ".containers[*].volumeMounts[*].name", "", "", "volumes of the programs of add-ons have other names"},
		{pod + ".initContainers[*].volumeMounts[*]", "", "", "as in the containers"},
		{pod + ".initContainers[*].volumeMounts[*].name", "", "", "as in the containers"},
	}
}
