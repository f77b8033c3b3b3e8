package controller

import (
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
)

func controllerOptions(workers int) controller.Options {
	several := true // in one process, as tests have
	return controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &several}
}

// condition sets a condition, with an event when it changes.
func (s *reconciliation) condition(kind string, on bool, reason, message string) {
	status := metav1.ConditionFalse
	if on {
		status = metav1.ConditionTrue
	}
	old := meta.FindStatusCondition(s.ms.Status.Conditions, kind)
	changed := old == nil || old.Status != status || old.Reason != reason
	meta.SetStatusCondition(&s.ms.Status.Conditions,
		metav1.Condition{Type: kind, Status: status, Reason: reason, Message: shortenMessage(message), ObservedGeneration: s.ms.Generation})
	if !changed || old == nil && !on && kind != v1alpha2.ConditionAccepted || s.Events == nil {
		return
	}
	weight := core.EventTypeNormal
	if kind == v1alpha2.ConditionDegraded && on || kind == v1alpha2.ConditionAccepted && !on || reason == v1alpha2.ReasonFailed {
		weight = core.EventTypeWarning
	}
	s.Events.Eventf(s.ms, nil, weight, reason, "Reconcile", "%s", shortenMessage(message))
}

// shortenMessage shortens messages, because an API server accepts at most 32 KiB.
func shortenMessage(s string) string {
	const most = 4 << 10
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func isFinished(ms *v1alpha2.MetricSet) bool {
	return meta.IsStatusConditionTrue(ms.Status.Conditions, v1alpha2.ConditionComplete)
}

func joinProblems(problems []metricset.Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// acceptedMessage lists the converted fields and those without an effect.
func acceptedMessage(set *metricset.Set) string {
	return strings.Join(slices.Concat([]string{"its objects are made"}, set.Notes, set.Warnings), "\n")
}
