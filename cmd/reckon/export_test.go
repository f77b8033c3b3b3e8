package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/promapi"
)

// TestExportSonarHoldsWhatEnded: in a job of two steps, the second ends between two readings: the last reading includes the use of
// both, and no reading has less than the previous one.
func TestExportSonarHoldsWhatEnded(t *testing.T) {
	storage := promqltest.LoadedStorage(t, `
load 15s
  reckon_workload_cpu_seconds_total{site="s",node="n1",workload="slurm/1",owner="a",part="0",mode="user"} 0+10x10 stale
  reckon_workload_cpu_seconds_total{site="s",node="n1",workload="slurm/1",owner="a",part="1",mode="user"} _x12 0+5x9 stale
  reckon_command_cpu_seconds_total{site="s",node="n1",workload="slurm/1",owner="a",part="0",command="prepare"} 0+10x10 stale
  reckon_command_cpu_seconds_total{site="s",node="n1",workload="slurm/1",owner="a",part="1",command="solve"} _x12 0+5x9 stale
`)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	server := httptest.NewServer(api.New(api.Options{Backend: &apitest.Backend{}, Prometheus: promapi.Handler(promapi.Options{Engine: engine, Queryable: storage, Exemplars: storage})}))
	defer server.Close()
	for _, step := range []string{"15s", "1m", "4m"} {
		var out, errs bytes.Buffer
		d := deps{stdin: &bytes.Buffer{}, stdout: &out, stderr: &errs, getenv: func(string) string { return "" }, clock: func() time.Time { return time.Unix(3600, 0) }}
		if code := execute(context.Background(), d, []string{"export", "sonar", "--server", server.URL, "--since", "1970-01-01T00:00:00Z", "--step", step}); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		last := 0.0
		for dec := json.NewDecoder(&out); dec.More(); {
			var doc struct {
				Data struct {
					Attributes struct {
						Jobs []struct {
							Processes []struct {
								CPUTime float64 `json:"cpu_time"`
							}
						}
					}
				}
			}
			if err := dec.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			for _, j := range doc.Data.Attributes.Jobs {
				sum := 0.0
				for _, p := range j.Processes {
					sum += p.CPUTime
				}
				if sum < last {
					t.Errorf("step %s: a reading has %g s, the one before %g s", step, sum, last)
				}
				last = sum
			}
		}
		if last != 145 {
			t.Errorf("step %s: the last reading has %g s, want 145", step, last)
		}
	}
}
