// Package v1alpha2 holds the types of MetricSet (flux-framework.org/v1alpha2), a description of
// measurements that a person writes as one YAML file, and of the older shapes of it. Field names and
// meanings of the specification are those of the metrics-operator (MIT, LLNS and others), so that its
// files work unchanged; the status is ours. Times are in UTC, sizes in Kubernetes' quantities.
//
// +kubebuilder:object:generate=true
package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults of fields that a file may leave out. The custom resource definition has them too.
const (
	DefaultServiceName           = "ms"
	DefaultDeadlineSeconds int64 = 31500000
	DefaultPods            int32 = 1
)

// MetricSet is one measurement of one or more metrics.
//
// +kubebuilder:object:root=true
type MetricSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MetricSetSpec   `json:"spec,omitempty"`
	Status MetricSetStatus `json:"status,omitempty"`
}

// MetricSetList is a list of them.
//
// +kubebuilder:object:root=true
type MetricSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MetricSet `json:"items"`
}

// MetricSetSpec is the request of a person.
type MetricSetSpec struct {
	// Metrics are measured side by side, each in a ReplicatedJob of its own.
	Metrics []Metric `json:"metrics,omitempty"`
	// DontSetFQDN leaves the short host name in the pods.
	DontSetFQDN bool `json:"dontSetFQDN,omitempty"`
	// ServiceName is the headless service and subdomain of the pods.
	ServiceName string `json:"serviceName,omitempty"`
	// DeadlineSeconds ends the jobs; not 0.
	DeadlineSeconds *int64 `json:"deadlineSeconds,omitempty"`
	// Pod holds what all pods get.
	Pod Pod `json:"pod,omitempty"`
	// Pods is the number of pods of each metric: 1 and more.
	Pods *int32 `json:"pods,omitempty"`
	// Resources are of a pod as a whole.
	Resources ContainerResource `json:"resources,omitempty"`
	Logging   Logging           `json:"logging,omitempty"`

	// Fields of older files, which Convert moves to where they belong today.

	Application *LegacyApplication `json:"application,omitempty"`
	Storage     *LegacyStorage     `json:"storage,omitempty"`
	Completions *int32             `json:"completions,omitempty"`
}

// Metric is one metric of a set.
type Metric struct {
	// Name is of the metric, such as perf-sysstat.
	Name string `json:"name"`
	// Image replaces the image of the metric.
	Image       string                                   `json:"image,omitempty"`
	Options     map[string]intstr.IntOrString            `json:"options,omitempty"`
	ListOptions map[string][]intstr.IntOrString          `json:"listOptions,omitempty"`
	MapOptions  map[string]map[string]intstr.IntOrString `json:"mapOptions,omitempty"`
	Addons      []MetricAddon                            `json:"addons,omitempty"`
	Attributes  ContainerSpec                            `json:"attributes,omitempty"`
	Resources   ContainerResources                       `json:"resources,omitempty"`

	// Fields of older files.

	Rate        *int32 `json:"rate,omitempty"`
	Completions *int32 `json:"completions,omitempty"`
}

// MetricAddon adds a volume, a container or text of scripts to a metric.
type MetricAddon struct {
	Name        string                                   `json:"name"`
	Options     map[string]intstr.IntOrString            `json:"options,omitempty"`
	ListOptions map[string][]intstr.IntOrString          `json:"listOptions,omitempty"`
	MapOptions  map[string]map[string]intstr.IntOrString `json:"mapOptions,omitempty"`
}

// Logging reports what happens at the end.
type Logging struct {
	// Interactive keeps the container after its work, until the deadline.
	Interactive bool `json:"interactive,omitempty"`
}

// Pod is the specification of all pods of a set.
type Pod struct {
	Annotations        map[string]string `json:"annotations,omitempty"`
	Labels             map[string]string `json:"labels,omitempty"`
	ServiceAccountName string            `json:"serviceAccountName,omitempty"`
	NodeSelector       map[string]string `json:"nodeSelector,omitempty"`
}

// ContainerSpec holds attributes of the container of a metric.
type ContainerSpec struct {
	SecurityContext SecurityContext `json:"securityContext,omitempty"`
}

// SecurityContext lists the extra rights of a container.
type SecurityContext struct {
	Privileged  bool `json:"privileged,omitempty"`
	AllowPtrace bool `json:"allowPtrace,omitempty"` // SYS_PTRACE
	AllowAdmin  bool `json:"allowAdmin,omitempty"`  // SYS_ADMIN
}

// ContainerResources are limits and requests of a container.
type ContainerResources struct {
	Limits   ContainerResource `json:"limits,omitempty"`
	Requests ContainerResource `json:"requests,omitempty"`
}

// ContainerResource maps names of resources to quantities.
type ContainerResource map[string]intstr.IntOrString

// LegacyApplication is `spec.application` of v1alpha1: the container that is measured.
type LegacyApplication struct {
	Image      string                  `json:"image,omitempty"`
	Command    string                  `json:"command,omitempty"`
	WorkingDir string                  `json:"workingDir,omitempty"`
	Entrypoint string                  `json:"entrypoint,omitempty"`
	PullSecret string                  `json:"pullSecret,omitempty"`
	Resources  ContainerResources      `json:"resources,omitempty"`
	Attributes ContainerSpec           `json:"attributes,omitempty"`
	Volumes    map[string]LegacyVolume `json:"volumes,omitempty"`
}

// LegacyStorage is `spec.storage` of v1alpha1: the volume that is measured.
type LegacyStorage struct {
	Volume   *LegacyVolume  `json:"volume,omitempty"`
	Commands LegacyCommands `json:"commands,omitempty"`
}

// LegacyCommands is text of scripts around the command of a storage metric.
type LegacyCommands struct {
	Pre    string `json:"pre,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Post   string `json:"post,omitempty"`
}

// LegacyVolume is a volume that exists already.
type LegacyVolume struct {
	Path          string            `json:"path,omitempty"`
	HostPath      string            `json:"hostPath,omitempty"`
	ConfigMapName string            `json:"configMapName,omitempty"`
	Items         map[string]string `json:"items,omitempty"`
	ClaimName     string            `json:"claimName,omitempty"`
	SecretName    string            `json:"secretName,omitempty"`
	EmptyVol      bool              `json:"emptyVol,omitempty"`
	ReadOnly      bool              `json:"readOnly,omitempty"`
}
