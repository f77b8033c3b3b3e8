package client

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
