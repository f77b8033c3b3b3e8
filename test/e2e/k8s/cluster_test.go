//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// values are those that a cluster without DNS and without volumes needs; each run keeps its state apart.
const values = `
tls: {extraIPs: [` + address + `]}
server: {persistence: {enabled: false}, nodeSelector: {kubernetes.io/hostname: node0}, service: {clusterIP: ` + address + `}}
agent:
  hostAliases: [{ip: ` + address + `, hostnames: [reckon.reckon.svc]}]
  podAccountLabels: [team]
  compat: [cadvisor, kube]
  metrics: {enabled: true}
  stateDir: /var/lib/reckon-e2e/%d
graph: {extraArgs: ["--graph=https://` + address + `:9870", "--graph-url=https://reckon.reckon.svc:9870"]}
operator: {nodeSelector: {kubernetes.io/hostname: node0}}
`

// TestCluster goes through the life of an installation on one cluster, in order.
func TestCluster(t *testing.T) {
	b := start(t)
	b.images()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, values, time.Now().Unix()), 0o600); err != nil {
		t.Fatal(err)
	}
	install := []string{"-n", "reckon", "reckon", chart, "-f", file}
	step := func(name string, f func(t *testing.T)) {
		if !t.Run(name, func(t *testing.T) { b.t = t; f(t) }) {
			t.FailNow()
		}
		b.t = t
	}
	t.Cleanup(func() { // what a failed run leaves, or a bed that stays
		b.t = t
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"-n", "reckon", "logs", "reckon-0", "--tail=20"}, {"-n", "reckon", "logs", "daemonset/reckon-agent", "--tail=20"},
				{"-n", "reckon", "logs", "daemonset/reckon-agent", "--previous", "--tail=40"}, {"-n", "reckon", "describe", "pods", "-l", "app.kubernetes.io/component=agent"}} {
				out, _ := b.command(20*time.Second, "", "kubectl", args...)
				t.Log(out)
			}
		}
		_, _ = b.command(time.Minute, "", "helm", "-n", "reckon", "uninstall", "reckon", "--wait")
		_, _ = b.command(time.Minute, "", "kubectl", "delete", "namespace", "shop", "reckon", "--ignore-not-found")
	})
	b.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}})
	for _, o := range owners() {
		b.apply(o)
	}
	step("install", func(t *testing.T) {
		began := time.Now()
		b.must("helm", append([]string{"install", "--create-namespace"}, install...)...)
		b.until(2*time.Minute, "first table with a name", func() string {
			out, err := b.reckon("jobs")
			if err != nil {
				return err.Error()
			}
			if !strings.Contains(out, "deployment/shop/cart") {
				return out
			}
			return ""
		})
		t.Logf("helm install to the first named table: %.0f s", time.Since(began).Seconds())
	})
	step("plugin", b.plugin)
	step("owners", b.owners)
	step("containers", b.containers)
	step("bounds", b.bounds)
	step("ends", b.ends)
	step("finished", func(t *testing.T) { b.finished(t, install) })
	step("views", b.views)
	step("graph", b.graph)
	step("devices", b.devices)
	step("storage", b.storage)
	step("deleted", b.deleted)
	step("restarts", b.restarts)
	step("nodes", b.nodes)
	step("rights", b.rights)
	step("tokens", b.tokens)
	step("upgrade", func(t *testing.T) { b.upgrade(t, install) })
	step("pod logs", func(t *testing.T) { b.podLogs(t, install) })
	step("logs", func(t *testing.T) { b.logs(t, install) })
	step("metricset", func(t *testing.T) { b.metricset(t, install) })
}

// plugin: the program is kubectl's under its name, and lets in whoever may make tokens of the server's account.
func (b *bed) plugin(t *testing.T) {
	dir := t.TempDir()
	program, err := filepath.Abs(filepath.Join(bin, "reckon"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "kubectl-reckon")); err != nil {
		t.Fatal(err)
	}
	before := b.env
	defer func() { b.env = before }()
	b.env = append(slices.Clone(b.env), "PATH="+dir+":"+filepath.Join(b.cache, "k8s-1.34")+":"+os.Getenv("PATH"))
	b.until(time.Minute, "kubectl reckon jobs", func() string {
		out, err := b.command(time.Minute, "", "kubectl", "reckon", "jobs")
		if err != nil || !strings.Contains(out, "deployment/shop/cart") {
			return fmt.Sprintf("%q %v", out, err)
		}
		return ""
	})
	if out, err := b.command(time.Minute, "", "kubectl", "reckon", "-n", "shop", "jobs"); err == nil {
		t.Errorf("it finds a server where there is none: %s", out)
	}
}

