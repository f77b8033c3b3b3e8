package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"pgregory.net/rapid"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// life is one run of a job as it was, in seconds. The batch system knows submit, start and end, the node when its processes
// began. A life without a start was cancelled while it waited, one without an end lasts.
type life struct {
	submit, start, end int
	began              float64
	state              string
	node               string
	numbered           bool // the node calls it by its number
	owner              string
}

// named is the owner by who knows the name best: the batch system, unless it has a number where the node has a name.
func (l *life) named(batch string) string {
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	if l.start != 0 && digits(batch) && !digits(l.owner) {
		return l.owner
	}
	return batch
}

// amounts of a life: no two lives have one in common.
func (l *life) cpu(i int) float64    { return []float64{1, 4, 16}[i] }
func (l *life) joules(i int) float64 { return []float64{10, 40, 160}[i] }
func (l *life) peak(i int) float64   { return []float64{3000, 1000, 2000}[i] }
func (l *life) cores(i int) float64  { return []float64{2, 3, 5}[i] }

// arrival is a batch and when the store gets it.
type arrival struct {
	at     time.Time
	order  int
	labels map[string]string
	batch  metric.Batch
	what   string
}

// history is a job with its lives, and all that is written of it.
type jobHistory struct {
	// atTheEdge: samples of a node come about as late as a round looks back. They may be taken in with the next ones of their series, or
	// with
	// what the batch system reports, and are compared in the end.
	atTheEdge  bool
	id, number string
	owner      string // by the batch system
	lives      []life
	arrivals   []arrival
	states     map[string]bool
}

var (
	simEnergy    = desc(figure.Energy, metric.Counter)
	simExit      = desc(figure.ExitCode, metric.Gauge)
	simCode      = desc(figure.ExitCode, metric.Gauge, "by")
	simAllocated = desc(figure.AllocatedCores, metric.Gauge)
)

func seconds(s float64) time.Time {
	return simBegin.Add(time.Duration(math.Round(s*1000)) * time.Millisecond)
}

func (h *jobHistory) arrives(at float64, what string, labels map[string]string, b metric.Batch) {
	h.arrivals = append(h.arrivals, arrival{store.Later(seconds(at), b.Time), len(h.arrivals), labels, b, what})
}

// scheduler writes the batch system's lines about a life at a time.
func (h *jobHistory) scheduler(b *metric.Batch, i int, state string, last bool) {
	x := &h.lives[i]
	l := []string{h.id, "slurm", "", h.owner}
	add := func(d *metric.Desc, v float64, more ...string) {
		b.Samples = append(b.Samples, metric.Sample{Series: metric.NewSeries(d, append(slices.Clone(l), more...)...), Value: v, Last: last})
	}
	add(simSubmit, unix(x.submit))
	add(simState, 1, state, "")
	add(simQOS, 1, fmt.Sprint("qos", i))
	if h.number != "" {
		add(simNumber, 1, h.number)
	}
	if x.start != 0 && state != "pending" {
		add(simStart, unix(x.start))
		add(simNodes, 1, x.node)
		add(simAllocated, x.cores(i))
	}
	if last {
		add(simEnd, unix(x.end))
		add(simEndedBy, 1, fmt.Sprint("by", i), "")
		if x.start != 0 {
			add(simCode, float64(i+3), figure.Accounting)
			l[2] = "batch"
			add(simStep, 1, "batch", state, x.node)
			add(simStepStart, unix(x.start))
			add(simStepEnd, unix(x.end))
			add(simStepExit, float64(i))
			add(simStepCPU, x.cpu(i))
		}
	}
}

// poll is the queue's answer at a time: nothing of a life that is over.
func (h *jobHistory) poll(at int) {
	cur := -1
	for i := range h.lives {
		if h.lives[i].submit <= at {
			cur = i
		}
	}
	if cur < 0 || h.lives[cur].end != 0 && at >= h.lives[cur].end {
		return
	}
	x := &h.lives[cur]
	state := "running"
	if x.start == 0 || at < x.start {
		state = "pending"
	}
	b := metric.Batch{Time: sec(at)}
	h.scheduler(&b, cur, state, false)
	for s := range h.states {
		if s != state {
			b.Samples = append(b.Samples, metric.Sample{Series: metric.NewSeries(simState, h.id, "slurm", "", h.owner, s, ""),
				Value: math.Float64frombits(value.StaleNaN), Last: true})
			delete(h.states, s)
		}
	}
	h.states[state] = true
	h.arrives(float64(at), fmt.Sprintf("poll %d %s", cur, state), map[string]string{"site": "x"}, b)
}

