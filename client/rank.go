package client

import (
	"context"
	"net/url"
	"strconv"
)

// RankQuery is what is to be placed, on one node.
type RankQuery struct {
	Cores       float64
	MemoryBytes float64
	GPUs        float64
	// UseCores is what it is expected to use of the cores; 0 for as much as it asks for. GPUWatts is of each GPU.
	UseCores, GPUWatts float64
	Hours              float64 // how long it stays; 0 is a day
	Site               string
	Nodes              []string // among these; empty is all
	Data               []string // that it reads: IRIs of the knowledge graph, or KIND/NAMESPACE/NAME
	Limit              int      // at most this many, the best first; 0 is all
	// Work is an id of the work, such as the UID of a pod: where it was said to be placed it does not count beside itself.
	Work string
}

// Query writes the question as parameters of POST /api/reckon/v1/rank.
func (r RankQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]float64{"cores": r.Cores, "memory_bytes": r.MemoryBytes, "gpus": r.GPUs, "use_cores": r.UseCores, "gpu_watts": r.GPUWatts, "hours": r.Hours} {
		if v > 0 {
			q.Set(key, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	for key, v := range map[string]string{"site": r.Site, "work": r.Work} {
		if v != "" {
			q.Set(key, v)
		}
	}
	if len(r.Nodes) > 0 {
		q["node"] = r.Nodes
	}
	if len(r.Data) > 0 {
		q["data"] = r.Data
	}
	if r.Limit > 0 {
		q.Set("limit", strconv.Itoa(r.Limit))
	}
	return q
}

// RankedNode is the verdict on one node.
type RankedNode struct {
	Node string `json:"node"`
	Site string `json:"site,omitempty"`
	// Tier is room, tight (it fits and may be overloaded), unknown (it fits by requests and nothing fresh is known of its load) or
	// none (it does not fit).
	Tier string `json:"tier"`
	// Score is 100 for the best node with room, at most 90 for the others, 0 for those that it does not fit on: for schedulers.
	Score    int      `json:"score"`
	Watts    *float64 `json:"watts"`          // that the work adds; null where no node has a curve
	Headroom *float64 `json:"headroom"`       // share of the cores that stays free at the upper end of what is expected; null when not known
	Data     float64  `json:"data,omitempty"` // share of the named data that is on it
	Why      []string `json:"why"`
	Curve    string   `json:"curve"` // how the power of the node is known: fitted (to its own hours), line (idle and now) or none
}

// Ranking is the answer of POST /api/reckon/v1/rank, the best node first.
type Ranking struct {
	Nodes   []RankedNode `json:"nodes"`
	Missing []string     `json:"missing,omitempty"`
}

// Rank asks where work should go.
func (c *Client) Rank(ctx context.Context, r RankQuery) (Ranking, error) {
	var out Ranking
	err := c.post(ctx, "/api/reckon/v1/rank", r.Query(), &out)
	return out, err
}
