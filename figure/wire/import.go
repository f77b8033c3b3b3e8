package wire

import "time"

// ImportBad is a piece of input that could not be read. Errors that differ in their numbers only are one.
type ImportBad struct {
	File  string `json:"file"`  // File that the first is in.
	Line  int    `json:"line"`  // Line number; 0 if the error is not in one line.
	Error string `json:"error"` // Error message.
	Count int    `json:"count"` // Number of such errors.
}

// ImportResult is the result of an import. Records are processes in samples of sonar, jobs of sacct
// and measurements of Waggle. Each is counted in exactly one of the fields from taken to refused.
type ImportResult struct {
	Files      int `json:"files"`      // Files that were read.
	Unread     int `json:"unread"`     // Files without any readable record.
	Records    int `json:"records"`    // Records: processes in readings of sonar, jobs of sacct.
	Taken      int `json:"taken"`      // New ones.
	Known      int `json:"known"`      // Records imported before, or present twice.
	Measured   int `json:"measured"`   // Records from a time in which reckon itself measured the node.
	Waiting    int `json:"waiting"`    // Jobs that had not started.
	Heartbeats int `json:"heartbeats"` // Signs of life of nodes on which nothing ran.
	// Records from the future or beyond the capacity of the node; they are also in bad_count.
	Refused   int         `json:"refused"`
	Resumed   bool        `json:"resumed"`    // Whether this import completed an earlier interrupted one.
	Workloads int         `json:"workloads"`  // Workloads that got something new.
	Samples   int         `json:"samples"`    // Samples written.
	Rows      int         `json:"rows"`       // Rows of the catalogue written.
	From      *time.Time  `json:"from"`       // Earliest time of the imported data.
	To        *time.Time  `json:"to"`         // Latest time in the input.
	BadCount  int         `json:"bad_count"`  // Lines that could not be read.
	Bad       []ImportBad `json:"bad"`        // The first hundred kinds of bad records and fields.
	BadFields int         `json:"bad_fields"` // Unreadable fields of accepted records.
}

// Useless reports whether nothing in the input could be read.
func (r *ImportResult) Useless() bool {
	return r.Taken+r.Known+r.Measured+r.Waiting+r.Heartbeats+r.Samples == 0 && !r.Resumed
}