// column is the set of values of a label of a query.
func column(list []sample, label string) map[string]bool {
	set := map[string]bool{}
	for _, s := range list {
		set[s.Labels[label]] = true
	}
	return set
}

// owners: each kind of owner is one workload, with the namespace for an owner, and all its pods are
// its parts; nothing of the namespace has a UID for a name.
func (b *bed) owners(t *testing.T) {
	static := filepath.Join(b.state, b.node, "manifests", "static.json")
	raw, err := json.Marshal(named("Pod", "v1", "static", pod("Always", container("main", burn))))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(static, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(static) })
	want := append(slices.Sorted(maps.Keys(owners())), "pod/shop/static-"+b.node)
	b.until(3*time.Minute, "all kinds of owners", func() string {
		list, err := b.query(`last_over_time(reckon_workload_cpu_seconds_total{owner="shop",mode="user"}[3m])`)
		if err != nil {
			return err.Error()
		}
		have := column(list, "workload")
		var missing []string
		for _, w := range want {
			if !have[w] {
				missing = append(missing, w)
			}
		}
		return strings.Join(missing, " ")
	})
	list, err := b.query(`reckon_container_info{namespace="shop"}`)
	if err != nil {
		t.Fatal(err)
	}
	for w := range column(list, "workload") {
		if !slices.Contains(want, w) {
			t.Errorf("%s is none of the owners", w)
		}
	}
	figures := map[string]string{
		`count(count by (pod) (reckon_container_info{workload="deployment/shop/cart",type="main"}))`: "2",
		`sum(reckon_workload_request_cores{workload="deployment/shop/cart"})`:                        "0.04",
		`sum(reckon_workload_limit_cores{workload="deployment/shop/cart"})`:                          "0.6",
		`sum(reckon_workload_request_memory_bytes{workload="statefulset/shop/db"})`:                  "16777216",
		`sum(reckon_workload_limit_memory_bytes{workload="statefulset/shop/db"})`:                    "67108864",
		`count(reckon_workload_info{workload="deployment/shop/cart",account="checkout"}) > bool 0`:   "1",
	}
	b.until(time.Minute, "pods, requests, limits and the account", func() string {
		var wrong []string
		for what, want := range figures {
			if got, err := b.query(what); err != nil || len(got) != 1 || got[0].Value != want {
				wrong = append(wrong, fmt.Sprintf("%s is %v, %v; want %s", what, got, err, want))
			}
		}
		return strings.Join(wrong, "\n")
	})
}

// deleted: pods of a Deployment that are taken away by force as soon as the kubelet has begun with them, perhaps before anybody asked it for them, are charged
// to the Deployment.
func (b *bed) deleted(t *testing.T) {
	b.apply(named("Deployment", "apps/v1", "brittle", object{"replicas": 2, "selector": selector("brittle"), "template": template("brittle", pod("Always", container("main", burn)))}))
	for range 5 {
		b.until(time.Minute, "pods that the kubelet begins with", func() string {
			out := b.must("kubectl", "-n", "shop", "get", "pods", "-l", "app=brittle", "-o", "jsonpath={.items[*].status.startTime}")
			if out == "" {
				return "none"
			}
			return ""
		})
		b.must("kubectl", "-n", "shop", "delete", "pods", "-l", "app=brittle", "--grace-period=0", "--force")
	}
	const all = `last_over_time(reckon_workload_cpu_seconds_total{mode="user",workload=~"deployment/shop/brittle|pod/.*"}[5m])`
	b.until(90*time.Second, "pods of the Deployment, all by its name", func() string {
		list, err := b.query(all)
		if err != nil {
			return err.Error()
		}
		if pods := column(list, "part"); len(pods) < 4 {
			return fmt.Sprint(pods)
		}
		return ""
	})
	<-time.After(20 * time.Second) // one more export
	list, err := b.query(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Labels["owner"] == "kubernetes" {
			t.Errorf("without a name: %v", s)
		}
	}
	b.must("kubectl", "-n", "shop", "delete", "deployment", "brittle")
}

// nodes: on every other node of the bed, whatever its kernel and control groups are, a pod is seen by its
// name and charged to its node (K8SBED_UML=1, K8SBED_VM=1).
func (b *bed) nodes(t *testing.T) {
	others := strings.Fields(b.must("kubectl", "get", "nodes", "-l", "k8sbed=real", "-o", "jsonpath={.items[*].metadata.name}"))
	others = slices.DeleteFunc(others, func(n string) bool { return n == b.node })
	if len(others) == 0 {
		t.Skip("the bed has one node; K8SBED_UML=1 or K8SBED_VM=1 adds one with control groups of version 2")
	}
	for _, n := range others {
		spec := pod("Always", container("main", burn))
		spec["nodeSelector"] = object{"kubernetes.io/hostname": n}
		b.apply(named("Pod", "v1", "on-"+n, spec))
	}
	for _, n := range others {
		b.until(15*time.Minute, "a pod on "+n, func() string {
			list, err := b.query(fmt.Sprintf(`reckon_workload_cpu_seconds_total{workload="pod/shop/on-%s",part="main",mode="user",node=%q} > 0`, n, n))
			if err != nil || len(list) == 0 {
				return fmt.Sprintf("%v %v", list, err)
			}
			return ""
		})
	}
}

