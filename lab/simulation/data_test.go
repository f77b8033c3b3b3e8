package simulation_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/transport/ingest"
	"reckon/transport/push"
)

// TestConserved: the charges of the agents to workloads equal the activity of their
// machines, within a thousandth, on every node.
func TestConserved(t *testing.T) {
	f := simulation.New(simulation.Config{Site: site(t, simulate.Config{Nodes: 9, Jobs: 300, GPUNodes: 2, Seed: 3, For: 8 * time.Hour})})
	type sum struct{ charged, busy float64 }
	total := map[string]*sum{}
	last := map[string]map[*metric.Series]float64{}
	out := newSums()
	out.look = func(node string, b *metric.Batch) {
		first := last[node] == nil
		if first {
			last[node], total[node] = map[*metric.Series]float64{}, &sum{}
		}
		for _, s := range b.Samples {
			workload := s.Series.Desc.Name == "reckon_workload_cpu_seconds_total"
			busy := s.Series.Desc.Name == "node_cpu_seconds_total" && s.Series.Values[1] != "idle"
			was, known := last[node][s.Series]
			switch {
			case !workload && !busy:
				continue
			case known, !first && workload: // it began since
				if workload {
					total[node].charged += s.Value - was
				} else {
					total[node].busy += s.Value - was
				}
			}
			last[node][s.Series] = s.Value
		}
	}
	if _, err := f.Run(t.Context(), simulation.Stretch{Until: monday.Add(6 * time.Hour), Tick: 15 * time.Second, Export: time.Minute}, out); err != nil {
		t.Fatal(err)
	}
	for node, s := range total {
		if node == "" {
			continue
		}
		if s.busy <= 0 || math.Abs(s.charged-s.busy) > 0.001*s.busy+5 {
			t.Errorf("%s: workloads were charged %.1f s, the machine was busy for %.1f s", node, s.charged, s.busy)
		}
	}
}

