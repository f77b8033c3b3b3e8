package forecast_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/analysis/misuse"
	"reckon/catalogue"
	"reckon/metric"
)

// What happens to a subject in the site of forty events.
const (
	burst, outage, shift, leak = "burst", "outage", "shift", "leak"
	fortyDays, learnDays       = 46, 16
	lookedAt                   = 12 // hour of each day
	lookDays                   = fortyDays - learnDays
)

// planted1 is one thing that happens: what, to which subject, from which hour.
type planted1 struct {
	what, subject, name, owner, node string
	from                             int
}

// at returns by what the use of cores of its subject is multiplied in a half hour, and what memory is added, bytes.
func (p *planted1) at(step int) (factor, memory float64) {
	since := float64(step)/2 - float64(p.from)
	switch {
	case since < 0:
	case p.what == burst && since < 4:
		return 5, 0
	case p.what == outage && since < 12:
		return 0.03, 0
	case p.what == shift:
		return 1.8, 0
	case p.what == leak && since < leakHours:
		return 1, since / leakHours * 0.75 * limit1
	}
	return 1, 0
}

const (
	leakHours               = 96 // for three quarters of the way to the limit
	limit1                  = 16 << 30
	services, owners, nodes = 27, 18, 22
)

// Events of services are on 0 to 17, of owners 0 to 8. Events of owners are on 9 to 17, who have the other services. All services are on
// nodes 0 to 8; events of nodes are on the others.
func ownerOf(i int) string {
	if i < 18 {
		i %= 9
	} else {
		i -= 9
	}
	return fmt.Sprintf("o%d", i)
}

func hostOf(i int) int { return i % 9 }

// forty plants each event on a subject of its own, as far as there are enough.
func forty() (out []planted1) {
	day := 0
	add := func(what, subject, name, owner, node string) {
		day++
		p := planted1{what, subject, name, owner, node, (learnDays+1+day*2/3)*24 + lookedAt - 3}
		if what == shift {
			p.from -= 21
		}
		out = append(out, p)
	}
	s, o, n := 0, 0, 0
	service := func(what string) {
		add(what, "service", fmt.Sprintf("s%d", s), ownerOf(s), fmt.Sprint("n", hostOf(s)))
		s++
	}
	owner := func(what string) {
		add(what, "owner", fmt.Sprint("o", 9+o), fmt.Sprint("o", 9+o), fmt.Sprint("n", hostOf(o)))
		o++
	}
	node := func(what string) { add(what, "node", fmt.Sprint("n", 9+n), "", fmt.Sprint("n", 9+n)); n++ }
	for range 3 {
		for _, what := range []string{burst, outage, shift, leak} {
			service(what)
			node(what)
			if what != leak {
				owner(what)
			}
		}
	}
	for _, what := range []string{burst, outage, shift, leak, leak, leak} {
		service(what)
	}
	node(leak)
	return out
}

// curve returns the use of something over the half hours: a level with days, weekends and noise.
func curve(r *rand.Rand) func(step int) float64 {
	level, swing, weekend, noise := 0.5+2*r.Float64(), 0.2+0.5*r.Float64(), 0.6+0.4*r.Float64(), 0.02+0.06*r.Float64()
	phase := 24 * r.Float64()
	return func(step int) float64 {
		h := float64(step) / 2
		v := level * (1 + swing*math.Sin(2*math.Pi*(h-phase)/24))
		if int(h)/24%7 >= 5 {
			v *= weekend
		}
		return v * max(1+noise*r.NormFloat64(), 0.1)
	}
}

