package catalogue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

var (
	simQOS       = desc(figure.QOSInfo, metric.Gauge, "qos")
	simEndedBy   = desc(figure.EndedByInfo, metric.Gauge, "by", "user")
	simSuspended = desc("reckon_workload_suspended_seconds_total", metric.Counter)
	simSteps     = desc("reckon_slurm_steps", metric.Gauge)
	simStep      = desc(figure.StepInfo, metric.Gauge, "name", "state", "nodes")
	simStepStart = desc(figure.StepStart, metric.Gauge)
	simStepEnd   = desc(figure.StepEnd, metric.Gauge)
	simStepExit  = desc(figure.StepExit, metric.Gauge)
	simStepCPU   = desc(figure.StepCPU, metric.Gauge)
)

// accounts writes what accounting reports about the end of a run: by whom, and its steps as
// "id name state start-end exit".
func (c *cluster) accounts(at int, id, by, user string, steps ...string) {
	c.t.Helper()
	b := metric.Batch{Time: sec(at)}
	l := []string{id, "slurm", "", "alice"}
	b.Add(metric.NewSeries(simQOS, append(l, "long")...), 1)
	if by != "" {
		b.Add(metric.NewSeries(simEndedBy, append(l, by, user)...), 1)
	}
	b.Add(metric.NewSeries(simSteps, l...), float64(len(steps)))
	for _, s := range steps {
		var part, name, state string
		var start, end, exit int
		if _, err := fmt.Sscanf(s, "%s %s %s %d-%d %d", &part, &name, &state, &start, &end, &exit); err != nil {
			c.t.Fatal(err)
		}
		l := []string{id, "slurm", part, "alice"}
		b.Add(metric.NewSeries(simStep, append(l, name, state, "n1")...), 1)
		b.Add(metric.NewSeries(simStepStart, l...), unix(start))
		b.Add(metric.NewSeries(simStepEnd, l...), unix(end))
		b.Add(metric.NewSeries(simStepExit, l...), float64(exit))
		b.Add(metric.NewSeries(simStepCPU, l...), float64(end-start))
	}
	if err := c.s.Append(c.t.Context(), map[string]string{"site": "x"}, &b); err != nil {
		c.t.Fatal(err)
	}
}

