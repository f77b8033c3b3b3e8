//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMeasure prints the figures of doc/benchmarks.md about Kubernetes: RECKON_MEASURE=1, a quiet machine. It judges nothing but
// what has to be whole on any machine.
func TestMeasure(t *testing.T) {
	if os.Getenv("RECKON_MEASURE") == "" {
		t.Skip("RECKON_MEASURE=1 measures, for some ten minutes")
	}
	b := start(t)
	b.images()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, values, time.Now().Unix()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = b.command(time.Minute, "", "helm", "-n", "reckon", "uninstall", "reckon", "--wait")
		_, _ = b.command(2*time.Minute, "", "kubectl", "delete", "namespace", "shop", "reckon", "--ignore-not-found")
	})
	b.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}})
	b.must("helm", "install", "--create-namespace", "-n", "reckon", "reckon", chart, "-f", file)
	ready := func() {
		b.must("kubectl", "-n", "reckon", "rollout", "status", "statefulset/reckon", "--timeout=170s")
		b.must("kubectl", "-n", "reckon", "rollout", "status", "daemonset/reckon-agent", "--timeout=170s")
	}
	ready()
	measure := func(name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) { b.t = t; f(t) })
		b.t = t
	}
	measure("short pods", b.shortPods)
	measure("other nodes", b.otherNodes)
	measure("roll-outs", b.rollOuts)
	measure("resting pods", func(t *testing.T) { b.manyPods(t, "exec sleep 100000") })
	measure("many pods", func(t *testing.T) { b.manyPods(t, "while :; do sleep 5; done") })
	b.must("helm", "upgrade", "-n", "reckon", "reckon", chart, "-f", file, "--set", "agent.export=1s")
	ready()
	measure("names", b.naming)
	measure("beside cAdvisor", b.besideCAdvisor)
}

// numbers reads a query into a number for each value of a label.
func (b *bed) numbers(promql, label string) map[string]float64 {
	b.t.Helper()
	list, err := b.query(promql)
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, s := range list {
		out[s.Labels[label]], _ = strconv.ParseFloat(s.Value, 64)
	}
	return out
}

func quantile(list []float64, q float64) float64 {
	slices.Sort(list)
	return list[min(int(q*float64(len(list))), len(list)-1)]
}

