//go:build e2e_k8s

package k8s

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// agent is a pod with an agent that sends nothing, as the chart runs it but for what args and spec report.
func (b *bed) agent(name string, spec object, args ...string) object {
	all := object{
		"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "nodeName": b.node, "hostPID": true,
		"containers": []object{{"name": "agent", "image": "localhost/reckon/reckon-agent:" + version,
			"args":         append([]string{"--root=/host", "--node=" + b.node, "--set=push-socket=none", "--listen=:9872", "--insecure"}, args...),
			"env":          []object{{"name": "NODE_IP", "valueFrom": object{"fieldRef": object{"fieldPath": "status.hostIP"}}}},
			"volumeMounts": []object{{"name": "host", "mountPath": "/host", "readOnly": true}}}},
		"volumes": []object{{"name": "host", "hostPath": object{"path": "/"}}},
	}
	maps.Copy(all, spec)
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": "reckon"}, "spec": all}
}

// rights: the agent's account may read the pods of a node and nothing else of it: the kubelet answers it the list and refuses a command in
// a pod. An agent with an account that may not even do that goes on under ids with the reason, and names what runs once it may. One that
// sees its own processes only reports it and ends.
func (b *bed) rights(t *testing.T) {
	const account = "system:serviceaccount:reckon:reckon-agent"
	for what, want := range map[string]string{"nodes/pods": "yes", "nodes/proxy": "no", "nodes": "no", "pods": "no", "secrets": "no"} {
		resource, sub, _ := strings.Cut(what, "/")
		out, err := b.command(time.Minute, "", "kubectl", "auth", "can-i", "get", resource, "--subresource="+sub, "--as="+account, "-n", "shop")
		if strings.TrimSpace(out) != want {
			t.Errorf("the agent may get %s: %q (%v), want %s", what, out, err, want)
		}
	}
	token := strings.TrimSpace(b.must("kubectl", "-n", "reckon", "create", "token", "reckon-agent"))
	for path, want := range map[string]int{"/pods": http.StatusOK, "/exec/shop/bare/main?command=id&output=1": http.StatusForbidden, "/containerLogs/shop/bare/main": http.StatusForbidden} {
		if got, err := b.askKubelet(path, token); err != nil || got != want {
			t.Errorf("the kubelet answers the agent's token %s: %d, %v; want %d", path, got, err, want)
		}
	}
	b.apply(b.agent("apart", object{"hostPID": false}, "--set=kubelet=none"),
		object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "refused", "namespace": "reckon"}},
		b.agent("refused", object{"serviceAccountName": "refused"}, "--source=procfs", "--set=exits=none", "--export=2s"))
	defer func() {
		b.must("kubectl", "-n", "reckon", "delete", "pod/apart", "pod/refused", "serviceaccount/refused", "clusterrolebinding/refused", "--ignore-not-found")
	}()
	b.until(time.Minute, "an agent without hostPID ends", func() string {
		phase := b.must("kubectl", "-n", "reckon", "get", "pod", "apart", "-o", "jsonpath={.status.phase}")
		if phase != "Failed" {
			return phase
		}
		return ""
	})
	if out := b.must("kubectl", "-n", "reckon", "logs", "apart"); !strings.Contains(out, "hostPID: true") {
		t.Errorf("it says %s", out)
	}
	uid := "pod/" + b.must("kubectl", "-n", "shop", "get", "pod", "bare", "-o", "jsonpath={.metadata.uid}")
	const named = "pod/shop/bare"
	look := func() (have map[string]float64, up float64, reason string) {
		page, err := b.page("/api/v1/namespaces/reckon/pods/refused:9872/proxy/metrics")
		have = map[string]float64{}
		if err != nil {
			return have, 0, err.Error()
		}
		for _, l := range page {
			switch w := l.labels["workload"]; {
			case l.name == "reckon_sensor_up" && l.labels["sensor"] == "kubelet":
				up, reason = l.value, l.labels["reason"]
			case l.name == "reckon_workload_cpu_seconds_total" && (w == uid || w == named):
				have[w] += l.value
			}
		}
		return have, up, reason
	}
	b.until(2*time.Minute, "a refused agent goes on under ids", func() string {
		have, up, reason := look()
		if _, ok := have[named]; ok || have[uid] == 0 || up != 0 || !strings.Contains(reason, "nodes/pods") {
			return fmt.Sprint(have, up, reason)
		}
		return ""
	})
	b.apply(object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": "refused"},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reckon-agent"},
		"subjects": []object{{"kind": "ServiceAccount", "name": "refused", "namespace": "reckon"}}})
	groups := b.watchPods(t)
	b.until(4*time.Minute, "what ran meanwhile goes on under its name", func() string { // kubelets remember a refusal for 30 s, the agent asks every 30 s
		have, up, reason := look()
		if have[named] == 0 || up != 1 {
			return fmt.Sprint(have, up, reason)
		}
		// What stands under the id has ended, and the name began at zero.
		if total := groups.total(strings.TrimPrefix(uid, "pod/")); have[uid]+have[named] > total+0.05 {
			t.Errorf("charged are %v s, the control group has %.3f", have, total)
		} else {
			t.Logf("charged are %v s, the control group has %.3f", have, total)
		}
		return ""
	})
}

