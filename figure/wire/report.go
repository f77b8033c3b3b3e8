package wire

import "time"

// Report is the response of GET /api/reckon/v1/report: the use of a site in a period.
type Report struct {
	Period string    `json:"period"` // Length of the period.
	Since  time.Time `json:"since"`  // Start, a full hour.
	Until  time.Time `json:"until"`  // End, a whole hour.
	Public bool      `json:"public"` // Whether names were removed.

	Total    Usage   `json:"total"`    // All together, and the capacity.
	Steps    []Usage `json:"steps"`    // Over time: hours of a day, days of a month, months of a year.
	Step     string  `json:"step"`     // Length of a step of time.
	Week     []Usage `json:"week"`     // By hour of the week, from Monday 1970-01-05 on, UTC.
	Owners   []Usage `json:"owners"`   // By owner, most CPU time first.
	Accounts []Usage `json:"accounts"` // By account.
	Commands []Usage `json:"commands"` // By program.
	Kinds    []Usage `json:"kinds"`    // By kind of workload.
	Nodes    []Usage `json:"nodes"`    // By node.

	Pending *Pending `json:"pending,omitempty"` // Pending work; null if there is none.
	Missing []string `json:"missing,omitempty"` // Unavailable parts of the answer.
}
