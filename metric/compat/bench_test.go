package compat

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"reckon/metric"
)

// BenchmarkPods makes the views of cAdvisor and kube-state-metrics of 100 pods, as an agent does with each export, and reports the heap
// that they keep for a pod.
func BenchmarkPods(b *testing.B) {
	var m builder
	var all metric.Batch
	for i := range 100 {
		of := strings.NewReplacer("cart-5d4-x", fmt.Sprintf("cart-5d4f7c9b7-%05d", i), "=u1", fmt.Sprintf("=8e8e3c0f-5545-4dbe-bdfe-%012d", i),
			"=c1", fmt.Sprintf("=%064d", 3*i), "=c0", fmt.Sprintf("=%064d", 3*i+1), "=s1", fmt.Sprintf("=%064d", 3*i+2))
		lines := map[string]float64{}
		for k, v := range cart() {
			lines[of.Replace(k)] = v
		}
		all.Samples = append(all.Samples, m.at(time.Unix(1_800_000_000, 0), lines).Samples...)
	}
	all.Time = time.Unix(1_800_000_000, 0)
	views, err := New("n1", []string{CAdvisorName, KubeName})
	if err != nil {
		b.Fatal(err)
	}
	n := len(all.Samples)
	round := func() {
		all.Samples = all.Samples[:n]
		all.Time = all.Time.Add(15 * time.Second)
		for _, v := range views {
			v.Append(&all, n)
		}
	}
	round()
	shown := len(all.Samples) - n
	used := heap()
	for range 3 { // of other views, which are kept to the end
		more, err := New("n1", []string{CAdvisorName, KubeName})
		if err != nil {
			b.Fatal(err)
		}
		views = more
		round()
		defer runtime.KeepAlive(more)
	}
	kept := float64(heap()-used) / 3
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(shown)/100, "samples/pod")
	b.ReportMetric(kept/100, "B/pod")
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
