package answer

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/figure/wire"
	"reckon/metric"
	"reckon/query"
)

// TestServiceAdvice: two replicas of a Deployment over eight days; one starts within them; its container requests two
// cores and uses half a core, a whole one in two of 30 steps of two minutes; its sidecar uses next to nothing.
func TestServiceAdvice(t *testing.T) {
	h := newHistory(t)
	const id = "deployment/shop/cart"
	begin := h.now.Add(-8*24*time.Hour - time.Minute)
	distribution := &metric.Desc{Name: "reckon_workload_cores", Kind: metric.NativeHistogram,
		Labels: []string{"workload", "kind", "part", "owner"}}
	for replica, pod := range []string{"cart-1", "cart-2"} {
		node := []string{"n1", "n2"}[replica]
		from := begin.Add(time.Duration(replica) * 72 * time.Hour)
		for name, use := range map[string]float64{"web": 0.5, "proxy": 0.02} {
			who := []string{"workload", id, "kind", "deployment", "part", pod + "/" + name, "owner", "shop"}
			series := metric.NewSeries(distribution, id, "deployment", "", "shop") // of all parts of it on the node
			var cores metric.Histogram
			used := 0.0
			for at := from; !at.After(h.now); at = at.Add(time.Hour) {
				for range 60 { // one minute represents the hour
					cores.Observe(use)
				}
				cores.Observe(4 * use)
				if name == "web" {
					b := metric.Batch{Time: at}
					b.AddHistogram(series, &cores)
					if err := h.s.Append(t.Context(), map[string]string{"site": "lab", "node": node}, &b); err != nil {
						t.Fatal(err)
					}
				}
				h.put(at, node, "reckon_workload_start_time_seconds", float64(from.UnixMilli())/1000, who...)
				h.put(at, node, "reckon_workload_info", 1, append(who, "name", "shop/cart")...)
				for i := range 30 {
					step := at.Add(time.Duration(i) * 2 * time.Minute)
					if step.After(h.now) {
						break
					}
					h.put(step, node, "reckon_workload_cpu_seconds_total", 0.75*used, append(who, "mode", "user")...)
					h.put(step, node, "reckon_workload_cpu_seconds_total", 0.25*used, append(who, "mode", "system")...)
					used += use * 120
					if i%20 == 0 {
						used += use * 120
					}
				}
				h.put(at, node, "reckon_workload_memory_needed_bytes", 100<<20, who...)
				h.put(at, node, "reckon_workload_memory_needed_peak_bytes", float64(100<<20+int(at.Sub(from).Hours()/48)<<20), who...)
				if name == "web" {
					h.put(at, node, "reckon_container_request_cores", 2, who...)
				}
			}
		}
	}
	d := h.detail(t, id)
	a := d.Advice
	if a == nil || len(a.Containers) != 2 {
		t.Fatalf("%+v", a)
	}
	proxy, web := a.Containers[0], a.Containers[1]
	near := func(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 0.06*want }
	if web.Container != "web" || web.Days != 8 || web.CoresP95 == nil || *web.CoresP95 < 0.5 || *web.CoresP95 > 1.03 ||
		!near(web.CoresP99, 1) || web.NowCores == nil ||
		proxy.Cores == nil || *proxy.Cores > 0.06 {
		t.Errorf("%+v, %+v", web, proxy)
	}
	// Two steps of 30 at a core: 0.53 of the 2 cores requested, so that 73 % are idle.
	if web.Cores == nil || *web.Cores < 1 || *web.Cores > 1.1 || !near(&web.NowCores.Slack, 0.733) || web.NowCores.Above != 0 {
		t.Errorf("cores %v, with the request of now %+v", web.Cores, web.NowCores)
	}
	// The peak of the run rose to 104 MiB within eight days; the request covers it.
	if web.MemoryPeak == nil || *web.MemoryPeak != 104<<20 || *web.MemoryBytes != 107<<20 {
		t.Errorf("peak %v, memory %v", *web.MemoryPeak, *web.MemoryBytes)
	}
	if !strings.Contains(strings.Join(a.Why, "\n"), "for 95 % of the minutes it used no more than") {
		t.Errorf("%q", a.Why)
	}
	for what, text := range map[string]string{a.Patch: `"name":"web"`, a.VPA: `"VerticalPodAutoscaler"`, a.Paste: "- name: web"} {
		if !strings.Contains(what, text) {
			t.Errorf("%s lacks %s", what, text)
		}
	}
}

func (h *history) detail(t *testing.T, id string) wire.WorkloadDetail {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	const gone = 2 * time.Hour // samples are an hour apart
	if _, err := catalogue.NewBuilder(h.s, c, catalogue.BuilderOptions{Gone: gone}).Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &Jobs{Catalogue: c, Views: query.New(h.s, query.Options{Gone: gone}), Clock: time.Now}
	list, err := s.Workloads(t.Context(), wire.Filter{IDs: []string{id}})
	if err != nil || len(list.Workloads) != 1 {
		t.Fatalf("%d workloads, %v: %+v", len(list.Workloads), err, list.Workloads)
	}
	d, err := s.Workload(t.Context(), list.Workloads[0], wire.Range{By: "total"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