// askKubelet asks the kubelet of the first node with a token.
func (b *bed) askKubelet(path, token string) (int, error) {
	ca, err := os.ReadFile(filepath.Join(b.state, "pki", "ca.crt"))
	if err != nil {
		return 0, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	ip := b.must("kubectl", "get", "node", b.node, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "https://"+ip+":10250"+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// askedFor is an amount in a verdict.
var askedFor = regexp.MustCompile(`\d (cores?|[KMGT]?i?B) (it )?asked for`)

// bounds: what a pod asks for and may use are apart, and absent where it reports none of them; no part has two info series in one export.
func (b *bed) bounds(t *testing.T) {
	free := container("main", burn)
	delete(free, "resources")
	fixed := container("main", burn)
	fixed["resources"] = object{"limits": object{"cpu": "100m", "memory": "32Mi"}}
	b.apply(named("Pod", "v1", "unbounded", pod("Always", free)), named("Pod", "v1", "fixed", pod("Always", fixed)))
	want := map[string]string{
		`count(reckon_container_info{pod="unbounded",qos="BestEffort",type="main"})`:                   "1",
		`count(reckon_container_info{pod="fixed",qos="Guaranteed",type="main"})`:                       "1",
		`count(reckon_container_info{pod="bare",qos="Burstable",type="main"})`:                         "1",
		`sum(reckon_workload_request_cores{workload="pod/shop/fixed"})`:                                "0.1",
		`sum(reckon_workload_limit_memory_bytes{workload="pod/shop/fixed"})`:                           "33554432",
		`count(reckon_workload_cpu_seconds_total{workload="pod/shop/unbounded",part="main"} > 0) >= 1`: "",
	}
	b.until(2*time.Minute, "classes, requests and limits", func() string {
		var wrong []string
		for what, value := range want {
			if got, err := b.query(what); err != nil || len(got) != 1 || value != "" && got[0].Value != value {
				wrong = append(wrong, fmt.Sprintf("%s is %v, %v; want %s", what, got, err, value))
			}
		}
		return strings.Join(wrong, "\n")
	})
	for _, q := range []string{
		`{__name__=~"reckon_(workload|container)_(request|limit)_.*",workload="pod/shop/unbounded"}`,
		`count by (node, workload, part) (reckon_workload_info{owner="shop"}) > 1`,
	} {
		if list, err := b.query(q); err != nil || len(list) > 0 {
			t.Errorf("%s: %v %v", q, list, err)
		}
	}
	b.until(time.Minute, "the verdict", func() string {
		out, err := b.reckon("job", "pod/shop/unbounded")
		if err != nil {
			return err.Error()
		}
		if askedFor.MatchString(out) {
			t.Errorf("it asked for nothing:\n%s", out)
		}
		return ""
	})
	page, err := b.ours()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(page, func(l line) bool {
		return l.name == "container_cpu_cfs_throttled_periods_total" && l.labels["pod"] == "fixed" && l.labels["container"] == "main"
	}) {
		t.Error("the view cadvisor has no throttled periods of a pod with a limit")
	}
	b.must("kubectl", "-n", "shop", "delete", "pod/unbounded", "pod/fixed", "--wait")
}

// podLogs: with the right to them the server reads the log of a pod from the API server, for whoever may see the workload.
func (b *bed) podLogs(t *testing.T, install []string) {
	b.must("helm", append([]string{"upgrade", "--set", "logs.pods=true"}, install...)...)
	b.must("kubectl", "-n", "reckon", "rollout", "status", "statefulset/reckon", "--timeout=170s")
	b.apply(named("Pod", "v1", "teller", pod("Always", container("main", "echo the tale of a teller; "+burn))))
	b.until(2*time.Minute, "the log of a pod from the API server", func() string {
		out, err := b.reckon("job", "pod/shop/teller", "--logs")
		if err != nil || !strings.Contains(out, "the tale of a teller") {
			return fmt.Sprintf("%v %.600s", err, out)
		}
		return ""
	})
	b.must("kubectl", "-n", "shop", "delete", "pod/teller", "--wait")
}
