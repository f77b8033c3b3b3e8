package wire

import "time"

// Logs are lines of the logs of a workload, in order of time.
type Logs struct {
	ID      string    `json:"id"`                // Id of the container.
	Source  string    `json:"source"`            // Origin of the lines: loki, or kubernetes for the API server of the cluster.
	Query   string    `json:"query,omitempty"`   // The query sent to Loki (LogQL); else empty.
	From    time.Time `json:"from"`              // Start of the requested period.
	To      time.Time `json:"to"`                // End of the range.
	More    bool      `json:"more"`              // Whether there are more lines than requested.
	Lines   []LogLine `json:"lines"`             // The lines.
	Missing []string  `json:"missing,omitempty"` // Sources that could not be read, such as deleted pods.
}

// LogLine is a line of a log.
type LogLine struct {
	Time      time.Time `json:"time"`                // Time when the runtime received it.
	Pod       string    `json:"pod,omitempty"`       // The pod.
	Container string    `json:"container,omitempty"` // The container.
	Text      string    `json:"text"`                // Text of the line as written.
}

// LogRange selects log lines.
type LogRange struct {
	// Start and End bound the times; zero: from shortly before the start of the run to shortly after its end.
	Start, End time.Time
	// First selects the first lines of the time range instead of the last ones.
	First bool
	// Limit is the maximum number of lines, 500 if 0.
	Limit int
}
