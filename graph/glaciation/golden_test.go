package glaciation_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"reckon/graph"
	"reckon/graph/glaciation"
	"reckon/graph/jsonld"
	"reckon/graph/kubernetes"
	"reckon/graph/object"
)

const fixtures = "testdata/kg_exporter"

// The fixtures of single objects have an older context than the exporter's present one.
var old = glaciation.Vocabulary{Cluster: "https://127.0.0.1:6443/", K8s: "http://glaciation-project.eu/model/k8s/"}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sameAs compares quads with a document of the exporter.
func sameAs(t *testing.T, got []graph.Quad, name string) {
	t.Helper()
	want, err := jsonld.Read(strings.NewReader(string(readFile(t, name))), nil, graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 && !strings.Contains(name, "empty") {
		t.Fatal("the fixture is empty")
	}
	a, err := graph.Canonical(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := graph.Canonical(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range a {
		if !slices.Contains(b, q) {
			t.Errorf("%s: the exporter does not write %s", name, q)
		}
	}
	for _, q := range b {
		if !slices.Contains(a, q) {
			t.Errorf("%s: missing %s", name, q)
		}
	}
}

func TestObjects(t *testing.T) {
	for _, name := range []string{"deployment", "replicaset", "statefulset", "master_node", "worker_node", "pod1", "pod2", "pod3", "workload_pod"} {
		t.Run(name, func(t *testing.T) {
			d := old.Document()
			describe(t, d, readFile(t, "objects/"+name+".json"), strings.HasSuffix(name, "_node"), strings.Contains(name, "pod"))
			sameAs(t, d.Quads(), "objects/"+name+".jsonld")
		})
	}
}

func describe(t *testing.T, d *glaciation.Document, raw []byte, node, pod bool) {
	t.Helper()
	switch {
	case node:
		n, err := kubernetes.Node(raw)
		if err != nil {
			t.Fatal(err)
		}
		d.Node(n, 123)
	case pod:
		p, err := kubernetes.Pod(raw)
		if err != nil {
			t.Fatal(err)
		}
		d.Pod(p)
	default:
		w, err := kubernetes.Workload(raw)
		if err != nil {
			t.Fatal(err)
		}
		d.Workload(w)
	}
}

func TestCluster(t *testing.T) {
	name, err := clusterName(readFile(t, "objects/cluster.kubeadm-config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []json.RawMessage
	if err := json.Unmarshal(readFile(t, "objects/cluster.nodes.json"), &nodes); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, raw := range nodes {
		n, err := kubernetes.Node(raw)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, n.Name)
	}
	d := old.Document()
	d.Cluster(name, names)
	sameAs(t, d.Quads(), "objects/cluster.jsonld")
}

func TestMeasurements(t *testing.T) {
	for file, resource := range map[string]string{"node": "worker1", "pod1": "pod1"} {
		first := object.Query{Measurement: "CPU.Usage", Source: "cAdvisor", Unit: "coreseconds", Property: "CPU.Usage"}
		if file == "node" {
			first.Subresource, first.Measurement = "CPU", "Usage"
		}
		second := object.Query{Measurement: "Energy.Usage", Source: "cAdvisor", Unit: "milliwatt", Property: "Energy.Usage", Aggregation: "average", Period: 300 * time.Second}
		d := old.Document()
		for _, q := range []object.Query{first, second} {
			m := object.Measurement{Query: q, Resource: resource, Time: 17100500, Value: 42}
			if file == "node" {
				d.NodeMeasurement(m, 123)
			} else {
				d.PodMeasurement(m, 123)
			}
		}
		sameAs(t, d.Quads(), "metrics/"+file+".jsonld")
	}
}

// objects reads a YAML list of a snapshot as JSON objects.
func objects(t *testing.T, dir, kind string) (out []json.RawMessage) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(fixtures, "snapshot", dir, "k8s_"+kind+".yaml"))
	if os.IsNotExist(err) {
		return nil
	}
	var list []any
	if err == nil {
		err = yaml.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, raw)
	}
	return out
}

func measurements(t *testing.T, dir, kind string) (out []object.Measurement) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(fixtures, "snapshot", dir, "metric_"+kind+".yaml"))
	if os.IsNotExist(err) {
		return nil
	}
	var list []struct {
		Query struct {
			Measurement string `yaml:"measurement_id"`
			Subresource string
			Source      string
			Unit        string
			Property    string
			Query       string
			Aggregation struct {
				Period   int `yaml:"period_seconds"`
				Function string
			}
		}
		Value struct {
			Resource  string `yaml:"resource_id"`
			Timestamp int64
			Value     float64
		}
	}
	if err == nil {
		err = yaml.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int{} // the server of the exporter's test has one response per query, the last
	for i, m := range list {
		last[m.Query.Query] = i
	}
	for _, m := range list {
		m.Value = list[last[m.Query.Query]].Value
		q := object.Query{Measurement: m.Query.Measurement, Subresource: m.Query.Subresource, Source: m.Query.Source, Unit: m.Query.Unit, Property: m.Query.Property,
			Aggregation: m.Query.Aggregation.Function, Period: time.Duration(m.Query.Aggregation.Period) * time.Second}
		out = append(out, object.Measurement{Query: q, Resource: m.Value.Resource, Time: m.Value.Timestamp, Value: m.Value.Value})
	}
	return out
}