// shortPods: 100 pods of half a second beside what their control groups counted to their ends.
func (b *bed) shortPods(t *testing.T) {
	const n = 100
	groups := b.watchPods(t)
	spec := pod("Never", object{"name": "main", "image": "k8sbed.local/busybox:1", "command": []string{"sh", "-c", `i=0; while [ $i -lt 350000 ]; do i=$((i+1)); done`}})
	b.apply(named("Job", "batch/v1", "brief", object{"completions": n, "parallelism": 10, "backoffLimit": 0, "template": object{"spec": spec}}))
	b.until(10*time.Minute, "they have ended", func() string {
		if ended := b.must("kubectl", "-n", "shop", "get", "job", "brief", "-o", "jsonpath={.status.succeeded}"); ended != strconv.Itoa(n) {
			return "ended: " + ended
		}
		return ""
	})
	<-time.After(32 * time.Second) // two exports
	used := b.numbers(`sum by (part) (last_over_time(reckon_workload_cpu_seconds_total{workload="job/shop/brief"}[30m]))`, "part")
	known := b.numbers(`count by (part) (last_over_time(reckon_container_info{workload="job/shop/brief",container="main",container_id!=""}[30m]))`, "part")
	var off []float64
	var sum, all float64
	for l := range strings.Lines(b.must("kubectl", "-n", "shop", "get", "pods", "-l", "job-name=brief", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
		name, uid, _ := strings.Cut(strings.TrimSpace(l), " ")
		want, ok := groups.container(uid)
		got, charged := used[name+"/main"]
		if !ok || !charged {
			t.Logf("%s: the control group has %.6f (%v), charged are %.6f (%v)", name, want, ok, got, charged)
			continue
		}
		part := (got - want) / want * 100
		if math.Abs(part) > 0.5 {
			t.Logf("%s: the control group has %.6f s, charged are %.6f (%+.2f %%)", name, want, got, part)
			if math.Abs(part) > 2 {
				x, _ := b.query(`last_over_time({__name__=~"reckon_(command|workload)_(start_time|end_time|processes_started|cpu|memory_by).*",workload="job/shop/brief",part=~"` + name + `.*"}[30m])`)
				y, _ := b.query(`last_over_time({__name__=~"reckon_(command|workload)_(start_time|end_time|processes_started|cpu|memory_by).*",workload="pod/` + uid + `"}[30m])`)
				for _, l := range append(x, y...) {
					t.Log(l)
				}
				t.Log(b.must("kubectl", "-n", "shop", "get", "pod", name, "-o", "jsonpath={.status.startTime} {.status.containerStatuses[0].state}"))
				t.Logf("%+v", groups.seen[uid])
			}
		}
		off, sum, all = append(off, math.Abs(part)), sum+got, all+want
	}
	if len(off) != n || len(known) != n {
		t.Errorf("%d pods are compared, %d containers known; want %d", len(off), len(known), n)
	}
	if len(off) > 0 {
		t.Logf("MEASURED %d of %d pods charged, %d containers known; CPU beside the control group: median %.2f %%, p99 %.2f %%, worst %.2f %%, sum %.3f of %.3f s",
			len(off), n, len(known), quantile(off, 0.5), quantile(off, 0.99), quantile(off, 1), sum, all)
	}
	b.must("kubectl", "-n", "shop", "delete", "job", "brief", "--wait")
}

// otherNodes: pods of half a second on the nodes with a kernel of their own (K8SBED_VM=1, K8SBED_UML=1), one after another: 12, or RECKON_MEASURE_PODS.
// Each prints the counter of its control group as the last thing that it does, and the group of the QoS class, which holds no other pods, counts them
// all to their ends, with their sandboxes.
func (b *bed) otherNodes(t *testing.T) {
	n := 12
	if v := os.Getenv("RECKON_MEASURE_PODS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	if out := b.must("kubectl", "-n", "reckon", "get", "daemonset", "reckon-agent", "-o", "jsonpath={.spec.template.spec.containers[*].securityContext.privileged}"); strings.Contains(out, "true") {
		t.Errorf("the agent is privileged: %s", out)
	}
	for _, node := range strings.Fields(b.must("kubectl", "get", "nodes", "-l", "k8sbed=real", "-o", "jsonpath={.items[*].metadata.name}")) {
		if node == b.node {
			continue
		}
		here, turns := object{"kubernetes.io/hostname": node}, "350000"
		if strings.HasPrefix(node, "vm") { // emulated
			turns = "20000"
		}
		c := container("main", "while :; do sleep 5; done")
		c["volumeMounts"] = []object{{"name": "groups", "mountPath": "/groups", "readOnly": true}}
		watcher := pod("Always", c)
		watcher["nodeSelector"], watcher["volumes"] = here, []object{{"name": "groups", "hostPath": object{"path": "/sys/fs/cgroup"}}}
		b.apply(named("Pod", "v1", "watcher", watcher))
		b.until(5*time.Minute, "a watcher on "+node, func() string {
			out, err := b.command(time.Minute, "", "kubectl", "-n", "shop", "exec", "watcher", "--", "cat", "/groups/kubepods/besteffort/cpu.stat")
			if err != nil {
				return out + err.Error()
			}
			return ""
		})
		used := func() float64 {
			v, _ := usageSeconds(b.must("kubectl", "-n", "shop", "exec", "watcher", "--", "cat", "/groups/kubepods/besteffort/cpu.stat"))
			return v
		}
		before := used()
		spec := pod("Never", object{"name": "main", "image": "k8sbed.local/busybox:1", "command": []string{"sh", "-c",
			`i=0; while [ $i -lt ` + turns + ` ]; do i=$((i+1)); done; while read -r l; do echo "$l"; done < /sys/fs/cgroup/cpu.stat`}})
		spec["nodeSelector"] = here
		b.apply(named("Job", "batch/v1", "brief", object{"completions": n, "parallelism": 4, "backoffLimit": 0, "template": object{"spec": spec}}))
		b.until(5*time.Minute+time.Duration(n)*35*time.Second, "they have ended", func() string {
			if ended := b.must("kubectl", "-n", "shop", "get", "job", "brief", "-o", "jsonpath={.status.succeeded}"); ended != strconv.Itoa(n) {
				return "ended: " + ended
			}
			return ""
		})
		<-time.After(time.Minute) // the sandboxes too, and two exports
		group := used() - before
		known := b.numbers(`count by (part) (last_over_time(reckon_container_info{workload="job/shop/brief",container="main",container_id!="",node="`+node+`"}[40m]))`, "part")
		charged := b.numbers(`sum by (part) (last_over_time(reckon_workload_cpu_seconds_total{workload="job/shop/brief",node="`+node+`"}[40m]))`, "part")
		var sum, containers, own float64
		var off []float64
		for _, v := range charged {
			sum += v
		}
		for _, name := range strings.Fields(b.must("kubectl", "-n", "shop", "get", "pods", "-l", "job-name=brief", "-o", `jsonpath={.items[*].metadata.name}`)) {
			want, ok := usageSeconds(b.must("kubectl", "-n", "shop", "logs", name))
			got, has := charged[name+"/main"]
			if !ok || !has {
				t.Errorf("%s: its control group had %v (%v), charged are %v (%v)", name, want, ok, got, has)
				continue
			}
			t.Logf("%s: its control group had %.6f s, charged are %.6f (%+.2f %%)", name, want, got, (got-want)/want*100)
			off, containers, own = append(off, math.Abs(got-want)/want*100), containers+got, own+want
		}
		if len(off) != n || len(known) != n {
			t.Errorf("%s: %d pods charged, %d containers known; want %d", node, len(off), len(known), n)
		}
		t.Logf("MEASURED %s: %d of %d pods charged, %d containers known; containers %.3f s beside %.3f that their groups had before their ends (median %.2f %%, worst %.2f %%); all %.3f of %.3f s (%+.2f %%)",
			node, len(off), n, len(known), containers, own, quantile(off, 0.5), quantile(off, 1), sum, group, (sum-group)/group*100)
		t.Log(b.must("kubectl", "-n", "reckon", "logs", "-l", "app.kubernetes.io/component=agent", "--tail=30", "--prefix"))
		b.must("kubectl", "-n", "shop", "delete", "job/brief", "pod/watcher", "--wait")
	}
}

// naming: seconds from the start of the first process of a container to the first sample that has its name, exports every second.
func (b *bed) naming(t *testing.T) {
	const n = 30
	spec := pod("Never", container("main", "sleep 6"))
	b.apply(named("Job", "batch/v1", "slow", object{"completions": n, "parallelism": 3, "template": object{"spec": spec}}))
	b.until(15*time.Minute, "they have ended", func() string {
		if ended := b.must("kubectl", "-n", "shop", "get", "job", "slow", "-o", "jsonpath={.status.succeeded}"); ended != strconv.Itoa(n) {
			return "ended: " + ended
		}
		return ""
	})
	of := `{workload="job/shop/slow",part=~".*/main"`
	begun := b.numbers(`min by (part) (last_over_time(reckon_workload_start_time_seconds`+of+`}[30m]))`, "part")
	seen := b.matrix(`reckon_container_info` + of + `,container="main",container_id!=""}[20m]`)
	var waits []float64
	for part, when := range begun {
		if list := seen[part]; len(list) > 0 {
			waits = append(waits, float64(list[0].at.UnixMilli())/1000-when)
		}
	}
	if len(waits) != n {
		t.Fatalf("%d of %d containers have a name: %v", len(waits), n, begun)
	}
	t.Logf("MEASURED %d containers, seconds from start to the first named sample: median %.2f, p99 %.2f", n, quantile(waits, 0.5), quantile(waits, 0.99))
	b.must("kubectl", "-n", "shop", "delete", "job", "slow", "--wait")
}

// rollOuts: ten roll-outs of a Deployment leave one workload.
func (b *bed) rollOuts(t *testing.T) {
	b.apply(named("Deployment", "apps/v1", "rolled", object{"replicas": 2, "selector": selector("rolled"), "template": template("rolled", pod("Always", container("main", burn)))}))
	for range 10 {
		b.must("kubectl", "-n", "shop", "rollout", "restart", "deployment/rolled")
		b.must("kubectl", "-n", "shop", "rollout", "status", "deployment/rolled", "--timeout=170s")
		<-time.After(16 * time.Second)
	}
	ids := b.numbers(`count by (workload) (count by (workload, pod) (last_over_time(reckon_container_info{pod=~"rolled-.*"}[30m])))`, "workload")
	if len(ids) != 1 || ids["deployment/shop/rolled"] < 20 {
		t.Errorf("workloads with their pods: %v", ids)
	}
	t.Logf("MEASURED ten roll-outs: %d workload, pods %v", len(ids), ids)
	b.must("kubectl", "-n", "shop", "delete", "deployment", "rolled", "--wait")
}

// besideCAdvisor: 20 containers under a CPU limit, which hold 20 MiB each, and their pods. Counters are compared by their increase over a minute
// between two samples of the kubelet's own, at their timestamps; ours are on the line between the samples around those. The goal is 1 %.
func (b *bed) besideCAdvisor(t *testing.T) {
	c := container("main", "dd if=/dev/zero of=/mem/f bs=1M count=20; while :; do :; done")
	c["resources"] = object{"limits": object{"cpu": "25m", "memory": "64Mi"}}
	c["volumeMounts"] = []object{{"name": "mem", "mountPath": "/mem"}}
	spec := pod("Always", c)
	spec["volumes"] = []object{{"name": "mem", "emptyDir": object{"medium": "Memory"}}}
	b.apply(named("Deployment", "apps/v1", "busy", object{"replicas": 20, "selector": selector("busy"), "template": template("busy", spec)}))
	b.must("kubectl", "-n", "shop", "rollout", "status", "deployment/busy", "--timeout=170s")
	<-time.After(30 * time.Second)
	read := func(from func() ([]line, error), name string) map[string]line { // POD/main is a container, POD the row of the whole pod
		page, err := from()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]line{}
		for _, l := range page {
			if l.name != name || !strings.HasPrefix(l.labels["pod"], "busy-") {
				continue
			}
			switch {
			case l.labels["container"] == "main":
				out[l.labels["pod"]+"/main"] = l
			case l.labels["container"]+l.labels["image"]+l.labels["name"] == "":
				out[l.labels["pod"]] = l
			}
		}
		return out
	}
	const cpu, working = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
	var before map[string]line   // once our page was read for a while: the kubelet's values may be 20 s old
	pods := map[string][]point{} // rows of whole pods on our page, which has the values of the last export, at the time of that to half a second
	for began := time.Now(); time.Since(began) < 110*time.Second; <-time.After(500 * time.Millisecond) {
		asked := time.Now()
		if before == nil && time.Since(began) > 30*time.Second {
			before = read(b.kubelets, cpu)
		}
		for part, l := range read(b.ours, cpu) {
			list := pods[part]
			if !strings.Contains(part, "/") && (len(list) == 0 || list[len(list)-1].value != l.value) {
				pods[part] = append(list, point{asked, l.value})
			}
		}
	}
	after, theirSets, ourSets := read(b.kubelets, cpu), read(b.kubelets, working), read(b.ours, working)
	<-time.After(17 * time.Second) // an export after theirs
	for part, l := range read(b.ours, cpu) {
		pods[part] = append(pods[part], point{time.Now(), l.value})
	}
	const of = `{workload="deployment/shop/busy",part=~".*/main"`
	user, system := b.matrix(`reckon_workload_cpu_seconds_total`+of+`,mode="user"}[5m]`), b.matrix(`reckon_workload_cpu_seconds_total`+of+`,mode="system"}[5m]`)
	off, memory := map[bool][]float64{}, map[bool][]float64{} // by whether it is a whole pod
	for part, to := range after {
		from, whole := before[part], !strings.Contains(part, "/")
		span := to.at.Sub(from.at).Seconds()
		if from.at.IsZero() || span < 30 {
			continue
		}
		ours := at(user[part], to.at) + at(system[part], to.at) - at(user[part], from.at) - at(system[part], from.at)
		if whole {
			ours = at(pods[part], to.at) - at(pods[part], from.at)
		}
		theirs := to.value - from.value
		if math.IsNaN(ours) {
			continue
		}
		off[whole] = append(off[whole], math.Abs(ours-theirs)/theirs*100)
		if w, o := theirSets[part], ourSets[part]; w.value > 0 && o.value > 0 {
			memory[whole] = append(memory[whole], math.Abs(o.value-w.value)/w.value*100)
		}
	}
	for whole, what := range map[bool]string{false: "containers", true: "pods"} {
		if len(off[whole]) < 20 || len(memory[whole]) < 20 {
			t.Fatalf("%d %s compared, %d in memory", len(off[whole]), what, len(memory[whole]))
		}
		t.Logf("MEASURED %d %s beside cAdvisor: CPU over a minute median %.2f %%, worst %.2f %%; working set median %.2f %%, worst %.2f %%",
			len(off[whole]), what, quantile(off[whole], 0.5), quantile(off[whole], 1), quantile(memory[whole], 0.5), quantile(memory[whole], 1))
		if !(quantile(off[whole], 0.5) <= 1 && quantile(memory[whole], 0.5) <= 1) {
			t.Errorf("%s: more than 1 %% beside the kubelet", what)
		}
	}
	b.must("kubectl", "-n", "shop", "delete", "deployment", "busy", "--wait")
}

