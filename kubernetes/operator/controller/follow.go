package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
)

// updateStatus updates the status of a set from its pods and JobSet, and starts reading their probes.
func (s *reconciliation) updateStatus(ctx context.Context) error {
	var pods core.PodList
	if err := s.Client.List(ctx, &pods, client.InNamespace(s.ms.Namespace), client.MatchingFields{podSetIndex: s.ms.Name}); err != nil {
		return err
	}
	js, err := s.jobSet(ctx)
	if err != nil {
		return err
	}
	measured, err := s.probedPods(ctx)
	if err != nil {
		return err
	}
	old := s.ms.Status.Pods
	s.ms.Status.Pods = nil
	for _, p := range slices.Concat(pods.Items, measured) {
		st := podStatus(&p)
		s.Collect.Observe(ctx, s.ms, s.set, &p)
		st.Samples, st.LastSample = s.Collect.Count(p.UID)
		// Keep the status that an earlier operator wrote for a pod that this one has forgotten.
		if i := slices.IndexFunc(old, func(o v1alpha2.PodStatus) bool { return o.UID == st.UID }); i >= 0 && st.Samples == nil {
			st.Samples, st.LastSample = old[i].Samples, old[i].LastSample
		}
		s.ms.Status.Pods = append(s.ms.Status.Pods, st)
	}
	for _, o := range old { // pods that are gone
		if !slices.ContainsFunc(s.ms.Status.Pods, func(p v1alpha2.PodStatus) bool { return p.UID == o.UID }) {
			s.Collect.Gone(types.UID(o.UID))
			s.ms.Status.Pods = append(s.ms.Status.Pods, o)
		}
	}
	slices.SortFunc(s.ms.Status.Pods, func(a, b v1alpha2.PodStatus) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Name, b.Name))
	})
	s.ms.Status.Samples = 0
	for _, p := range s.ms.Status.Pods {
		if p.Samples != nil {
			s.ms.Status.Samples += *p.Samples
		}
	}
	s.reportDegraded(ctx, js)
	return s.updateProgress(ctx, js)
}

// jobSet returns the JobSet that the set created, or nil. It also asks the API server if the JobSet is missing from the
// cache, because a set without a JobSet would count as complete.
func (s *reconciliation) jobSet(ctx context.Context) (*jobset.JobSet, error) {
	js := &jobset.JobSet{}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(s.ms), js)
	if (apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(js, s.ms)) && !s.onlyEphemeral() {
		js = &jobset.JobSet{}
		err = s.Live.Get(ctx, client.ObjectKeyFromObject(s.ms), js)
	}
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(js, s.ms) {
		return nil, nil
	}
	return js, err
}

// updateProgress sets Running and Complete, and ends the run.
func (s *reconciliation) updateProgress(ctx context.Context, js *jobset.JobSet) error {
	running, ended := 0, 0
	for _, p := range s.ms.Status.Pods {
		if p.Phase == string(core.PodRunning) && p.Finished == nil {
			running++
		}
		if p.Finished != nil || p.Phase == string(core.PodSucceeded) || p.Phase == string(core.PodFailed) {
			ended++
		}
	}
	done, failed, message := s.ephemeralEnd()
	if js != nil {
		if c := meta.FindStatusCondition(js.Status.Conditions, string(jobset.JobSetFailed)); c != nil && c.Status == metav1.ConditionTrue {
			done, failed, message = true, true, c.Message
		} else if c := meta.FindStatusCondition(js.Status.Conditions, string(jobset.JobSetCompleted)); c == nil ||
			c.Status != metav1.ConditionTrue {
			done = false
		} else if done || !s.onlyEphemeral() {
			done = true
		}
	}
	if !done {
		s.condition(v1alpha2.ConditionRunning, running > 0, chooseReason(running > 0, v1alpha2.ReasonPodsRunning,
			v1alpha2.ReasonPodsPending),
			fmt.Sprintf("%d of %d pods run", running, len(s.ms.Status.Pods)))
		s.condition(v1alpha2.ConditionComplete, false, v1alpha2.ReasonNotFinished,
			fmt.Sprintf("%d of %d pods have ended", ended, len(s.ms.Status.Pods)))
		return nil
	}
	outcome := "Finished"
	if failed {
		outcome = "Failed"
	}
	// The run is kept before anybody is reported that it is complete.
	if s.away != "" {
		return nil
	}
	if err := s.Collect.End(ctx, s.ms, outcome); err != nil {
		s.condition(v1alpha2.ConditionDegraded, true, v1alpha2.ReasonServerAway, "the run cannot be ended yet: "+err.Error())
		return err
	}
	s.condition(v1alpha2.ConditionRunning, false, outcome, "all pods have ended")
	s.condition(v1alpha2.ConditionComplete, true, outcome, cmp.Or(message, "the result is the run "+s.ms.Status.Run))
	return nil
}

