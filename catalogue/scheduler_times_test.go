package catalogue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// cluster is a store into which nodes and a batch system write at the times they choose.
type cluster struct {
	*site
	t      *testing.T
	b      *Builder
	series map[string]*metric.Series
}

func newCluster(t *testing.T) *cluster {
	x := newSite(t, t.TempDir(), simBegin)
	t.Cleanup(x.close)
	return &cluster{site: x, t: t, b: x.builder(), series: map[string]*metric.Series{}}
}

var (
	simState  = desc("reckon_workload_state", metric.Gauge, "state", "reason")
	simSubmit = desc(figure.SubmitTime, metric.Gauge)
	simNodes  = desc("reckon_workload_nodes_info", metric.Gauge, "nodes")
)

func sec(n int) time.Time { return simBegin.Add(time.Duration(n) * time.Second) }

func (c *cluster) get(d *metric.Desc, values ...string) *metric.Series {
	k := d.Name + strings.Join(values, "|")
	if c.series[k] == nil {
		c.series[k] = metric.NewSeries(d, values...)
	}
	return c.series[k]
}

func unix(n int) float64 { return float64(sec(n).UnixMilli()) / 1000 }

// reports writes what the batch system reports about a job at a time; a start or end of 0 is none.
func (c *cluster) says(at int, id, state string, submit, start, end int) {
	c.t.Helper()
	b := metric.Batch{Time: sec(at)}
	l := []string{id, "slurm", "", "alice"}
	b.Add(c.get(simSubmit, l...), unix(submit))
	if start != 0 {
		b.Add(c.get(simStart, l...), unix(start))
	}
	if end != 0 {
		b.Add(c.get(simEnd, l...), unix(end))
	}
	for _, s := range c.series { // a state that was left is marked as ended
		if s.Desc == simState && s.Values[0] == id && s.Values[4] != state {
			b.Samples = append(b.Samples, metric.Sample{Series: s, Value: math.Float64frombits(value.StaleNaN), Last: true})
			delete(c.series, s.Desc.Name+strings.Join(s.Values, "|"))
		}
	}
	b.Add(c.get(simState, append(l, state, "")...), 1)
	if start != 0 {
		b.Add(c.get(simNodes, append(l, "n[1-2]")...), 1)
	}
	if end != 0 {
		for i := range b.Samples {
			b.Samples[i].Last = true
		}
		c.series = map[string]*metric.Series{}
	}
	if err := c.s.Append(c.t.Context(), map[string]string{"site": "x"}, &b); err != nil {
		c.t.Fatal(err)
	}
}

// measures writes what a node measured of a part at a time.
func (c *cluster) measures(at int, node, id string, start, end int, cpu float64) {
	c.t.Helper()
	b := metric.Batch{Time: sec(at)}
	l := []string{id, "slurm", "batch", "alice"}
	s := metric.NewSeries(simUser, append(l, "user")...)
	s.Created = sec(start).UnixMilli()
	b.Add(s, cpu)
	b.Add(metric.NewSeries(simStart, l...), unix(start)+0.25)
	if end != 0 {
		b.Add(metric.NewSeries(simEnd, l...), unix(end))
		for i := range b.Samples {
			b.Samples[i].Last = true
		}
	}
	if err := c.s.Append(c.t.Context(), map[string]string{"site": "x", "node": node}, &b); err != nil {
		c.t.Fatal(err)
	}
}

// at brings the catalogue up to date at a time, and expects rows of the form
// "id state submit-start-end cpu". They must be the same when it is built anew.
func (c *cluster) at(now int, want ...string) {
	c.t.Helper()
	c.now = sec(now)
	advance(c.t, c.b)
	if got := c.lines(); !slices.Equal(got, want) {
		c.t.Errorf("at %d s:\n got %q\nwant %q", now, got, want)
	}
	other := newSite(c.t, c.t.TempDir(), c.now)
	defer other.close()
	b := NewBuilder(c.s, other.c, BuilderOptions{Clock: func() time.Time { return c.now }})
	if _, err := b.Rebuild(c.t.Context(), nil); err != nil {
		c.t.Fatal(err)
	}
	other.s, c.s = c.s, other.s // only to read the rows of the other catalogue
	anew := (&cluster{site: other, t: c.t}).lines()
	other.s, c.s = c.s, other.s
	if !slices.Equal(anew, want) {
		c.t.Errorf("at %d s, built anew:\n got %q\nwant %q", now, anew, want)
	}
}

