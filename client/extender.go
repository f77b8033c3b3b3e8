package client

// HostPriority is the score of a node as an extender of kube-scheduler answers it
// (k8s.io/kube-scheduler/extender/v1); its fields are encoded under their names.
type HostPriority struct {
	Host  string `json:"Host"`
	Score int64  `json:"Score"` // 0 to 10
}