// point is a sample of a series.
type point struct {
	at    time.Time
	value float64
}

// matrix reads the samples of series by their part.
func (b *bed) matrix(promql string) map[string][]point {
	b.t.Helper()
	out, err := b.reckon("query", "--format", "json", promql)
	if err != nil {
		b.t.Fatal(err)
	}
	var answer struct {
		Series []struct {
			Metric  map[string]string
			Samples []struct{ Time, Value string }
		}
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		b.t.Fatalf("%v: %.300s", err, out)
	}
	list := map[string][]point{}
	for _, s := range answer.Series {
		for _, x := range s.Samples {
			v, _ := strconv.ParseFloat(x.Value, 64)
			when, err := time.Parse(time.RFC3339Nano, x.Time)
			if err != nil {
				b.t.Fatal(err)
			}
			list[s.Metric["part"]] = append(list[s.Metric["part"]], point{when, v})
		}
	}
	return list
}

// at is the value at a time, on the line between the samples around it; NaN outside of them.
func at(list []point, when time.Time) float64 {
	for i := 1; i < len(list); i++ {
		a, z := list[i-1], list[i]
		if !when.Before(a.at) && !when.After(z.at) {
			return a.value + (z.value-a.value)*float64(when.Sub(a.at))/float64(z.at.Sub(a.at))
		}
	}
	return math.NaN()
}