// accounting is the last word on a life, at a time within it as the tracker of jobs chooses it.
func (h *jobHistory) accounting(i, at int) {
	x := &h.lives[i]
	t := max(float64(x.end), float64(at)-90)
	if i+1 < len(h.lives) {
		if limit := float64(h.lives[i+1].submit) - 0.003; t >= limit {
			t = min(max(float64(h.lives[i+1].submit-1), float64(x.submit), h.polled(i)+0.002), limit)
		}
	} else {
		t = max(t, h.polled(i)+0.002)
	}
	b := metric.Batch{Time: seconds(t)}
	h.scheduler(&b, i, x.state, true)
	h.arrives(float64(at), fmt.Sprintf("accounting %d at %g", i, t), map[string]string{"site": "x"}, b)
}

// polled is the time when the queue last had a life.
func (h *jobHistory) polled(i int) (last float64) {
	for _, a := range h.arrivals {
		if strings.HasPrefix(a.what, fmt.Sprintf("poll %d ", i)) {
			last = max(last, a.batch.Time.Sub(simBegin).Seconds())
		}
	}
	return last
}

// measured is the export of the node of a life, each 15 s, and up to that much after its end. It comes late by some seconds.
func (h *jobHistory) measured(i, until, late int) {
	x := &h.lives[i]
	if x.start == 0 {
		return
	}
	id := h.id
	if x.numbered {
		id = "slurm/" + h.number
	}
	l := []string{id, "slurm", "batch", x.owner}
	for at := (int(x.began)/15 + 1) * 15; at <= until; at += 15 {
		over := x.end != 0 && at > x.end
		share := 1.0
		if !over && x.end != 0 {
			share = float64(at-x.start) / float64(x.end-x.start)
		}
		share = math.Round(share*8) / 8 // sums of eighths are exact
		b := metric.Batch{Time: sec(at)}
		add := func(d *metric.Desc, v float64, more ...string) {
			s := metric.NewSeries(d, append(slices.Clone(l), more...)...)
			if d.Kind == metric.Counter {
				s.Created = seconds(x.began).UnixMilli()
			}
			b.Samples = append(b.Samples, metric.Sample{Series: s, Value: v, Last: over})
		}
		add(simUser, x.cpu(i)*share, "user")
		add(simEnergy, x.joules(i)*share)
		add(simPeak, x.peak(i))
		add(simStart, float64(seconds(x.began).UnixMilli())/1000)
		add(simInfo, 1, "train", "physics", "gpu", fmt.Sprint("program", i))
		if over {
			add(simEnd, unix(x.end))
			add(simExit, 77) // of some process: the batch system's code counts, whichever comes first
		}
		h.arrives(float64(at+late), fmt.Sprintf("node %d at %d", i, at), map[string]string{"site": "x", "node": x.node}, b)
		if over {
			return
		}
	}
}

// want is the catalogue's row of the job when all has arrived.
func (h *jobHistory) want() (out []string) {
	for i := range h.lives {
		x := &h.lives[i]
		if x.start == 0 {
			out = append(out, fmt.Sprintf("%s of %s %d-%d by%d cpu ? joules ? peak ? exit ? program  cores ? steps 0", x.state, x.named(h.owner),
				x.submit, x.end, i))
			continue
		}
		out = append(out, fmt.Sprintf("%s of %s %d-%d by%d cpu %g joules %g peak %g exit %d program program%d cores %g steps 1", x.state,
			x.named(h.owner), x.submit, x.end, i, x.cpu(i), x.joules(i), x.peak(i), i+3, i, x.cores(i)))
	}
	return out
}