// containers: main, init, native sidecar and ephemeral ones by their names; the sandbox is none of them.
func (b *bed) containers(t *testing.T) {
	b.apply(kinds())
	b.must("kubectl", "-n", "shop", "wait", "--for=condition=Ready", "pod/kinds", "--timeout=120s")
	b.must("kubectl", "-n", "shop", "debug", "kinds", "--image=k8sbed.local/busybox:1", "--container=look", "--", "sh", "-c", burn)
	want := map[string]string{"main": "main", "second": "main", "setup": "init", "proxy": "sidecar", "look": "ephemeral"}
	b.until(2*time.Minute, "all kinds of containers", func() string {
		list, err := b.query(`last_over_time(reckon_container_info{namespace="shop",pod="kinds",container!=""}[5m])`)
		if err != nil {
			return err.Error()
		}
		have := map[string]string{}
		for _, s := range list {
			have[s.Labels["container"]] = s.Labels["type"]
		}
		if !maps.Equal(have, want) {
			return fmt.Sprintf("have %v, want %v", have, want)
		}
		return ""
	})
	// Each was charged by its name, the short one too.
	b.until(time.Minute, "CPU time of each", func() string {
		list, err := b.query(`sum by (part) (last_over_time(reckon_workload_cpu_seconds_total{workload="pod/shop/kinds"}[5m])) > 0`)
		if err != nil {
			return err.Error()
		}
		parts := column(list, "part")
		for name := range want {
			if !parts[name] {
				return fmt.Sprintf("none of %s among %v", name, slices.Sorted(maps.Keys(parts)))
			}
		}
		return ""
	})
}

// ends: a crash loop with its restarts and exit code, a kill for lack of memory with its reason, a pod that no node can take.
func (b *bed) ends(t *testing.T) {
	big := container("main", burn)
	big["resources"] = object{"requests": object{"cpu": "4000"}}
	b.apply(named("Pod", "v1", "too-big", pod("Never", big)))
	job := func(want string) {
		b.until(2*time.Minute, want, func() string {
			out, err := b.reckon("job", "pod/shop/too-big", "--format", "json")
			if err != nil || !strings.Contains(out, want) {
				return fmt.Sprint(out, err)
			}
			return ""
		})
	}
	job("no node can take its pod (0/")
	b.must("kubectl", "-n", "shop", "delete", "pod", "too-big", "--now")
	job("and never started")
	b.apply(crashing(), hungry("hungry", "head -c 100m /dev/zero | tail -c 99m"), hungry("killed-at-once", "exec dd if=/dev/zero of=/dev/null bs=100M"))
	b.until(3*time.Minute, "a crash loop and a kill for lack of memory", func() string {
		for _, q := range []string{
			`last_over_time(reckon_container_restarts_total{workload="pod/shop/crashing"}[5m]) >= 2`,
			`last_over_time(reckon_container_exit_code{workload="pod/shop/crashing"}[5m]) == 3`,
			`last_over_time(reckon_container_waiting{workload="pod/shop/crashing",reason="CrashLoopBackOff"}[5m]) == 1`,
			`last_over_time(reckon_container_exit_code{workload="pod/shop/hungry",reason="OOMKilled"}[5m]) == 137`,
			`last_over_time(reckon_workload_oom_kills_total{workload="pod/shop/hungry",part="main"}[5m]) >= 1`,
			`last_over_time(reckon_container_exit_code{workload="pod/shop/killed-at-once",reason="OOMKilled"}[5m]) == 137`,
			`last_over_time(reckon_workload_oom_kills_total{workload="pod/shop/killed-at-once",part="main"}[5m]) == 1`,
		} {
			if list, err := b.query(q); err != nil || len(list) == 0 {
				return fmt.Sprintf("nothing for %s (%v)", q, err)
			}
		}
		return ""
	})
}

