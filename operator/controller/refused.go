package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/operator/api/v1alpha2"
	"reckon/operator/metricset"
)

// refusals are what the API server answered when pods of a set were to be made. Only events of its Jobs hold that; they are read every ten
// seconds at most.
type refusals struct {
	mu sync.Mutex
	of map[types.NamespacedName]refusal
}

type refusal struct {
	at             time.Time // when events were read
	reason, answer string
}

func (r *refusals) get(key types.NamespacedName) refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[key]
}

func (r *refusals) set(key types.NamespacedName, to refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[types.NamespacedName]refusal{}
	}
	r.of[key] = to
}

func (r *refusals) drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, key)
}

// refused is why pods of a set are missing, empty if none is missing or nothing is known. Pods that were made once and went are not missing.
func (s *state) refused(ctx context.Context, js *jobset.JobSet) (reason, answer string) {
	key := client.ObjectKeyFromObject(s.ms)
	if js == nil || len(s.ms.Status.Pods) >= s.wantedPods() {
		s.refusals.drop(key)
		return "", ""
	}
	if s.now.Sub(js.CreationTimestamp.Time) < slowStart/10 {
		return "", ""
	}
	last := s.refusals.get(key)
	if s.now.Sub(last.at) < lookRunning {
		return last.reason, last.answer
	}
	last = refusal{at: s.now}
	var list core.EventList
	if err := s.Live.List(ctx, &list, client.InNamespace(s.ms.Namespace), client.MatchingFields{"involvedObject.kind": "Job", "reason": "FailedCreate"}); err == nil {
		last.reason, last.answer = s.newest(list.Items, js.CreationTimestamp.Time)
	}
	s.refusals.set(key, last)
	return last.reason, last.answer
}

// wantedPods are all pods of a set that the JobSet makes.
func (s *state) wantedPods() (n int) {
	for _, m := range s.set.Metrics {
		if m.Attach != metricset.AttachEphemeral {
			n += int(*s.set.Spec.Pods)
		}
	}
	return n
}

// newest is the latest of the events of the Jobs of this set.
func (s *state) newest(list []core.Event, since time.Time) (reason, answer string) {
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
