package client

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Logs are lines of the logs of a workload, in order of time.
type Logs struct {
	ID string `json:"id"`
	// Source is the origin of the lines: loki, or kubernetes for the API server.
	Source string `json:"source"`
	// Query is the query sent to Loki, otherwise empty.
	Query string `json:"query,omitempty"`
	// From and To bound the requested time range.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// More is true if there are more lines than requested.
	More  bool      `json:"more"`
	Lines []LogLine `json:"lines"`
	// Missing names sources that could not be read, such as deleted pods.
	Missing []string `json:"missing,omitempty"`
}

// LogLine is a line of a log.
type LogLine struct {
	Time      time.Time `json:"time"`
	Pod       string    `json:"pod,omitempty"`
	Container string    `json:"container,omitempty"`
	Text      string    `json:"text"`
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

// Logs returns lines of the logs of a workload; an error with status 404 if the server has no source of logs.
func (c *Client) Logs(ctx context.Context, id string, r Range, l LogRange) (Logs, error) {
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	q := Range{Start: r.Start, Site: r.Site}.Query()
	if !l.Start.IsZero() {
		q.Set("from", l.Start.UTC().Format(time.RFC3339Nano))
	}
	if !l.End.IsZero() {
		q.Set("to", l.End.UTC().Format(time.RFC3339Nano))
	}
	if l.First {
		q.Set("order", "first")
	}
	if l.Limit > 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	var logs Logs
	err := c.get(ctx, "/api/reckon/v1/logs/"+strings.Join(words, "/"), q, &logs)
	return logs, err
}
