package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"reckon/answer"
	"reckon/internal/term"
	"reckon/interop/loki"
	"reckon/web/client"
)

// Logs are not collected: they are fetched from Loki or through the server, or the command that shows them is printed.

// logOptions define where logs are stored.
type logOptions struct {
	show           bool
	loki, selector string
}

// quote quotes a word for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@:/", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// printLogCommands prints commands that show the logs of a place without Loki.
func printLogCommands(w io.Writer, s *answer.LogPlace, selector string) error {
	if s.Unit != "" {
		until := s.To.Local().Format(time.DateTime)
		fmt.Fprintf(w, "journalctl --unit=%s --since='%s' --until='%s'    # on %s\n", quote(s.Unit),
			s.From.Local().Format(time.DateTime), until, strings.Join(s.Nodes, ", "))
		return nil
	}
	for _, p := range s.Pods {
		fmt.Fprintf(w, "kubectl -n %s logs %s --all-containers --prefix --timestamps --since-time=%s\n", quote(s.Namespace),
			quote(p), s.From.UTC().Format(time.RFC3339))
	}
	q, err := loki.Query(selector, s)
	if err != nil {
		return asLokiUsageError(err)
	}
	fmt.Fprintf(w, "\nPods that are gone have their logs in Loki, if anything collects them: --loki URL, or there from %s to %s\n  %s\n",
		s.From.UTC().Format(time.RFC3339), s.To.UTC().Format(time.RFC3339), q)
	return nil
}

// asLokiUsageError turns configuration errors into usage errors.
func asLokiUsageError(err error) error {
	if errors.Is(err, loki.ErrConfig) {
		return &usageError{err}
	}
	return err
}

// showLogs prints the logs of a run, or how to view them.
func showLogs(ctx context.Context, g *globals, c *client.Client, o logOptions, detail *client.WorkloadDetail, now time.Time) error {
	s, err := answer.FindLogPlace(detail, now)
	if err != nil {
		return err
	}
	write := func(e *client.LogLine) {
		from := cmp.Or(strings.Trim(e.Pod+"/"+e.Container, "/"), "-")
		fmt.Fprintf(g.stdout, "%s %s %s\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), term.Safe(from), term.Safe(e.Text))
	}
	var place string
	var n int
	if address := cmp.Or(o.loki, g.getenv("RECKON_LOKI")); address != "" {
		l, lerr := loki.New(address, o.selector)
		if lerr != nil {
			return asLokiUsageError(lerr)
		}
		place, n, err = l.Each(ctx, &s, write)
		err = asLokiUsageError(err)
	} else {
		place, n, err = fetchServerLogs(ctx, g, c, detail, write)
		if e := (*client.APIError)(nil); errors.As(err, &e) && e.Status == http.StatusNotFound && n == 0 {
			return printLogCommands(g.stdout, &s, o.selector)
		}
	}
	if err == nil && n == 0 {
		err = fmt.Errorf("no line of %s from %s to %s", place, s.From.UTC().Format(time.RFC3339), s.To.UTC().Format(time.RFC3339))
	}
	return err
}

// fetchServerLogs fetches logs through the server, if it has a source of logs.
func fetchServerLogs(ctx context.Context, g *globals, c *client.Client, detail *client.WorkloadDetail,
	each func(*client.LogLine)) (place string,
	n int,
	err error) {
	place = detail.ID
	run := client.Range{Start: detail.Start, Site: detail.Site}
	n, err = loki.EachPage(time.Time{}, func(from time.Time) ([]client.LogLine, error) {
		logs, err := c.Logs(ctx, detail.ID, run, client.LogRange{Start: from, First: true, Limit: loki.Page})
		if err == nil && from.IsZero() {
			g.reportMissing(logs.Missing)
			place = cmp.Or(logs.Query, place) + " at " + logs.Source
		}
		return logs.Lines, err
	}, loki.Page, each)
	return place, n, err
}
