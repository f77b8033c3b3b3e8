package wire

// HostPriority is the score of a node in the response of a kube-scheduler extender
// (k8s.io/kube-scheduler/extender/v1). The JSON keys are the field names.
type HostPriority struct {
	Host  string `json:"Host"`  // The node.
	Score int64  `json:"Score"` // 0 to 10.
}
