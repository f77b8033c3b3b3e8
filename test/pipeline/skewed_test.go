package pipeline_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/transport/ingest"
	"reckon/transport/push"
)

// board is a machine with a wrong clock, and its sender.
type board struct {
	t      *testing.T
	ahead  time.Duration // of its clock
	booted time.Time     // by its clock
	dir    string
	url    string

	now  time.Time // right
	out  *push.Pusher
	last map[*metric.Series]float64
	sums map[string][3]float64 // counted, by metric and hour

	begin time.Time
}

func (b *board) open() {
	b.t.Helper()
	var err error
	b.out, err = push.Open(push.Config{
		Endpoints: []push.Endpoint{{URL: b.url, Protocol: "2.0"}}, Labels: map[string]string{"site": "lab", "node": "board"}, QueueDir: b.dir,
		Clock: push.Clock{Boot: "one", Since: func() time.Duration { return b.now.Add(b.ahead).Sub(b.booted) }},
	})
	must(b.t, err)
}

// Put implements simulation.Sink: the batch has the times of the board.
func (b *board) Put(ctx context.Context, node string, batch *metric.Batch) error {
	if node == "" {
		return nil
	}
	b.now = batch.Time.Add(-b.ahead)
	hour := int(b.now.Sub(b.begin).Minutes()-1) / 60 // the interval before the sample
	for _, s := range batch.Samples {
		name := s.Series.Desc.Name
		if name != figure.CPU && name != figure.NodeCPU || strings.HasPrefix(s.Series.Label("mode"), "guest") {
			continue
		}
		if last, ok := b.last[s.Series]; ok {
			sums := b.sums[name]
			sums[hour] += s.Value - last
			b.sums[name] = sums
		}
		b.last[s.Series] = s.Value
	}
	return b.out.Put(ctx, batch)
}

// TestSkewedClockAndLateReplay: a board with a wrong clock sends for an hour, is cut off for an hour and a half, restarts its agent meanwhile, and sends
// what it kept while other nodes went on: hours hold what it counted, at the right times, and the proof agrees.
func TestSkewedClockAndLateReplay(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"right": 0, "behind": -62 * time.Minute, "ahead": 40 * time.Minute, "without a battery": -10 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) { skewed(t, ahead) })
	}
}

func skewed(t *testing.T, ahead time.Duration) {
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	b := &board{t: t, ahead: ahead, begin: begin, now: begin, dir: t.TempDir(), last: map[*metric.Series]float64{}, sums: map[string][3]float64{}}
	clock := func() time.Time { return b.now }
	series, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), Retention: -1, OutOfOrder: 7 * 24 * time.Hour, Clock: clock})
	must(t, err)
	defer func() { must(t, series.Close()) }()
	facts, err := database.Open(filepath.Join(t.TempDir(), "catalogue.db"), nil)
	must(t, err)
	defer func() { must(t, facts.Close()) }()
	receiver, away := ingest.Handler(ingest.Options{Store: series, Describe: series.Describe, Clock: clock}), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Date", b.now.UTC().Format(http.TimeFormat))
		receiver.ServeHTTP(w, r)
	}))
	defer server.Close()
	b.url = server.URL

	plan, err := simulate.New(simulate.Config{Nodes: 1, Cores: 8, OnlyPlanned: true, Seed: 1, From: begin.Add(ahead)})
	must(t, err)
	fleet := simulation.New(simulation.Config{Site: plan})
	b.booted = begin.Add(ahead - 90*24*time.Hour)
	b.open()
	builder := catalogue.NewBuilder(series, facts, catalogue.BuilderOptions{Clock: clock})
	other := metric.NewSeries(&metric.Desc{Name: figure.NodeBoot, Help: "Simulated.", Kind: metric.Gauge})
	for at := begin.Add(10 * time.Minute); !at.After(begin.Add(3 * time.Hour)); at = at.Add(10 * time.Minute) {
		passed := at.Sub(begin)
		away = passed > time.Hour && passed < 150*time.Minute
		_, err := fleet.Run(t.Context(), simulation.Stretch{Until: at.Add(ahead), Tick: 30 * time.Second, Export: time.Minute}, b)
		must(t, err)
		b.now = at
		one := &metric.Batch{Time: at} // another node goes on
		one.Add(other, float64(begin.Unix()))
		must(t, series.Append(t.Context(), map[string]string{"site": "lab", "node": "other"}, one))
		if passed == 2*time.Hour {
			must(t, b.out.Close())
			b.open()
		}
		b.out.Flush(t.Context())
		_, err = builder.Advance(t.Context())
		must(t, err)
	}
	if s := b.out.Status()[0]; s.Refused+s.Lost > 0 || s.Queue.Records > 0 {
		t.Fatalf("%d refused, %d lost, %d left", s.Refused, s.Lost, s.Queue.Records)
	}
	must(t, b.out.Close())
	b.now = begin.Add(3*time.Hour + 20*time.Minute)
	proof, err := builder.Prove(t.Context(), catalogue.ProofOptions{})
	must(t, err)
	if proof.Accounted() != 1 || proof.Differing > 0 || proof.Hours < 2 {
		t.Errorf("accounted %.10f, %d differ in %d hours", proof.Accounted(), proof.Differing, proof.Hours)
	}
	rows, err := facts.NodeUse(t.Context(), store.RollupQuery{From: begin.AddDate(-20, 0, 0), To: begin.AddDate(1, 0, 0), Span: store.SpanHour, By: []string{"node"}})
	must(t, err)
	hour := 0
	for _, r := range rows {
		if r.CoreSeconds == nil || r.CPUSeconds == nil || hour == 3 { // the last sample may lie half a second in the next hour
			continue
		}
		if want := begin.Add(time.Duration(hour) * time.Hour); !r.At.Equal(want) {
			t.Fatalf("an hour of the board at %s, want %s", r.At, want)
		}
		for figure, got := range map[string]float64{figure.NodeCPU: *r.CoreSeconds, figure.CPU: *r.CPUSeconds} {
			if want := b.sums[figure][hour]; math.Abs(got-want) > 0.002*want || want == 0 { // Date has whole seconds
				t.Errorf("%s of hour %d: %g s, counted %g s", figure, hour, got, want)
			}
		}
		hour++
	}
	if hour != 3 {
		t.Errorf("%d hours", hour)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
