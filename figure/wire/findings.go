package wire

import (
	"net/url"
	"strconv"
	"time"
)

// Evidence is one figure behind a finding, and the limit it is compared with.
type Evidence struct {
	Text   string   `json:"text"`             // What was measured.
	Value  float64  `json:"value"`            // How much.
	Unit   string   `json:"unit"`             // Unit of the value.
	Limit  *float64 `json:"limit,omitempty"`  // The threshold of the policy that it is held against.
	Wasted bool     `json:"wasted,omitempty"` // The figure is what was allocated and not used.
}

// FindingQuery is a PromQL query that shows the data behind a finding, over its time.
type FindingQuery struct {
	Text  string `json:"text"`  // What it shows.
	Query string `json:"query"` // The query.
}

// FindingStep is a period that contributes to the score of an owner: (use - fair) / capacity times its length.
type FindingStep struct {
	Node     string    `json:"node"`     // Where.
	Start    time.Time `json:"start"`    // From when.
	End      time.Time `json:"end"`      // To when.
	Use      float64   `json:"use"`      // Mean use by the owner: cores, bytes or GPUs.
	Fair     float64   `json:"fair"`     // Mean fair share.
	Capacity float64   `json:"capacity"` // Of the node.
	Owners   float64   `json:"owners"`   // Mean number of owners who wanted it, this one included.
	Why      string    `json:"why"`      // Cause of contention: full, pressure, runnable, available or waiting.
	Seconds  float64   `json:"seconds"`  // Contribution to the score.
}

// FindingSteps explains the score of over-share: the response of GET /api/reckon/v1/findings/ID/steps.
type FindingSteps struct {
	Total float64   `json:"total"` // Of all steps: the score in this time, seconds of the whole machine.
	Unit  string    `json:"unit"`  // Of use, fair share and capacity.
	Start time.Time `json:"start"` // Start of the period examined.
	End   time.Time `json:"end"`   // End of it.
	// Why there are no steps, where the score is another one by the rule and the data of today.
	Note string `json:"note,omitempty"`
	// In the order of time, node by node; alike ones that follow each other are one.
	Steps []FindingStep `json:"steps"`
}

// Finding is one case of misuse.
type Finding struct {
	ID       string `json:"id"`              // Stays the same as long as the case lasts.
	Rule     string `json:"rule"`            // Rule that found it.
	Means    string `json:"means,omitempty"` // What the rule finds, in a sentence.
	Severity string `json:"severity"`        // How much it asks for: high, medium or low.
	// new when first found, open while it lasts, gone when no longer confirmed, imported if it is
	// about imported history, which causes no notification.
	State    string     `json:"state"`
	Site     string     `json:"site,omitempty"`     // Site that it was found on.
	Owner    string     `json:"owner"`              // Who answers for it.
	Workload string     `json:"workload,omitempty"` // The workload, when it is about one.
	Node     string     `json:"node,omitempty"`     // The node, when it is about one.
	Part     string     `json:"part,omitempty"`     // Part of the subject: cpu, memory, gpu, nodes and the like.
	Text     string     `json:"text"`               // What was found, in words.
	First    time.Time  `json:"first"`              // Start of the period of the evidence.
	Last     time.Time  `json:"last"`               // End of that time.
	Found    time.Time  `json:"found"`              // When it was first found.
	Seen     time.Time  `json:"seen"`               // When it was confirmed last.
	Evidence []Evidence `json:"evidence"`           // The figures behind it.
	Values   []Value    `json:"values,omitempty"`   // The figures and names in the text, in order; absent for findings of older releases.
	// Queries that show the data behind the finding, over the time from first to last.
	Queries []FindingQuery `json:"queries,omitempty"`

	AckBy      string     `json:"acknowledged_by,omitempty"` // Who takes care of it.
	AckAt      *time.Time `json:"acknowledged,omitempty"`    // Since when.
	MutedUntil *time.Time `json:"muted_until,omitempty"`     // Until when it is kept out of lists and alerts.
	MuteReason string     `json:"mute_reason,omitempty"`     // Why.
}

// FindingList is the cases of misuse that a filter selected: the response of GET /api/reckon/v1/findings.
type FindingList struct {
	Findings []Finding  `json:"findings"` // The cases, the gravest first.
	Total    int        `json:"total"`    // How many the filter selects, without limit.
	Looked   *time.Time `json:"looked"`   // When the server last evaluated the rules; null before the first time.
	// The same findings by owner, without limit, in descending order of wasted core-hours.
	Owners []FindingOwner `json:"owners"`
}

// FindingOwner sums the findings of one owner. Wasted amounts are unused allocations, and null if
// no finding has any.
type FindingOwner struct {
	Site        string   `json:"site,omitempty"`      // Where.
	Owner       string   `json:"owner"`               // Owner; empty for unowned work.
	Findings    int      `json:"findings"`            // How many.
	Severity    string   `json:"severity"`            // The gravest of them.
	Rules       []string `json:"rules"`               // Rules that found them.
	CoreSeconds *float64 `json:"wasted_core_seconds"` // Allocated and unused core seconds; null if no finding gives them.
	GPUSeconds  *float64 `json:"wasted_gpu_seconds"`  // Allocated and unused GPU seconds; null if no finding gives them.
	// Allocated memory that was not needed, byte seconds; null if no finding gives it.
	ByteSeconds *float64 `json:"wasted_memory_byte_seconds"`
}

// FindingDifference is the effect of another policy.
type FindingDifference struct {
	Since   time.Time `json:"since"`   // From when on history was evaluated.
	Now     int       `json:"now"`     // Findings of the current policy.
	Then    int       `json:"then"`    // Findings of the other policy.
	Added   []Finding `json:"added"`   // Those that only the other one finds.
	Removed []Finding `json:"removed"` // Those that only the present one finds.
}

// FindingFilter selects findings. With zero fields it selects all new and open findings that are
// not muted.
type FindingFilter struct {
	Rules, Severities, Owners, States []string
	Workload, Node                    string
	Since                             time.Time // confirmed after
	Muted                             bool      // include muted ones
	Limit                             int
}

// Query encodes the filter as URL parameters.
func (f FindingFilter) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string][]string{"rule": f.Rules, "severity": f.Severities, "owner": f.Owners, "state": f.States} {
		if len(v) > 0 {
			q[key] = v
		}
	}
	for key, v := range map[string]string{"workload": f.Workload, "node": f.Node, "since": FormatTime(f.Since)} {
		if v != "" {
			q.Set(key, v)
		}
	}
	if f.Muted {
		q.Set("muted", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}