func (c *cluster) lines() []string {
	rows, _, err := c.c.Workloads(c.t.Context(), store.Filter{Sort: "start"})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for i := range rows {
		w := &rows[i]
		n := func(t time.Time) string {
			if t.IsZero() {
				return "?"
			}
			return fmt.Sprint(t.Sub(simBegin).Seconds())
		}
		cpu := "?"
		if w.CPUSeconds != nil {
			cpu = fmt.Sprint(*w.CPUSeconds)
		}
		out = append(out, fmt.Sprintf("%s %s %s-%s-%s %s", w.ID, w.State, n(w.Submit), n(w.Start), n(w.End), cpu))
	}
	return out
}

func TestReportedJob(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/1", "pending", 5, 0, 0)
	c.at(12, "slurm/1 pending 5-5-? ?")
	c.says(100, "slurm/1", "pending", 5, 0, 0)
	c.measures(130, "n1", "slurm/1", 121, 0, 7) // begun, and the batch system not asked yet
	c.at(131, "slurm/1 pending 5-121.25-? 7")
	c.says(140, "slurm/1", "running", 5, 120, 0)
	c.at(141, "slurm/1 running 5-120-? 7")
	c.measures(145, "n2", "slurm/1", 122, 0, 3)
	c.measures(150, "n1", "slurm/1", 121, 149, 20)
	c.measures(151, "n2", "slurm/1", 122, 150, 30)
	c.at(152, "slurm/1 running 5-120-? 50")
	c.says(153, "slurm/1", "completed", 5, 120, 151)
	c.at(160, "slurm/1 completed 5-120-151 50")
	c.at(4000, "slurm/1 completed 5-120-151 50")
	rows, _, _ := c.c.Workloads(t.Context(), store.Filter{})
	if got := fmt.Sprint(rows[0].Nodes); got != "[n1 n2]" {
		t.Errorf("nodes %s", got)
	}
}

// The state of the next run is read a moment before its submit time: it is the next run's
// all the same, and the run before keeps its own.
func TestReportedStateBeforeItsRun(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/3", "running", 5, 6, 0)
	c.measures(30, "n1", "slurm/3", 6, 0, 10)
	c.at(31, "slurm/3 running 5-6-? 10")
	state := metric.Batch{Time: sec(50)}
	state.Add(metric.NewSeries(simState, "slurm/3", "slurm", "", "alice", "pending", "BeginTime"), 1)
	if err := c.s.Append(t.Context(), map[string]string{"site": "x"}, &state); err != nil {
		t.Fatal(err)
	}
	c.now = sec(51)
	advance(t, c.b)
	submit := metric.Batch{Time: sec(50)}
	submit.Add(metric.NewSeries(simSubmit, "slurm/3", "slurm", "", "alice"), unix(40))
	if err := c.s.Append(t.Context(), map[string]string{"site": "x"}, &submit); err != nil {
		t.Fatal(err)
	}
	c.at(55, "slurm/3 running 5-6-? 10", "slurm/3 pending 40-40-? ?")
	c.s2(39, "slurm/3", "node_fail", 5, 6, 38)
	c.at(60, "slurm/3 node_fail 5-6-38 10", "slurm/3 pending 40-40-? ?")
}

