package graphfeed

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"reckon/graph/own"
	"reckon/graph/telemetry"
)

func aPod(i int) *core.Pod {
	yes := true
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("cart-5d4f-%05d", i), UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), Labels: map[string]string{"app": "cart", "pod-template-hash": "5d4f"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "cart-5d4f", UID: "rs", Controller: &yes}}},
		Spec: core.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%1000), SchedulerName: "default-scheduler", Volumes: []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: "carts"}}}},
			Containers: []core.Container{{Name: "app", Image: "example.local/app:1", Env: []core.EnvVar{{Name: "SECRET", Value: strings.Repeat("x", 2000)}},
				Resources: core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: quantity.MustParse("1930m"), core.ResourceMemory: quantity.MustParse("1Ti")}}}}},
		Status: core.PodStatus{Phase: core.PodRunning, ContainerStatuses: []core.ContainerStatus{{Name: "app", ContainerID: fmt.Sprintf("containerd://%064d", i)}}},
	}
}

// A pod of a Deployment reports what it is a part of, where it runs, what it asks for and reads, and where its figures and logs are.
func TestPod(t *testing.T) {
	thing, err := reduceObject("Pod", aPod(7))
	if err != nil {
		t.Fatal(err)
	}
	v := vocabulary{Vocabulary: own.Vocabulary{Site: "edge"}, links: telemetry.Links{URL: "http://reckon:9870", Loki: "http://loki:3100"}, site: "edge"}
	s := v.subgraphOf(thing)
	if s.id != "urn:reckon:site/edge/kubernetes/pod/shop/cart-5d4f-00007/00000000-0000-0000-0000-000000000007" || s.owner != "shop" {
		t.Error(s.id, s.owner)
	}
	if err := own.Check(s.quads); err != nil {
		t.Error(err)
	}
	text := string(encodeQuads(s.quads))
	for _, want := range []string{
		`ns#workload> "deployment/shop/cart"`, `ns#runsOn> <urn:reckon:node/edge/node-0007>`, `ns#partOf> <urn:reckon:workload/edge/replicaset/shop/cart-5d4f/rs>`, `ns#reads> <urn:reckon:data/edge/persistentVolumeClaim/shop/carts>`,
		`"1.93E0"`, `"1099511627776"`, `sum(reckon_workload_memory_bytes{workload=\"deployment/shop/cart\",site=\"edge\",part=~\"cart-5d4f-00007/.*\"})`, `{namespace=\"shop\",pod=\"cart-5d4f-00007\"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "xxxx") {
		t.Error("the environment of a container is in the graph")
	}
	for _, change := range []func(*core.Pod){func(p *core.Pod) { p.ResourceVersion = "9" }, func(p *core.Pod) { p.Status.PodIP = "10.0.0.1" }, func(p *core.Pod) { p.Annotations = map[string]string{"a": "b"} }} {
		p := aPod(7)
		change(p)
		again, err := reduceObject("Pod", p)
		if err != nil || !slices.Equal(v.subgraphOf(again).quads, s.quads) {
			t.Error("what says nothing of the graph changes it", err)
		}
	}
}

// A service has the query of its forecast; a Job, and the pods of a service, have none.
func TestForecastOfServices(t *testing.T) {
	v := vocabulary{Vocabulary: own.Vocabulary{Site: "edge"}, links: telemetry.Links{URL: "http://reckon:9870"}, site: "edge"}
	at := metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "u"}
	for kind, has := range map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "Job": false, "CronJob": false} {
		text := string(encodeQuads(v.subgraphOf(nameOnly(kind, &at)).quads))
		want := `ns#forecastQuery> "reckon_forecast{subject=\"workload\",figure=\"cores\",quantile=\"0.5\",horizon=\"24h\",workload=\"` + strings.ToLower(kind) + `/shop/cart\",site=\"edge\"}"`
		if strings.Contains(text, want) != has || strings.Contains(text, "forecastQuery") != has {
			t.Errorf("%s: a forecast %v, want %v\n%s", kind, !has, has, text)
		}
	}
	if thing, err := reduceObject("Pod", aPod(7)); err != nil || strings.Contains(string(encodeQuads(v.subgraphOf(thing).quads)), "forecastQuery") {
		t.Error("a forecast of a pod", err)
	}
}

// An object that cannot be read is described by its name, so that the rest goes on.
func TestOddObject(t *testing.T) {
	n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", Annotations: map[string]string{"glaciation-project.eu/node-energy-index": "low"}}}
	if _, err := reduceObject("Node", n); err == nil {
		t.Error("an energy index that is no number is read")
	}
	v := vocabulary{Vocabulary: own.Vocabulary{}}
	if s := v.subgraphOf(nameOnly("Node", n)); own.Check(s.quads) != nil || s.owner != "*" {
		t.Errorf("%+v", s)
	}
}

// BenchmarkMemory reports what is kept of a pod.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make([]*objectRecord, 10_000)
		for i := range kept {
			t, err := reduceObject("Pod", aPod(i))
			if err != nil {
				b.Fatal(err)
			}
			kept[i] = t
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(kept)), "bytes/pod")
		runtime.KeepAlive(kept)
	}
}
