package api_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

func document(t *testing.T, h http.Handler) map[string]any {
	t.Helper()
	return decode[map[string]any](t, get(t, h, "/api/reckon/openapi.json"), 200)
}

func full(t *testing.T) http.Handler {
	t.Helper()
	hub := new(api.Hub)
	hub.Publish(apitest.Tick(now, 10))
	b := apitest.Site(now)
	b.Missing = []string{"site west"}
	return api.New(api.Options{
		Forecasts: fakeForecasts{}, Ranks: fakeRanks{}, Devices: fakeDevices{},
		Backend: b, Hub: hub, Version: "1.2.3", Metrics: http.NotFoundHandler(), Usage: &fakeUsage{}, Fit: fakeFit{}, Moves: fakeMoves{},
		Inconsistent: fakeInconsistent{}, Proof: &fakeProof{}, Replace: func(_, node string) bool { return node != "nobody" },
		Scale: fakeScale{}, Logs: fakeLogs{}, Findings: newFindings(), Import: new(fakeImport), MetricRuns: new(fakeRuns),
		Backup: fakeBackup{"all", nil}, Alerts: fakeAlerts{}, Data: fakeData{}, Power: fakeData{},
	})
}

// TestDocumentIsOpenAPI validates the document against the parts of OpenAPI 3.1 that it uses, and its
// operations against what their readers need.
func TestDocumentIsOpenAPI(t *testing.T) {
	c := jsonschema.NewCompiler()
	rules, err := c.Compile("testdata/openapi-parts.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc := document(t, full(t))
	if err := rules.Validate(doc); err != nil {
		t.Error(err)
	}
	refs := regexp.MustCompile(`"#/components/schemas/([^"]+)"`)
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	for _, ref := range refs.FindAllStringSubmatch(get(t, full(t), "/api/reckon/openapi.json").Body.String(), -1) {
		if schemas[ref[1]] == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
	ids := map[string]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		op, ok := item.(map[string]any)["get"].(map[string]any)
		if !ok {
			op, ok = item.(map[string]any)["post"].(map[string]any)
		}
		id, _ := op["operationId"].(string)
		if !ok || op["summary"] == nil || id == "" || ids[id] {
			t.Errorf("%s: no summary, or no operation id of its own", path)
			continue
		}
		ids[id] = true
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			p := p.(map[string]any)
			if p["description"] == nil {
				t.Errorf("%s: parameter %s is not described", path, p["name"])
			}
			if inPath := strings.Contains(path, "{"+p["name"].(string)+"}"); inPath != (p["in"] == "path") {
				t.Errorf("%s: parameter %s is in %s", path, p["name"], p["in"])
			}
		}
	}

	// The validator detects errors.
	doc["paths"].(map[string]any)["/api/reckon/v1/nodes"].(map[string]any)["get"].(map[string]any)["parametres"] = []any{}
	if rules.Validate(doc) == nil {
		t.Error("a misspelt field passes")
	}
}

// TestEveryRouteIsDescribed requests every described address, and requires that every served address is
// described.
func TestEveryRouteIsDescribed(t *testing.T) {
	h := full(t)
	paths := document(t, h)["paths"].(map[string]any)
	for _, target := range []string{
		"/api/reckon/v1/workloads", "/api/reckon/v1/workloads/{id}", "/api/reckon/v1/nodes", "/api/reckon/v1/live",
		"/api/reckon/openapi.json", "/healthz", "/readyz", "/-/healthy", "/-/ready", "/metrics",
	} {
		if paths[target] == nil {
			t.Errorf("%s is not described", target)
		}
	}
	for path := range paths {
		if strings.HasSuffix(path, "/live") || strings.HasPrefix(path, "/api/v1/") || path == "/metrics" {
			continue // a stream has no end; the others belong to other handlers
		}
		if w := ask(t, h, paths[path], path); w.Code != 200 {
			t.Errorf("%s is described and answers %d", path, w.Code)
		}
	}
}

// TestEveryParameterIsTaken sends each described parameter and requires that it is accepted.
func TestEveryParameterIsTaken(t *testing.T) {
	h := full(t)
	values := map[string]string{"boolean": "true", "number": "1", "integer": "1", "string": "1h", "array": "x"}
	for path, item := range document(t, h)["paths"].(map[string]any) {
		op, ok := item.(map[string]any)["get"].(map[string]any)
		if !ok {
			continue // a form
		}
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			p := p.(map[string]any)
			if p["in"] == "path" {
				continue
			}
			schema := p["schema"].(map[string]any)
			value := values[schema["type"].(string)]
			if words, ok := schema["enum"].([]any); ok {
				value = words[0].(string)
			}
			if p["name"] == "site" && strings.Contains(path, "{id}") {
				continue // the test's job has none: TestSameIDAtTwoSites
			}
			if p["name"] == "start" { // a moment within the run of the job
				value = now.Add(-time.Hour).Format(time.RFC3339)
			}
			if p["name"] == "workload" {
				value = "slurm/4711"
			}
			if items, ok := schema["items"].(map[string]any); ok && items["enum"] != nil {
				value = items["enum"].([]any)[0].(string)
			}
			target := target(path) + "?" + p["name"].(string) + "=" + value
			if strings.HasSuffix(path, "/compare/runs") {
				target += "&a=alice/demo-1&b=alice/demo-1"
			}
			if strings.Contains(path, "/data") && p["name"] != "select" {
				target += "&select=up"
			}
			if w := get(t, h, target); w.Code != 200 {
				t.Errorf("%s: %d %s", target, w.Code, w.Body)
			}
		}
	}
}

