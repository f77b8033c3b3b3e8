package controller

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
)

// refusals caches, by namespace, why the API server refused the pods of Jobs. These reasons are only in events. The
// events of a namespace are read once in ten seconds for all waiting sets.
type refusals struct {
	mu sync.Mutex
	of map[string]refusal
}

type refusal struct {
	at     time.Time // when they were read
	events []core.Event
}

func (r *refusals) recentEvents(ctx context.Context, live client.Reader, namespace string, now time.Time) []core.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(_ string, old refusal) bool { return now.Sub(old.at) >= lookRunning })
	if last, ok := r.of[namespace]; ok {
		return last.events
	}
	var list core.EventList
	if err := live.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.kind": "Job", "reason": "FailedCreate"}); err != nil {
		return nil
	}
	if r.of == nil {
		r.of = map[string]refusal{}
	}
	r.of[namespace] = refusal{now, list.Items}
	return list.Items
}

// missingReason returns why pods of the set are missing, or "" if none is missing or the reason is unknown. A pod that
// existed once does not count as missing.
func (s *reconciliation) missingReason(ctx context.Context, js *jobset.JobSet) (reason, answer string) {
	if js == nil || len(s.ms.Status.Pods) >= s.wantedPods() || s.now.Sub(js.CreationTimestamp.Time) < slowStart/10 {
		return "", ""
	}
	return s.newestRefusal(s.refusals.recentEvents(ctx, s.Live, s.ms.Namespace, s.now), js.CreationTimestamp.Time)
}

// wantedPods returns all pods of a set that the JobSet makes.
func (s *reconciliation) wantedPods() (n int) {
	for _, m := range s.set.Metrics {
		if m.Attach != metricset.AttachEphemeral {
			n += int(*s.set.Spec.Pods)
		}
	}
	return n
}

// newestRefusal returns the latest event of the Jobs of this set.
func (s *reconciliation) newestRefusal(list []core.Event, since time.Time) (reason, answer string) {
	var jobs []string
	for i := range s.set.Metrics {
		m := &s.set.Metrics[i]
		jobs = append(jobs, s.ms.Name+"-"+m.Job+"-0", s.ms.Name+"-"+m.Workers()+"-0")
	}
	for _, e := range list {
		at := e.LastTimestamp.Time
		if at.Before(since) || !slices.Contains(jobs, e.InvolvedObject.Name) {
			continue
		}
		reason, since = v1alpha2.ReasonNotAllowed, at
		if strings.Contains(e.Message, "exceeded quota") {
			reason = v1alpha2.ReasonQuotaExceeded
		}
		answer = e.InvolvedObject.Name + ": " + e.Message + "; it is tried again by itself"
	}
	return reason, answer
}
