package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of conditions.
const (
	// ConditionAccepted is False while the set cannot be started; the reason explains why.
	ConditionAccepted = "Accepted"
	// ConditionRunning is True from the first running pod to the end of the last.
	ConditionRunning = "Running"
	// ConditionComplete is True when all metrics have ended; reason Failed when one of them failed.
	ConditionComplete = "Complete"
	// ConditionDegraded is True while a part of the measurement is missing: an image that cannot be
	// pulled, a pod that finds no node, a probe or a server that does not answer.
	ConditionDegraded = "Degraded"
)

// Reasons of conditions.
const (
	ReasonInvalid         = "Invalid"
	ReasonVolumeNotFound  = "VolumeNotFound"
	ReasonNoServer        = "NoServer"
	ReasonSpecChanged     = "SpecChanged"
	ReasonNameTaken       = "NameTaken"
	ReasonNotAllowed      = "NotAllowed"
	ReasonAccepted        = "Accepted"
	ReasonPodsRunning     = "PodsRunning"
	ReasonPodsPending     = "PodsPending"
	ReasonNotFinished     = "NotFinished"
	ReasonFinished        = "Finished"
	ReasonFailed          = "Failed"
	ReasonImageMissing    = "ImageMissing"
	ReasonUnschedulable   = "Unschedulable"
	ReasonQuotaExceeded   = "QuotaExceeded"
	ReasonProbeUnreadable = "ProbeUnreadable"
	ReasonServerAway      = "ServerAway"
	ReasonAsExpected      = "AsExpected"
)

// MetricSetStatus is the outcome of a set.
type MetricSetStatus struct {
	// ObservedGeneration is the generation that the conditions speak of.
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// SpecHash is of the specification that the JobSet was made of.
	SpecHash string `json:"specHash,omitempty"`
	// Run is the name of the run: its MetricRun in this namespace, or its id in the server.
	Run string `json:"run,omitempty"`
	// RunURL is the place where the server shows it, if there is a server.
	RunURL string      `json:"runURL,omitempty"`
	Pods   []PodStatus `json:"pods,omitempty"`
	// Samples is the sum over all pods.
	Samples int64 `json:"samples,omitempty"`
}

// PodStatus describes a pod. Names and times of containers are of the kubelet.
type PodStatus struct {
	Name   string `json:"name"`
	UID    string `json:"uid"`
	Metric string `json:"metric"` // name of the ReplicatedJob, METRIC-INDEX
	Node   string `json:"node,omitempty"`
	Phase  string `json:"phase,omitempty"`
	// Samples is the number of samples that were read of its probe; absent where the node's agent measures.
	Samples    *int64       `json:"samples,omitempty"`
	LastSample *metav1.Time `json:"lastSample,omitempty"`
	// Started, Finished and ExitCode are of the application's container.
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	ExitCode *int32       `json:"exitCode,omitempty"`
	// Message reports what keeps it from running.
	Message string `json:"message,omitempty"`
}