func chooseReason(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// reportDegraded reports the missing parts of the measurement.
func (s *reconciliation) reportDegraded(ctx context.Context, js *jobset.JobSet) {
	reason, message := "", ""
	for _, p := range s.ms.Status.Pods {
		if p.Message != "" {
			word, rest, _ := strings.Cut(p.Message, ": ")
			reason, message = word, p.Name+": "+rest
			break
		}
	}
	if reason == "" && s.away != "" {
		reason, message = v1alpha2.ReasonServerAway, "the run cannot be kept: "+s.away
	}
	if why := s.Collect.Trouble(s.ms); reason == "" && why != "" {
		reason, message = v1alpha2.ReasonProbeUnreadable, why
	}
	if why, answer := s.missingReason(ctx, js); reason == "" && why != "" {
		reason, message = why, answer
	}
	if reason == "" && js != nil && len(s.ms.Status.Pods) == 0 && s.now.Sub(js.CreationTimestamp.Time) > slowStart {
		reason, message = v1alpha2.ReasonPodsPending, "no pod was made, and no event of the jobs gives a reason"
	}
	if reason == "" {
		reason, message = s.findWaiting()
	}
	if reason == "" {
		s.condition(v1alpha2.ConditionDegraded, false, v1alpha2.ReasonAsExpected, "nothing is missing")
		return
	}
	s.condition(v1alpha2.ConditionDegraded, true, reason, message)
}

// findWaiting returns the first pod that has a node but no containers after a while, with a possible reason.
func (s *reconciliation) findWaiting() (reason, message string) {
	for _, p := range s.ms.Status.Pods {
		since := s.Collect.firstSeen(types.UID(p.UID))
		if p.Phase != string(core.PodPending) || p.Node == "" || since.IsZero() || s.now.Sub(since) < slowStart {
			continue
		}
		hint := "kubectl describe pod " + p.Name + " says why"
		for _, m := range s.set.Metrics {
			for _, e := range m.Addons {
				if e.Name == "volume-secret" && m.Job == p.Metric {
					hint += "; it mounts the Secret " + e.Values["secretName"] + ", which has to be in this namespace"
				}
			}
		}
		return v1alpha2.ReasonPodsPending,
			fmt.Sprintf("%s has the node %s, and its containers have not begun after %s: %s", p.Name, p.Node, slowStart, hint)
	}
	return "", ""
}

// podStatus returns the state of a pod in the status of a set.
func podStatus(p *core.Pod) v1alpha2.PodStatus {
	out := v1alpha2.PodStatus{Name: p.Name, UID: string(p.UID), Metric: p.Labels[jobs.LabelMetric], Node: p.Spec.NodeName,
		Phase: string(p.Status.Phase)}
	if i := slices.IndexFunc(p.Status.ContainerStatuses,
		func(c core.ContainerStatus) bool { return c.Name == workloadContainer(p) }); i >= 0 {
		state := p.Status.ContainerStatuses[i].State
		if state.Running != nil {
			out.Started = &state.Running.StartedAt
		}
		if t := state.Terminated; t != nil {
			out.Started, out.Finished, out.ExitCode = &t.StartedAt, &t.FinishedAt, &t.ExitCode
		}
	}
	out.Message = podTrouble(p)
	return out
}

// workloadContainer returns the container that determines the end of the work.
func workloadContainer(p *core.Pod) string {
	for _, c := range p.Spec.Containers {
		if c.Name == "app-addon" {
			return c.Name
		}
	}
	if len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Name
}

// podTrouble returns "Reason: message" for the condition that keeps a pod from running.
func podTrouble(p *core.Pod) string {
	if p.Status.Phase == core.PodSucceeded {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse && c.Reason == core.PodReasonUnschedulable {
			return v1alpha2.ReasonUnschedulable + ": " + c.Message
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			return fmt.Sprintf("%s: image %s: %s", v1alpha2.ReasonImageMissing, c.Image, cmp.Or(w.Message, w.Reason))
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
			return fmt.Sprintf("%s: container %s: %s", w.Reason, c.Name, cmp.Or(w.Message, w.Reason))
		}
	}
	return ""
}