// TestFortyEvents: of forty bursts, outages, shifts and leaks at least 38 are found once and in time. There are at most three false
// findings a day for 100 subjects, over thirty days.
func TestFortyEvents(t *testing.T) {
	if os.Getenv("RECKON_TEST_FORTY") == "" {
		t.Skip("takes minutes: set RECKON_TEST_FORTY")
	}
	s, events := open(t), forty()
	s.feedForty(t, events)
	subjects := float64(services + owners + nodes + 1)
	found := make([]map[string]time.Time, len(events))
	false1 := map[string]bool{}
	for d := range lookDays {
		s.now = begin.AddDate(0, 0, learnDays+d).Add(lookedAt * time.Hour)
		if err := s.SetWatermark(t.Context(), s.now); err != nil {
			t.Fatal(err)
		}
		list, err := s.keeper.Anomalies(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if i := slices.IndexFunc(events, func(p planted1) bool { return p.found(&f) }); i >= 0 {
				if found[i] == nil {
					found[i] = map[string]time.Time{}
				}
				if found[i][f.Part].IsZero() {
					found[i][f.Part] = s.now
				}
			} else if !slices.ContainsFunc(events, func(p planted1) bool { return p.shows(&f) }) {
				id := f.Workload + " " + f.Owner + " " + f.Node + " " + f.Part
				if !false1[id] {
					t.Logf("false on %s: %s: %s", s.now.Format("01-02"), id, f.Text)
				}
				false1[id] = true
			}
		}
	}
	good := 0
	for i, p := range events {
		first := time.Time{}
		for _, at := range found[i] {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		from := begin.Add(time.Duration(p.from) * time.Hour)
		after := first.Sub(from)
		within := map[string]time.Duration{burst: 3 * time.Hour, outage: 3 * time.Hour, shift: 24 * time.Hour,
			leak: leakHours / 0.75 / 2 * time.Hour}[p.what]
		if len(found[i]) == 1 && after <= within {
			good++
			continue
		}
		t.Logf("%s of %s %s on %s: %d findings %v, after %v", p.what, p.subject, p.name, from.Format("01-02 15"), len(found[i]), found[i], after)
	}
	rate := float64(len(false1)) / lookDays / subjects * 100
	t.Logf("%d of %d found once and in time; %d false, %.2f a day for 100 subjects", good, len(events), len(false1), rate)
	if good < 38 || rate > 3 {
		t.Errorf("%d of %d found, %.2f false a day for 100 subjects; want 38 and at most 3", good, len(events), rate)
	}
}

// during reports whether a finding is of the time of an event or of its end.
func (p *planted1) during(f *misuse.Finding) bool {
	from := begin.Add(time.Duration(p.from) * time.Hour)
	lasts := map[string]time.Duration{burst: 4, outage: 12, shift: 26, leak: leakHours}[p.what] * time.Hour
	return !f.Last.Before(from) && !f.First.After(from.Add(lasts))
}

// found reports whether a finding is of the subject of an event and of its time.
func (p *planted1) found(f *misuse.Finding) bool {
	name := map[string]string{"service": strings.TrimPrefix(f.Workload, "unit/"), "owner": f.Owner, "node": f.Node}[p.subject]
	if p.subject == "owner" && f.Workload != "" {
		return false
	}
	return name == p.name && p.during(f)
}

// shows reports whether a finding of another subject shows an event or its end: the site, the node or the owner of the subject.
func (p *planted1) shows(f *misuse.Finding) bool {
	from := begin.Add(time.Duration(p.from) * time.Hour)
	if f.Last.Before(from) || f.First.After(from.Add((leakHours+48)*time.Hour)) {
		return false
	}
	switch {
	case f.Workload != "":
		return p.subject == "service" && strings.TrimPrefix(f.Workload, "unit/") == p.name
	case f.Node != "":
		return f.Node == p.node
	case f.Owner != "":
		return f.Owner == p.owner
	}
	return true
}

// feedForty appends the samples of the site and makes its hours.
func (s *site) feedForty(t *testing.T, events []planted1) {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	of := func(name string, kind metric.Kind, l ...string) *metric.Desc {
		return &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: append([]string{"workload", "kind", "part", "owner"}, l...)}
	}
	node := func(name string, kind metric.Kind, l ...string) *metric.Desc {
		return &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: l}
	}
	cpu, memory := of("reckon_workload_cpu_seconds_total", metric.Counter, "mode"), of("reckon_workload_memory_bytes", metric.Gauge)
	sums, limit := of("reckon_workload_memory_byte_seconds_total", metric.Counter), of("reckon_workload_limit_memory_bytes", metric.Gauge)
	start := of("reckon_workload_start_time_seconds", metric.Gauge)
	all, total := node("node_cpu_seconds_total", metric.Counter, "cpu", "mode"), node("node_memory_MemTotal_bytes", metric.Gauge)
	free, boot := node("node_memory_MemAvailable_bytes", metric.Gauge), node("node_boot_time_seconds", metric.Gauge)
	type one struct {
		subject, name string
		labels        []string
		node          int
		cores         func(int) float64
		memory        float64
		used, held    float64
	}
	var list []*one
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		list = append(list, &one{"service", name, []string{"unit/" + name, "unit", "", ownerOf(i)}, hostOf(i), curve(r), (0.5 + r.Float64()) * (1 << 30), 0, 0})
	}
	for i := 9; i < owners; i++ { // work of the owner in a job
		o := fmt.Sprint("o", i)
		list = append(list, &one{"owner", o, []string{fmt.Sprintf("slurm/%d", 100+i), "slurm", "0", o}, hostOf(i), curve(r), 2 << 30, 0, 0})
	}
	for i := range nodes { // of the system, in no workload
		list = append(list, &one{"node", fmt.Sprint("n", i), nil, i, curve(r), 4 << 30, 0, 0})
	}
	busy, leaks := make([]float64, nodes), map[string]bool{}
	for _, p := range events {
		leaks[p.name] = leaks[p.name] || p.what == leak
	}
	for step := range fortyDays*48 + 1 {
		at := begin.Add(time.Duration(step) * 30 * time.Minute)
		batches, taken := make([]metric.Batch, nodes), make([]float64, nodes)
		for _, w := range list {
			cores, bytes := w.cores(step), w.memory*(1+0.02*r.NormFloat64())
			if w.subject == "node" {
				cores *= 3
			}
			if w.subject == "owner" {
				cores *= 2
			}
			for i := range events {
				if p := &events[i]; p.subject == w.subject && p.name == w.name {
					factor, more := p.at(step)
					if p.subject == "node" {
						more *= 4
					}
					cores, bytes = cores*factor, bytes+more
				}
			}
			if step > 0 {
				w.used, w.held, busy[w.node] = w.used+cores*1800, w.held+bytes*1800, busy[w.node]+cores*1800
			}
			taken[w.node] += bytes
			if w.labels == nil {
				continue
			}
			b := &batches[w.node]
			b.Add(metric.NewSeries(cpu, append(slices.Clone(w.labels), "user")...), w.used)
			b.Add(metric.NewSeries(memory, w.labels...), bytes)
			b.Add(metric.NewSeries(sums, w.labels...), w.held)
			b.Add(metric.NewSeries(start, w.labels...), float64(begin.Unix()))
			if w.subject == "service" {
				b.Add(metric.NewSeries(limit, w.labels...), limit1)
			}
		}
		for n := range nodes {
			b := &batches[n]
			b.Time = at
			b.Add(metric.NewSeries(all, "0", "user"), busy[n])
			b.Add(metric.NewSeries(all, "0", "idle"), float64(step)*1800*64-busy[n])
			b.Add(metric.NewSeries(boot), float64(begin.Unix()-1000))
			at := map[string]string{"site": "lab", "node": fmt.Sprint("n", n)}
			if err := s.series.Append(t.Context(), at, b); err != nil {
				t.Fatal(err)
			}
			if !leaks[fmt.Sprint("n", n)] {
				continue
			}
			for i := range 6 { // gauges count while they are no more than five minutes apart
				b := metric.Batch{Time: b.Time.Add(time.Duration(i) * 5 * time.Minute)}
				b.Add(metric.NewSeries(total), 4*limit1)
				b.Add(metric.NewSeries(free), max(4*limit1-taken[n], 0))
				if err := s.series.Append(t.Context(), at, &b); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.now = at.Add(time.Minute)
	}
	if _, err := catalogue.NewBuilder(s.series, s.Catalogue, catalogue.BuilderOptions{Clock: func() time.Time { return s.now }}).
		Rebuild(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}
