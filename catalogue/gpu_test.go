package catalogue

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/catalogue/database"
	"reckon/store"
)

// TestUnusedGPUs: a job that opens no GPU has no series of its use, and used none where its
// nodes measured theirs and know who used them.
func TestUnusedGPUs(t *testing.T) {
	job := func(node string) string {
		who := fmt.Sprintf(`{site="lab",node=%q,workload="slurm/1",kind="slurm",part="0",owner="alice"`, node)
		return "  reckon_workload_start_time_seconds" + who + "} 600x100\n  reckon_workload_request_gpus" + who + "} _x10 2x50\n" +
			"  reckon_workload_cpu_seconds_total" + who + ",mode=\"user\"} _x10 0+60x50\n"
	}
	device := func(node, idle string) string {
		return fmt.Sprintf("  reckon_node_gpu_seconds_total{site=\"lab\",node=%q,vendor=\"nvidia\",device=\"a\",state=\"idle\"} %s\n", node, idle)
	}
	used := func(node, workload, kind, busy string) string {
		return fmt.Sprintf("  reckon_workload_gpu_seconds_total{site=\"lab\",node=%q,workload=%q,kind=%q,part=\"0\",owner=\"alice\",vendor=\"nvidia\",device=\"a\",method=\"measured\"} %s\n", node, workload, kind, busy)
	}
	zero := 0.0
	five := 5.0
	for name, c := range map[string]struct {
		load string
		want *float64
	}{
		"never opened":                {job("n1") + device("n1", "0+60x100"), &zero},
		"another job used the device": {job("n1") + device("n1", "0+30x100") + used("n1", "slurm/2", "slurm", "0+30x100"), &zero},
		"opened for a moment":         {job("n1") + device("n1", "0+60x100") + used("n1", "slurm/1", "slurm", "_x20 5x40"), &five},
		"no GPU is measured":          {job("n1"), nil},
		"measured on another node":    {job("n1") + device("n2", "0+60x100"), nil},
		"measured on one of two":      {job("n1") + job("n2") + device("n1", "0+60x100"), nil},
		"measured on both":            {job("n1") + job("n2") + device("n1", "0+60x100") + device("n2", "0+60x100"), &zero},
		"not measured at first":       {job("n1") + device("n1", "_x30 0+60x70"), nil},
		"not measured at last":        {job("n1") + device("n1", "0+60x40"), nil},
		"not for a while in between":  {job("n1") + device("n1", "0+60x20 _x10 0+60x70"), nil},
		"a short pause of the device": {job("n1") + device("n1", "0+60x20 _x3 0+60x77"), &zero},
		"nobody knows who used it":    {job("n1") + device("n1", "0+30x100") + used("n1", "other/n1", "other", "0+30x100"), nil},
		"hardly any of it":            {job("n1") + device("n1", "0+59x100") + used("n1", "other/n1", "other", "0+1.1x100"), &zero}, // 0.9 %
		"a little more of it":         {job("n1") + device("n1", "0+58x100") + used("n1", "other/n1", "other", "0+1.3x100"), nil},   // 1.1 %
		"nobody's, before it began":   {job("n1") + device("n1", "0+30x100") + used("n1", "other/n1", "other", "0+30x9 270x90"), &zero},
		"it was allocated none":       {device("n1", "0+60x100") + "  reckon_workload_cpu_seconds_total{site=\"lab\",node=\"n1\",workload=\"slurm/1\",kind=\"slurm\",part=\"0\",owner=\"alice\",mode=\"user\"} _x10 0+60x50\n", nil},
	} {
		cat, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(0, 0).Add(100 * time.Minute)
		b := NewBuilder(promqltest.LoadedStorage(t, "load 1m\n"+c.load), cat, BuilderOptions{History: 100 * time.Minute, Clock: func() time.Time { return now }})
		if _, err := b.Advance(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, _, err := cat.Workloads(t.Context(), store.Filter{IDs: []string{"slurm/1"}})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %+v %v", name, rows, err)
		}
		got := rows[0].GPUSeconds
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %s, want %s", name, number(got), number(c.want))
		}
		cat.Close()
	}
}

func number(v *float64) string {
	if v == nil {
		return "not known"
	}
	return fmt.Sprint(*v)
}