// A job is over before the batch system is asked, and clocks differ by some seconds.
func TestReportedAfterwards(t *testing.T) {
	c := newCluster(t)
	c.measures(30, "n1", "slurm/1", 20, 21, 1)
	c.at(31, "slurm/1  ?-20.25-21 1")
	c.says(40, "slurm/1", "completed", 22, 24, 25)
	c.at(41, "slurm/1 completed 22-24-25 1")
	c.measures(90, "n1", "slurm/2", 56, 57, 2)
	c.says(70, "slurm/2", "failed", 50, 52, 54) // the node is ahead, and later
	c.at(95, "slurm/1 completed 22-24-25 1", "slurm/2 failed 50-52-54 2")
}

func TestReportedRequeue(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/3", "running", 5, 6, 0)
	c.measures(30, "n1", "slurm/3", 6, 0, 10)
	c.at(31, "slurm/3 running 5-6-? 10")
	c.measures(45, "n1", "slurm/3", 6, 38, 12)
	c.says(50, "slurm/3", "pending", 40, 0, 0)
	c.at(51, "slurm/3 running 5-6-38 12", "slurm/3 pending 40-40-? ?")
	// The end of the first life comes last, for a time within it.
	c.s2(39, "slurm/3", "requeued", 5, 6, 38)
	c.at(60, "slurm/3 requeued 5-6-38 12", "slurm/3 pending 40-40-? ?")
	c.says(170, "slurm/3", "running", 40, 160, 0)
	c.measures(180, "n2", "slurm/3", 161, 0, 5)
	c.measures(200, "n2", "slurm/3", 161, 190, 6)
	c.says(201, "slurm/3", "completed", 40, 160, 191)
	c.at(210, "slurm/3 requeued 5-6-38 12", "slurm/3 completed 40-160-191 6")
}

// A job is requeued in its first second or two: what nodes measured of it begins just before or after the submit time of the next life,
// which waits, and belongs to the life that lasted then.
func TestReportedRequeueAtOnce(t *testing.T) {
	for _, began := range []int{6, 7} { // 6.25 s, or 7.25 s: a node begins a job up to a second after the scheduler
		c := newCluster(t)
		c.says(6, "slurm/3", "running", 5, 6, 0)
		c.says(8, "slurm/3", "pending", 7, 0, 0)
		c.measures(9, "n1", "slurm/3", began, 8, 1)
		c.at(10, "slurm/3 running 5-6-8 1", "slurm/3 pending 7-7-? ?")
		c.says(130, "slurm/3", "running", 7, 127, 0)
		c.measures(140, "n1", "slurm/3", 127, 0, 1)
		c.at(141, "slurm/3 running 5-6-8 1", "slurm/3 running 7-127-? 1")
		c.measures(150, "n1", "slurm/3", 127, 149, 2)
		c.says(151, "slurm/3", "completed", 7, 127, 149)
		c.at(160, "slurm/3 running 5-6-8 1", "slurm/3 completed 7-127-149 2")
	}
}

// A job is requeued before the batch system is asked about it for the first time: the life that waits is the only one that is
// reported, until accounting reports the first one two minutes later. What nodes measured of that one goes back to it, whenever
// it came and whenever a round took it in.
func TestReportedRequeueBeforeTheFirstQuestion(t *testing.T) {
	for _, began := range []int{5, 6, 7} {
		for _, order := range []string{"says measures", "measures says", "says round measures", "measures round says"} {
			t.Run(fmt.Sprint(began, " ", order), func(t *testing.T) {
				c := newCluster(t)
				for i, step := range strings.Fields(order) {
					switch step {
					case "says":
						c.says(8, "slurm/3", "pending", 7, 0, 0)
					case "measures":
						c.measures(9, "n1", "slurm/3", began, 8, 1)
					default:
						c.now = sec(9 + i)
						advance(t, c.b)
					}
				}
				first := fmt.Sprintf("slurm/3  ?-%d.25-8 1", began)
				if began == 5 { // before the one that waits was submitted
					c.at(12, first, "slurm/3 pending 7-7-? ?")
				} else {
					c.at(12, fmt.Sprintf("slurm/3 pending 7-%d.25-? 1", began))
				}
				c.says(130, "slurm/3", "running", 7, 127, 0)
				c.measures(140, "n1", "slurm/3", 127, 0, 1)
				c.at(141, first, "slurm/3 running 7-127-? 1") // the node began it twice
				c.s2(6, "slurm/3", "requeued", 5, 6, 8)
				c.at(150, "slurm/3 requeued 5-6-8 1", "slurm/3 running 7-127-? 1")
				c.measures(160, "n1", "slurm/3", 127, 158, 2)
				c.says(161, "slurm/3", "completed", 7, 127, 158)
				c.at(170, "slurm/3 requeued 5-6-8 1", "slurm/3 completed 7-127-158 2")
			})
		}
	}
}

