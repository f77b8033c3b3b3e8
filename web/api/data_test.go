package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeData echoes the query.
type fakeData struct{}

func (fakeData) Data(_ context.Context, q client.DataQuery) (client.DataTable, error) {
	if q.Select[0] == "bad{" {
		return client.DataTable{}, answer.Invalid("give a selector", errors.New("not a selector"))
	}
	one := 1.0
	return client.DataTable{
		From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Times: []time.Time{q.From.Add(q.Step), q.To}, Labels: []client.DataLabels{},
		Columns: []client.DataColumn{{Name: strings.Join(q.Select, ";"), Unit: "cores", Source: strings.Join(q.By, ";"), Values: []*float64{&one, nil}}}, Warnings: []string{},
	}, nil
}

func (fakeData) WriteData(_ context.Context, q client.DataQuery, format string, w io.Writer) error {
	_, err := fmt.Fprint(w, format, q.Select, q.Step)
	return err
}

func (fakeData) Correlate(_ context.Context, q client.DataQuery) (client.Correlation, error) {
	r := 0.5
	return client.Correlation{From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Rows: *q.MaxLag, Columns: []string{"a", "b"}, Warnings: []string{}, Pairs: []client.CorrelationPair{{A: "a", B: "b", Points: 9, Pearson: &r}}}, nil
}

func (fakeData) PowerFit(_ context.Context, q client.PowerFitQuery) (client.PowerFit, error) {
	return client.PowerFit{Node: q.Node, From: q.From, To: q.To, Contributions: []client.PowerContribution{}, Points: []client.PowerPoint{}, Candidates: []client.PowerCandidate{}, Warnings: []string{}}, nil
}

func TestData(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now), Data: fakeData{}, Power: fakeData{}})
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	c, err := client.New(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	lag := 7
	q := client.DataQuery{Select: []string{`a{x="1,2"}`, "b"}, By: []string{"node"}, From: now.Add(-time.Hour), To: now, Step: time.Minute, MaxLag: &lag}
	plain := q
	plain.MaxLag = nil
	table, err := c.Data(t.Context(), plain)
	if err != nil || table.StepSeconds != 60 || table.Columns[0].Name != `a{x="1,2"};b` || table.Columns[0].Source != "node" || table.Columns[0].Values[1] != nil {
		t.Errorf("%+v %v", table, err)
	}
	asked := plain.Query()
	asked.Set("format", "parquet")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/reckon/v1/data?"+asked.Encode(), nil))
	if got := w.Body.String(); got != `parquet[a{x="1,2"} b] 1m0s` {
		t.Errorf("%q", got)
	}
	q.By = nil
	if got, err := c.Correlate(t.Context(), q); err != nil || got.Rows != 7 || *got.Pairs[0].Pearson != 0.5 {
		t.Errorf("%+v %v", got, err)
	}
	if fit, err := c.PowerFit(t.Context(), client.PowerFitQuery{Node: "n1"}); err != nil || fit.Node != "n1" || fit.To.Sub(fit.From) != 6*time.Hour {
		t.Errorf("%+v %v", fit, err)
	}
	// A year without an explicit step has a few hundred rows.
	if year := decode[client.DataTable](t, get(t, h, "/api/reckon/v1/data?select=up&from=365d"), 200); year.StepSeconds < 3600 || year.StepSeconds > 86400 {
		t.Errorf("step of a year: %v s", year.StepSeconds)
	}
	if w := get(t, h, "/api/reckon/v1/data/correlate?select=up&format=csv"); w.Code != 200 || !strings.HasPrefix(w.Body.String(), "a,b,points,effective,pearson") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for bad, want := range map[string]string{
		"": "no series", "select=": "select", "select=up&step=1ms": "step", "select=up&from=1h&to=2h": "to", "select=up&format=xml": "json, csv, parquet",
		"select=up&sted=1s": "did you mean", "select=" + url.QueryEscape("bad{"): "not a selector", "select=up&from=3650d&step=1s": "rows", strings.Repeat("select=up&", 60): "at most 50",
	} {
		if w := get(t, h, "/api/reckon/v1/data?"+bad); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	none := api.New(api.Options{Backend: apitest.Site(now)})
	for _, path := range []string{"data?select=up", "data/correlate?select=up", "power/fit"} {
		if w := get(t, none, "/api/reckon/v1/"+path); w.Code != 404 {
			t.Errorf("%s: a server without series answers %d", path, w.Code)
		}
	}
}
