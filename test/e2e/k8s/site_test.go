//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// siteValues are the values of a site that has names, but no volumes: every address is the chart's own, receivers are simple values.
const siteValues = `
server: {persistence: {enabled: false}, nodeSelector: {kubernetes.io/hostname: node0}}
agent: {stateDir: /var/lib/reckon-e2e/%d, compat: [cadvisor, kube], metrics: {enabled: true}}
operator: {nodeSelector: {kubernetes.io/hostname: node0}}
alerts:
  receivers:
    webhook: {url: "http://sink.shop.svc:8080/hook"}
    email: {to: ops@example.org, from: reckon@example.org, smarthost: "sink.shop.svc:2525", requireTLS: false}
  digest: weekly
  rules: {groups: [{name: own, rules: [{alert: CartIsUp, expr: 'reckon_workload_info{workload="deployment/shop/cart"} > 0', annotations: {summary: cart runs}}]}]}
`

// TestSite installs the packed chart where the cluster has names, and follows what leads out of it: links, alerts, mails, logs and measured pairs.
func TestSite(t *testing.T) {
	b := start(t)
	b.images()
	b.peer()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, siteValues, time.Now().Unix()), 0o600); err != nil {
		t.Fatal(err)
	}
	install := []string{"-n", "reckon", "reckon", b.packed(), "-f", file}
	t.Cleanup(func() {
		b.t = t
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"-n", "reckon", "logs", "reckon-0", "--tail=30"}, {"-n", "reckon", "logs", "deployment/reckon-graph", "--tail=20"}} {
				out, _ := b.command(20*time.Second, "", "kubectl", args...)
				t.Log(out)
			}
		}
		if os.Getenv("RECKON_KEEP") != "" {
			return
		}
		_, _ = b.command(time.Minute, "", "helm", "-n", "reckon", "uninstall", "reckon", "--wait")
		_, _ = b.command(time.Minute, "", "kubectl", "delete", "namespace", "shop", "reckon", "--ignore-not-found")
	})
	if _, err := b.command(time.Minute, "", "helm", "-n", "reckon", "status", "reckon"); err != nil {
		b.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}})
		for _, o := range owners() {
			b.apply(o)
		}
		b.sink()
		b.must("helm", append([]string{"install", "--create-namespace"}, install...)...)
		for _, what := range []string{"statefulset/reckon", "daemonset/reckon-agent", "deployment/reckon-graph"} {
			b.must("kubectl", "-n", "reckon", "rollout", "status", what, "--timeout=170s")
		}
		b.visitor()
	}
	step := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { b.t = t; f(t) })
		b.t = t
	}
	step("links", b.links)
	step("alerts", b.alerts)
	step("beside the kubelet", b.besideCAdvisor)
	step("logs", func(t *testing.T) { b.logs(t, install) })
	step("standalone", func(t *testing.T) { b.standalone(t, install) })
	step("uninstall", b.uninstall)
}

// uninstall leaves nothing of the release but what a site keeps: the definitions of MetricSets and runs with the objects in them.
func (b *bed) uninstall(t *testing.T) {
	if os.Getenv("RECKON_KEEP") != "" {
		t.Skip("RECKON_KEEP is set")
	}
	b.must("helm", "-n", "reckon", "uninstall", "reckon", "--wait")
	for _, kinds := range []string{"deployments,statefulsets,daemonsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,ingresses,networkpolicies",
		"clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"} {
		if left := b.must("kubectl", "-n", "reckon", "get", kinds, "-l", "app.kubernetes.io/instance=reckon", "-o", "name"); strings.TrimSpace(left) != "" {
			t.Errorf("left: %s", left)
		}
	}
	b.must("kubectl", "get", "crd", "metricsets.flux-framework.org", "metricruns.metrics.reckon")
}

// packed is the chart as `helm package` writes it, which is what a site installs.
func (b *bed) packed() string {
	b.t.Helper()
	dir := b.t.TempDir()
	b.must("helm", "package", chart, "--destination", dir)
	list, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(list) != 1 {
		b.t.Fatal(list, err)
	}
	return list[0]
}

