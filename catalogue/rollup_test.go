package catalogue

import (
	"context"
	"math"
	"testing"
	"time"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

var always = store.RollupQuery{From: simBegin.AddDate(0, -1, 0), To: simBegin.AddDate(0, 1, 0), Span: store.SpanWhole}

// checkRollups: hours sum up to what was used, by owner and by node.
func (x *site) checkRollups(t failer, what string) {
	want := store.Used{CPUSeconds: new(float64), ReadBytes: new(float64), Processes: new(float64)}
	runs := 0.0
	for _, tr := range x.truth {
		if !tr.lastExported.IsZero() {
			*want.CPUSeconds += tr.user
			*want.ReadBytes += tr.read
			*want.Processes += tr.started
			runs++
		}
	}
	if runs == 0 {
		return
	}
	use, err := x.c.Use(context.Background(), always)
	if err != nil || len(use) != 1 {
		t.Fatalf("%s: %v, %v", what, use, err)
	}
	nodes, err := x.c.NodeUse(context.Background(), always)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%s: %v, %v", what, nodes, err)
	}
	for _, got := range []store.Used{use[0].Used, nodes[0].Used} {
		for name, f := range map[string][2]*float64{
			"CPU time": {got.CPUSeconds, want.CPUSeconds}, "bytes read": {got.ReadBytes, want.ReadBytes}, "processes": {got.Processes, want.Processes},
		} {
			if f[0] == nil || math.Abs(*f[0]-*f[1]) > 1e-6*(1+*f[1]) {
				t.Errorf("%s: roll-ups hold %s of %s, want %g", what, show(f[0]), name, *f[1])
			}
		}
		if got.GPUSeconds != nil || got.EnergyJoules != nil {
			t.Errorf("%s: roll-ups hold figures that nobody measured", what)
		}
	}
	if use[0].Started == nil || *use[0].Started != runs {
		t.Errorf("%s: %s workloads began, want %g", what, show(use[0].Started), runs)
	}
}

// TestUseIsSpreadOverGaps: what was counted while no sample was kept belongs to the
// hours in which nobody looked, not to the one in which somebody looked again.
func TestUseIsSpreadOverGaps(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	tr := x.begin("unit/a", partPlace{Node: "n1"})
	watched := func() { // an agent watches the node
		b := &metric.Batch{Time: x.now}
		b.Add(metric.NewSeries(&metric.Desc{Name: figure.NodeBoot, Help: "Simulated.", Kind: metric.Gauge}), float64(simBegin.Unix()-1e6))
		x.append("n1", b)
	}
	watched()
	for range 8 { // until 11:52
		x.work(steady)
		x.exportAll()
		watched()
	}
	advance(t, b)
	x.step = 4 * time.Hour // nobody looks until 15:52
	x.work(func(*piece) (float64, float64, float64) { return 4 * 3600, 1, 1 })
	x.exportAll()
	watched()
	b.roll.next = time.Time{}
	advance(t, b)
	x.checkRollups(t, "after the gap")
	rows, err := x.c.Use(t.Context(), store.RollupQuery{From: always.From, To: always.To, Span: store.SpanHour, By: []string{"owner"}})
	if err != nil || len(rows) != 5 || rows[1].Owner != "alice" {
		t.Fatalf("%d hours, %v", len(rows), err)
	}
	for _, u := range rows[1:4] {
		if math.Abs(*u.CPUSeconds-3600) > 1e-6 {
			t.Errorf("hour %s has %g CPU seconds, want 3600", u.At, *u.CPUSeconds)
		}
		if u.CPUInterpolatedSeconds == nil || *u.CPUInterpolatedSeconds != *u.CPUSeconds {
			t.Errorf("hour %s has %s interpolated CPU seconds, want all of its %g", u.At, show(u.CPUInterpolatedSeconds), *u.CPUSeconds)
		}
	}
	for i, want := range map[int]float64{0: 480, 4: 3120} { // the border hours: 11:52 to 12:00 and 15:00 to 15:52
		if got := rows[i].CPUInterpolatedSeconds; got == nil || math.Abs(*got-want) > 1e-6 {
			t.Errorf("hour %s has %s interpolated CPU seconds, want %g", rows[i].At, show(got), want)
		}
	}
	if tr.user <= 4*3600 {
		t.Error("the test tests nothing")
	}
}