func TestSnapshots(t *testing.T) {
	for dir, file := range map[string]string{"empty": "slice_127.0.0.1_80.jsonld", "minimal": "slice_glaciation-test-master01_80.jsonld"} {
		t.Run(dir, func(t *testing.T) {
			server, cluster := "10.14.1.160:6443", ""
			if dir == "minimal" {
				cluster = "kubernetes"
			}
			var nodes []object.Node
			var names []string
			for _, raw := range objects(t, dir, "nodes") {
				n, err := kubernetes.Node(raw)
				if err != nil {
					t.Fatal(err)
				}
				nodes, names = append(nodes, n), append(names, n.Name)
			}
			d := glaciation.New(server).Document()
			d.Cluster(cluster, names)
			for _, n := range nodes {
				d.Node(n, 1000)
			}
			for _, kind := range []string{"pods", "daemonsets", "deployments", "replicasets", "jobs", "statefullsets"} {
				for _, raw := range objects(t, dir, kind) {
					describe(t, d, raw, false, kind == "pods")
				}
			}
			for _, m := range measurements(t, dir, "nodes") {
				d.NodeMeasurement(m, 1000)
			}
			for _, m := range measurements(t, dir, "pods") {
				d.PodMeasurement(m, 1000)
			}
			sameAs(t, d.Quads(), "snapshot/"+dir+"/"+file)
		})
	}
}

func TestNames(t *testing.T) {
	d := glaciation.New("10.0.0.1:6443").Document()
	d.Node(object.Node{Name: "a b\n<c>", Allocatable: object.Amounts{object.CPU: 1.93}}, 5)
	found := false
	for _, q := range d.Quads() {
		if err := q.Check(0); err != nil {
			t.Error(err)
		}
		found = found || strings.HasSuffix(q.S.Value, ".CPU.Capacity.5") && q.O == graph.Integer(1) // truncated like the exporter's
	}
	if !found {
		t.Error("no capacity of one core:", fmt.Sprint(d.Quads()))
	}
}

// clusterName reads the name of the cluster from the ConfigMap kubeadm-config; empty if it has none. Only one line of
// its YAML value matters.
func clusterName(raw []byte) (string, error) {
	var in struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return "", fmt.Errorf("read the configuration of the cluster: %w", err)
	}
	for line := range strings.SplitSeq(in.Data["ClusterConfiguration"], "\n") {
		if name, ok := strings.CutPrefix(line, "clusterName:"); ok {
			return strings.Trim(strings.TrimSpace(name), `"'`), nil
		}
	}
	return "", nil
}
