package answer

import (
	"context"
	"strconv"
	"time"

	"reckon/figure/wire"
)

// PodSeries reads the agent's measurements of a pod.
type PodSeries interface {
	PodSamples(ctx context.Context, namespace, uid string, from, to time.Time) ([]wire.ProbeSample, error)
}

// settleDelay is the time after the end of a pod during which the agent may still deliver samples of it.
const settleDelay = 3 * time.Minute

// agentMeasures reports whether the samples of a pod come from the series.
func (m *MetricRuns) agentMeasures(r *wire.MetricRun, p *podDocument) bool {
	if m.Agent == nil || p.Samples > 0 || p.Started == nil {
		return false
	}
	for _, metric := range r.Metrics {
		if metric.Job == p.Job {
			return metric.Attach == "agent"
		}
	}
	return false
}

// addAgentSamples fills in the measurements of a pod by the agent of the node.
func (m *MetricRuns) addAgentSamples(ctx context.Context, r *wire.MetricRun, p *podDocument, s *wire.MetricRunSeries) error {
	end := m.Clock()
	if p.Finished != nil {
		end = *p.Finished
	} else if r.Finished != nil {
		end = *r.Finished
	}
	samples, err := m.Agent.PodSamples(ctx, r.Namespace, p.UID, *p.Started, end)
	if err != nil {
		return err
	}
	if n := requestedSamples(r, p.Job); n > 0 && len(samples) > n {
		samples = samples[:n] // unlike a probe, the agent does not stop after them
	}
	if _, err := p.addSamples(samples); err != nil {
		return err
	}
	if len(samples) > 0 {
		s.Samples = samples
	}
	return nil
}

// requestedSamples returns the number of samples that the metric of a job requests, 0 for unlimited.
func requestedSamples(r *wire.MetricRun, job string) int {
	for _, metric := range r.Metrics {
		if metric.Job == job {
			n, _ := strconv.Atoi(metric.Options["completions"])
			return n
		}
	}
	return 0
}

// Settle stores the samples of agent-measured pods with their runs, because series have a shorter retention than runs.
// It does so for each run that has ended and has received all its samples. It returns the number of runs examined.
func (m *MetricRuns) Settle(ctx context.Context, since time.Time) (int, error) {
	list, err := m.List(ctx, wire.MetricRunFilter{Since: since})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range list.Runs {
		if r.Finished == nil || m.Clock().Sub(*r.Finished) < settleDelay || !attachesAgent(&r) {
			continue
		}
		n++
		if err := m.settleRun(ctx, r); err != nil {
			return n, err
		}
	}
	return n, nil
}

func attachesAgent(r *wire.MetricRun) bool {
	for _, metric := range r.Metrics {
		if metric.Attach == "agent" {
			return true
		}
	}
	return false
}

func (m *MetricRuns) settleRun(ctx context.Context, header wire.MetricRun) error {
	pods, err := m.Store.MetricRunPods(ctx, header.Namespace, header.Name)
	if err != nil {
		return err
	}
	stored := map[string]int64{}
	for _, p := range pods {
		stored[p.UID] = p.Samples
	}
	r, s, err := m.readRun(ctx, header.Namespace, header.Name)
	if err != nil {
		return err
	}
	for i, p := range r.Pods {
		if stored[p.UID] > 0 || len(s.Pods[i].Samples) == 0 {
			continue
		}
		_, err := m.Keep(ctx, r.Namespace, r.Name,
			wire.MetricRunUpdate{Run: wire.MetricRun{Pods: []wire.MetricRunPod{p}}, Pod: p.UID, Samples: s.Pods[i].Samples})
		if err != nil {
			return err
		}
	}
	return nil
}