// A job is requeued within the second after that in which it was submitted, or in the second in which it began: these are two lives
// with a row each all the same.
func TestReportedRequeueWithinASecond(t *testing.T) {
	c := newCluster(t)
	c.says(6, "slurm/3", "pending", 6, 0, 0)
	c.measures(7, "n1", "slurm/3", 5, 6, 1)
	c.s2(5, "slurm/3", "requeued", 5, 5, 6)
	c.at(8, "slurm/3 requeued 5-5-6 1", "slurm/3 pending 6-6-? ?")
	c.says(130, "slurm/3", "running", 6, 127, 0)
	c.measures(140, "n1", "slurm/3", 127, 0, 1)
	c.at(141, "slurm/3 requeued 5-5-6 1", "slurm/3 running 6-127-? 1")

	c = newCluster(t)
	c.says(8, "slurm/4", "pending", 7, 0, 0)
	c.at(9, "slurm/4 pending 7-7-? ?")
	c.s2(6, "slurm/4", "requeued", 5, 7, 7) // under the start of the row that waits
	c.at(10, "slurm/4 requeued 5-6.999-7 ?", "slurm/4 pending 7-7-? ?")
	c.says(130, "slurm/4", "running", 7, 127, 0)
	c.measures(140, "n1", "slurm/4", 127, 0, 1)
	c.at(141, "slurm/4 requeued 5-6.999-7 ?", "slurm/4 running 7-127-? 1")
}

// Of a life that was over, accounting reports the last word when the next life is old.
func TestReportedLate(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/3", "running", 5, 6, 0)
	c.measures(30, "n1", "slurm/3", 6, 29, 12)
	c.at(31, "slurm/3 running 5-6-? 12")
	c.says(50, "slurm/3", "pending", 40, 0, 0)
	c.says(170, "slurm/3", "running", 40, 160, 0)
	c.measures(175, "n1", "slurm/3", 161, 0, 1)
	c.at(180, "slurm/3 running 5-6-29 12", "slurm/3 running 40-160-? 1")
	c.measures(600, "n1", "slurm/3", 161, 0, 5)
	c.at(601, "slurm/3 running 5-6-29 12", "slurm/3 running 40-160-? 5")
	c.s2(39, "slurm/3", "requeued", 5, 6, 38)
	c.at(630, "slurm/3 requeued 5-6-38 12", "slurm/3 running 40-160-? 5")
	c.says(700, "slurm/3", "completed", 40, 160, 690)
	c.measures(701, "n1", "slurm/3", 161, 690, 6)
	c.at(702, "slurm/3 requeued 5-6-38 12", "slurm/3 completed 40-160-690 6")
}

// The samples of a batch are found by two queries, and reports may be stored between
// them: then the first round sees a state of a job without knowing its time.
func TestReportedBetweenQueries(t *testing.T) {
	c := newCluster(t)
	b := metric.Batch{Time: sec(10)}
	b.Add(c.get(simState, "slurm/3", "slurm", "", "alice", "pending", ""), 1)
	if err := c.s.Append(t.Context(), map[string]string{"site": "x"}, &b); err != nil {
		t.Fatal(err)
	}
	c.now = sec(11)
	advance(t, c.b)
	if got := c.lines(); len(got) != 1 {
		t.Fatalf("%q", got)
	}
	c.says(10, "slurm/3", "pending", 5, 0, 0)
	c.at(12, "slurm/3 pending 5-5-? ?")
	c.says(60, "slurm/3", "cancelled", 5, 50, 50)
	c.at(62, "slurm/3 cancelled 5-50-50 ?")
}

