package wire

import (
	"net/url"
	"strconv"
	"time"
)

// MoveQuery selects the work to be judged for a move to another partition or cluster.
type MoveQuery struct {
	Since, Until  time.Time
	Owners, Sites []string
	All           bool   // with the work that stays, and why
	Shapes        string // text of a file of shapes instead of the server's file; empty for that
}

// Query encodes the query as parameters of GET /api/reckon/v1/move.
func (m MoveQuery) Query() url.Values {
	q := url.Values{"owner": m.Owners, "site": m.Sites, "all": {strconv.FormatBool(m.All)}}
	for key, at := range map[string]time.Time{"since": m.Since, "until": m.Until} {
		if !at.IsZero() {
			q.Set(key, at.UTC().Format(time.RFC3339))
		}
	}
	if m.Shapes != "" {
		q.Set("shapes", m.Shapes)
	}
	return q
}

// Move is work that should run elsewhere or, of a list of all, that stays.
type Move struct {
	Owner  string   `json:"owner"`             // Owner of the work.
	Name   string   `json:"name"`              // Name of its jobs, or of its program without a batch system.
	Site   string   `json:"site"`              // Cluster of most of its runs.
	From   string   `json:"from"`              // Partition of most of its runs; machines without a batch system by name.
	ToSite string   `json:"to_site,omitempty"` // Better cluster; omitted if it stays.
	To     string   `json:"to"`                // Better partition; empty if it stays.
	Rule   string   `json:"rule"`              // First rule that holds: gpu-off, gpu-up, cpu-up, memory, nodes, length, small; or empty.
	Why    string   `json:"why"`               // Reason to move, or to stay.
	Share  *float64 `json:"share,omitempty"`   // Share of its core-hours to which the rule applies.
	Runs   int      `json:"runs"`              // Runs in the period.
	Hours  float64  `json:"hours"`             // Core-hours in the period, allocated or, without an allocation, used.
	// Allocated GPU-hours on the partition where it ran most.
	GPUHours        float64  `json:"gpu_hours,omitempty"`
	FreedCoreHours  float64  `json:"freed_core_hours,omitempty"`           // Core-hours per month freed at its present place.
	FreedGPUHours   float64  `json:"freed_gpu_hours,omitempty"`            // GPU-hours per month freed at its present place.
	WaitHere        *float64 `json:"wait_here_seconds"`                    // Median wait of its runs, seconds; null if unknown.
	WaitHereRuns    int      `json:"wait_here_runs"`                       // Number of these runs.
	WaitThere       *float64 `json:"wait_there_seconds"`                   // Median wait of jobs of about its size there, seconds.
	WaitThereRuns   int      `json:"wait_there_runs"`                      // Number of these jobs in the last 30 days.
	WaitThereSource string   `json:"wait_there_source,omitempty"`          // Source: waiting jobs, or the file of shapes.
	JoulesHere      *float64 `json:"joules_per_core_hour_here,omitempty"`  // Joules of a core-hour where both were measured.
	JoulesThere     *float64 `json:"joules_per_core_hour_there,omitempty"` // Joules per core-hour there, if both were measured.
	Jobs            []string `json:"jobs"`                                 // Up to five runs with most core-hours.
	Unknown         []string `json:"unknown"`                              // Unknowns of the move.
	Text            string   `json:"text,omitempty"`                       // Paragraph for the owner; it names no other owner.
}

// MoveList lists recommended moves by owner, the most hours freed first: the response of GET /api/reckon/v1/move.
type MoveList struct {
	Since   time.Time `json:"since"`             // Start of the period.
	Until   time.Time `json:"until"`             // End of the period.
	Moves   []Move    `json:"moves"`             // Work that should run elsewhere.
	Judged  int       `json:"judged"`            // Number of owners and names with enough runs.
	Places  int       `json:"places"`            // Number of kinds of nodes compared.
	Stays   []Move    `json:"stays,omitempty"`   // Work that stays, if all was asked for.
	Missing []string  `json:"missing,omitempty"` // Unavailable parts of the answer.
}