// machineBatch is the report of a node of two processors about itself.
func (x *site) machine(node string, up, used, idle, boot float64) {
	d := func(name string, kind metric.Kind, l ...string) *metric.Desc {
		return &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: l}
	}
	b := &metric.Batch{Time: x.now}
	for _, cpu := range []string{"0", "1"} {
		b.Add(metric.NewSeries(d("node_cpu_seconds_total", metric.Counter, "cpu", "mode"), cpu, "user"), used/2)
		b.Add(metric.NewSeries(d("node_cpu_seconds_total", metric.Counter, "cpu", "mode"), cpu, "idle"), up+idle/2)
	}
	b.Add(metric.NewSeries(d("node_boot_time_seconds", metric.Gauge)), boot)
	x.append(node, b)
	x.memory(node)
}

// memory appends the memory of a machine.
func (x *site) memory(node string) {
	b := &metric.Batch{Time: x.now}
	for name, v := range map[string]float64{memoryTotal: 100, memoryFree: 75} {
		b.Add(metric.NewSeries(&metric.Desc{Name: name, Help: "Simulated.", Kind: metric.Gauge}), v)
	}
	x.append(node, b)
}

func (x *site) append(node string, b *metric.Batch) {
	if err := x.s.Append(context.Background(), map[string]string{"site": "s", "node": node}, b); err != nil {
		x.tb.Fatal(err)
	}
}

// TestDownIsNotIdle: a machine that was off for an hour had no capacity then.
func TestDownIsNotIdle(t *testing.T) {
	x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	defer x.close()
	boot := x.now
	for i := range 61 { // 10:00 to 11:00, both processors half used
		at := float64(i) * 60
		x.machine("n1", 0, at, at, float64(boot.Unix())-1e6)
		x.now = x.now.Add(time.Minute)
	}
	x.now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // booted again
	boot = x.now
	for i := range 31 { // until 12:30, idle
		x.now = boot.Add(time.Duration(i+1) * time.Minute)
		x.machine("n1", 0, 0, float64(i+1)*120, float64(boot.Unix()))
	}
	advance(t, x.builder())
	rows, err := x.c.NodeUse(t.Context(), store.RollupQuery{From: boot.Add(-2 * time.Hour), To: boot.Add(time.Hour), Span: store.SpanHour, By: []string{"node"}})
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1 {
			t.Errorf("%s: %s, want %g", what, show(got), want)
		}
	}
	if len(rows) != 2 || !rows[0].At.Equal(boot.Add(-2*time.Hour)) || !rows[1].At.Equal(boot) {
		t.Fatalf("%+v", rows)
	}
	near("up before", rows[0].UpSeconds, 3600)
	near("capacity before", rows[0].CoreSeconds, 7200)
	near("used before", rows[0].CoreUsedSeconds, 3600)
	near("memory used before", rows[0].NodeMemoryUsedByteSeconds, 25*3600)
	near("up after", rows[1].UpSeconds, 31*60)
	near("capacity after", rows[1].CoreSeconds, 2*31*60)
	near("used after", rows[1].CoreUsedSeconds, 0)
	if rows[1].NodeJoules != nil || rows[1].CPUSeconds != nil {
		t.Errorf("figures that nobody measured: %+v", rows[1])
	}
}

// TestWaiting: how long a job waited stands at its start, with its program's CPU time
// under the program.
func TestWaiting(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	add := func(name string, v float64, labels, values []string) {
		b := &metric.Batch{Time: x.now}
		d := &metric.Desc{Name: name, Help: "Simulated.", Kind: metric.Gauge, Labels: append([]string{"workload", "kind", "part", "owner"}, labels...)}
		b.Add(metric.NewSeries(d, append([]string{"slurm/1", "slurm", "", "alice"}, values...)...), v)
		if err := x.s.Append(t.Context(), map[string]string{"site": "s"}, b); err != nil {
			t.Fatal(err)
		}
	}
	x.begin("slurm/1", partPlace{Node: "n1"})
	start := x.now
	for i := range 9 {
		x.work(steady)
		x.exportAll()
		add("reckon_workload_submit_time_seconds", float64(start.Unix()-600), nil, nil)
		add("reckon_workload_start_time_seconds", float64(start.Unix()), nil, nil)
		add("reckon_workload_request_cores", 4, nil, nil)
		add(figure.CommandCPU, float64(i)*3, []string{"command"}, []string{"R"})
		add(figure.CommandCPU, float64(i)*9, []string{"command"}, []string{"python3"})
	}
	advance(t, x.builder())
	q := always
	q.By = []string{"command", "account"}
	rows, err := x.c.Use(t.Context(), q)
	if err != nil || len(rows) != 2 || rows[0].Command != "R" || rows[1].Command != "python3" || rows[0].Account != "physics" {
		t.Fatalf("%+v, %v", rows, err)
	}
	if math.Abs(*rows[1].CPUSeconds / *rows[0].CPUSeconds - 3) > 1e-9 || math.Abs(*rows[0].CPUSeconds+*rows[1].CPUSeconds-9*15) > 1e-6 {
		t.Errorf("programs used %g and %g", *rows[0].CPUSeconds, *rows[1].CPUSeconds)
	}
	u := rows[1]
	if *u.Started != 1 || *u.StartedWithSubmit != 1 || math.Abs(*u.WaitSeconds-600) > 1 || math.Abs(*u.WaitCoreSeconds-2400) > 4 || *u.HeldCoreSeconds != 4*9*15 {
		t.Errorf("started %s, waited %s, %s s, %s core seconds, held %s", show(u.Started), show(u.StartedWithSubmit), show(u.WaitSeconds), show(u.WaitCoreSeconds), show(u.HeldCoreSeconds))
	}
}

