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
	Name   string   `json:"name"`              // Name of its jobs; of work without a batch system its program.
	Site   string   `json:"site"`              // Cluster where most of it ran.
	From   string   `json:"from"`              // Partition where most of it ran; machines without a batch system by their names.
	ToSite string   `json:"to_site,omitempty"` // Cluster that suits it better; left out where it stays.
	To     string   `json:"to"`                // Partition that suits it better; empty where it stays.
	Rule   string   `json:"rule"`              // First rule that holds: gpu-off, gpu-up, cpu-up, memory, nodes, length, small; or empty.
	Why    string   `json:"why"`               // Reason to move, or to stay.
	Share  *float64 `json:"share,omitempty"`   // Share of its core-hours for which the rule holds.
	Runs   int      `json:"runs"`              // Runs in the period.
	Hours  float64  `json:"hours"`             // Core-hours in the period, allocated or, without an allocation, used.
	// GPU-hours that it held where it ran most.
	GPUHours        float64  `json:"gpu_hours,omitempty"`
	FreedCoreHours  float64  `json:"freed_core_hours,omitempty"`           // Core-hours a month that become free where it runs now.
	FreedGPUHours   float64  `json:"freed_gpu_hours,omitempty"`            // GPU-hours a month that become free where it runs now.
	WaitHere        *float64 `json:"wait_here_seconds"`                    // Median of what its runs waited, seconds; null if unknown.
	WaitHereRuns    int      `json:"wait_here_runs"`                       // Runs of which that is the median.
	WaitThere       *float64 `json:"wait_there_seconds"`                   // Median of what jobs about its size waited there, seconds.
	WaitThereRuns   int      `json:"wait_there_runs"`                      // Jobs of the last 30 days of which that is the median.
	WaitThereSource string   `json:"wait_there_source,omitempty"`          // Jobs that waited, or what the file of shapes names.
	JoulesHere      *float64 `json:"joules_per_core_hour_here,omitempty"`  // Joules that a core-hour took, where both were measured.
	JoulesThere     *float64 `json:"joules_per_core_hour_there,omitempty"` // Joules that a core-hour took there, where both were measured.
	Jobs            []string `json:"jobs"`                                 // Up to five runs with most core-hours.
	Unknown         []string `json:"unknown"`                              // What is not known about the move.
	Text            string   `json:"text,omitempty"`                       // Paragraph for the owner; it names nobody else.
}

// MoveList lists recommended moves by owner, the most hours freed first: the response of GET /api/reckon/v1/move.
type MoveList struct {
	Since   time.Time `json:"since"`             // Start of the period.
	Until   time.Time `json:"until"`             // End of the period.
	Moves   []Move    `json:"moves"`             // Work that should run elsewhere.
	Judged  int       `json:"judged"`            // How many owners and names had enough runs.
	Places  int       `json:"places"`            // How many kinds of nodes they were held against.
	Stays   []Move    `json:"stays,omitempty"`   // Work that stays, if all was asked for.
	Missing []string  `json:"missing,omitempty"` // What could not be asked.
}
