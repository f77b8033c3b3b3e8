// Package jobs builds the objects of a MetricSet: the JobSet with a ReplicatedJob for each metric,
// the ConfigMap with the scripts that its containers run, and the headless Service of its pods. It
// is pure: the same set gives the same objects, which the golden files test.
//
// Script text in a file (command, prefix, pre, post and blocks of add-ons) is copied unchanged into
// the script and runs in the image's shell, as it always did. Every other option reaches a
// container as an argument or a variable, and no shell interprets it as text.
package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/metricset"
)

// Labels of pods in addition to those of the metrics-operator.
const (
	LabelService = "metrics.reckon/service" // the headless service that covers them
	LabelSet     = "metricset-name"         // the name of the MetricSet
	LabelMetric  = "metrics.reckon/metric"  // METRIC-INDEX
	LabelManaged = "app.kubernetes.io/managed-by"
	Manager      = "reckon-operator"
	// AnnotationRate makes the agent of the node export a pod faster, such as 1s.
	AnnotationRate = "reckon/rate"
)

// Config holds the settings of the operator that apply to all sets.
type Config struct {
	// ProbeImage is the image with reckon-agent, for sidecars and our own metrics.
	ProbeImage string
	// ProbePort is the port on which a probe serves its samples.
	ProbePort int32
	// TTL is the number of seconds that a finished JobSet is kept.
	TTL int32
}

// Objects are the parts of a set. JobSet is nil if every metric attaches to running pods.
type Objects struct {
	JobSet    *v1alpha2.JobSet
	ConfigMap *core.ConfigMap
	Service   *core.Service
}

// Build returns the objects of a set. The caller sets their owner.
func Build(s *metricset.Set, c Config) (*Objects, error) {
	b := &builder{set: s, config: c, scripts: map[string]string{}}
	var jobs []v1alpha2.ReplicatedJob
	var success []string
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Attach == metricset.AttachEphemeral {
			continue
		}
		made, err := b.replicatedJobs(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Job, err)
		}
		jobs, success = append(jobs, made...), append(success, m.Job)
	}
	if len(jobs) == 0 {
		return &Objects{}, nil
	}
	o := &Objects{JobSet: &v1alpha2.JobSet{
		TypeMeta:   meta.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: meta.ObjectMeta{Name: s.Name, Namespace: s.Namespace, Labels: b.labels()},
		Spec: v1alpha2.JobSetSpec{
			ReplicatedJobs: jobs,
			// The end of the workloads is the end of the set: workers only wait, and are taken away then.
			SuccessPolicy:           &v1alpha2.SuccessPolicy{Operator: v1alpha2.OperatorAll, TargetReplicatedJobs: success},
			FailurePolicy:           &v1alpha2.FailurePolicy{MaxRestarts: 0},
			Network:                 &v1alpha2.Network{EnableDNSHostnames: ptr.To(false), Subdomain: s.Spec.ServiceName},
			Suspend:                 ptr.To(false),
			TTLSecondsAfterFinished: ptr.To(c.TTL),
		},
	}}
	o.Service = b.service()
	if len(b.scripts) > 0 {
		o.ConfigMap = &core.ConfigMap{
			TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: meta.ObjectMeta{Name: s.Name, Namespace: s.Namespace, Labels: b.labels()},
			Data:       b.scripts,
		}
	}
	return o, nil
}

// builder makes the jobs of one set.
type builder struct {
	set     *metricset.Set
	config  Config
	scripts map[string]string // keys of the ConfigMap
}

func (b *builder) labels() map[string]string {
	return map[string]string{LabelManaged: Manager, LabelSet: b.set.Name}
}

func (b *builder) service() *core.Service {
	name := b.set.Spec.ServiceName
	return &core.Service{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: b.set.Namespace, Labels: map[string]string{LabelManaged: Manager}},
		Spec: core.ServiceSpec{
			ClusterIP: core.ClusterIPNone,
			// All sets of the namespace that name this service share it.
			Selector:                 map[string]string{LabelService: name},
			PublishNotReadyAddresses: true,
		},
	}
}

// replicatedJobs returns the jobs of a metric, with workers before the launcher that depends on them.
func (b *builder) replicatedJobs(m *metricset.Measure) ([]v1alpha2.ReplicatedJob, error) {
	parts, err := b.jobParts(m)
	if err != nil {
		return nil, err
	}
	var out []v1alpha2.ReplicatedJob
	for _, p := range parts {
		job, err := b.replicatedJob(m, p)
		if err != nil {
			return nil, err
		}
		out = append(out, job)
	}
	if len(out) == 2 {
		out[1].DependsOn = []v1alpha2.DependsOn{{Name: out[0].Name, Status: v1alpha2.DependencyReady}}
	}
	return out, nil
}

// jobPart is one ReplicatedJob of a metric before add-ons edit it.
type jobPart struct {
	job     string
	target  string // name by which add-ons of old files refer to the job
	pods    int32
	workers bool
	main    container
}

