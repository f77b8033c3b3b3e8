package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"reckon/answer/invariant"
)

// TestMetricsWithoutAgent: a server that measures no machine shows its own counters.
func TestMetricsWithoutAgent(t *testing.T) {
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Receive: true})
	value := new(2.0)
	s.inconsistent.Hold("slurm/1", time.Now(), invariant.Check{Figure: "capacity_share", Rule: invariant.ShareWithinWhole, Value: &value, Bound: new(1.0)})
	want := `reckon_inconsistent_figures_total{figure="capacity_share",rule="share_within_whole"} 1`
	if code, body := get(t, s, "/metrics"); code != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("%d %.500s", code, body)
	}
}
