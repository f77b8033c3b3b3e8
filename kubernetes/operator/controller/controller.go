// Package controller runs MetricSets. It creates their objects, follows their pods, reads the measurements of probes,
// and stores the run. Every step can be repeated, because the progress is read from the cluster. An operator that is
// killed at any moment therefore loses and repeats nothing.
package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
)

// annotationHash is the annotation of a JobSet with the hash of the specification from which it was created.
const annotationHash = "metrics.reckon/spec"

// Intervals at which a set is checked while it does not change in the cluster.
const (
	retryMissing = 10 * time.Second // a volume that is not there yet
	lookRunning  = 10 * time.Second // numbers of samples
	lookFirst    = time.Second      // the first sample, which states that it works
	lookQuiet    = 5 * time.Minute  // no samples are read, and pods are watched
	slowStart    = 20 * time.Second // pods that are not there yet are worth a word
)

// podSetIndex is the name of the index of pods by their MetricSet.
const podSetIndex = "metricset"

// indexPodBySet returns the key of a pod in the index podSetIndex.
func indexPodBySet(o client.Object) []string {
	if name := o.GetLabels()[jobs.LabelSet]; name != "" && o.GetLabels()[jobs.LabelManaged] == jobs.Manager {
		return []string{name}
	}
	return nil
}

// Reconciler brings MetricSets to their specified state. It is safe for concurrent use.
type Reconciler struct {
	Client client.Client
	// Live bypasses the cache, so that it returns objects that were written a moment ago.
	Live   client.Reader
	Events events.EventRecorder
	Jobs   jobs.Config
	// Server is true if there is a reckon server; its agents measure pods of the way "agent".
	Server bool
	// ServerURL is the public address of that server; if it is empty, status.runURL is left out.
	ServerURL string
	// Ephemeral allows containers to be added to pods that run already.
	Ephemeral bool
	Collect   *Collector

	services sync.Mutex // held while a set joins its headless service
	refusals refusals
}

// Setup registers the reconciler.
func (r *Reconciler) Setup(mgr ctrl.Manager, workers int) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &core.Pod{}, podSetIndex, indexPodBySet); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha2.MetricSet{}).
		Owns(&jobset.JobSet{}).
		Watches(&core.Pod{}, handler.EnqueueRequestsFromMapFunc(requestForPod),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WithOptions(controllerOptions(workers)).
		Complete(r)
}

// requestForPod returns the request to reconcile the MetricSet of a pod.
func requestForPod(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[jobs.LabelSet]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// Reconcile brings one set up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ms := &v1alpha2.MetricSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, ms); err != nil {
		if apierrors.IsNotFound(err) {
			r.Collect.Forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if !ms.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // its objects go with it; the run stays
	}
	before := ms.Status.DeepCopy()
	s := &reconciliation{Reconciler: r, ms: ms, now: time.Now()}
	again, err := s.reconcileStep(ctx)
	ms.Status.ObservedGeneration = ms.Generation
	if !equality.Semantic.DeepEqual(before, &ms.Status) {
		werr := r.Client.Status().Update(ctx, ms)
		if apierrors.IsConflict(werr) || apierrors.IsNotFound(werr) { // The cached object is outdated: reconcile again.
			return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
		}
		if werr != nil {
			return reconcile.Result{}, werr
		}
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// reconciliation is the working state of one reconciliation.
type reconciliation struct {
	*Reconciler
	ms  *v1alpha2.MetricSet
	set *metricset.Set
	now time.Time
	// away is why the run cannot be kept now; empty while it can.
	away string
}

// reconcileStep does the pending work and returns the latest time of the next check.
func (s *reconciliation) reconcileStep(ctx context.Context) (time.Duration, error) {
	set, problems := metricset.Read(s.ms)
	s.set = set
	hash := specHash(s.ms)
	started := s.ms.Status.SpecHash != ""
	if started && hash != s.ms.Status.SpecHash {
		// The set goes on unchanged; only the change is refused.
		s.condition(v1alpha2.ConditionAccepted, false, v1alpha2.ReasonSpecChanged,
			"the specification was changed after the start, and a measurement cannot change; delete the set and apply it again")
		return lookRunning, s.updateStatus(ctx)
	}
	if isFinished(s.ms) {
		return 0, nil
	}
	if len(problems) > 0 {
		s.condition(v1alpha2.ConditionAccepted, false, v1alpha2.ReasonInvalid, joinProblems(problems))
		return 0, nil
	}
	if reason, message := s.startObstacle(ctx); reason != "" && !started {
		s.condition(v1alpha2.ConditionAccepted, false, reason, message)
		return retryMissing, nil
	}
	if !started {
		if refused, err := s.createObjects(ctx, hash); refused || err != nil {
			return retryMissing, err
		}
		s.ms.Status.SpecHash = hash
		s.ms.Status.Run = runName(s.ms)
	}
	s.condition(v1alpha2.ConditionAccepted, true, v1alpha2.ReasonAccepted, acceptedMessage(set))
	if s.ServerURL != "" {
		s.ms.Status.RunURL = RunURL(s.ServerURL, types.NamespacedName{Namespace: s.ms.Namespace, Name: s.ms.Status.Run})
	}
	// Running sets are followed while the server is away, because probes hold their samples until it is back.
	if err := s.Collect.Begin(ctx, s.ms, set); err != nil {
		s.away = err.Error()
	}
	if err := s.addProbes(ctx); err != nil {
		return 0, err
	}
	err := s.updateStatus(ctx)
	return s.recheckDelay(), err
}

// recheckDelay returns the time after which the set must be checked again.
func (s *reconciliation) recheckDelay() time.Duration {
	started, key := s.ms.CreationTimestamp.Time, types.NamespacedName{Namespace: s.ms.Namespace, Name: s.ms.Name}
	if s.ms.Status.Samples == 0 && s.now.Sub(started) < time.Minute && s.Collect.Reads(key) {
		return lookFirst
	}
	pending := slices.ContainsFunc(s.ms.Status.Pods, func(p v1alpha2.PodStatus) bool {
		return p.Phase == string(core.PodPending) && s.now.Sub(started) < 2*slowStart
	})
	if pending || s.away != "" || len(s.ms.Status.Pods) == 0 && s.now.Sub(started) < 2*slowStart || s.Collect.Reads(key) ||
		s.ephemeralMetric() != nil {
		return lookRunning
	}
	return lookQuiet
}

// specHash returns the hash of a specification after conversion, so that an old file and its converted form have the same hash.
func specHash(ms *v1alpha2.MetricSet) string {
	spec := ms.Spec.DeepCopy()
	_, _ = metricset.Convert(spec)
	text, err := json.Marshal(spec)
	if err != nil { // it came as JSON
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// runName returns the name of the run of a set. The name differs from the run of a later set with the same name.
func runName(ms *v1alpha2.MetricSet) string {
	sum := sha256.Sum256([]byte(ms.UID))
	return fmt.Sprintf("%s-%s", ms.Name, hex.EncodeToString(sum[:4]))
}
