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
	// Source is where they come from: loki, or kubernetes for the API server.
	Source string `json:"source"`
	// Query is what Loki was asked, empty else.
	Query string `json:"query,omitempty"`
	// From and To bound the times that were asked for.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// More: there are more lines than were wanted.
	More  bool      `json:"more"`
	Lines []LogLine `json:"lines"`
	// Missing names what could not be asked, such as pods that are gone.
	Missing []string `json:"missing,omitempty"`
}

// LogLine is a line of a log.
type LogLine struct {
	Time      time.Time `json:"time"`
	Pod       string    `json:"pod,omitempty"`
	Container string    `json:"container,omitempty"`
	Text      string    `json:"text"`
}

// LogRange says which lines are wanted.
type LogRange struct {
	// Start and End bound the times; zero: from shortly before the start of the run to shortly after its end.
	Start, End time.Time
	// First: the first lines of the time, not the last.
	First bool
	// Limit is how many, 500 if 0.
	Limit int
}

// Logs returns lines of the logs of a workload; an error with status 404 where the server knows no place of logs.
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
