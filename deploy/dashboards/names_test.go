package dashboards

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/access"
	"reckon/query"
	"reckon/web/api"
	"reckon/web/promapi"
)

// Legends name work before its id, and no line is lost or doubled where a name is missing,
// stands in several parts, or changed.
func TestNamesBeforeIDs(t *testing.T) {
	storage := promqltest.LoadedStorage(t, `load 1m
  reckon_workload_memory_bytes{site="s",node="n1",workload="slurm/1"} 10x10
  reckon_workload_memory_bytes{site="s",node="n1",workload="group/n1/7"} 9x10
  reckon_workload_memory_bytes{site="s",node="n1",workload="slurm/2"} 8x10
  reckon_workload_memory_bytes{site="s",node="n1",workload="other"} 7x10
  reckon_workload_info{site="s",workload="slurm/1",node="n1",part="0",name="train",command="python"} 1x10
  reckon_workload_info{site="s",workload="slurm/1",node="n2",part="batch",name="train",command="bash"} 1x10
  reckon_workload_info{site="s",workload="group/n1/7",node="n1",command="make"} 1x10
  reckon_workload_info{site="s",workload="slurm/2",node="n1",part="0",name="old"} 1x10
  reckon_workload_info{site="s",workload="slurm/2",node="n1",part="1",name="new"} 1x10
`)
	h := api.New(api.Options{
		Viewer: func(*http.Request) (access.Viewer, error) {
			return access.Viewer{Role: access.Support, Name: "grafana"}, nil
		},
		Prometheus: promapi.Handler(promapi.Options{Engine: query.NewEngine(query.EngineOptions{}), Queryable: storage, Exemplars: storage}),
	})
	q := withName(Query{Expr: `topk(15, sum by (workload) (reckon_workload_memory_bytes{` + onNode + `}))`, Legend: "{{workload}}"})
	if q.Legend != "{{name}} {{workload}}" {
		t.Errorf("the legend is %s", q.Legend)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?"+url.Values{"query": {plain(q.Expr)}, "time": {"300"}}.Encode(), nil))
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range answer.Data.Result {
		got[r.Metric["workload"]] = r.Metric["name"]
	}
	if got["slurm/1"] != "train" || got["group/n1/7"] != "make" || got["slurm/2"] != "new" && got["slurm/2"] != "old" || len(got) != 4 || len(answer.Data.Result) != 4 {
		t.Errorf("names are %v in %d lines: %s", got, len(answer.Data.Result), w.Body)
	}
	if name, there := got["other"]; !there || name != "" {
		t.Errorf("work without a name is %q, %t", name, there)
	}
	for _, d := range List() {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				for _, q := range p.Queries {
					if strings.Contains(q.Legend, idLegend) && !strings.Contains(q.Legend, "{{name}} "+idLegend) {
						t.Errorf("%s: %s names work by its id: %s", d.Title, p.Title, q.Legend)
					}
				}
			}
		}
	}
}
