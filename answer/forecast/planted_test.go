package forecast_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/analysis/misuse"
	"reckon/catalogue"
	"reckon/figure/format"
	"reckon/metric"
)

// service is a planted service: its use of cores and memory at each half hour.
type service struct {
	name          string
	cores, memory func(step int) float64
	// want are words of its anomaly, one of them; empty for none.
	want string
}

// planted are services of 20 days with a daily pattern. At the end something happens to some.
func planted(steps int) []service {
	r := rand.New(rand.NewPCG(7, 8))
	daily := func(step int) float64 { return 2 + math.Sin(2*math.Pi*float64(step)/48) + 0.1*r.NormFloat64() }
	flat := func(int) float64 { return 1 << 30 }
	last := func(hours int) int { return steps - 2*hours }
	return []service{
		{"regular", daily, flat, ""},
		{"burst", func(s int) float64 {
			if s >= last(4) {
				return daily(s) + 8
			}
			return daily(s)
		}, flat, "cores in use rose to|cores in use stayed around"},
		{"outage", func(s int) float64 {
			if s >= last(4) {
				return 0.03 * daily(s)
			}
			return daily(s)
		}, flat, "cores in use fell to|cores in use stayed around"},
		{"leak", daily, func(s int) float64 { return float64(1<<30) + max(0, float64(s-last(72)))/48*float64(1<<31) }, "memory climbs by"},
		{"shift", func(s int) float64 {
			if s >= last(24) {
				return daily(s) + 3
			}
			return daily(s)
		}, flat, "cores in use stayed around|cores in use rose to"},
		{"nightly", func(s int) float64 { // five hours of each day, or half an hour longer
			if s%48 >= 20 && s%48 < 30+s/48%2 {
				return 4
			}
			return 0.01
		}, flat, ""},
	}
}

// number matches the numbers of a sentence.
var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// wrong returns an error in the numbers of a finding. Each number of its text stands in its evidence, which is near to the planted one.
func (v *service) wrong(f *misuse.Finding) string {
	var written []string
	for _, e := range f.Evidence[:2] {
		switch e.Unit {
		case "bytes":
			written = append(written, format.Bytes(e.Value), format.Bytes(*e.Limit))
		case "seconds":
			written = append(written, misuse.Span(e.Value).String(), format.Bytes((*f.Evidence[0].Limit-f.Evidence[0].Value)/e.Value*3600))
		default:
			written = append(written, format.Number(e.Value))
		}
	}
	all := number.FindAllString(strings.Join(written, " "), -1)
	for _, n := range number.FindAllString(f.Text, -1) {
		if !slices.Contains(all, n) {
			return fmt.Sprintf("%q: %s is in no evidence: %v", f.Text, n, written)
		}
	}
	want := map[string][2][2]float64{ // least and most of the value and of what was expected
		"burst": {{7.5, 11.2}, {0.8, 3.2}}, "outage": {{0.02, 0.3}, {0.8, 3.2}}, "shift": {{3.8, 6.2}, {0.8, 3.4}},
		"leak": {{6.9 * (1 << 30), 7.1 * (1 << 30)}, {4.2 * 86400, 4.8 * 86400}}, // 2 GiB a day for three days, to 16 GiB
	}[v.name]
	for i, w := range want {
		if got := f.Evidence[i].Value; got < w[0] || got > w[1] {
			return fmt.Sprintf("%q: %s is %v, planted were %v to %v", f.Text, f.Evidence[i].Text, got, w[0], w[1])
		}
	}
	return ""
}

