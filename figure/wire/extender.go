package wire

// HostPriority is the score of a node in the response of an extender of kube-scheduler
// (k8s.io/kube-scheduler/extender/v1); the JSON keys are the field names.
type HostPriority struct {
	Host  string `json:"Host"`  // The node.
	Score int64  `json:"Score"` // 0 to 10.
}
