package wire

import (
	"net/url"
	"strconv"
	"time"
)

// RankQuery describes work to be placed on one node.
type RankQuery struct {
	Cores       float64
	MemoryBytes float64
	GPUs        float64
	// UseCores is the expected use of cores; 0 for as much as requested. GPUWatts is the power per GPU.
	UseCores, GPUWatts float64
	Hours              float64 // duration of the work; 0 is a day
	Site               string
	Nodes              []string // candidates; empty is all
	Data               []string // data that it reads: IRIs of the knowledge graph, or KIND/NAMESPACE/NAME
	Limit              int      // maximum number of nodes, the best first; 0 is all
	WattsOnly          bool     // the watts alone decide: nodes with GPUs or large memory that it leaves unused do not come last
	// Work is an id of the work, such as the UID of a pod: if it was reported as placed, it is not counted in addition to itself.
	Work string
}

// Query encodes the query as parameters of POST /api/reckon/v1/rank.
func (r RankQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]float64{"cores": r.Cores, "memory_bytes": r.MemoryBytes, "gpus": r.GPUs, "use_cores": r.UseCores,
		"gpu_watts": r.GPUWatts, "hours": r.Hours} {
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
	if r.WattsOnly {
		q.Set("watts_only", "true")
	}
	return q
}

// RankedNode is the verdict on one node.
type RankedNode struct {
	Node string `json:"node"`           // Name.
	Site string `json:"site,omitempty"` // Site.
	// room; tight: it fits but may be overloaded; unknown: it fits by requests, but there is no
	// fresh data on its load; none: it does not fit.
	Tier string `json:"tier"`
	// Score for schedulers: 100 for the best node with room, at most 90 for the others, 0 for nodes
	// that it does not fit on.
	Score int `json:"score"`
	// Watts that the work adds; for a node with unknown power the highest value of the others with
	// room. null if no node has a curve, or if the power of the requested GPUs is unknown.
	Watts *float64 `json:"watts"`
	// Share of the cores that stays free at the upper end of the expected load; null if unknown.
	Headroom *float64 `json:"headroom"`
	// Share of the named data that is on the node; left out if none is.
	Data float64  `json:"data,omitempty"`
	Why  []string `json:"why"` // Reasons against it, or assumptions.
	// Source of its power: fitted to its own hours, a line from idle to now, or none.
	Curve string `json:"curve"`
}

// Ranking is the nodes for one piece of work, the best first: the response of POST /api/reckon/v1/rank.
type Ranking struct {
	Nodes []RankedNode `json:"nodes"` // The best first.
	// Time when the list of nodes was read, if more than a minute before the request.
	AsOf    *time.Time `json:"as_of,omitempty"`
	Missing []string   `json:"missing,omitempty"` // Unavailable parts of a partial answer.
}
