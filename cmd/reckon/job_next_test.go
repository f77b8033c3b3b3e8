package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reckon/web/client"
)

// TestJobNext: the page of an ended job shows the forecast of the next run, if the server makes forecasts; other formats do not request it.
func TestJobNext(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string
		running bool
		status  int
		want    bool
	}{
		{"ended", nil, false, 200, true}, {"runs", nil, true, 200, false}, {"no forecasts", nil, false, 404, false}, {"json", []string{"--format", "json"}, false, 200, false}, {"seff", []string{"--seff"}, false, 200, false},
	} {
		asked := false
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/forecast"):
				asked = true
				w.WriteHeader(c.status)
				_ = json.NewEncoder(w).Encode(client.ForecastList{Next: []client.NextFigure{{Figure: "wall_seconds", Median: 3600, Low: 1800, High: 7200, Runs: 7}}})
			case strings.Contains(r.URL.Path, "/workloads/"):
				w.WriteHeader(200)
				_ = json.NewEncoder(w).Encode(client.WorkloadDetail{Workload: client.Workload{ID: "slurm/4711", Kind: "slurm", Start: fixedNow(), Seen: fixedNow(), Running: c.running, Nodes: []string{"n1"}}})
			default:
				w.WriteHeader(404)
				_ = json.NewEncoder(w).Encode(client.Error{Error: "no such address"})
			}
		}))
		var out, errs bytes.Buffer
		d := deps{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }, clock: fixedNow}
		rc := execute(t.Context(), d, append([]string{"--server", s.URL, "job", "slurm/4711"}, c.args...))
		s.Close()
		if has := strings.Contains(out.String(), "Next run, from the last 7 runs that ended well"); rc != 0 || has != c.want || asked && c.name == "json" {
			t.Errorf("%s: exit code %d, next run shown %t: %s%s", c.name, rc, has, out.String(), errs.String())
		}
	}
}
