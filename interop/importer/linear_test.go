package importer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/catalogue"
	"reckon/store"
	"reckon/store/tsdb"
)

const accountingHead = "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES|UserCPU|SystemCPU|MaxRSS|NodeList\n"

// hourOfOwner is a cell of usage.
type hourOfOwner struct {
	hour  int64
	owner string
}

// truthOf are the sums of accounting by hour and owner, from a reading of its own: CPU seconds, allocated core seconds, starts, waits.
type truthOf map[hourOfOwner]*[4]float64

func (x truthOf) at(t int64, owner string) *[4]float64 {
	k := hourOfOwner{t / 3600, owner}
	if x[k] == nil {
		x[k] = &[4]float64{}
	}
	return x[k]
}

// accounting writes jobs, one every `every` seconds on average, some of them days long, each with a step.
func accounting(r *rand.Rand, n int, every float64) (records []string, x truthOf) {
	x = truthOf{}
	at := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	form := func(t time.Time) string { return t.Format("2006-01-02T15:04:05") }
	for i := range n {
		at = at.Add(time.Duration(r.ExpFloat64()*every) * time.Second)
		start := at.Add(time.Duration(r.ExpFloat64()*1800) * time.Second)
		seconds := int64(math.Exp(6.5+1.5*r.NormFloat64())) % (4 * 86400)
		end := start.Add(time.Duration(seconds) * time.Second)
		cores := int64(1) << r.IntN(6)
		cpu := int64(r.Float64() * float64(seconds*cores))
		owner := fmt.Sprintf("u%d", r.IntN(9))
		state := []string{"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7"}[r.IntN(4)]
		line := func(id, state, cpu, memory string) string {
			return fmt.Sprintf("%s|%s|big|%s|a%d|batch|train|%s|0:0|%s|%s|%s|%d|1|cpu=%d,mem=1G,node=1|%s|00:00:00|%s|n1\n",
				id, id, owner, i%3, state, form(at), form(start), form(end), seconds, cores, cpu, memory)
		}
		used := fmt.Sprintf("%02d:%02d:%02d", cpu/3600, cpu/60%60, cpu%60)
		id := fmt.Sprint(1000 + i)
		records = append(records, line(id, state, used, "")+line(id+".batch", strings.Fields(state)[0], used, "100M"))
		for t := start.Unix(); t < end.Unix(); t += 3600 - t%3600 {
			part := float64(min(end.Unix(), t+3600-t%3600) - t)
			f := x.at(t, owner)
			f[0] += float64(cpu) * part / float64(seconds)
			f[1] += float64(cores) * part
		}
		f := x.at(start.Unix(), owner)
		f[2]++
		f[3] += start.Sub(at).Seconds()
	}
	return records, x
}

// check compares the hours of the catalogue with the truth.
func (x truthOf) check(l *lab) {
	l.t.Helper()
	got := truthOf{}
	use, err := l.facts.Use(l.t.Context(), store.RollupQuery{From: time.Unix(0, 0), To: now, Span: store.SpanHour, By: []string{"owner"}})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, u := range use {
		f := got.at(u.At.Unix(), u.Owner)
		for i, v := range []*float64{u.CPUSeconds, u.HeldCoreSeconds, u.Started, u.WaitSeconds} {
			f[i] = figureOf(v)
		}
	}
	bad := 0
	for k, want := range x {
		g := got[k]
		if g == nil {
			g = &[4]float64{}
		}
		for i := range want {
			if math.Abs(g[i]-want[i]) > 1e-6*(1+want[i]) {
				if bad++; bad < 5 {
					l.t.Errorf("hour %s of %s: figure %d is %g, want %g", time.Unix(k.hour*3600, 0).UTC(), k.owner, i, g[i], want[i])
				}
			}
		}
	}
	if len(got) > len(x) {
		l.t.Errorf("%d cells, want %d", len(got), len(x))
	}
}

// readCounter counts the time that hours are made of, each time that it is read.
type readCounter struct {
	*tsdb.Store
	read time.Duration
}

func (c *readCounter) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := c.Store.Querier(mint, maxt)
	return &countedQuerier{q, c, time.Duration(maxt-mint) * time.Millisecond}, err
}

type countedQuerier struct {
	storage.Querier
	of   *readCounter
	span time.Duration
}

func (q *countedQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	for _, m := range ms {
		if m.Name == "__name__" && m.Matches("node_cpu_seconds_total") && m.Matches(mCPU) {
			q.of.read += q.span
		}
	}
	return q.Querier.Select(ctx, sorted, h, ms...)
}

// TestHistoryIsOnePass: the hours of an import are read about once, however long its jobs are, and hold to the second what
// accounting reports. In one import, and month after month as a site brings them.
func TestHistoryIsOnePass(t *testing.T) {
	records, truth := accounting(rand.New(rand.NewPCG(4, 4)), 1200, 900)
	for _, parts := range []int{1, 3} {
		l := newLab(t)
		counter := &readCounter{Store: l.store}
		l.b = catalogue.NewBuilder(counter, l.facts, catalogue.BuilderOptions{Clock: func() time.Time { return now }})
		hours := 0.0
		for i := range parts {
			res := l.take("a.sacct", accountingHead+strings.Join(records[i*len(records)/parts:(i+1)*len(records)/parts], ""))
			for _, r := range res.Ranges {
				hours += r[1].Sub(r[0]).Hours()
			}
		}
		truth.check(l)
		if got := counter.read.Hours(); got > 3*hours || got < hours {
			t.Errorf("%d imports: %.0f hours were read for %.0f", parts, got, hours)
		}
	}
}