// TestPlantedServices: what happens to a service is one finding about it, and what always happens is none.
func TestPlantedServices(t *testing.T) {
	const steps = 20 * 48
	s := open(t)
	list := planted(steps)
	desc := func(name string, kind metric.Kind, l ...string) *metric.Desc {
		return &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: append([]string{"workload", "kind", "part", "owner"}, l...)}
	}
	cpu, memory := desc("reckon_workload_cpu_seconds_total", metric.Counter, "mode"), desc("reckon_workload_memory_bytes", metric.Gauge)
	sums := desc("reckon_workload_memory_byte_seconds_total", metric.Counter)
	limit := desc("reckon_workload_limit_memory_bytes", metric.Gauge)
	start := desc("reckon_workload_start_time_seconds", metric.Gauge)
	of := func(name string, more ...string) []string {
		return append([]string{"unit/" + name, "unit", "", "web"}, more...)
	}
	node := func(name string, kind metric.Kind, l ...string) *metric.Desc {
		return &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: l}
	}
	used, held, idle, busy := make([]float64, len(list)), make([]float64, len(list)), 0.0, 0.0
	at := begin
	for step := range steps + 1 {
		at = begin.Add(time.Duration(step) * 30 * time.Minute)
		b := metric.Batch{Time: at}
		for i, v := range list {
			cores, bytes := v.cores(step), v.memory(step)
			if step > 0 {
				used[i], held[i], busy = used[i]+cores*1800, held[i]+bytes*1800, busy+cores*1800
			}
			b.Add(metric.NewSeries(cpu, of(v.name, "user")...), used[i])
			b.Add(metric.NewSeries(memory, of(v.name)...), bytes)
			b.Add(metric.NewSeries(sums, of(v.name)...), held[i])
			b.Add(metric.NewSeries(start, of(v.name)...), float64(begin.Unix()))
			b.Add(metric.NewSeries(limit, of(v.name)...), 16<<30)
		}
		idle = float64(step)*1800*64 - busy
		b.Add(metric.NewSeries(node("node_cpu_seconds_total", metric.Counter, "cpu", "mode"), "0", "user"), busy)
		b.Add(metric.NewSeries(node("node_cpu_seconds_total", metric.Counter, "cpu", "mode"), "0", "idle"), idle)
		b.Add(metric.NewSeries(node("node_boot_time_seconds", metric.Gauge)), float64(begin.Unix()-1000))
		if err := s.series.Append(t.Context(), map[string]string{"site": "lab", "node": "n1"}, &b); err != nil {
			t.Fatal(err)
		}
	}
	s.now = at.Add(time.Minute)
	if _, err := catalogue.NewBuilder(s.series, s.Catalogue, catalogue.BuilderOptions{Clock: func() time.Time { return s.now }}).
		Rebuild(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	found, err := s.keeper.Anomalies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]misuse.Finding{}
	for _, f := range found {
		t.Log(f.Workload, f.Owner, f.Node, f.Part, f.Text)
		by[strings.TrimPrefix(f.Workload, "unit/")] = append(by[strings.TrimPrefix(f.Workload, "unit/")], f)
	}
	for _, v := range list {
		got := by[v.name]
		switch {
		case v.want == "" && len(got) > 0:
			t.Errorf("%s: %+v, want nothing", v.name, got)
		case v.want != "" && len(got) != 1:
			t.Errorf("%s: %d findings, want 1", v.name, len(got))
		case v.want != "":
			if wrong := v.wrong(&got[0]); wrong != "" {
				t.Errorf("%s: %s", v.name, wrong)
			}
			lie := got[0] // a number that was not planted is found
			if lie.Evidence = slices.Clone(lie.Evidence); v.name == "leak" {
				lie.Evidence[1].Value *= 1.5
			} else {
				lie.Evidence[0].Value += 2
			}
			if v.wrong(&lie) == "" || v.wrong(&misuse.Finding{Text: got[0].Text + " 777", Evidence: got[0].Evidence}) == "" {
				t.Errorf("%s: a wrong number was taken", v.name)
			}
			a, b, _ := strings.Cut(v.want, "|")
			if !strings.Contains(got[0].Text, a) && (b == "" || !strings.Contains(got[0].Text, b)) {
				t.Errorf("%s: %q, want %q", v.name, got[0].Text, v.want)
			}
		}
	}
}
