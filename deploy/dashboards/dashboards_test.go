package dashboards

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"go.yaml.in/yaml/v3"

	"reckon/access"
	"reckon/query"
	"reckon/web/api"
	"reckon/web/promapi"
)

var update = flag.Bool("update", false, "write the dashboards anew")

// The files are what the descriptions report.
func TestFiles(t *testing.T) {
	for _, d := range List() {
		want, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		file := "reckon-" + d.Name + ".json"
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the descriptions say (%v); run go generate ./deploy/dashboards", file, err)
		}
	}
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) != len(List()) {
		t.Errorf("%d files for %d dashboards", len(files), len(List()))
	}
	raw, err := os.ReadFile("provisioning.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p provisioning
	strict := yaml.NewDecoder(bytes.NewReader(raw))
	strict.KnownFields(true)
	if err := strict.Decode(&p); err != nil || p.APIVersion != 1 || len(p.Datasources) != 1 || len(p.Providers) != 1 {
		t.Fatalf("%v %+v", err, p)
	}
	if d := p.Datasources[0]; d.Name == "" || d.Type != "prometheus" || d.Access != "proxy" || !strings.HasPrefix(d.URL, "http") || d.JSONData.HTTPMethod != "POST" || d.JSONData.PrometheusType != "Prometheus" {
		t.Errorf("%+v", d)
	}
	if d := p.Providers[0]; d.Name == "" || d.Type != "file" || !filepath.IsAbs(d.Options.Path) {
		t.Errorf("%+v", d)
	}
}

// provisioning are the fields that Grafana's page on provisioning names and our file uses
// (https://grafana.com/docs/grafana/latest/administration/provisioning/): one more is one that
// Grafana may not know.
type provisioning struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, Type, Access, URL string
		IsDefault               bool `yaml:"isDefault"`
		JSONData                struct {
			HTTPMethod     string `yaml:"httpMethod"`
			TimeInterval   string `yaml:"timeInterval"`
			PrometheusType string `yaml:"prometheusType"`
			ManageAlerts   bool   `yaml:"manageAlerts"`
		} `yaml:"jsonData"`
	}
	Providers []struct {
		Name, Folder, Type string
		Options            struct{ Path string }
	}
}

// Every metric is in the generated reference, and every dashboard is linked well.
func TestMetricsExist(t *testing.T) {
	raw, err := os.ReadFile("../../doc/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9_:]+)`").FindAllStringSubmatch(string(raw), -1) {
		known[m[1]] = true
	}
	slurm, err := os.ReadFile("../../interop/scheduler/desc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Name: "([a-z0-9_]+)"`).FindAllStringSubmatch(string(slurm), -1) {
		known[m[1]] = true
	}
	pages := map[string]bool{}
	for _, d := range List() {
		pages["/d/reckon-"+d.Name] = true
	}
	p := parser.NewParser(parser.Options{})
	for _, d := range List() {
		for _, v := range d.Vars {
			if !known[v.Metric] {
				t.Errorf("%s: variable %s: doc/metrics.md has no %s", d.Title, v.Name, v.Metric)
			}
		}
		for _, r := range d.Rows {
			for _, panel := range r.Panels {
				if path, _, _ := strings.Cut(panel.Link, "?"); strings.HasPrefix(path, "/d/") && !pages[path] {
					t.Errorf("%s: %s leads to %s, which is no dashboard", d.Title, panel.Title, path)
				}
				if panel.description() == "" {
					t.Errorf("%s: %s is not described", d.Title, panel.Title)
				}
				for _, q := range panel.Queries {
					if regexp.MustCompile(`(rate|increase)\([^()]*\[\d+m\]`).MatchString(q.Expr) {
						t.Errorf("%s: %s: a rate over a fixed time misses spikes or loses what was sampled more slowly: %s", d.Title, panel.Title, q.Expr)
					}
					expr, err := p.ParseExpr(plain(q.Expr))
					if err != nil {
						t.Fatalf("%s: %s: %v", d.Title, panel.Title, err)
					}
					parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
						if v, ok := n.(*parser.VectorSelector); ok && !known[v.Name] {
							t.Errorf("%s: %s: doc/metrics.md has no %s", d.Title, panel.Title, v.Name)
						}
						return nil
					})
				}
			}
		}
	}
}

