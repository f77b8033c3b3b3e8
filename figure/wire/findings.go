package wire

import (
	"net/url"
	"strconv"
	"time"
)

// Evidence is one figure behind a finding, and the limit it is compared with.
type Evidence struct {
	Text   string   `json:"text"`             // Name of the measurement.
	Value  float64  `json:"value"`            // Measured value.
	Unit   string   `json:"unit"`             // Unit of the value.
	Limit  *float64 `json:"limit,omitempty"`  // Threshold of the policy.
	Wasted bool     `json:"wasted,omitempty"` // The figure is allocated and unused.
}

// FindingQuery is a PromQL query that shows the data behind a finding, over its time.
type FindingQuery struct {
	Text  string `json:"text"`  // Description of the data.
	Query string `json:"query"` // The query.
}

// FindingStep is a period that contributes to the score of an owner: (use - fair) / capacity times its length.
type FindingStep struct {
	Node     string    `json:"node"`     // Node of the step.
	Start    time.Time `json:"start"`    // From when.
	End      time.Time `json:"end"`      // To when.
	Use      float64   `json:"use"`      // Mean use by the owner: cores, bytes or GPUs.
	Fair     float64   `json:"fair"`     // Mean fair share.
	Capacity float64   `json:"capacity"` // Capacity of the node.
	Owners   float64   `json:"owners"`   // Mean number of owners who wanted it, including this one.
	Why      string    `json:"why"`      // Cause of contention: full, pressure, runnable, available or waiting.
	Seconds  float64   `json:"seconds"`  // Contribution to the score.
}

// FindingSteps explains the score of over-share: the response of GET /api/reckon/v1/findings/ID/steps.
type FindingSteps struct {
	Total float64   `json:"total"` // Sum over all steps: the score in this time, in seconds of the whole machine.
	Unit  string    `json:"unit"`  // Unit of use, fair share and capacity.
	Start time.Time `json:"start"` // Start of the period examined.
	End   time.Time `json:"end"`   // End of the step.
	// Reason why there are no steps, if the rule and today's data give another score.
	Note string `json:"note,omitempty"`
	// Steps by time, node by node; consecutive equal steps are merged.
	Steps []FindingStep `json:"steps"`
}

// Finding is one case of misuse.
type Finding struct {
	ID       string `json:"id"`              // Id, which stays the same for the life of the case.
	Rule     string `json:"rule"`            // Rule that found it.
	Means    string `json:"means,omitempty"` // Meaning of the rule in a sentence.
	Severity string `json:"severity"`        // Urgency: high, medium or low.
	// new when first found, open while it lasts, gone when no longer confirmed, imported if it is
	// about imported history, which causes no notification.
	State    string     `json:"state"`
	Site     string     `json:"site,omitempty"`     // Site that it was found on.
	Owner    string     `json:"owner"`              // Owner of the work.
	Workload string     `json:"workload,omitempty"` // Workload, if it is about one.
	Node     string     `json:"node,omitempty"`     // Node, if it is about one.
	Part     string     `json:"part,omitempty"`     // Part of the subject: cpu, memory, gpu, nodes and the like.
	Text     string     `json:"text"`               // Description of the finding.
	First    time.Time  `json:"first"`              // Start of the period of the evidence.
	Last     time.Time  `json:"last"`               // End of that time.
	Found    time.Time  `json:"found"`              // Time when it was first found.
	Seen     time.Time  `json:"seen"`               // Time when it was last confirmed.
	Evidence []Evidence `json:"evidence"`           // Figures behind the finding.
	Values   []Value    `json:"values,omitempty"`   // The figures and names in the text, in order; absent for findings of older releases.
	// Queries that show the data behind the finding, over the time from first to last.
	Queries []FindingQuery `json:"queries,omitempty"`

	AckBy      string     `json:"acknowledged_by,omitempty"` // User who handles it.
	AckAt      *time.Time `json:"acknowledged,omitempty"`    // Since when.
	MutedUntil *time.Time `json:"muted_until,omitempty"`     // End of the time that it is hidden from lists and alerts.
	MuteReason string     `json:"mute_reason,omitempty"`     // Reason for muting it.
}

// FindingList is the cases of misuse that a filter selected: the response of GET /api/reckon/v1/findings.
type FindingList struct {
	Findings []Finding  `json:"findings"` // The cases, the gravest first.
	Total    int        `json:"total"`    // Number of selected findings without the limit.
	Looked   *time.Time `json:"looked"`   // Time when the server last evaluated the rules; null before the first time.
	// The same findings by owner without the limit, in descending order of wasted core-hours.
	Owners []FindingOwner `json:"owners"`
}

// FindingOwner sums the findings of one owner. Wasted amounts are unused allocations, and null if
// no finding has any.
type FindingOwner struct {
	Site        string   `json:"site,omitempty"`      // Site of the owner.
	Owner       string   `json:"owner"`               // Owner; empty for unowned work.
	Findings    int      `json:"findings"`            // Number of findings.
	Severity    string   `json:"severity"`            // Highest severity of the findings.
	Rules       []string `json:"rules"`               // Rules of the findings.
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
	Added   []Finding `json:"added"`   // Findings of only the other policy.
	Removed []Finding `json:"removed"` // Findings of only the present policy.
}

// FindingFilter selects findings. With zero fields it selects all new and open findings that are not muted.
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