func (h *jobHistory) got(t failer, c *cluster) (out []string) {
	rows, _, err := c.c.Workloads(context.Background(), store.Filter{Sort: "start"})
	if err != nil {
		t.Fatal(err)
	}
	v := func(x *float64) string {
		if x == nil {
			return "?"
		}
		return fmt.Sprint(*x)
	}
	for i := range rows {
		w := &rows[i]
		exit := "?"
		if w.ExitCode != nil {
			exit = fmt.Sprint(*w.ExitCode)
		}
		steps, err := c.c.Steps(context.Background(), store.Run{Site: w.Site, ID: w.ID, Start: w.Start})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s of %s %g-%g %s cpu %s joules %s peak %s exit %s program %s cores %s steps %d", w.State, w.Owner,
			w.Submit.Sub(simBegin).Seconds(), w.End.Sub(simBegin).Seconds(), w.EndedBy,
			v(w.CPUSeconds), v(w.EnergyJoules), v(w.MemoryPeakBytes), exit, w.Command, v(w.AllocatedCores), len(steps)))
	}
	return out
}

// everything is all that a catalogue holds, as text.
func everything(t failer, c *database.Catalogue) (out []string) {
	text := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	rows, _, err := c.Workloads(context.Background(), store.Filter{Sort: "start"})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(rows, func(a, b store.Workload) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID)) })
	for i := range rows {
		w := &rows[i]
		steps, err := c.Steps(context.Background(), store.Run{Site: w.Site, ID: w.ID, Start: w.Start})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text(w)+text(steps))
	}
	q := always
	q.Span = store.SpanHour
	use, err := c.Use(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.NodeUse(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range use {
		out = append(out, "hour "+text(use[i]))
	}
	for i := range nodes {
		out = append(out, "node "+text(nodes[i]))
	}
	return out
}

// sameAsRebuilt holds the catalogue against one that is made of the series now.
func (c *cluster) sameAsRebuilt(t failer, memory, job, what string) {
	c.b.roll.next = time.Time{}
	if _, err := c.b.Advance(context.Background()); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(memory, "rebuilt-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cat, err := database.Open(dir+"/catalogue.db", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	if _, err := NewBuilder(c.s, cat, BuilderOptions{Clock: func() time.Time { return c.now }}).Rebuild(context.Background(),
		nil); err != nil {
		t.Fatal(err)
	}
	if got, want := everything(t, c.c), everything(t, cat); !slices.Equal(got, want) {
		t.Errorf("%s\n%s, at %s s, kept up to date:\n%s\nrebuilt:\n%s", job, what, c.now.Sub(simBegin), strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// TestRequeuedInAnyOrder: whatever order the samples of a requeued job come in, and whenever the catalogue takes them in, it
// holds what one does that is made of the series at once. When all is there each life has what it used.
func TestRequeuedInAnyOrder(t *testing.T) { requeuedInAnyOrder(t, false, 0, 1, 20, 130, 300) }

// TestRequeuedWithinOverlap: the same for samples that come late, within the time that each round reads again, after those of the next run
// in the same series.
func TestRequeuedWithinOverlap(t *testing.T) { requeuedInAnyOrder(t, false, 0, 60, 100, 119) }

// TestOwnerInAnyOrder: the same where batch system and nodes call the owner by different names and numbers.
func TestOwnerInAnyOrder(t *testing.T) { requeuedInAnyOrder(t, true, 0, 1, 20, 130) }

func requeuedInAnyOrder(outer *testing.T, owners bool, late ...int) {
	memory := outer.TempDir()
	if dir, err := os.MkdirTemp("/dev/shm", "reckon-requeue-"); err == nil {
		outer.Cleanup(func() { os.RemoveAll(dir) })
		memory = dir
	}
	rapid.Check(outer, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memory, "kept-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		x := newSite(t, dir, simBegin)
		defer x.close()
		c := &cluster{site: x, b: NewBuilder(x.s, x.c, BuilderOptions{Clock: func() time.Time { return x.now }})}
		h := drawJob(t, owners, late)
		alive := metric.NewSeries(&metric.Desc{Name: "alive", Help: "Simulated.", Kind: metric.Gauge})
		slices.SortStableFunc(h.arrivals, func(a, b arrival) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) })
		for i := range h.arrivals {
			a := &h.arrivals[i]
			if c.now.Before(a.at) { // the store has something of every moment, so late samples come beside it
				c.now = a.at
				b := metric.Batch{Time: c.now}
				b.Add(alive, 1)
				c.append("n9", &b)
			}
			if err := c.s.Append(context.Background(), a.labels, &a.batch); err != nil {
				t.Fatal(err)
			}
			if i+1 < len(h.arrivals) && !h.arrivals[i+1].at.After(a.at) && rapid.Bool().Draw(t, "together") {
				continue
			}
			switch rapid.IntRange(0, 9).Draw(t, "round") {
			case 0:
				if h.atTheEdge {
					break
				}
				c.sameAsRebuilt(t, memory, h.text(), fmt.Sprintf("after %q", a.what))
			case 1:
				if err := c.b.Save(context.Background()); err != nil {
					t.Fatal(err)
				}
				c.b = NewBuilder(x.s, x.c, BuilderOptions{Clock: func() time.Time { return x.now }})
			case 2, 3, 4, 5, 6:
				if _, err := c.b.Advance(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.sameAsRebuilt(t, memory, h.text(), "in the end")
		if got, want := h.got(t, c), h.want(); !slices.Equal(got, want) {
			t.Errorf("%s: the rows are\n%s\nwant\n%s", h.text(), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func (h *jobHistory) text() string {
	var out []string
	for _, l := range h.lives {
		out = append(out, fmt.Sprintf("%+v", l))
	}
	for _, a := range h.arrivals {
		out = append(out, fmt.Sprintf("%s s: %s", a.at.Sub(simBegin), a.what))
	}
	return strings.Join(out, "\n")
}

func drawJob(t *rapid.T, owners bool, nodeLate []int) *jobHistory {
	pick := func(what string, from ...int) int { return rapid.SampledFrom(from).Draw(t, what) }
	h := &jobHistory{id: "slurm/3", owner: "alice", states: map[string]bool{}}
	if rapid.Bool().Draw(t, "array") {
		h.id, h.number = "slurm/3_1", "4"
	}
	if owners {
		h.owner = rapid.SampledFrom([]string{"alice", "1000", "20231234", "jane smith"}).Draw(t, "owner by the batch system")
	}
	n := rapid.IntRange(1, 3).Draw(t, "lives")
	submit, ready := 5, 5
	for i := range n {
		x := life{submit: submit, node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")}
		x.start = max(ready, submit) + pick("waits", 0, 1, 2, 30)
		x.end = x.start + pick("runs", 1, 2, 3, 20, 200)
		x.began = float64(x.start) + float64(pick("node begins", -750, 0, 250, 1250))/1000
		if x.owner = "alice"; owners {
			x.owner = rapid.SampledFrom([]string{"alice", "1000", "5001", "a.smith"}).Draw(t, "owner by the node")
		}
		x.numbered = h.number != "" && rapid.Bool().Draw(t, "numbered")
		x.state = rapid.SampledFrom([]string{"requeued", "preempted", "node_fail"}).Draw(t, "state")
		if i == n-1 {
			x.state = rapid.SampledFrom([]string{"completed", "cancelled", "failed"}).Draw(t, "state")
			if x.state == "cancelled" && rapid.Bool().Draw(t, "never begun") {
				x.start, x.end = 0, x.start
			}
		}
		h.lives = append(h.lives, x)
		submit = max(x.submit+1, x.start, x.end+pick("next is submitted", -1, 0, 1))
		ready = submit + pick("next waits", 61, 121)
	}
	last := h.lives[n-1].end
	every := pick("polls", 10, 30, 100)
	for at := pick("first poll", 6, 8, 9, 20); at < last; at += every {
		h.poll(at)
	}
	for i := range h.lives {
		h.accounting(i, h.lives[i].end+pick("accounting comes late", 1, 30, 118, 130, 400))
		late := pick("node comes late", nodeLate...)
		h.atTheEdge = h.atTheEdge || late >= 60 && late <= 130
		h.measured(i, last+400, late)
	}
	return h
}