// What waits holds no cores, however many it asks for; what runs does from its start on.
func TestWaitingHoldsNothing(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	say := func(id, name string, v float64) {
		b := &metric.Batch{Time: x.now}
		d := &metric.Desc{Name: name, Help: "Simulated.", Kind: metric.Gauge, Labels: []string{"workload", "kind", "part", "owner"}}
		b.Add(metric.NewSeries(d, id, "slurm", "", "alice"), v)
		if err := x.s.Append(t.Context(), map[string]string{"site": "s"}, b); err != nil {
			t.Fatal(err)
		}
	}
	x.begin("slurm/0", partPlace{Node: "n1"})
	submit := float64(x.now.Unix())
	for i := range 20 { // every 15 s; slurm/2 begins after the tenth
		x.work(steady)
		x.exportAll()
		for _, id := range []string{"slurm/1", "slurm/2"} {
			say(id, "reckon_workload_submit_time_seconds", submit)
			say(id, "reckon_workload_request_cores", 1000)
		}
		if i >= 10 {
			say("slurm/2", "reckon_workload_start_time_seconds", submit+10*15)
		}
	}
	advance(t, x.builder())
	q := always
	rows, err := x.c.Use(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	held := 0.0
	for _, u := range rows {
		if u.HeldCoreSeconds != nil {
			held += *u.HeldCoreSeconds
		}
	}
	if want := 1000.0 * 10 * 15; math.Abs(held-want) > 0.11*want {
		t.Errorf("%g core seconds were held, want about %g", held, want)
	}
}

// TestOwnersOfOnePart: a process group in which one user runs a program as another has an account
// of each; the start of the second is no new beginning of the first.
func TestOwnersOfOnePart(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	started := map[string]float64{"root": float64(x.now.Unix()), "postgres": float64(x.now.Unix() + 150)}
	for i := 1; i <= 20; i++ { // every 15 s, half a core; the second owner from 150 s on
		x.now = x.now.Add(15 * time.Second)
		b := &metric.Batch{Time: x.now}
		for owner, start := range started {
			if now := float64(x.now.Unix()); now > start {
				b.Add(metric.NewSeries(simUser, "group/n1/7-7", "group", "", owner, "user"), (now-start)/2)
				b.Add(metric.NewSeries(simStart, "group/n1/7-7", "group", "", owner), start)
			}
		}
		if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, b); err != nil {
			t.Fatal(err)
		}
	}
	advance(t, x.builder())
	rows, err := x.c.Use(t.Context(), always)
	if err != nil || len(rows) != 1 || math.Abs(*rows[0].CPUSeconds-(300+150)/2) > 1e-6 {
		t.Errorf("%+v, %v", rows, err)
	}
	by := always
	by.By = []string{"owner"}
	used := map[string]float64{}
	if rows, err = x.c.Use(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		used[rows[i].Owner] += *rows[i].CPUSeconds
	}
	if len(used) != 2 || math.Abs(used["root"]-150) > 1e-6 || math.Abs(used["postgres"]-75) > 1e-6 {
		t.Errorf("by owner: %v, want 150 s of root and 75 s of postgres", used)
	}
	by.Owners = []string{"postgres"} // who may see only this one
	if rows, err = x.c.Use(t.Context(), by); err != nil || len(rows) != 1 || rows[0].Owner != "postgres" || math.Abs(*rows[0].CPUSeconds-75) > 1e-6 {
		t.Errorf("of one owner: %+v, %v", rows, err)
	}
}