// s2 is reports without ending the states of other runs.
func (c *cluster) s2(at int, id, state string, submit, start, end int) {
	saved := c.series
	c.series = map[string]*metric.Series{}
	c.says(at, id, state, submit, start, end)
	c.series = saved
}

func TestReportedAndNeverBegun(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/4", "pending", 5, 0, 0)
	c.at(11, "slurm/4 pending 5-5-? ?")
	c.says(70, "slurm/4", "cancelled", 5, 0, 65)
	c.at(80, "slurm/4 cancelled 5-65-65 ?")
	c.says(100, "slurm/4", "running", 90, 95, 0) // the id is given again
	c.at(101, "slurm/4 cancelled 5-65-65 ?", "slurm/4 running 90-95-? ?")
}

// A controller that does not answer ends no job; nor does it keep one that nodes saw end.
func TestReportedAndSilent(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/5", "running", 5, 6, 0)
	c.says(10, "slurm/6", "running", 5, 7, 0)
	c.says(10, "slurm/7", "pending", 8, 0, 0)
	c.measures(30, "n1", "slurm/6", 7, 28, 1)
	c.at(2000, "slurm/5 running 5-6-? ?", "slurm/6 running 5-7-28 1", "slurm/7 pending 8-8-? ?")
	c.at(90_000, "slurm/5 running 5-6-10 ?", "slurm/6 running 5-7-28 1", "slurm/7 pending 8-8-10 ?")
	c.says(90_010, "slurm/7", "running", 8, 90_005, 0)
	c.at(90_011, "slurm/5 running 5-6-10 ?", "slurm/6 running 5-7-28 1", "slurm/7 running 8-90005-? ?")
}

// The builder starts again without a state while jobs wait and run.
func TestReportedAndBuilderAnew(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/8", "pending", 5, 0, 0)
	c.says(10, "slurm/9", "running", 5, 9, 0)
	c.measures(15, "n1", "slurm/9", 9, 0, 4)
	c.at(16, "slurm/8 pending 5-5-? ?", "slurm/9 running 5-9-? 4")
	c.b = c.builder()
	c.says(600, "slurm/8", "running", 5, 590, 0)
	c.says(600, "slurm/9", "completed", 5, 9, 595)
	c.measures(601, "n1", "slurm/9", 9, 595, 40)
	c.at(602, "slurm/9 completed 5-9-595 40", "slurm/8 running 5-590-? ?")
}

// Slurm may call a node by its name alone and the agent with its domain, or the reverse.
func TestReportedNodesUnderFullNames(t *testing.T) {
	for _, tt := range []struct {
		list           string
		measured, want []string
	}{
		{"n[1-2]", []string{"n1.example.org"}, []string{"n1.example.org", "n2"}},
		{"n1.example.org", []string{"n1"}, []string{"n1"}},
		{"n1.a.org,n1.b.org", []string{"n1.a.org"}, []string{"n1.a.org", "n1.b.org"}},
		{"n1", nil, []string{"n1"}},
		{"vm-two", []string{"vm"}, []string{"vm"}}, // one machine under two names
		{"a[1-3]", []string{"x", "a2"}, []string{"x", "a2", "a1"}},
		{"n[1", []string{"x"}, []string{"x"}},
	} {
		a := &account{}
		a.NodeList = tt.list
		if got := a.addAllocatedNodes(tt.measured); !slices.Equal(got, tt.want) {
			t.Errorf("%s with %v: %v, want %v", tt.list, tt.measured, got, tt.want)
		}
	}
}