// jobParts returns the ReplicatedJobs of a metric, by its shape.
func (b *builder) jobParts(m *metricset.Measure) ([]*jobPart, error) {
	pods := *b.set.Spec.Pods
	switch m.Shape {
	case metricset.Launcher, metricset.Mesh:
		launch, work, err := b.launcherContainers(m)
		if err != nil {
			return nil, err
		}
		target := "l"
		if m.Name == "network-netmark" {
			target = "n"
		}
		l := &jobPart{job: m.Job, target: target, pods: 1, main: launch}
		if pods == 1 {
			return []*jobPart{l}, nil
		}
		return []*jobPart{{job: m.Workers(), target: "w", pods: pods - 1, workers: true, main: work}, l}, nil
	case metricset.Application:
		return []*jobPart{{job: m.Job, target: "m", pods: pods}}, nil
	}
	c, err := b.programContainer(m)
	if err != nil {
		return nil, err
	}
	return []*jobPart{{job: m.Job, target: "m", pods: pods, main: c}}, nil
}

func (b *builder) replicatedJob(m *metricset.Measure, p *jobPart) (v1alpha2.ReplicatedJob, error) {
	pod, err := b.podSpec(m, p)
	if err != nil {
		return v1alpha2.ReplicatedJob{}, err
	}
	spec := b.set.Spec
	job := batch.JobSpec{
		Parallelism:           ptr.To(p.pods),
		Completions:           ptr.To(p.pods),
		CompletionMode:        ptr.To(batch.IndexedCompletion),
		ActiveDeadlineSeconds: spec.DeadlineSeconds,
		// A workload that fails has failed, because a restart would measure something else. A pod
		// on a lost node shows nothing about the workload and is created again.
		BackoffLimit: ptr.To(int32(0)),
		PodFailurePolicy: &batch.PodFailurePolicy{Rules: []batch.PodFailurePolicyRule{{
			Action:          batch.PodFailurePolicyActionIgnore,
			OnPodConditions: []batch.PodFailurePolicyOnPodConditionsPattern{{Type: core.DisruptionTarget, Status: core.ConditionTrue}},
		}}},
		Template: core.PodTemplateSpec{ObjectMeta: b.podMeta(m, p), Spec: pod},
	}
	if p.workers {
		job.BackoffLimit, job.PodFailurePolicy = ptr.To(int32(100)), nil
		job.Template.Spec.RestartPolicy = core.RestartPolicyOnFailure
	}
	return v1alpha2.ReplicatedJob{
		Name:     p.job,
		Replicas: 1,
		Template: batch.JobTemplateSpec{ObjectMeta: meta.ObjectMeta{Name: b.set.Name, Namespace: b.set.Namespace}, Spec: job},
	}, nil
}

// podMeta returns the labels and annotations of a pod: those of the file, those of the metrics-operator, and ours.
func (b *builder) podMeta(m *metricset.Measure, p *jobPart) meta.ObjectMeta {
	spec := b.set.Spec
	labels, annotations := maps.Clone(spec.Pod.Labels), maps.Clone(spec.Pod.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range map[string]string{
		"cluster-name": b.set.Name, LabelSet: b.set.Name, "namespace": b.set.Namespace, "app.kubernetes.io/name": b.set.Name,
		LabelService: spec.ServiceName, LabelMetric: m.Job, LabelManaged: Manager,
	} {
		labels[name] = value
	}
	if m.Attach == metricset.AttachAgent {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[AnnotationRate] = m.Values["rate"] + "s"
	}
	return meta.ObjectMeta{Name: b.set.Name, Namespace: b.set.Namespace, Labels: labels, Annotations: annotations}
}

// hostNames returns the names of the pods of a launcher and its workers, launcher first.
func (b *builder) hostNames(m *metricset.Measure) []string {
	s := b.set
	domain := s.Domain()
	hosts := []string{fmt.Sprintf("%s-%s-0-0.%s", s.Name, m.Job, domain)}
	for i := range *s.Spec.Pods - 1 {
		hosts = append(hosts, fmt.Sprintf("%s-%s-0-%d.%s", s.Name, m.Workers(), i, domain))
	}
	return hosts
}

// logHeader returns the first lines of a metric's log. They have the format of the metrics-operator, so that programs
// that parse its logs also parse ours.
func (b *builder) logHeader(m *metricset.Measure) string {
	options := map[string]any{}
	for _, o := range m.Kind.Options {
		value, given := m.Values[o.Name]
		switch {
		case !given || o.Type == metricset.Script:
		case o.Type == metricset.Int:
			options[o.Name] = m.Values.Int(o.Name)
		default:
			options[o.Name] = value
		}
	}
	text, err := json.Marshal(struct {
		Pods        int32               `json:"pods"`
		Name        string              `json:"metricName"`
		Description string              `json:"metricDescription,omitempty"`
		Type        string              `json:"metricType,omitempty"`
		Options     map[string]any      `json:"metricOptions,omitempty"`
		Lists       map[string][]string `json:"metricListOptions,omitempty"`
	}{*b.set.Spec.Pods, m.Name, m.Summary, m.Family, options, m.Lists})
	if err != nil { // texts and numbers only
		panic(err)
	}
	return string(text)
}

// findAddons returns the add-ons of a metric with one of these names.
func findAddons(m *metricset.Measure, names ...string) (out []*metricset.Extra) {
	for i := range m.Addons {
		if slices.Contains(names, m.Addons[i].Name) {
			out = append(out, &m.Addons[i])
		}
	}
	return out
}
