package query

import (
	"math"
	"testing"
	"time"

	"reckon/store/storetest"
)

// TestPodSamples: intervals from start to end, a sidecar that ends before the application, a restarted container, and exports
// after the end.
func TestPodSamples(t *testing.T) {
	w := newWriter(t)
	start := storetest.Now().Add(-10 * time.Minute).Truncate(time.Second)
	const id = "job/bench/demo"
	put := func(sec float64, part, metric string, v float64, labels ...string) {
		w.put(start.Add(time.Duration(sec*float64(time.Second))), "n1", metric, v, append([]string{"workload", id, "kind", "job", "owner", "bench", "part", part}, labels...)...)
	}
	info := func(sec float64, part, pod, uid, container, kind string) {
		put(sec, part, "reckon_container_info", 1, "namespace", "bench", "pod", pod, "uid", uid, "container", container, "type", kind)
	}
	for _, sec := range []float64{3, 10, 20, 35, 50} { // the last two after the end at 31.5 s
		cpu := min(sec, 31.5) * 0.3
		for part, uid := range map[string]string{"p/app": "u1", "q/app": "u2"} {
			info(sec, part, part[:1], uid, "app", "main")
			put(sec, part, "reckon_workload_cpu_seconds_total", cpu*0.9, "mode", "user")
			put(sec, part, "reckon_workload_cpu_seconds_total", cpu*0.1, "mode", "system")
			put(sec, part, "reckon_workload_memory_bytes", 1000, "type", "anon")
			put(sec, part, "reckon_workload_memory_bytes", 5000, "type", "file")
		}
		info(sec, "p/sandbox", "p", "u1", "", "sandbox")
		put(sec, "p/sandbox", "reckon_workload_cpu_seconds_total", 100*sec, "mode", "user")
	}
	for _, sec := range []float64{3, 10} { // the container ends then
		info(sec, "p/log", "p", "u1", "log", "sidecar")
		put(sec, "p/log", "reckon_workload_cpu_seconds_total", sec, "mode", "user")
		put(sec, "p/log", "reckon_workload_cpu_seconds_total", 0, "mode", "system")
		put(sec, "p/log", "reckon_workload_io_bytes_total", 10*sec, "direction", "write")
	}
	v := New(w.s, Options{})
	got, err := v.PodSamples(t.Context(), "bench", "u1", start, start.Add(31500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ from, to, cpu, write float64 }{{0, 3, 0.9 + 3, 30}, {3, 10, 2.1 + 7, 70}, {10, 20, 3, 0}, {20, 31.5, 3.45, 0}}
	if len(got) != len(want) {
		t.Fatalf("%d samples: %+v", len(got), got)
	}
	for i, g := range got {
		from, to := g.From.Sub(start).Seconds(), g.To.Sub(start).Seconds()
		if g.Seq != int64(i+1) || from != want[i].from || math.Abs(to-want[i].to) > 0.002 || math.Abs(*g.Total.CPUSeconds-want[i].cpu) > 1e-9 || *g.Total.WriteBytes != want[i].write {
			t.Errorf("sample %d: %g to %g, %g s, %g bytes; want %+v", g.Seq, from, to, *g.Total.CPUSeconds, *g.Total.WriteBytes, want[i])
		}
		if g.Total.ResidentBytes == nil || *g.Total.ResidentBytes != 1000 || g.Total.ReadBytes != nil || g.Total.MajorFaults != nil {
			t.Errorf("sample %d: %+v", g.Seq, g.Total)
		}
	}
	if other, err := v.PodSamples(t.Context(), "other", "u1", start, start.Add(time.Minute)); err != nil || len(other) != 0 {
		t.Errorf("of another namespace: %v, %v", other, err)
	}
}
