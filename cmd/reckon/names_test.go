package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"reckon/web/client"
)

// A name with work that is neither counted yet nor among the latest workloads is no mistake.
func TestNameWithWork(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = client.UsageList{Rows: []client.Usage{{Owner: "alice"}}}
		if r.URL.Path == "/api/reckon/v1/workloads" {
			list := client.WorkloadList{Workloads: []client.Workload{{ID: "group/n1/1", Owner: "alice"}}}
			if of := r.URL.Query().Get("owner"); of == "u7" {
				list.Workloads[0].Owner = of
			} else if of != "" {
				list.Workloads = nil
			}
			answer = list
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, strange := range map[string]bool{"alice": false, "u7": false, "u8": true} {
		if err := checkNames(t.Context(), c, time.Now(), filterValues{"owner": {name}}); (err != nil) != strange {
			t.Errorf("%s: %v", name, err)
		}
	}
}
