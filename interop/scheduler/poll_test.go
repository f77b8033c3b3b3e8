package scheduler

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"reckon/metric"
	"reckon/store"
	"reckon/workload"
)

// scripted is a cluster that responds through functions; nil responds with nothing.
type scripted struct {
	jobs    func() ([]Job, error)
	ended   func(since, until time.Time) ([]Job, error)
	number  func(numbers []uint64) []Job
	queries map[string][]time.Time
	takes   time.Duration
	since   []time.Time
}

func (s *scripted) ask(name string) {
	if s.queries == nil {
		s.queries = map[string][]time.Time{}
	}
	s.queries[name] = append(s.queries[name], time.Now())
	if s.takes > 0 {
		<-time.After(s.takes)
	}
}

func (s *scripted) Name() string { return "script" }

func (s *scripted) Kind() workload.Kind { return workload.Slurm }

func (s *scripted) Jobs(context.Context) ([]Job, Read, error) {
	s.ask("jobs")
	if s.jobs == nil {
		return nil, Read{}, nil
	}
	jobs, err := s.jobs()
	return jobs, Read{Records: len(jobs)}, err
}

func (s *scripted) Ended(_ context.Context, since, until time.Time) ([]Job, Read, error) {
	s.ask("accounting")
	s.since = append(s.since, since)
	if s.ended == nil {
		return nil, Read{}, nil
	}
	jobs, err := s.ended(since, until)
	return jobs, Read{Records: len(jobs)}, err
}

func (s *scripted) ByNumber(_ context.Context, numbers []uint64, _ time.Time) ([]Job, Read, error) {
	if s.number == nil {
		return nil, Read{}, nil
	}
	return s.number(numbers), Read{}, nil
}

func (s *scripted) Nodes(context.Context) ([]Node, []Partition, Read, error) {
	s.ask("nodes")
	return []Node{{Name: "n1", State: "idle", Cores: 4, Partitions: []string{"p"}}}, []Partition{{Name: "p", State: "up"}}, Read{Records: 1}, nil
}

// played runs a poller for a while and returns the number of samples by name of the series.
func played(t *testing.T, s Source, o Options, d time.Duration) map[string]int {
	t.Helper()
	seen := map[string]int{}
	o.Write = func(_ context.Context, b *metric.Batch) error {
		for _, sm := range b.Samples {
			if sm.Value == sm.Value {
				seen[sm.Series.Desc.Name+fmt.Sprint(sm.Series.Values)]++
			}
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := NewPoller(s, o).Run(ctx); err != nil {
		t.Error(err)
	}
	return seen
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		played(t, s, Options{}, 10*time.Minute+time.Second)
		if n := fmt.Sprint(len(s.queries["jobs"]), len(s.queries["accounting"]), len(s.queries["nodes"])); n != "21 6 11" {
			t.Errorf("in ten minutes asked for jobs, accounting and nodes %s times", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{takes: 10 * time.Second} // a controller in trouble
		played(t, s, Options{}, 10*time.Minute)
		if n := len(s.queries["jobs"]); n > 4 {
			t.Errorf("asked %d times for an answer that takes 10 s", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{jobs: func() ([]Job, error) { return nil, errors.New("no route") }}
		seen := played(t, s, Options{}, time.Hour)
		if n := len(s.queries["jobs"]); n > 12 || n < 6 {
			t.Errorf("in an hour asked %d times for what fails", n)
		}
		if seen["reckon_slurm_up[jobs]"] == 0 || seen["reckon_slurm_up[nodes]"] == 0 {
			t.Errorf("how the reading goes is not reported: %v", seen)
		}
	})
}

// TestOutage: after an outage of accounting, and after a restart, no ended job is missed.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		down := true
		s := &scripted{ended: func(since, until time.Time) ([]Job, error) {
			if time.Since(begin) < 90*time.Minute {
				return nil, errors.New("slurmdbd: connection refused")
			}
			down = false
			var out []Job
			for i := range 90 { // one ended in each minute
				j := job(fmt.Sprint(i+1), "completed", 0, 0, 0)
				j.Submit, j.Start, j.End = begin, begin, begin.Add(time.Duration(i)*time.Minute)
				if !j.End.Before(since) && j.End.Before(until) {
					out = append(out, j)
				}
			}
			return out, nil
		}}
		file := filepath.Join(t.TempDir(), "state")
		seen := played(t, s, Options{State: file}, 2*time.Hour)
		for i := range 90 {
			name := fmt.Sprintf("reckon_workload_state[slurm/%d slurm  alice completed ]", i+1)
			if seen[name] != 1 {
				t.Fatalf("%s was reported %d times (down: %v)", name, seen[name], down)
			}
		}
		s.since = nil
		<-time.After(3 * 24 * time.Hour) // the server is off
		played(t, s, Options{State: file}, 10*time.Minute)
		if first := s.since[0].Sub(begin); first > 2*time.Hour {
			t.Errorf("after the restart it begins at %v", first)
		}
		if last := s.since[len(s.since)-1]; time.Since(last) > 25*time.Hour {
			t.Errorf("after three days it has come to %v", time.Since(last))
		}
	})
}

// TestStoreThatFails: samples that could not be stored are sent again; samples that the store will never accept are not.
func TestStoreThatFails(t *testing.T) {
	for err, again := range map[error]bool{store.ErrFull: true, store.ErrTooOld: false} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{jobs: func() ([]Job, error) { return []Job{job("1", "completed", 5, 6, 7)}, nil }}
			n := 0
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			_ = NewPoller(s, Options{Write: func(_ context.Context, b *metric.Batch) error {
				if slices.ContainsFunc(b.Samples, func(s metric.Sample) bool { return s.Series.Desc == workloadState }) {
					n++
					return fmt.Errorf("batch: %w", err)
				}
				return nil
			}}).Run(ctx)
			if (n > 1) != again || n == 0 {
				t.Errorf("%v: told %d times", err, n)
			}
		})
	}
}

// TestTableEndsWhatIsGone: removed nodes and changed states end their series.
func TestTableEndsWhatIsGone(t *testing.T) {
	var tb table
	var b metric.Batch
	tb.addNodes(&b, []Node{{Name: "old", State: "idle"}}, nil)
	b.Reset(time.Time{})
	tb.addNodes(&b, []Node{{Name: "new", State: "down"}}, nil)
	ended, value := 0, -1.0
	for _, s := range b.Samples {
		if s.Last {
			ended++
		} else if s.Series.Desc == nodeState {
			value = s.Value
		}
	}
	if ended != 3 || value != 0 {
		t.Errorf("%d series of the renamed node ended; the new one, down, has %g", ended, value)
	}
}
