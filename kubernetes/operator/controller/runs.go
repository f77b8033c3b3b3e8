package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
	reckon "reckon/web/client"
)

// Runs stores runs. Each method may be repeated with the same arguments.
type Runs interface {
	Begin(context.Context, types.NamespacedName, *v1alpha2.MetricSet, *metricset.Set) error
	// Pod adds a pod to a run and returns the stored extent of its samples.
	Pod(context.Context, types.NamespacedName, Pod) (Kept, error)
	// Add keeps samples of a pod.
	Add(context.Context, types.NamespacedName, Pod, *sampleBatch) error
	// End stores the end of a run: the results of containers and the last seen state of the pods.
	End(context.Context, types.NamespacedName, string, []v1alpha2.PodStatus, []Pod) error
	// Sweep ends the runs of sets that were deleted while no operator was there; of one namespace, or of all if empty.
	Sweep(ctx context.Context, namespace string) error
}

// Objects stores runs as MetricRuns in the namespace of their sets.
type Objects struct {
	Client client.Client
	Live   client.Reader // reads past the cache: runs are large and not watched
}

// labelState on a MetricRun finds those that have not ended.
const (
	labelState   = "metrics.reckon/state"
	stateRunning = "running"
	stateEnded   = "ended"
)

// Begin implements Runs.
func (o *Objects) Begin(ctx context.Context, key types.NamespacedName, ms *v1alpha2.MetricSet, set *metricset.Set) error {
	run := &metricrun.MetricRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{jobs.LabelManaged: jobs.Manager, jobs.LabelSet: ms.Name, labelState: stateRunning}}}
	run.Run = metricrun.Run{Set: ms.Name, SetUID: string(ms.UID), Outcome: "Running", Started: metav1.Now()}
	for _, m := range set.Metrics {
		run.Run.Metrics = append(run.Run.Metrics,
			metricrun.Metric{Name: m.Name, Job: m.Job, Attach: string(m.Attach), Options: maps.Clone(map[string]string(m.Values))})
	}
	if err := o.Client.Create(ctx, run); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// updateRun reads, changes and writes a run, and retries if another writer was faster.
func (o *Objects) updateRun(ctx context.Context, key types.NamespacedName, do func(*metricrun.Run) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		run := &metricrun.MetricRun{}
		if err := o.Live.Get(ctx, key, run); err != nil {
			return err
		}
		before := run.DeepCopy()
		if err := do(&run.Run); err != nil {
			return err
		}
		if run.Run.Outcome != "Running" && run.Labels[labelState] != "" {
			run.Labels[labelState] = stateEnded
		}
		if err := shrinkRun(&run.Run, metricrun.MaxBytes); err != nil {
			return err
		}
		if equalRuns(before, run) {
			return nil
		}
		return o.Client.Update(ctx, run)
	})
}

func equalRuns(a, b *metricrun.MetricRun) bool {
	if a.Labels[labelState] != b.Labels[labelState] {
		return false
	}
	x, err := json.Marshal(a.Run)
	y, err2 := json.Marshal(b.Run)
	return err == nil && err2 == nil && string(x) == string(y)
}

func findPod(run *metricrun.Run, p Pod) *Pod {
	i := slices.IndexFunc(run.Pods, func(q Pod) bool { return q.UID == p.UID })
	if i < 0 {
		run.Pods = append(run.Pods, p)
		i = len(run.Pods) - 1
	}
	return &run.Pods[i]
}

// Pod implements Runs.
func (o *Objects) Pod(ctx context.Context, key types.NamespacedName, p Pod) (k Kept, err error) {
	err = o.updateRun(ctx, key, func(run *metricrun.Run) error {
		have := findPod(run, p)
		k = Kept{Samples: have.Samples, Offset: have.Offset}
		if have.Probe != nil {
			k.Start = have.Probe.Time
		}
		if n := len(have.Series); n > 0 {
			k.Last = have.Series[n-1].To.Time
		}
		return nil
	})
	return k, err
}

// Add implements Runs.
func (o *Objects) Add(ctx context.Context, key types.NamespacedName, p Pod, b *sampleBatch) error {
	return o.updateRun(ctx, key, func(run *metricrun.Run) error { return b.mergeInto(findPod(run, p)) })
}

// runSpan returns the start of the first pod and the end of the last one, as the kubelet reports them. The operator itself
// may learn of both later. began is nil if no pod has started. ended is now if a pod still runs.
func runSpan(pods []v1alpha2.PodStatus, now metav1.Time) (began *metav1.Time, ended metav1.Time) {
	over := len(pods) > 0
	for _, p := range pods {
		if p.Started != nil && (began == nil || p.Started.Before(began)) {
			began = p.Started
		}
		if p.Finished != nil && ended.Before(p.Finished) {
			ended = *p.Finished
		}
		over = over && p.Finished != nil
	}
	if !over {
		ended = now
	}
	return began, ended
}

