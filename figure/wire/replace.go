package wire

// Replaced is a node replaced by another machine: the response of POST /api/reckon/v1/nodes/replace.
type Replaced struct {
	Node string `json:"node"`           // Name of the node.
	Site string `json:"site,omitempty"` // Site of the node.
}