// plain puts in what Grafana puts in for All.
func plain(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m")
	return regexp.MustCompile(`\$(site|node|workload|owner|server)`).ReplaceAllString(expr, ".*")
}

// prometheus is the data source: our own HTTP API over a simulated site.
type prometheus struct {
	t *testing.T
	h http.Handler
}

func newPrometheus(t *testing.T) prometheus {
	raw, err := os.ReadFile("testdata/site.txt")
	if err != nil {
		t.Fatal(err)
	}
	storage := promqltest.LoadedStorage(t, string(raw))
	engine := query.NewEngine(query.EngineOptions{})
	return prometheus{t, api.New(api.Options{
		Viewer: func(*http.Request) (access.Viewer, error) {
			return access.Viewer{Role: access.Support, Name: "grafana"}, nil
		},
		Prometheus: promapi.Handler(promapi.Options{Engine: engine, Queryable: storage, Exemplars: storage}),
	})}
}

// get asks and returns how many series or values came.
func (p prometheus) get(path string, v url.Values) (int, error) {
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"?"+v.Encode(), nil))
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		return 0, fmt.Errorf("%d %.200s", w.Code, w.Body)
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s", answer.Error)
	}
	var list []json.RawMessage
	if json.Unmarshal(answer.Data, &list) == nil {
		return len(list), nil
	}
	var result struct {
		Result []struct{ Value, Values []any }
	}
	if err := json.Unmarshal(answer.Data, &result); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range result.Result {
		if len(s.Values) > 0 || len(s.Value) == 2 && s.Value[1] != "NaN" {
			n++
		}
	}
	return n, nil
}

// end is the last moment of the site, with figures 30 s apart.
var end = time.Unix(0, 0).Add(2 * time.Hour)

func (p prometheus) ask(expr string, instant bool) (int, error) {
	if instant {
		return p.get("/api/v1/query", url.Values{"query": {expr}, "time": {fmt.Sprint(end.Unix())}})
	}
	return p.get("/api/v1/query_range", url.Values{"query": {expr}, "start": {fmt.Sprint(end.Add(-time.Hour).Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {"60"}})
}

// Every panel and every choice shows something of the simulated site.
func TestEveryPanelShowsSomething(t *testing.T) {
	p := newPrometheus(t)
	panels := 0
	for _, d := range List() {
		for _, v := range d.Vars {
			n, err := p.get("/api/v1/label/"+v.Label+"/values", url.Values{"match[]": {plain(v.Metric + "{" + v.Filter + "}")}, "start": {"0"}, "end": {fmt.Sprint(end.Unix())}})
			if err != nil || n == 0 {
				t.Errorf("%s: the choice %s is empty: %v", d.Title, v.Name, err)
			}
		}
		for _, r := range d.Rows {
			for _, panel := range r.Panels {
				panels++
				for _, q := range panel.Queries {
					if n, err := p.ask(plain(q.Expr), q.Instant); err != nil || n == 0 {
						t.Errorf("%s: %s is empty: %v\n%s", d.Title, panel.Title, err, q.Expr)
					}
				}
			}
		}
	}
	reasons := map[string]int{}
	for _, d := range List() {
		for _, r := range d.Rows {
			for i := range r.Panels {
				reasons[r.Panels[i].emptyText()]++
			}
		}
	}
	for _, m := range emptyReasons {
		if reasons[m.why] == 0 {
			t.Errorf("no panel is empty because %q: a reason before it stands for it, or its pattern %s is in no query", m.why, m.metric)
		}
	}
	if general := reasons[emptyReasons[len(emptyReasons)-1].why]; general > panels/2 {
		t.Errorf("%d of %d panels that are empty do not say what the site lacks", general, panels)
	}
	if panels < 60 {
		t.Errorf("%d panels", panels)
	}
	if n, err := p.ask("reckon_no_such_metric", true); err != nil || n != 0 {
		t.Errorf("a metric that is not there shows %d series, %v", n, err)
	}
	if _, err := p.ask("sum(", false); err == nil {
		t.Error("a broken query is no error")
	}
	if !slices.ContainsFunc(List(), func(d Dashboard) bool { return d.Name == "agent" }) {
		t.Error("no dashboard of the agents")
	}
}