// End implements Runs.
func (o *Objects) End(ctx context.Context, key types.NamespacedName, outcome string, pods []v1alpha2.PodStatus, records []Pod) error {
	err := o.updateRun(ctx, key, func(run *metricrun.Run) error {
		for _, st := range pods {
			p := findPod(run, Pod{Name: st.Name, UID: st.UID, Job: st.Metric, Node: st.Node})
			p.Started, p.Finished, p.ExitCode = st.Started, st.Finished, st.ExitCode
		}
		for _, r := range records { // images are known when containers have started
			p := findPod(run, r)
			p.Images, p.Resources, p.Node = r.Images, r.Resources, r.Node
			p.Log, p.Incomplete, p.Result = cmp.Or(r.Log, p.Log), cmp.Or(p.Incomplete, r.Incomplete), cmp.Or(p.Result, r.Result)
		}
		if run.Outcome == "Running" {
			began, ended := runSpan(pods, metav1.Now())
			run.Outcome, run.Finished = outcome, &ended
			if began != nil && began.Before(&run.Started) {
				run.Started = *began
			}
		}
		return nil
	})
	if apierrors.IsNotFound(err) && outcome == "Deleted" {
		return nil // the namespace went too
	}
	return err
}

// shrinkRun reduces a run to a JSON text of no more than most bytes. It first drops tables, then shortens logs, and
// finally joins neighbouring samples, which keeps their sums exact.
func shrinkRun(run *metricrun.Run, most int) error {
	for {
		text, err := json.Marshal(run)
		if err != nil || len(text) <= most {
			return err
		}
		tables := false
		for i := range run.Pods {
			tables = tables || len(run.Pods[i].Tables) > 0
			run.Pods[i].Tables = nil
		}
		if tables {
			run.TablesLeftOut = true
			continue
		}
		if cutLogs(run, most/2) {
			continue
		}
		joined := false
		for i := range run.Pods {
			did, err := joinSamples(&run.Pods[i])
			if err != nil {
				return err
			}
			joined = joined || did
		}
		if !joined {
			return nil // Only pods are left, so let the API server report that the object is too large.
		}
		run.Joined = max(run.Joined, 1) * 2
	}
}

// cutLogs truncates logs to their ends, most bytes in total. It returns false if they are no longer.
func cutLogs(run *metricrun.Run, most int) (cut bool) {
	with := 0
	for _, p := range run.Pods {
		if p.Log != "" {
			with++
		}
	}
	for i := range run.Pods {
		p := &run.Pods[i]
		if each := most / max(with, 1); len(p.Log) > each {
			p.Log, cut = strings.ToValidUTF8(p.Log[len(p.Log)-each:], ""), true
			p.Incomplete = cmp.Or(p.Incomplete, "the beginning of its log was left out")
		}
	}
	return cut
}

// joinSamples combines each two consecutive samples.
func joinSamples(p *Pod) (bool, error) {
	if len(p.Series) < 2 {
		return false, nil
	}
	var out []metricrun.Sample
	for i := 0; i < len(p.Series); i += 2 {
		s := p.Series[i]
		if i+1 < len(p.Series) {
			next := p.Series[i+1]
			var a, b reckon.ProbeUse
			if err := toUse(s.Use, &a); err != nil {
				return false, err
			}
			if err := toUse(next.Use, &b); err != nil {
				return false, err
			}
			use, err := toFigures(a.Plus(b))
			if err != nil {
				return false, err
			}
			s.Seq, s.To, s.Use = next.Seq, next.To, use
		}
		out = append(out, s)
	}
	p.Series = out
	return true, nil
}

// Sweep ends the runs of sets that were deleted while no operator was there.
func (o *Objects) Sweep(ctx context.Context, namespace string) error {
	list := metav1.PartialObjectMetadataList{} // a run may hold 256 KiB
	list.SetGroupVersionKind(metricrun.GroupVersion.WithKind("MetricRunList"))
	if err := o.Live.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{jobs.LabelManaged: jobs.Manager, labelState: stateRunning}); err != nil {
		return err
	}
	for _, run := range list.Items {
		key := types.NamespacedName{Namespace: run.Namespace, Name: run.Labels[jobs.LabelSet]}
		there, err := setExists(ctx, o.Client, o.Live, key, func(ms *v1alpha2.MetricSet) bool { return runName(ms) == run.Name })
		if err != nil {
			return err
		}
		if there || time.Since(run.CreationTimestamp.Time) < time.Minute {
			continue
		}
		if err := o.End(ctx, client.ObjectKeyFromObject(&run), "Deleted", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// setExists reports whether the set of a run exists. It queries the cluster if the cache lacks the set.
func setExists(ctx context.Context, cached, live client.Reader, key types.NamespacedName, itIs func(*v1alpha2.MetricSet) bool) (bool,
	error) {
	for _, from := range []client.Reader{cached, live} {
		ms := &v1alpha2.MetricSet{}
		if err := from.Get(ctx, key, ms); err == nil && itIs(ms) {
			return true, nil
		} else if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	return false, nil
}
