package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
)

// ephemeralName returns the name of the ephemeral containers of this set. The name includes a hash of the set's UID,
// because several sets may measure a pod in sequence and ephemeral containers cannot be removed.
func (s *reconciliation) ephemeralName() string {
	sum := sha256.Sum256([]byte(s.ms.UID))
	return jobs.ProbeContainer + "-" + hex.EncodeToString(sum[:4])
}

// ephemeralMetric returns the metric that attaches to pods which run already, or nil.
func (s *reconciliation) ephemeralMetric() *metricset.Measure {
	i := slices.IndexFunc(s.set.Metrics, func(m metricset.Measure) bool { return m.Attach == metricset.AttachEphemeral })
	if i < 0 {
		return nil
	}
	return &s.set.Metrics[i]
}

func (s *reconciliation) onlyEphemeral() bool {
	return !slices.ContainsFunc(s.set.Metrics, func(m metricset.Measure) bool { return m.Attach != metricset.AttachEphemeral })
}

// addProbes adds the probe to pods that run when the set is accepted, at most spec.pods of them.
func (s *reconciliation) addProbes(ctx context.Context) error {
	m := s.ephemeralMetric()
	if m == nil || len(s.ms.Status.Pods) > 0 {
		return nil
	}
	pods, err := s.selectedPods(ctx, m)
	if err != nil {
		return err
	}
	name, left := s.ephemeralName(), int(*s.set.Spec.Pods)
	for i := range pods {
		p := &pods[i]
		if left == 0 {
			break
		}
		left--
		if slices.ContainsFunc(p.Spec.EphemeralContainers, func(c core.EphemeralContainer) bool { return c.Name == name }) {
			continue
		}
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, jobs.Ephemeral(m, s.Jobs, name, p.Spec.Containers[0].Name))
		if err := s.Client.SubResource("ephemeralcontainers").Update(ctx, p); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("add a container to %s: %w", p.Name, err)
		}
	}
	return nil
}

// matchingPods returns the pods that the selector of a metric matches.
func (s *reconciliation) matchingPods(ctx context.Context, m *metricset.Measure) ([]core.Pod, error) {
	sel, err := labels.Parse(m.Values["selector"])
	if err != nil {
		return nil, err
	}
	var list core.PodList
	err = s.Live.List(ctx, &list, client.InNamespace(s.ms.Namespace), client.MatchingLabelsSelector{Selector: sel})
	return list.Items, err
}

// selectedPods returns the running pods that a metric selects, by name.
func (s *reconciliation) selectedPods(ctx context.Context, m *metricset.Measure) ([]core.Pod, error) {
	pods, err := s.matchingPods(ctx, m)
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(pods, func(p core.Pod) bool {
		return p.Status.Phase != core.PodRunning || !p.DeletionTimestamp.IsZero() || p.Labels[jobs.LabelManaged] == jobs.Manager
	})
	slices.SortFunc(out, func(a, b core.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// probedPods returns the pods that this set has added a probe to.
func (s *reconciliation) probedPods(ctx context.Context) ([]core.Pod, error) {
	m := s.ephemeralMetric()
	if m == nil {
		return nil, nil
	}
	pods, err := s.matchingPods(ctx, m)
	if err != nil {
		return nil, err
	}
	name := s.ephemeralName()
	out := slices.DeleteFunc(pods, func(p core.Pod) bool {
		return !slices.ContainsFunc(p.Spec.EphemeralContainers, func(c core.EphemeralContainer) bool { return c.Name == name })
	})
	for i := range out {
		if out[i].Labels == nil {
			out[i].Labels = map[string]string{}
		}
		out[i].Labels[jobs.LabelMetric] = m.Job // in our copy only
		statuses := slices.DeleteFunc(out[i].Status.EphemeralContainerStatuses, func(c core.ContainerStatus) bool { return c.Name != name })
		out[i].Status.EphemeralContainerStatuses = statuses
	}
	return out, nil
}

// ephemeralEnd reports whether the measurement of running pods is done. It is done when each pod has ended or its probe
// has taken the wanted number of samples.
func (s *reconciliation) ephemeralEnd() (done, failed bool, message string) {
	m := s.ephemeralMetric()
	if m == nil {
		return true, false, ""
	}
	wanted := m.Values.Int("completions")
	any := false
	for _, p := range s.ms.Status.Pods {
		if p.Metric != m.Job {
			continue
		}
		any = true
		over := p.Phase != string(core.PodRunning) || p.Samples != nil && *p.Samples >= wanted
		if !over {
			return false, false, ""
		}
	}
	if !any {
		s.condition(v1alpha2.ConditionDegraded, true, v1alpha2.ReasonPodsPending, "no running pod has the labels "+m.Values["selector"])
	}
	return any, false, ""
}