const peerImage = "localhost/reckon/peer:1"

// peer gives the nodes the program of testdata/peer.
func (b *bed) peer() {
	b.t.Helper()
	program := filepath.Join(b.t.TempDir(), "peer")
	if out, err := b.command(5*time.Minute, "", "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", program, "./testdata/peer"); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	b.load(true, peerImage, program)
}

func peerContainer(args ...string) object {
	return object{"name": "main", "image": peerImage, "command": append([]string{"/peer"}, args...)}
}

// sink receives webhooks and mails, at sink.shop.svc.
func (b *bed) sink() {
	b.apply(named("Pod", "v1", "sink", pod("Always", peerContainer("sink"))),
		named("Service", "v1", "sink", object{"selector": object{"app": "sink"}, "ports": []object{{"name": "web", "port": 8080}, {"name": "mail", "port": 2525}}}))
	b.must("kubectl", "-n", "shop", "label", "pod", "sink", "app=sink", "--overwrite")
}

// got returns what the sink was sent.
func (b *bed) got(kind string) (list []string, err error) {
	text, err := b.command(20*time.Second, "", "kubectl", "get", "--raw", "/api/v1/namespaces/shop/services/sink:web/proxy/"+kind)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal([]byte(text), &list)
}

// open opens links from inside a pod with the token of a service account, and returns those that do not answer 200.
func (b *bed) open(urls []string) (wrong []string) {
	b.t.Helper()
	out, err := b.command(5*time.Minute, strings.Join(urls, "\n")+"\n", "kubectl", "-n", "reckon", "exec", "-i", "visitor", "--", "/peer", "open", "/ca/ca.crt", "/token/token")
	if err != nil {
		b.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(urls) {
		b.t.Fatalf("%d links, %d answers:\n%s", len(urls), len(lines), out)
	}
	for _, l := range lines {
		if code, rest, _ := strings.Cut(l, " "); code != "200" || strings.HasPrefix(rest, "0 ") {
			wrong = append(wrong, l)
		}
	}
	return wrong
}

// visitor is a pod with the account of the server, which may read.
func (b *bed) visitor() {
	c := peerContainer("sink")
	c["volumeMounts"] = []object{{"name": "token", "mountPath": "/token"}, {"name": "ca", "mountPath": "/ca"}}
	spec := pod("Always", c)
	spec["serviceAccountName"], spec["automountServiceAccountToken"] = "reckon", false
	spec["volumes"] = []object{{"name": "token", "projected": object{"sources": []object{{"serviceAccountToken": object{"path": "token", "audience": "reckon"}}}}},
		{"name": "ca", "configMap": object{"name": "reckon-ca"}}}
	b.apply(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "visitor", "namespace": "reckon"}, "spec": spec})
	b.must("kubectl", "-n", "reckon", "wait", "--for=condition=Ready", "pod/visitor", "--timeout=60s")
}

var statement = regexp.MustCompile(`^(\S+) <([^>]+)> (?:<([^>]+)>|"((?:[^"\\]|\\.)*)"(?:\^\^<([^>]+)>|@\S+)?|(_:\S+)) (?:<([^>]+)> )?\.$`)