// TestUseIsAsExactAsItsHour: an hour in which a figure was a lower bound is one, of the kinds of
// workload and the nodes that it was reported about; the hours beside it are exact.
func TestUseIsAsExactAsItsHour(t *testing.T) {
	x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	defer x.close()
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.begin("unit/b", partPlace{Node: "n2"})
	says := metric.NewSeries(&metric.Desc{Name: figure.ExactnessOf, Help: "Simulated.", Kind: metric.Gauge, Labels: []string{"figure", "kind", "source", "workload"}}, "cpu_seconds", "unit", "readings", "")
	for x.now.Before(time.Date(2026, 3, 1, 13, 30, 0, 0, time.UTC)) {
		x.work(steady)
		x.exportAll()
		batch := &metric.Batch{Time: x.now}
		degree := 0.0
		if x.now.Hour() == 11 {
			degree = float64(figure.AtLeast)
		}
		batch.Add(says, degree)
		if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, batch); err != nil {
			t.Fatal(err)
		}
	}
	advance(t, b)
	for _, span := range []store.Span{store.SpanHour, store.SpanWhole} {
		nodes, err := x.c.NodeUse(t.Context(), store.RollupQuery{From: always.From, To: always.To, Span: span, By: []string{"node"}})
		if err != nil || len(nodes) == 0 {
			t.Fatal(err, len(nodes))
		}
		for _, u := range nodes {
			want := figure.Exact
			if u.Node == "n1" && (span == store.SpanWhole || u.At.Hour() == 11) {
				want = figure.AtLeast
			}
			if u.Exactness["cpu_seconds"] != want || u.Exactness["io_read_bytes"] != figure.Exact {
				t.Errorf("%s of %s at %s: %v, want %v", span, u.Node, u.At, u.Exactness, want)
			}
		}
	}
	if use, err := x.c.Use(t.Context(), store.RollupQuery{From: always.From, To: always.To, Span: store.SpanHour, By: []string{"owner"}}); err != nil || len(use) < 3 || use[0].Exactness != nil || use[1].Exactness["cpu_seconds"] != figure.AtLeast {
		t.Errorf("%+v, %v", use, err)
	}
}

// TestReplacedMachine: counters of a machine that takes the place of another one of its name are not held against those of the
// first, whichever are higher, nor is what the first had counted booked anew when the second one booted. A machine that
// boots again is none that took its place.
func TestReplacedMachine(t *testing.T) {
	from := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		first, second time.Duration // from their boot to ten o'clock; negative: later
	}{
		"up for longer":         {24 * time.Hour, 240 * time.Hour},
		"up for less":           {240 * time.Hour, 24 * time.Hour},
		"booted meanwhile":      {240 * time.Hour, -30 * time.Minute},
		"booted a moment ahead": {240 * time.Hour, -59 * time.Minute},
	} {
		for _, gap := range []time.Duration{time.Minute, 20 * time.Minute, 150 * time.Minute} {
			t.Run(name+" "+gap.String(), func(t *testing.T) {
				x := newSite(t, t.TempDir(), from)
				defer x.close()
				say := func(up time.Duration) {
					s := up.Seconds()
					x.machine("n1", 0, s/2, s*3/2, float64(x.now.Add(-up).Unix()))
				}
				for ; x.now.Before(from.Add(time.Hour)); x.now = x.now.Add(time.Minute) {
					say(c.first + x.now.Sub(from))
				}
				x.now = x.now.Add(gap - time.Minute)
				began := x.now
				for range 91 {
					say(c.second + x.now.Sub(from))
					x.now = x.now.Add(time.Minute)
				}
				advance(t, x.builder())
				rows, err := x.c.NodeUse(t.Context(), store.RollupQuery{From: from.Add(-48 * time.Hour), To: x.now.Add(time.Hour), Span: store.SpanWhole, By: []string{"node"}})
				if err != nil || len(rows) != 1 || rows[0].CoreSeconds == nil {
					t.Fatalf("%+v, %v", rows, err)
				}
				// 59 minutes of the first and 90 of the second, of two processors.
				if got, want := *rows[0].CoreSeconds, 2*(59+90)*60.0; math.Abs(got-want) > 121 {
					t.Errorf("%g core seconds, want %g (the second since %s)", got, want, began)
				}
				if got, want := *rows[0].CoreUsedSeconds, (59+90)*30.0; math.Abs(got-want) > 31 {
					t.Errorf("%g core seconds used, want %g", got, want)
				}
			})
		}
	}
}