// manyPods: what the agent takes at its usual interval with a node full of pods that do something.
func (b *bed) manyPods(t *testing.T, something string) {
	c := container("main", something)
	c["resources"] = object{"limits": object{"memory": "16Mi"}}
	b.apply(named("Deployment", "apps/v1", "many", object{"replicas": 90, "selector": selector("many"), "template": template("many", pod("Always", c))}))
	b.until(8*time.Minute, "pods", func() string {
		n := b.must("kubectl", "-n", "shop", "get", "deployment", "many", "-o", "jsonpath={.status.readyReplicas}")
		if x, _ := strconv.Atoi(n); x < 90 {
			return "ready: " + n
		}
		return ""
	})
	<-time.After(180 * time.Second) // the rate is of the last two minutes, without the start of the pods
	const agent = `workload="daemonset/reckon/reckon-agent"`
	cores := b.numbers(`sum by (workload) (rate(reckon_workload_cpu_seconds_total{`+agent+`}[2m]))`, "workload")
	pods := b.numbers(`count by (node) (count by (node, pod) (reckon_container_info{container!=""}))`, "node")
	resident := b.numbers(`sum by (workload) (reckon_workload_memory_bytes{`+agent+`,part=~".*/agent",type="anon"})`, "workload")
	working := b.numbers(`sum by (workload) (reckon_container_memory_working_set_bytes{`+agent+`,part=~".*/agent"})`, "workload")
	t.Logf("MEASURED agent with %v pods: %v cores, anonymous %v bytes, working set %v", pods, cores, resident, working)
	b.must("kubectl", "-n", "shop", "delete", "deployment", "many", "--wait")
}
