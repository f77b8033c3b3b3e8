package query

import (
	"math"
	"testing"
	"time"

	"reckon/store/storetest"
)

// TestGPUSpaces: peaks cover whole minutes and all parts at the same time; an ended workload is no
// tenant, and a device that stopped reporting is not listed.
func TestGPUSpaces(t *testing.T) {
	w := newWriter(t)
	at := storetest.Now().Truncate(time.Minute)
	const device = "GPU-1"
	for i := range 21 { // 10 minutes, every 30 s
		when := at.Add(time.Duration(i-20) * 30 * time.Second)
		w.put(when, "n1", "reckon_gpu_info", 1, "vendor", "nvidia", "device", device, "index", "0", "model", "NVIDIA A100-SXM4-40GB")
		w.put(when, "n1", "reckon_gpu_memory_size_bytes", 40<<30, "vendor", "nvidia", "device", device, "index", "0")
		seconds := 6 * float64(i) // a fifth of the time
		if i > 10 {
			seconds += 18 * float64(min(i, 16)-10) // four fifths for three minutes
		}
		w.put(when, "n1", "reckon_workload_gpu_seconds_total", seconds, "workload", "slurm/7", "kind", "slurm", "owner", "ada", "device", device, "method", "measured")
		for part, bytes := range map[string]float64{"a": 1 << 30, "b": float64(i%2) * (1 << 30)} {
			w.put(when, "n1", "reckon_workload_gpu_memory_bytes", bytes, "workload", "slurm/7", "kind", "slurm", "part", part, "owner", "ada", "device", device)
		}
		if i < 20 { // it ended a moment ago, and one that goes on has closed its context
			w.put(when, "n1", "reckon_workload_gpu_memory_bytes", 80<<30, "workload", "slurm/8", "kind", "slurm", "owner", "bob", "device", device)
			w.put(when, "n1", "reckon_workload_gpu_memory_bytes", 80<<30, "workload", "slurm/9", "kind", "slurm", "owner", "bob", "device", device)
		}
		w.put(when, "n1", "reckon_workload_gpu_seconds_total", 1, "workload", "slurm/9", "kind", "slurm", "owner", "bob", "device", device, "method", "measured")
		w.put(when, "n1", "reckon_gpu_memory_bytes", 3<<30, "vendor", "nvidia", "device", device, "index", "0")
		if i < 5 {
			w.put(when, "n1", "reckon_workload_gpu_memory_bytes", 9<<30, "workload", "slurm/6", "kind", "slurm", "owner", "bob", "device", device)
			w.put(when, "n2", "reckon_gpu_info", 1, "vendor", "nvidia", "device", "GPU-2", "index", "0", "model", "gone")
		}
	}
	got, err := New(w.s, Options{}).GPUSpaces(t.Context(), at.Add(-time.Hour), at)
	if err != nil || len(got) != 1 || len(got[0].Tenants) != 1 {
		t.Fatalf("%+v, %v, want one GPU with one tenant", got, err)
	}
	s, n := got[0], got[0].Tenants[0]
	if s.Node != "n1" || s.Index != "0" || s.Model != "NVIDIA A100-SXM4-40GB" || *s.MemoryBytes != 40<<30 || *s.MemoryUsed != 3<<30 {
		t.Errorf("%+v", s)
	}
	if n.Workload != "slurm/7" || n.Owner != "ada" || n.Estimated || *n.MemoryPeak != 2<<30 || math.Abs(*n.BusyPeak-0.8) > 1e-9 || math.Abs(*n.BusyMean-228.0/600) > 1e-9 {
		t.Errorf("%+v: memory %g, busy %g at most, %g in the mean", n, *n.MemoryPeak, *n.BusyPeak, *n.BusyMean)
	}
}