// TestEveryFieldIsDescribed walks the wire types.
func TestEveryFieldIsDescribed(t *testing.T) {
	schemas := document(t, full(t))["components"].(map[string]any)["schemas"].(map[string]any)
	used := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		_, shared := schemas[typ.Name()] // the figures of a time stand by themselves as well
		shared = shared && typ == reflect.TypeFor[client.UsageFigures]()
		if typ.Kind() != reflect.Struct || !shared && typ.PkgPath() != reflect.TypeFor[client.Workload]().PkgPath() || used[typ.Name()] {
			return
		}
		used[typ.Name()] = true
		s, ok := schemas[typ.Name()].(map[string]any)
		embedded := false
		for i := range typ.NumField() {
			f := typ.Field(i)
			walk(f.Type)
			if f.Anonymous {
				embedded = true
				continue
			}
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			p, _ := s["properties"].(map[string]any)[name].(map[string]any)
			if text, _ := p["description"].(string); !strings.HasSuffix(text, ".") {
				t.Errorf("%s.%s is not described by a sentence: %q", typ.Name(), name, text)
			}
		}
		if text, _ := s["description"].(string); ok && text == "" && !shared {
			t.Errorf("%s is not described", typ.Name())
		}
		if !ok && !embedded && !slices.Contains([]string{"Workload"}, typ.Name()) { // embedded
			t.Errorf("%s is not in the document", typ.Name())
		}
	}
	for _, v := range []any{client.WorkloadList{}, client.WorkloadDetail{}, client.NodeList{}, client.Error{}, client.Live{},
		client.UsageList{}, client.Report{}, client.FitList{}, client.MoveList{}, client.Scale{}, client.FindingList{}, client.FindingDifference{},
		client.FindingSteps{}, client.DataTable{}, client.Correlation{}, client.PowerFit{}, client.ImportResult{}, client.AlertTest{}, client.AlertReceivers{},
		client.InconsistentList{}, client.Members{}, client.Proof{}, client.Replaced{}} {
		walk(reflect.TypeOf(v))
	}
	for _, v := range []any{client.ForecastList{}, client.Ranking{}, client.NodeDevices{}, client.HostPriority{}, client.Logs{},
		client.MetricRunList{}, client.MetricRunSamples{}, client.MetricRunKept{}, client.MetricRunComparison{}} {
		walk(reflect.TypeOf(v))
	}
	for name := range schemas {
		if !used[name] {
			t.Errorf("the document holds %s, which is no wire type", name)
		}
	}
}

// TestAnswersValidate validates real responses against the schemas, with additional fields forbidden, so
// that an undescribed field fails.
func TestAnswersValidate(t *testing.T) {
	h := full(t)
	doc := document(t, h)
	for _, s := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		s.(map[string]any)["additionalProperties"] = false
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	validate := func(name string, body []byte) {
		t.Helper()
		s, err := c.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v\n%.300s", name, err, body)
		}
	}
	for target, name := range map[string]string{
		"/api/reckon/v1/workloads":                         "WorkloadList",
		"/api/reckon/v1/workloads?limit=1&offset=3":        "WorkloadList",
		"/api/reckon/v1/workloads?owner=nobody":            "WorkloadList",
		"/api/reckon/v1/workloads/slurm/4711":              "WorkloadDetail",
		"/api/reckon/v1/workloads/slurm/4712":              "WorkloadDetail",
		"/api/reckon/v1/workloads/group/n2/812-1795255200": "WorkloadDetail",
		"/api/reckon/v1/nodes":                             "NodeList",
		"/api/reckon/v1/workloads?limit=x":                 "Error",
		"/api/reckon/v1/workloads/nothing":                 "Error",
	} {
		validate(name, get(t, h, target).Body.Bytes())
	}
	live, err := json.Marshal(apitest.Tick(now, 10))
	if err != nil {
		t.Fatal(err)
	}
	validate("Live", live)

	// The validator detects errors: an answer with an extra field, and one with a missing field.
	s, err := c.Compile("openapi.json#/components/schemas/Error")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{"error":"x","more":1}`, `{}`, `{"error":1}`} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(v) == nil {
			t.Errorf("%s passes for an Error", bad)
		}
	}
}
