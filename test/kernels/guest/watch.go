package main

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"reckon/figure"
)

// exactnessWatcher collects the exactness that the agent reports for its figures.
type exactnessWatcher struct {
	over  chan struct{}
	mu    sync.Mutex
	worst map[string]figure.Exactness // by figure, kind, source and workload
	last  samples
}

func newExactnessWatcher() *exactnessWatcher {
	w := &exactnessWatcher{over: make(chan struct{}), worst: map[string]figure.Exactness{}}
	go func() {
		for {
			select {
			case <-w.over:
				return
			case <-time.After(time.Second):
			}
			if all, err := scrapeAgent(); err == nil {
				w.addSamples(all)
			}
		}
	}()
	return w
}

func (w *exactnessWatcher) stop() { close(w.over) }

func (w *exactnessWatcher) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.worst)
}

func (w *exactnessWatcher) addSamples(all samples) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = all
	for _, s := range all {
		if s.name == "reckon_figure_exactness" {
			w.worst[s.labels] = w.worst[s.labels].Worse(figure.Exactness(s.value))
		}
	}
}

// awaitMemory waits until the memory of forked processes is stable and the agent has measured it, or has given a bound
// if measurable is false. That may take long, because the agent limits its rate of such readings and an emulated
// machine is slow. It stores the kernel's figure of that time in t.
func (w *exactnessWatcher) awaitMemory(t *kernelFigures, measurable bool) (after samples, err error) {
	for late := time.Now().Add(90 * time.Second); ; {
		before := sessionMemory(t.leader)
		if err := awaitExports(3); err != nil {
			return nil, err
		}
		t.memory = sessionMemory(t.leader)
		steady := t.memory > 0 && math.Abs(float64(before)/float64(t.memory)-1) < 0.002
		if after, err = scrapeAgent(); err != nil {
			return nil, err
		}
		w.addSamples(after)
		mark := w.worstExactness("memory_bytes", groupName(after, t.leader), false)
		if steady && (mark == "exact" || mark == "at-most" && !measurable) || time.Now().After(late) {
			return after, nil
		}
	}
}

// worstExactness returns the worst exactness mark of a workload's figure: the mark of the workload's kind during the load, or for
// memory the current mark. grouped means that the workload has a control group of its own.
func (w *exactnessWatcher) worstExactness(key, id string, grouped bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var worst figure.Exactness
	see := func(labels string, e figure.Exactness) {
		kinds := []string{"group", "short"}
		if grouped {
			kinds = []string{workloadKind(id)}
		}
		for _, kind := range kinds {
			if hasLabel(labels, "figure", key) && hasLabel(labels, "kind", kind) && (hasLabel(labels, "workload", id) || hasLabel(labels,
				"workload", "")) {
				worst = worst.Worse(e)
			}
		}
	}
	switch key {
	case "":
	case "memory_bytes":
		for _, s := range w.last {
			if s.name == "reckon_figure_exactness" {
				see(s.labels, figure.Exactness(s.value))
			}
		}
	default:
		for labels, v := range w.worst {
			see(labels, v)
		}
	}
	return strings.ReplaceAll(worst.String(), " ", "-")
}

func workloadKind(id string) string {
	kind, _, _ := strings.Cut(id, "/")
	return kind
}

// hasLabel reports whether a label has a value. A missing label has the empty value.
func hasLabel(labels, label, value string) bool {
	if value == "" {
		return !strings.Contains(labels, "{"+label+"=") && !strings.Contains(labels, ","+label+"=") ||
			strings.Contains(labels, label+"=\"\"")
	}
	want := fmt.Sprintf("%s=%q", label, value)
	return strings.Contains(labels, "{"+want) || strings.Contains(labels, ","+want)
}
