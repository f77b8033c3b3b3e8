package glaciation_test

import (
	"encoding/json"
	"slices"
	"testing"

	"reckon/graph/glaciation"
	"reckon/graph/kubernetes"
	"reckon/graph/object"
)

// workloads of a snapshot by kind/name. The fixtures spell the kind StatefulSet as the owner references do.
func workloads(t *testing.T, dir string) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, kind := range []string{"daemonsets", "deployments", "replicasets", "jobs", "statefullsets"} {
		for _, raw := range objects(t, dir, kind) {
			w, err := kubernetes.Workload(raw)
			if err != nil {
				t.Fatal(err)
			}
			all[w.Kind+"/"+w.Name] = raw
		}
	}
	return all
}

// The exporter may write one document for each node, with its pods, their owners, and their measurements.
func TestSlicePerNode(t *testing.T) {
	const dir = "multinode"
	all := workloads(t, dir)
	for _, raw := range objects(t, dir, "nodes") {
		node, err := kubernetes.Node(raw)
		if err != nil {
			t.Fatal(err)
		}
		d := glaciation.New("10.14.1.160:6443").Document()
		d.Cluster("kubernetes", []string{node.Name})
		d.Node(node, 1000)
		var names []string
		needed := map[string]bool{}
		var need func([]object.Ref)
		need = func(owners []object.Ref) {
			for _, o := range owners {
				if raw, ok := all[o.Kind+"/"+o.Name]; ok && !needed[o.Kind+"/"+o.Name] {
					needed[o.Kind+"/"+o.Name] = true
					w, err := kubernetes.Workload(raw)
					if err != nil {
						t.Fatal(err)
					}
					need(w.Owners)
				}
			}
		}
		for _, raw := range objects(t, dir, "pods") {
			p, err := kubernetes.Pod(raw)
			if err != nil {
				t.Fatal(err)
			}
			if p.Node == node.Name {
				d.Pod(p)
				names = append(names, p.Namespace+"."+p.Name)
				need(p.Owners)
			}
		}
		for key := range needed {
			describe(t, d, all[key], false, false)
		}
		for _, m := range measurements(t, dir, "nodes") {
			if m.Resource == node.Name {
				d.NodeMeasurement(m, 1000)
			}
		}
		for _, m := range measurements(t, dir, "pods") {
			if slices.Contains(names, m.Resource) {
				d.PodMeasurement(m, 1000)
			}
		}
		sameAs(t, d.Quads(), "snapshot/multinode/slice_"+node.Name+"_80.jsonld")
	}
}
