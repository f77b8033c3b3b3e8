package kubernetes

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"reckon/internal/kubelet"
)

// Owner is the top-level owner of a pod, as far as that can be determined without the API server. Kind is in lower
// case. A bare or static pod is its own owner and has the kind "pod".
type Owner struct{ Kind, Name string }

// ownerRule finds the owner of a pod by labels that the owner's controller has added. name is the label with the owner's
// name, and kind is the owner's kind. If the pod has the label kindLabel, its value without trim is the kind instead.
type ownerRule struct {
	name, kind      string
	kindLabel, trim string
	needs           string // a label that must be there too
}

// ownerRules returns the rules in the order in which they are tried. The outermost owners come first. The labels are
// constants in the API packages of each project.
func ownerRules() []ownerRule {
	return []ownerRule{
		// kubeflow/trainer pkg/constants: a TrainJob creates a JobSet of the same name
		{name: "jobset.sigs.k8s.io/jobset-name", kind: "trainjob", needs: "trainer.kubeflow.org/trainjob-ancestor-step"},
		// kubeflow/training-operator pkg/apis/kubeflow.org/v1: "pytorchjob-controller"
		{name: "training.kubeflow.org/job-name", kind: "mpijob", kindLabel: "training.kubeflow.org/operator-name", trim: "-controller"},
		// ray-project/kuberay ray-operator/controllers/ray/utils: RayJob, RayService, RayCluster
		{name: "ray.io/originated-from-cr-name", kindLabel: "ray.io/originated-from-crd", kind: "raycluster"},
		{name: "ray.io/cluster", kind: "raycluster"},
		// kubernetes-sigs/jobset api/jobset/v1alpha2, kubernetes-sigs/lws api/leaderworkerset/v1
		{name: "jobset.sigs.k8s.io/jobset-name", kind: "jobset"},
		{name: "leaderworkerset.sigs.k8s.io/name", kind: "leaderworkerset"},
		// argoproj/argo-workflows workflow/common
		{name: "workflows.argoproj.io/workflow", kind: "workflow"},
		// kubeflow/spark-operator pkg/common; apache/spark resource-managers/kubernetes Constants.scala
		{name: "sparkoperator.k8s.io/app-name", kind: "sparkapplication"},
		{name: "spark-app-name", kind: "sparkapplication", needs: "spark-role"},
		// tektoncd/pipeline pkg/apis/pipeline
		{name: "tekton.dev/pipelineRun", kind: "pipelinerun"},
		{name: "tekton.dev/taskRun", kind: "taskrun"},
	}
}

// match returns the owner that the labels of a pod name.
func (r *ownerRule) match(labels map[string]string) (owner Owner, ok bool) {
	name := labels[r.name]
	if name == "" || r.needs != "" && labels[r.needs] == "" {
		return Owner{}, false
	}
	kind := strings.ToLower(strings.TrimSuffix(labels[r.kindLabel], r.trim))
	if kind == "mpi-operator" {
		kind = "mpijob"
	}
	return Owner{cmp.Or(kind, r.kind), name}, true
}

// findOwner returns the owner of a pod, by its labels or else by its ownerReferences.
func findOwner(p *kubelet.Pod) Owner {
	if p.Static || p.OwnerKind == "" && len(p.Labels) == 0 {
		return Owner{"pod", p.Name}
	}
	for _, r := range ownerRules() {
		if o, ok := r.match(p.Labels); ok {
			return o
		}
	}
	switch p.OwnerKind {
	case "":
		return Owner{"pod", p.Name}
	case "ReplicaSet":
		return ownerOfReplicaSet(p)
	case "Job":
		if cron, ok := cronJobName(p.OwnerName, p.Created); ok {
			return Owner{"cronjob", cron}
		}
	case "ReplicationController":
		if name := p.Labels["openshift.io/deployment-config.name"]; name != "" {
			return Owner{"deploymentconfig", name}
		}
	}
	return Owner{strings.ToLower(p.OwnerKind), p.OwnerName}
}

// ownerOfReplicaSet returns the owner of the pod's ReplicaSet. The name of that ReplicaSet ends in the hash of its template.
func ownerOfReplicaSet(p *kubelet.Pod) Owner {
	for _, above := range [...]struct{ hash, kind string }{{"rollouts-pod-template-hash", "rollout"}, {"pod-template-hash", "deployment"}} {
		if hash := p.Labels[above.hash]; hash != "" {
			if name, ok := strings.CutSuffix(p.OwnerName, "-"+hash); ok && name != "" {
				return Owner{above.kind, name}
			}
		}
	}
	return Owner{"replicaset", p.OwnerName}
}

// A Job of a CronJob is named NAME-MINUTES. MINUTES is its scheduled time in minutes since the Unix epoch
// (pkg/controller/cronjob of Kubernetes, since 1.21). maxCronBehind is the longest time until a pod is created, because
// the Job may be retried for days. maxCronAhead is the tolerance for clocks that differ.
const (
	maxCronAhead  = time.Minute
	maxCronBehind = 7 * 24 * time.Hour
)

func cronJobName(job string, created time.Time) (name string, ok bool) {
	at := strings.LastIndexByte(job, '-')
	if at <= 0 || created.IsZero() {
		return "", false
	}
	digits := job[at+1:]
	minutes, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) < 8 || len(digits) > 10 || digits[0] == '0' {
		return "", false
	}
	age := created.Sub(time.Unix(minutes*60, 0))
	return job[:at], age >= -maxCronAhead && age <= maxCronBehind
}

// runID returns the id of the current run of a workload that runs several times in sequence. It is the UID of the object that creates the
// pods of one run. It is empty for a workload that runs continuously, such as a Deployment, and if the UID is unknown.
func runID(p *kubelet.Pod, o Owner) string {
	switch {
	case o == Owner{"pod", p.Name}:
		return p.ReportedUID
	case o.Kind == "job" || o.Kind == "cronjob":
		return p.OwnerUID
	case o.Kind == "jobset" || o.Kind == "trainjob":
		return p.Labels["jobset.sigs.k8s.io/jobset-uid"]
	case p.Completes && o.Kind == strings.ToLower(p.OwnerKind):
		return p.OwnerUID
	}
	return ""
}

// accountLabel returns the first label of the list that the pod has.
func accountLabel(p *kubelet.Pod, labels []string) string {
	for _, key := range labels {
		if v := p.Labels[key]; v != "" {
			return v
		}
	}
	return ""
}

// queueLabel names the queue of Kueue that admitted the pod.
const queueLabel = "kueue.x-k8s.io/queue-name"
