package query

import (
	"math"
	"testing"
	"time"

	"reckon/store/storetest"
)

// TestGPUEngines covers a job with two GPUs of its own, one that shares its GPU, one with a GPU that has no
// engine counters, and one without a GPU.
func TestGPUEngines(t *testing.T) {
	w := newWriter(t)
	at := storetest.Now().Truncate(time.Minute)
	const steps = 40 // 10 minutes, every 15 s
	from := at.Add(-steps * 15 * time.Second)
	nvidia := func(device string, more ...string) []string {
		return append([]string{"vendor", "nvidia", "device", device, "index", "0"}, more...)
	}
	charge := func(when time.Time, node, job, device string, seconds float64) {
		w.put(when, node, "reckon_workload_gpu_seconds_total", seconds, "workload", job, "kind", "slurm", "owner", "ada", "device", device, "vendor", "nvidia", "method", "measured")
	}
	for i := range steps + 1 {
		when, spent := from.Add(time.Duration(i)*15*time.Second), float64(i)*15
		for node, device := range map[string]string{"n1": "GPU-1", "n2": "GPU-2"} {
			charge(when, node, "slurm/1", device, spent/2)
			w.put(when, node, "reckon_gpu_busy_seconds_total", 1000+spent/2, nvidia(device)...) // it computed before, for other workloads
			w.put(when, node, "reckon_gpu_engine_busy_seconds_total", 500+spent/4, nvidia(device, "engine", "sm")...)
			w.put(when, node, "reckon_gpu_engine_busy_seconds_total", 7, nvidia(device, "engine", "tensor")...)
		}
		w.put(when, "n1", "reckon_gpu_engine_busy_seconds_total", spent/8, nvidia("GPU-1", "engine", "dram")...) // GPU-2 has no dram counter
		charge(when, "n3", "slurm/2", "GPU-3", spent*0.89)
		charge(when, "n3", "slurm/3", "GPU-3", spent*0.11)
		w.put(when, "n3", "reckon_gpu_busy_seconds_total", spent, nvidia("GPU-3")...)
		w.put(when, "n3", "reckon_gpu_engine_busy_seconds_total", spent, nvidia("GPU-3", "engine", "sm")...)
		charge(when, "n4", "slurm/4", "GPU-4", spent)
		w.put(when, "n4", "reckon_gpu_busy_seconds_total", spent, nvidia("GPU-4")...)
		charge(when, "n3", "slurm/5", "GPU-5", spent*0.91)
		w.put(when, "n3", "reckon_gpu_busy_seconds_total", spent, nvidia("GPU-5")...)
		w.put(when, "n3", "reckon_gpu_engine_busy_seconds_total", spent, nvidia("GPU-5", "engine", "sm")...)
	}
	for id, want := range map[string]map[string]float64{
		"slurm/1": {"sm": 0.5, "tensor": 0}, "slurm/2": nil, "slurm/4": nil, "slurm/5": {"sm": 1}, "slurm/6": nil,
	} {
		got, err := New(w.s, Options{}).GPUEngines(t.Context(), Selection{ID: id, From: from, To: at}, []string{"n1", "n2", "n3", "n4"})
		if err != nil || (got == nil) != (want == nil) {
			t.Errorf("%s: %+v, %v, want %v", id, got, err, want)
			continue
		}
		if got == nil {
			continue
		}
		if len(got.Shares) != len(want) {
			t.Errorf("%s: %v, want %v", id, got.Shares, want)
		}
		for engine, share := range want {
			if x, ok := got.Shares[engine]; !ok || math.Abs(x-share) > 1e-9 {
				t.Errorf("%s: %s has %v of the time, want %v", id, engine, x, share)
			}
		}
	}
}
