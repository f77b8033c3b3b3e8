package alerting

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/notifier"
)

// copyOf is the bench as a kill would leave it now.
func (b *bench) copyOf() *bench {
	b.t.Helper()
	c := &bench{t: b.t, dir: b.t.TempDir(), store: b.store}
	if err := os.Mkdir(filepath.Join(c.dir, "alerts"), 0o700); err != nil {
		b.t.Error(err)
	}
	for _, name := range []string{"alerts.json", "nflog", "silences", "findings.json"} { // each is replaced as a whole
		raw, err := os.ReadFile(filepath.Join(b.dir, "alerts", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.dir, "alerts", name), raw, 0o600)
		}
		if err != nil && !os.IsNotExist(err) {
			b.t.Error(err)
		}
	}
	return c
}

// simple is an alert that fires since a minute.
func simple(name string, more ...string) *notifier.Alert {
	now := time.Now()
	return &notifier.Alert{Labels: newLabels(append([]string{"alertname", name}, more...)...), StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)}
}

func over(a *notifier.Alert) *notifier.Alert {
	c := *a
	c.EndsAt = time.Now()
	return &c
}

// A kill between the arrival of a message and its answer: nobody knows what came. What
// still fires is reported (again), and an ended one has its end reported, of rules and findings.
func TestKillBeforeTheAnswer(t *testing.T) {
	h, b := newHook(t), newBench(t)
	var mu sync.Mutex
	left := map[string]*bench{}
	o := Options{Rules: []string{"none"}, Config: h.config(t)}
	found := []Finding{{ID: "f1", Rule: "over-share", Text: "x", Found: time.Now().Add(-time.Minute)}}
	o.Findings = func(context.Context) ([]Finding, error) { return found, nil }
	h.answer = func(lines []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range lines {
			if left[l] == nil {
				left[l] = b.copyOf()
			}
		}
	}
	s, stop := b.start(o)
	a := simple("A")
	s.put(a)
	h.wait(t, "firing A")
	h.wait(t, "firing Findingf1")
	stop()
	h.mu.Lock()
	h.answer, h.lines = nil, nil
	h.mu.Unlock()

	s, stop = left["firing A"].start(Options{Rules: o.Rules, Config: o.Config})
	h.wait(t, "firing A")
	s.put(over(a))
	h.wait(t, "resolved A")
	stop()
	h.mu.Lock()
	h.lines = nil
	h.mu.Unlock()

	o.Findings = func(context.Context) ([]Finding, error) { return nil, nil }
	_, stop = left["firing Findingf1"].start(o)
	h.wait(t, "resolved Findingf1")
	stop()
}

// A stop waits for deliveries on their way, so that it is noted.
func TestStopWaitsForTheAnswer(t *testing.T) {
	h, b := newHook(t), newBench(t)
	o := Options{Rules: []string{"none"}, Config: h.config(t)}
	asked, answered := make(chan struct{}, 10), make(chan struct{})
	h.answer = func([]string) { asked <- struct{}{}; <-answered }
	s, stop := b.start(o)
	a := simple("A")
	s.put(a)
	<-asked
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	until(t, func() bool {
		s.inside.drain.mu.Lock()
		defer s.inside.drain.mu.Unlock()
		return s.inside.drain.drained
	})
	close(answered)
	<-stopped
	s, _ = b.start(o)
	s.put(over(a))
	h.wait(t, "resolved A")
	if got := h.text(); got != "firing A\nresolved A" {
		t.Errorf("told:\n%s", got)
	}
}

// An end that was reported is not reported again after a restart, when the group reports more.
func TestEndIsToldOnce(t *testing.T) {
	h, b := newHook(t), newBench(t)
	o := Options{Rules: []string{"none"}, Config: h.config(t)}
	a, c := simple("Same", "letter", "A"), simple("Same", "letter", "C")
	s, stop := b.start(o)
	s.put(a, c)
	h.wait(t, "firing SameA")
	h.wait(t, "firing SameC")
	s.put(over(a))
	h.wait(t, "resolved SameA")
	s.put(simple("Same", "letter", "D")) // Alertmanager's log forgets the end of A
	h.wait(t, "firing SameD")
	stop()
	s, stop = b.start(o)
	s.put(simple("Same", "letter", "E"))
	h.wait(t, "firing SameE")
	stop()
	if n := h.count("resolved SameA"); n != 1 {
		t.Errorf("the end came %d times:\n%s", n, h.text())
	}
	// It starts again, and ends anew.
	s, stop = b.start(o)
	before := h.count("firing SameA")
	again := simple("Same", "letter", "A")
	s.put(again)
	until(t, func() bool { return h.count("firing SameA") > before })
	s.put(over(again))
	until(t, func() bool { return h.count("resolved SameA") > 1 })
	stop()
	if n := h.count("resolved SameA"); n != 2 {
		t.Errorf("the end came %d times:\n%s", n, h.text())
	}
}

// A finding that is gone when the program comes back ends at once.
func TestFindingGoneOverRestart(t *testing.T) {
	h, b := newHook(t), newBench(t)
	list := []Finding{{ID: "f1", Rule: "over-share", Text: "x", Found: time.Now().Add(-time.Minute)}}
	o := Options{Rules: []string{"none"}, Config: h.config(t), Findings: func(context.Context) ([]Finding, error) { return list, nil }}
	_, stop := b.start(o)
	h.wait(t, "firing Findingf1")
	stop()
	list = nil
	s, stop := b.start(o)
	h.wait(t, "resolved Findingf1")
	s.put(simple("Last"))
	h.wait(t, "firing Last")
	stop()
	if got := h.text(); got != "firing Findingf1\nresolved Findingf1\nfiring Last" {
		t.Errorf("told:\n%s", got)
	}
}
