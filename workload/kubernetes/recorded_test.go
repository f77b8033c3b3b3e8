package kubernetes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"reckon/internal/kubelet"
	"reckon/workload"
)

// recorded are the pods of testdata/pods: name, type, requests and limits (cores, MiB), restarts, end.
const recorded = `
cronjob/names/tick tick-29922230-tc2gp/tick main restarts 0 Completed 0
cronjob/names/tick tick-29922231-q5bk8/tick main restarts 0 Completed 0
cronjob/names/tick tick-29922232-cxgnj/tick main restarts 0 Completed 0
cronjob/names/tick tick-29922233-f569r/tick main not begun
daemonset/names/log log-c4xbc/log main restarts 0
deployment/names/cart cart-5d595b6fbf-g4fbz/app main 0.02 16 limit 0.3 64 restarts 0
deployment/names/cart cart-5d595b6fbf-l74wn/app main 0.02 16 limit 0.3 64 restarts 0
job/names/once once-s9z7s/once main restarts 0
jobset/names/train train-workers-0-0-f5jbv/w main restarts 0
jobset/names/train train-workers-1-0-l47ks/w main restarts 0
pod/names/kinds crash main restarts 5 CrashLoopBackOff Error 3
pod/names/kinds main main 0.02 16 limit 0.3 64 restarts 0
pod/names/kinds prepare init 0.05 32 restarts 0 Completed 0
pod/names/kinds probe ephemeral restarts 0
pod/names/kinds proxy sidecar 0.01 8 limit 0 16 restarts 0
pod/names/oom eater main 0 32 limit 0 32 restarts 0 OOMKilled 137
pod/names/static-node0 main main restarts 0
statefulset/names/db db-0/db main restarts 0
`

// TestRecordedPods reads a list that a kubelet of Kubernetes 1.34.4 gave (containerd 2.2.9, the cluster of
// test/e2e/beds/k8s), less the fields that nobody reads.
func TestRecordedPods(t *testing.T) {
	f, err := os.Open("testdata/pods/kubelet-1.34.4.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := kubelet.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	known := list{}
	for _, p := range all {
		known[p.UID] = p
	}
	r := New(Options{Pods: known})
	var got []string
	for _, p := range all {
		for _, c := range p.Containers {
			place := p.UID + "/" + c.ID
			if c.ID == "" {
				var id workload.Identity
				r.fillPod(&id, p)
				got = append(got, fmt.Sprintf("%s %s %s not begun", id.Workload, containerPart(id.Part, c.Name), c.Type))
				continue
			}
			id, x := r.Rename(place, ""), r.Container(place, false)
			if id.Naming != workload.Named || x.Name != c.Name {
				t.Errorf("%s of %s: %+v, %+v", c.Name, p.Name, id, x)
			}
			line := fmt.Sprintf("%s %s %s ", id.Workload, id.Part, x.Type)
			if x.Request != (workload.Amounts{}) {
				line += fmt.Sprintf("%v %v ", x.Request.Cores, x.Request.MemoryBytes/(1<<20))
			}
			if x.Limit != (workload.Amounts{}) {
				line += fmt.Sprintf("limit %v %v ", x.Limit.Cores, x.Limit.MemoryBytes/(1<<20))
			}
			line += fmt.Sprintf("restarts %d", x.Restarts)
			if x.Waiting != "" {
				line += " " + x.Waiting
			}
			if x.Ended {
				line += fmt.Sprintf(" %s %d", x.Reason, x.ExitCode)
			}
			got = append(got, line)
		}
		if id := r.Rename(p.UID+"/0123456789abcdef", "pause"); p.Started() && (id.Naming != workload.Named || strings.Contains(id.Part, "/0123")) {
			t.Errorf("the sandbox of %s: %+v", p.Name, id)
		}
	}
	slices.Sort(got)
	if text := "\n" + strings.Join(got, "\n") + "\n"; text != recorded {
		t.Errorf("got%s", text)
	}
}
