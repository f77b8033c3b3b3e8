//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// graph: the knowledge graph has each object that kubectl lists, under its UID, and no other; the figures and the forecast of a Deployment
// are found by following links from its name.
func (b *bed) graph(t *testing.T) {
	kinds := map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true, "Job": true, "CronJob": true, "JobSet": true, "Pod": true, "Node": true}
	rows := func(query string) (out []map[string]string, err error) {
		text, err := b.reckon("graph", "query", "PREFIX rk: <urn:reckon:ns#> "+query, "--format", "json")
		if err != nil {
			return nil, err
		}
		var r struct {
			Results struct {
				Bindings []map[string]struct{ Value string }
			}
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return nil, fmt.Errorf("%w: %.200s", err, text)
		}
		for _, row := range r.Results.Bindings {
			one := map[string]string{}
			for name, x := range row {
				one[name] = x.Value
			}
			out = append(out, one)
		}
		return out, nil
	}
	b.until(3*time.Minute, "a graph that equals the cluster", func() string {
		text, err := b.command(30*time.Second, "", "kubectl", "get", "deployments,statefulsets,daemonsets,replicasets,jobs,cronjobs,jobsets,pods,nodes", "-A", "-o", "json")
		if err != nil {
			return text
		}
		var list struct {
			Items []struct {
				Kind     string
				Metadata struct{ Name, UID string }
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return err.Error()
		}
		var want, have []string
		for _, o := range list.Items {
			want = append(want, o.Metadata.Name+" "+o.Metadata.UID)
		}
		found, err := rows(`SELECT DISTINCT ?name ?uid { GRAPH ?g { ?o rk:name ?name ; rk:uid ?uid } FILTER(CONTAINS(STR(?g), "/kubernetes/")) MINUS { ?o a rk:Container } }`)
		if err != nil {
			return err.Error()
		}
		for _, o := range found {
			have = append(have, o["name"]+" "+o["uid"])
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			return fmt.Sprintf("kubectl has %d objects of %d kinds, the graph %d\n%s\n\n%s", len(want), len(kinds), len(have), strings.Join(want, "\n"), strings.Join(have, "\n"))
		}
		return ""
	})
	found, err := rows(`SELECT ?url ?query ?forecast { ?w a rk:Workload ; rk:kind "Deployment" ; rk:name "cart" ; rk:telemetry/rk:hasMetrics ?m .
		?m rk:source/rk:url ?url ; rk:series ?s . ?s rk:metricName "reckon_workload_cpu_seconds_total" ; rk:query ?query OPTIONAL { ?s rk:forecastQuery ?forecast } }`)
	if err != nil || len(found) == 0 || found[0]["url"] != "https://reckon.reckon.svc:9870" || found[0]["forecast"] == "" {
		t.Fatalf("%v %v", found, err)
	}
	out, err := b.reckon("query", found[0]["query"])
	if err != nil || !strings.ContainsAny(out, "123456789") {
		t.Errorf("%s: %s %v", found[0]["query"], out, err)
	}
}