// tokens: the token of an agent is good for the samples of its node alone, a token of others for nothing.
func (b *bed) tokens(t *testing.T) {
	// A pod with the agent's account sends as another node.
	agent := object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "stranger", "namespace": "reckon"}, "spec": object{
		"serviceAccountName": "reckon-agent", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "nodeName": b.node,
		"hostAliases": []object{{"ip": address, "hostnames": []string{"reckon.reckon.svc"}}},
		"containers": []object{{"name": "agent", "image": "localhost/reckon/reckon-agent:" + version, "args": []string{
			"--node=elsewhere", "--source=procfs", "--set=kubelet=none", "--set=push-queue=/tmp/queue", "--set=push-socket=none", "--push=https://reckon.reckon.svc:9870",
			"--push-token-file=/token/token", "--set=push-ca=/ca/ca.crt", "--export=2s", "--root=/host"},
			"volumeMounts": []object{{"name": "token", "mountPath": "/token"}, {"name": "ca", "mountPath": "/ca"}, {"name": "host", "mountPath": "/host", "readOnly": true}, {"name": "tmp", "mountPath": "/tmp"}}}},
		"hostPID": true,
		"volumes": []object{{"name": "token", "projected": object{"sources": []object{{"serviceAccountToken": object{"path": "token", "audience": "reckon"}}}}},
			{"name": "ca", "configMap": object{"name": "reckon-ca"}}, {"name": "host", "hostPath": object{"path": "/"}}, {"name": "tmp", "emptyDir": object{}}},
	}}
	b.apply(agent)
	defer func() { b.must("kubectl", "-n", "reckon", "delete", "pod", "stranger", "--now") }()
	b.until(time.Minute, "samples of another node are refused", func() string {
		out, err := b.command(20*time.Second, "", "kubectl", "-n", "reckon", "logs", "stranger")
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(out, "403") && !strings.Contains(out, "may not") {
			return out
		}
		return ""
	})
	if list, err := b.query(`count({node="elsewhere"})`); err != nil || len(list) > 0 {
		t.Errorf("the server has series of the other node: %v, %v", list, err)
	}
	// Nor does a token for the API server, or of another account, open anything.
	for what, args := range map[string][]string{
		"for the API server": {"-n", "reckon", "create", "token", "reckon"},
		"another account's":  {"-n", "shop", "create", "token", "default", "--audience=reckon"},
	} {
		token := b.must("kubectl", args...)
		out, err := b.command(20*time.Second, token, "kubectl", "-n", "reckon", "exec", "-i", "reckon-0", "--", "reckon", "--token-file=/dev/stdin", "jobs")
		if err == nil {
			t.Errorf("a token %s is let in: %s", what, out)
		}
	}
	token := b.must("kubectl", "-n", "reckon", "create", "token", "reckon", "--audience=reckon")
	if out, err := b.command(20*time.Second, token, "kubectl", "-n", "reckon", "exec", "-i", "reckon-0", "--", "reckon", "--token-file=/dev/stdin", "jobs"); err != nil {
		t.Errorf("the token of the server's own account: %v %s", err, out)
	}
}

// upgrade: another revision keeps the certificate and goes on being fed, and the way back works.
func (b *bed) upgrade(t *testing.T, install []string) {
	cert := func() string {
		return b.must("kubectl", "-n", "reckon", "get", "secret", "reckon-tls", "-o", `jsonpath={.data.tls\.crt}`)
	}
	fed := func(what string) {
		b.must("kubectl", "-n", "reckon", "rollout", "status", "statefulset/reckon", "--timeout=120s")
		b.must("kubectl", "-n", "reckon", "rollout", "status", "daemonset/reckon-agent", "--timeout=120s")
		b.until(2*time.Minute, what, func() string {
			list, err := b.query(`count(reckon_container_info{workload="deployment/shop/cart"})`)
			if err != nil || len(list) == 0 {
				return fmt.Sprintf("%v %v", list, err)
			}
			return ""
		})
	}
	was := cert()
	b.must("helm", append([]string{"upgrade", "--set", "agent.export=5s", "--set", "server.retention=48h"}, install...)...)
	fed("samples after the upgrade")
	if got := b.must("kubectl", "-n", "reckon", "get", "daemonset", "reckon-agent", "-o", "jsonpath={.spec.template.spec.containers[0].args}"); !strings.Contains(got, "--export=5s") {
		t.Errorf("the agents run with %s", got)
	}
	if cert() != was {
		t.Error("the upgrade made another certificate")
	}
	b.must("helm", "-n", "reckon", "rollback", "reckon", "1")
	fed("samples after the rollback")
	if got := b.must("kubectl", "-n", "reckon", "get", "daemonset", "reckon-agent", "-o", "jsonpath={.spec.template.spec.containers[0].args}"); !strings.Contains(got, "--export=15s") {
		t.Errorf("after the rollback the agents run with %s", got)
	}
	if cert() != was {
		t.Error("the rollback made another certificate")
	}
}