// facts brings the catalogue up to date and reports the facts of all runs, by start.
func (c *cluster) facts(now int) string {
	c.t.Helper()
	c.now = sec(now)
	advance(c.t, c.b)
	rows, _, err := c.c.Workloads(c.t.Context(), store.Filter{Sort: "start"})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for i := range rows {
		w := &rows[i]
		text := strings.TrimSpace(fmt.Sprint(w.ID, " ", w.State, " ", w.EndedBy, " ", w.EndedByUser, " ", w.QOS))
		if w.StepCount != nil {
			text += fmt.Sprint(" of ", *w.StepCount)
		}
		steps, err := c.c.Steps(c.t.Context(), store.Run{Site: w.Site, ID: w.ID, Start: w.Start})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, s := range steps {
			text += fmt.Sprintf(", %s %s %s %g-%g %d %g", s.ID, s.Name, s.State, s.Start.Sub(simBegin).Seconds(), s.End.Sub(simBegin).Seconds(), *s.ExitCode, *s.CPUSeconds)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// Steps and who ended a run are of that run, whenever they are reported, and survive the
// saved state of the builder.
func TestStepsOfRuns(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/3", "running", 5, 6, 0)
	c.measures(30, "n1", "slurm/3", 6, 29, 12)
	c.s2(31, "slurm/3", "node_fail", 5, 6, 30)
	c.accounts(31, "slurm/3", "node_failure", "", "0 prepare completed 7-20 0", "1 solve node_fail 20-30 137")
	c.says(50, "slurm/3", "pending", 40, 0, 0)
	want := "slurm/3 node_fail node_failure  long of 2, 0 prepare completed 7-20 0 13, 1 solve node_fail 20-30 137 10\nslurm/3 pending"
	if got := c.facts(60); got != want {
		t.Errorf("first run:\n%s\nwant\n%s", got, want)
	}
	if err := c.b.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.b = c.builder()
	c.says(170, "slurm/3", "running", 40, 160, 0)
	c.measures(180, "n2", "slurm/3", 161, 190, 5)
	c.says(201, "slurm/3", "cancelled", 40, 160, 191)
	c.accounts(201, "slurm/3", "user", "alice", "0 prepare cancelled 160-191 143")
	want = strings.Replace(want, "slurm/3 pending", "slurm/3 cancelled user alice long of 1, 0 prepare cancelled 160-191 143 31", 1)
	if got := c.facts(210); got != want {
		t.Errorf("both runs:\n%s\nwant\n%s", got, want)
	}
	c.b = c.builder()
	if _, err := c.b.Rebuild(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := c.facts(220); got != want {
		t.Errorf("built anew:\n%s\nwant\n%s", got, want)
	}
}

// Accounting that comes when the run is long over, and reports more of a step than before.
func TestStepsReportedLate(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/1", "running", 5, 6, 0)
	c.says(30, "slurm/1", "completed", 5, 6, 29)
	c.accounts(30, "slurm/1", "", "", "0 solve running 7-7 0")
	if got := c.facts(40); got != "slurm/1 completed   long of 1, 0 solve running 7-7 0 0" {
		t.Error(got)
	}
	if got := c.facts(4000); !strings.Contains(got, "solve running") {
		t.Error(got)
	}
	c.s2(4100, "slurm/1", "completed", 5, 6, 29)
	c.accounts(4100, "slurm/1", "", "", "0 solve failed 7-28 3", "extern extern completed 6-29 0")
	if got := c.facts(4110); got != "slurm/1 completed   long of 2, extern extern completed 6-29 0 23, 0 solve failed 7-28 3 21" {
		t.Error(got)
	}
}

// The scheduler's own sum of suspensions counts as it stands: it may be corrected downwards.
func TestSuspended(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/1", "running", 5, 6, 0)
	for at, v := range map[int]float64{20: 4.4, 30: 10.6, 40: 10} {
		b := metric.Batch{Time: sec(at)}
		b.Add(metric.NewSeries(simSuspended, "slurm/1", "slurm", "", "alice"), v)
		if err := c.s.Append(t.Context(), map[string]string{"site": "x"}, &b); err != nil {
			t.Fatal(err)
		}
	}
	c.facts(50)
	rows, _, _ := c.c.Workloads(t.Context(), store.Filter{})
	if v := rows[0].SuspendedSeconds; v == nil || math.Abs(*v-10) > 1e-9 {
		t.Errorf("suspended for %v s", v)
	}
}

// A job that is cancelled while it is suspended ended when that suspension began: what was reported of it meanwhile is after its end, and
// the allocation counts from its start to its end.
func TestCancelledWhileSuspended(t *testing.T) {
	c := newCluster(t)
	say := func(at int, state string, end int, suspended float64) {
		c.says(at, "slurm/1", state, 5, 6, end)
		b := metric.Batch{Time: sec(at)}
		b.Add(metric.NewSeries(simAllocated, "slurm/1", "slurm", "", "alice"), 2)
		b.Add(metric.NewSeries(simSuspended, "slurm/1", "slurm", "", "alice"), suspended)
		if err := c.s.Append(t.Context(), map[string]string{"site": "x"}, &b); err != nil {
			t.Fatal(err)
		}
	}
	say(10, "running", 0, 0)
	say(20, "suspended", 0, 2+5) // for 2 s before that, within its time
	say(35, "suspended", 0, 2+20)
	say(40, "cancelled", 15, 2)
	c.facts(4000)
	q := always
	q.Span = store.SpanHour
	use, err := c.c.Use(t.Context(), q)
	held := 0.0
	for i := range use {
		if use[i].HeldCoreSeconds != nil {
			held += *use[i].HeldCoreSeconds
		}
	}
	if want := 2.0 * (9 - 2); err != nil || math.Abs(held-want) > 1e-6 {
		t.Errorf("%g core seconds were allocated, want %g: %v", held, want, err)
	}
}

// A run without a reported end is lost, unless a node saw it end or the id was given
// again; then its end is when it was last heard of.
func TestLost(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/5", "running", 5, 6, 0)     // heard of once
	c.says(10, "slurm/6", "running", 5, 7, 0)     // a node saw its end
	c.measures(30, "n1", "slurm/6", 7, 28, 1)     //
	c.says(10, "slurm/7", "running", 5, 8, 0)     // its node fell silent
	c.measures(40, "n1", "slurm/7", 8, 0, 1)      //
	c.says(10, "slurm/8", "running", 5, 9, 0)     // requeued, and the end not reported
	c.says(50, "slurm/8", "pending", 45, 0, 0)    // lost as well: silent for a day
	c.says(10, "slurm/9", "completed", 5, 10, 11) // reported
	c.facts(200_000)
	rows, _, _ := c.c.Workloads(t.Context(), store.Filter{Sort: "start"})
	var got []string
	for _, w := range rows {
		if w.Lost {
			got = append(got, fmt.Sprint(w.ID, " ", w.State, " ", w.End.Sub(simBegin).Seconds()))
		}
	}
	if want := []string{"slurm/5 running 10", "slurm/7 running 40", "slurm/8 pending 50"}; !slices.Equal(got, want) {
		t.Errorf("lost: %q, want %q", got, want)
	}
}