// TestFill: a filled data directory has every job with its state, and its figures match
// the plan.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	s := site(t, simulate.Config{Nodes: 10, Jobs: 250, GPUNodes: 2, Seed: 4, For: 20 * time.Hour})
	f := simulation.New(simulation.Config{Site: s})
	half := monday.Add(13*time.Hour + 7*time.Minute) // in the middle of a block
	done, err := simulation.WriteHistory(t.Context(), f, dir, "x", slog.New(slog.DiscardHandler),
		simulation.Stretch{Until: half, Tick: time.Minute, Export: 2 * time.Minute},
		simulation.Stretch{Until: s.End(), Tick: 30 * time.Second, Export: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := database.Open(filepath.Join(dir, "catalogue.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	rows, _, err := facts.Workloads(t.Context(), store.Filter{Kinds: []string{"slurm"}})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]store.Workload{}
	for _, r := range rows {
		known[r.ID] = r
	}
	ended, short := 0, 0
	for _, j := range s.Jobs {
		if j.Start.Before(s.From.Add(5*time.Minute)) || j.End.IsZero() || j.End.After(s.End().Add(-10*time.Minute)) {
			continue
		}
		r, ok := known["slurm/"+j.ID()]
		if !ok {
			t.Errorf("job %s (%s, %v to %v) is not in the catalogue", j.ID(), j.Name, j.Start, j.End)
			continue
		}
		ended++
		if r.State != j.Outcome || r.Owner != j.User.Name || r.Site != "x" || r.Account != j.User.Account {
			t.Errorf("job %s: %s of %s (%s, %s), want %s of %s (%s)", j.ID(), r.State, r.Owner, r.Account, r.Site, j.Outcome, j.User.Name, j.User.Account)
		}
		if math.Abs(r.End.Sub(j.End).Seconds()) > 90 || len(r.Nodes) != j.Nodes {
			t.Errorf("job %s ended at %v on %v, want %v on %d nodes", j.ID(), r.End, r.Nodes, j.End, j.Nodes)
		}
		wall := j.End.Sub(j.Start).Seconds()
		if wall < 150 {
			short++
			continue
		}
		if r.CPUSeconds == nil || *r.CPUSeconds <= 0 || *r.CPUSeconds > 1.01*wall*float64(j.Cores*j.Nodes)+5 {
			t.Errorf("job %s: %v CPU seconds in %.0f s on %d cores", j.ID(), r.CPUSeconds, wall, j.Cores*j.Nodes)
		}
		if j.Outcome == "out_of_memory" && (r.OOMKills == nil || *r.OOMKills == 0) {
			t.Errorf("job %s ran out of memory and no kill was counted", j.ID())
		}
		if j.GPUs > 0 && r.GPUSeconds == nil {
			t.Errorf("job %s held %d GPUs and nothing is known of them", j.ID(), j.GPUs)
		}
	}
	if ended < 100 || short > ended/2 {
		t.Errorf("%d jobs ended, %d of them short: too few to say anything", ended, short)
	}
	if done.Workloads == 0 || done.Samples == 0 || done.At.Before(s.End()) {
		t.Errorf("filled: %+v", done)
	}
	// The fleet continues after it.
	if p, err := f.Run(t.Context(), simulation.Stretch{Until: s.End().Add(10 * time.Minute), Tick: 15 * time.Second, Export: time.Minute}, newSums()); err != nil || p.Batches == 0 {
		t.Errorf("after the filling: %+v, %v", p, err)
	}
}

// TestPush: the exports of agents are in the store of the server that they push to, each
// sample once, also when the server is down for a while and a connection breaks midway.
func TestPush(t *testing.T) {
	series, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), OutOfOrder: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer series.Close()
	take := ingest.Handler(ingest.Options{Store: series, Describe: series.Describe})
	var mu sync.Mutex
	var exported atomic.Int64
	n, away := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		refuse, after := n%7 == 3, n%11 == 5
		if refuse || after {
			away++
		}
		mu.Unlock()
		switch {
		case refuse:
			http.Error(w, "restarting", http.StatusServiceUnavailable)
		case after: // it is stored, but the acknowledgement is lost
			take.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			take.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	now := time.Now().Add(-2 * time.Hour)
	s := site(t, simulate.Config{Nodes: 5, Jobs: 40, GPUNodes: 1, Seed: 4, From: now, For: time.Hour})
	out, err := simulation.NewPush(simulation.PushConfig{Endpoints: []push.Endpoint{{URL: server.URL, Protocol: "2.0"}}, Site: "x", Nodes: s.Names(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := simulation.New(simulation.Config{Site: s}).Run(t.Context(), simulation.Stretch{Until: s.From.Add(4 * time.Minute), Tick: 15 * time.Second, Export: oddMinute}, counting{out, &exported})
	if err != nil {
		t.Fatal(err)
	}
	left := out.Drain(context.Background(), 2*time.Minute)
	if err := out.Close(0); err != nil {
		t.Fatal(err)
	}
	if left.Exports != 0 || left.Refused != 0 || left.Lost != 0 || away == 0 {
		t.Fatalf("%+v after %d refusals", left, away)
	}
	if got, want := stored(t, series, s.From), exported.Load(); got != want || p.Batches == 0 {
		t.Errorf("%d samples are in the store of the %d that the nodes exported", got, want)
	}
}

// oddMinute is an interval that never ends when a job begins, as jobs begin at whole seconds.
const oddMinute = time.Minute - 10*time.Millisecond

// stored counts the samples of nodes at the times of exports, without staleness markers
// and initial zeros of counters.
func stored(t *testing.T, series *tsdb.Store, from time.Time) (n int64) {
	t.Helper()
	q, err := series.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchNotEqual, "node", ""),
		labels.MustNewMatcher(labels.MatchNotRegexp, "__name__", "reckon_slurm_.*"))
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if it.AtT() > from.UnixMilli() && (it.AtT()-from.UnixMilli())%oddMinute.Milliseconds() == 0 {
				n++
			}
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return n
}

// counting counts the samples of nodes that pass through.
type counting struct {
	simulation.Sink
	samples *atomic.Int64
}

func (c counting) Put(ctx context.Context, node string, b *metric.Batch) error {
	if node != "" {
		c.samples.Add(int64(len(b.Samples)))
	}
	return c.Sink.Put(ctx, node, b)
}

func TestStretch(t *testing.T) {
	f := simulation.New(simulation.Config{Site: site(t, simulate.Config{Nodes: 2, Jobs: 5, For: time.Hour})})
	if _, err := f.Run(t.Context(), simulation.Stretch{Until: monday.Add(time.Hour), Tick: time.Minute, Export: time.Second}, newSums()); err == nil || !strings.Contains(err.Error(), "tick") {
		t.Errorf("a tick longer than the interval: %v", err)
	}
	// One second of a site at half a second per second: it waits for the clock.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.Run(ctx, simulation.Stretch{Until: monday.Add(time.Hour), Tick: time.Second, Export: time.Second, Speed: 1e-6}, newSums())
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("a run that was ended says nothing")
	}
}

// TestFillAsRebuilt: the catalogue of a filled directory has the same runs as one that a server rebuilds from its
// series, including jobs that ended before the agents were installed.
func TestFillAsRebuilt(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for seed, after := range []time.Duration{time.Hour, 0, 100 * time.Minute} {
		dir := t.TempDir()
		s := site(t, simulate.Config{Nodes: 3, Jobs: 200, Seed: uint64(seed) + 1, For: 6 * time.Hour})
		installed, until := s.From.Add(after), s.From.Add(150*time.Minute)
		f := simulation.New(simulation.Config{Site: s, Installed: installed})
		if _, err := simulation.WriteHistory(t.Context(), f, dir, "x", log, simulation.Stretch{Until: until, Tick: time.Minute,
			Export: 2 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		facts, err := database.Open(filepath.Join(dir, "catalogue.db"), log)
		if err != nil {
			t.Fatal(err)
		}
		before := 0
		rows := func() (ids []string) {
			list, _, err := facts.Workloads(t.Context(), store.Filter{Kinds: []string{"slurm"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				if !r.End.IsZero() && r.End.Before(installed) {
					before++
				}
				ids = append(ids, r.ID+" "+r.Start.Format(time.TimeOnly)+" "+r.State)
			}
			slices.Sort(ids)
			return ids
		}
		filled := rows()
		series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Retention: -1, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		b := catalogue.NewBuilder(series, facts, catalogue.BuilderOptions{Clock: func() time.Time { return until }, Logger: log})
		if _, err := b.Advance(t.Context()); err != nil {
			t.Fatal(err)
		}
		served := rows()
		if _, err := b.Rebuild(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if rebuilt := rows(); len(rebuilt) < 30 || !slices.Equal(filled, rebuilt) || !slices.Equal(served, rebuilt) || after > 0 && before < 2 {
			t.Errorf("%d filled, %d served, %d rebuilt, %d of jobs that ended before:\n%v\n%v", len(filled), len(served), len(rebuilt), before, filled, rebuilt)
		}
		if err := errors.Join(series.Close(), facts.Close()); err != nil {
			t.Error(err)
		}
	}
}