// links: every address in every subgraph answers 200 to a program in a pod that shows its token and trusts the chart's authority.
func (b *bed) links(t *testing.T) {
	var urls []string
	graphs := map[string]int{}
	b.until(3*time.Minute, "a graph with links of workloads, nodes and the site", func() string {
		text, err := b.command(time.Minute, "", "kubectl", "-n", "reckon", "exec", "reckon-0", "--", "reckon", "graph", "export", "--format", "nquads")
		if err != nil {
			return err.Error()
		}
		urls, graphs = nil, map[string]int{}
		for l := range strings.Lines(text) {
			m := statement.FindStringSubmatch(strings.TrimSpace(l))
			if m == nil {
				return "not read: " + l
			}
			graphs[m[7]] += 0
			if link := m[3] + m[4]; strings.HasPrefix(link, "http") && !slices.ContainsFunc([]string{"www.w3.org/", "saref.etsi.org/", "qudt.org/", "purl.org/"}, func(v string) bool { return strings.Contains(link, "://"+v) }) {
				graphs[m[7]]++
				urls = append(urls, link)
			}
		}
		for _, want := range []string{":workload/", ":node/", "/kubernetes/", ":site/"} {
			found := false
			for g, n := range graphs {
				found = found || n > 0 && strings.Contains(g, want)
			}
			if !found {
				return fmt.Sprintf("no %s among %v", want, graphs)
			}
		}
		return ""
	})
	slices.Sort(urls)
	all := len(urls)
	urls = slices.Compact(urls)
	wrong := b.open(urls)
	t.Logf("%d subgraphs, %d links, %d different; such as %s", len(graphs), all, len(urls), urls[0])
	for _, w := range wrong {
		t.Error(w)
	}
}

// alerts: a rule of the values fires, and comes as a webhook and as a mail; the links of both are opened in a pod. The test of the chart passes.
func (b *bed) alerts(t *testing.T) {
	var links []string
	b.until(4*time.Minute, "the alert as a webhook", func() string {
		list, err := b.got("webhooks")
		if err != nil {
			return err.Error()
		}
		for _, text := range list {
			var m struct {
				ExternalURL string
				Alerts      []struct {
					Labels, Annotations map[string]string
					GeneratorURL        string
				}
			}
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				return err.Error()
			}
			for _, a := range m.Alerts {
				if a.Labels["alertname"] == "CartIsUp" {
					links = []string{a.GeneratorURL, m.ExternalURL}
					for _, v := range a.Annotations {
						if strings.HasPrefix(v, "http") {
							links = append(links, v)
						}
					}
					return ""
				}
			}
		}
		return strconv.Itoa(len(list)) + " webhooks"
	})
	b.until(time.Minute, "the alert as a mail", func() string {
		list, err := b.got("mails")
		if err != nil {
			return err.Error()
		}
		for _, text := range list {
			if strings.Contains(text, "CartIsUp") && strings.Contains(text, "ops@example.org") {
				for _, u := range regexp.MustCompile(`https?://[^\s"<>]+`).FindAllString(html.UnescapeString(strings.ReplaceAll(strings.ReplaceAll(text, "=\r\n", ""), "=3D", "=")), -1) {
					if strings.Contains(u, ".svc") {
						links = append(links, u)
					}
				}
				return ""
			}
		}
		return fmt.Sprint(len(list), " mails")
	})
	slices.Sort(links)
	links = slices.Compact(links)
	for _, w := range b.open(links) {
		t.Error(w)
	}
	t.Logf("opened %q", links)
	b.must("helm", "-n", "reckon", "test", "reckon", "--timeout", "100s")
	// The server sends the digest on Mondays only: here its alert goes along the route of the values, as the server words it.
	digest := `[{"labels": {"alertname": "WeeklyDigest", "owner": "shop", "severity": "info", "week": "2026-11-23"},
		"annotations": {"summary": "Your week: shop used 7 core-hours", "description": "what the week was"}}]`
	out, err := b.command(time.Minute, digest, "kubectl", "-n", "reckon", "exec", "-i", "visitor", "--", "/peer", "post", "/ca/ca.crt", "/token/token", "https://reckon.reckon.svc:9870/alertmanager/api/v2/alerts")
	if err != nil || !strings.HasPrefix(out, "200 ") {
		t.Fatal(out, err)
	}
	b.until(2*time.Minute, "the digest as a mail", func() string {
		list, err := b.got("mails")
		if err != nil || !slices.ContainsFunc(list, func(text string) bool {
			return strings.Contains(text, "Subject: Your week: shop used 7 core-hours") && strings.Contains(text, "what the week was")
		}) {
			return fmt.Sprint(list, err)
		}
		return ""
	})
}
