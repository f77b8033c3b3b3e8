package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"reckon/client"
	"reckon/internal/term"
)

// Logs are not collected: they are asked for where they lie, at Loki, or the command that shows them is printed.

const (
	// defaultSelector finds the logs of pods by the labels that collectors of Kubernetes set.
	defaultSelector = `{namespace="{{.Namespace}}",pod=~"{{.Pods}}"}`
	// logMargin is what is shown before the start and after the end: clocks and starts of programs differ.
	logMargin = 2 * time.Second
	// lokiPage is how many lines are asked for at a time, the limit that Loki has by itself.
	lokiPage   = 5000
	maxLokiLen = 64 << 20
)

// logOptions say where logs are.
type logOptions struct {
	show           bool
	loki, selector string
}

// logSource is where the logs of a run lie.
type logSource struct {
	Namespace string
	Pods      string // a regular expression
	pods      []string
	unit      string
	nodes     []string
	from, to  time.Time
	running   bool
}

// logsOf finds where the logs of a run lie, or says why that is not known.
func logsOf(d *client.WorkloadDetail, now time.Time) (s logSource, err error) {
	s = logSource{from: d.Start.Add(-logMargin), to: now, running: d.End == nil}
	if d.End != nil {
		s.to = d.End.Add(logMargin)
	}
	for _, p := range d.Parts {
		if !slices.Contains(s.nodes, p.Node) {
			s.nodes = append(s.nodes, p.Node)
		}
	}
	id := strings.SplitN(d.ID, "/", 3)
	switch {
	case id[0] == "unit" && len(id) == 2:
		s.unit = id[1]
		return s, nil
	case len(id) < 3 || id[1] != d.Owner:
		return s, fmt.Errorf("where %s logs is not known; --logs knows pods and units of systemd", d.ID)
	}
	s.Namespace = id[1]
	for _, p := range d.Parts {
		if pod, _, _ := strings.Cut(p.Part, "/"); id[0] != "pod" && pod != "" && !slices.Contains(s.pods, pod) {
			s.pods = append(s.pods, pod)
		}
	}
	if id[0] == "pod" {
		s.pods = []string{id[2]}
	}
	if len(s.pods) == 0 {
		return s, fmt.Errorf("no pod of %s is known", d.ID)
	}
	slices.Sort(s.pods)
	quoted := make([]string, len(s.pods))
	for i, p := range s.pods {
		quoted[i] = regexp.QuoteMeta(p)
	}
	s.Pods = strings.Join(quoted, "|")
	return s, nil
}

// query is the LogQL of the logs. Values are quoted as LogQL does, so that no name ends the text.
func (s *logSource) query(selector string) (string, error) {
	t, err := template.New("selector").Option("missingkey=error").Parse(cmp.Or(selector, defaultSelector))
	if err != nil {
		return "", &usageError{fmt.Errorf("--loki-selector: %w", err)}
	}
	inner := func(v string) string { q := strconv.Quote(v); return q[1 : len(q)-1] }
	var b strings.Builder
	if err := t.Execute(&b, map[string]string{"Namespace": inner(s.Namespace), "Pods": inner(s.Pods), "Unit": inner(s.unit), "Nodes": inner(strings.Join(s.nodes, "|"))}); err != nil {
		return "", &usageError{fmt.Errorf("--loki-selector: %w; it may have {{.Namespace}}, {{.Pods}}, {{.Unit}} and {{.Nodes}}", err)}
	}
	return b.String(), nil
}

// shellWord is a word as a shell takes it.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@:/", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// commands print how the logs can be seen without Loki.
func (s *logSource) commands(w io.Writer, selector string) error {
	until := s.to.Local().Format(time.DateTime)
	if s.unit != "" {
		fmt.Fprintf(w, "journalctl --unit=%s --since='%s' --until='%s'    # on %s\n", shellWord(s.unit), s.from.Local().Format(time.DateTime), until, strings.Join(s.nodes, ", "))
		return nil
	}
	for _, p := range s.pods {
		fmt.Fprintf(w, "kubectl -n %s logs %s --all-containers --prefix --timestamps --since-time=%s\n", shellWord(s.Namespace), shellWord(p), s.from.UTC().Format(time.RFC3339))
	}
	q, err := s.query(selector)
	if err == nil {
		fmt.Fprintf(w, "\nPods that are gone have their logs in Loki, if anything collects them: --loki URL, or there from %s to %s\n  %s\n",
			s.from.UTC().Format(time.RFC3339), s.to.UTC().Format(time.RFC3339), q)
	}
	return err
}

// showLogs prints the logs of a run, or how to see them.
func showLogs(ctx context.Context, g *globals, o logOptions, d *client.WorkloadDetail, now time.Time) error {
	s, err := logsOf(d, now)
	if err != nil {
		return err
	}
	loki := cmp.Or(o.loki, g.getenv("RECKON_LOKI"))
	if loki == "" {
		return s.commands(g.stdout, o.selector)
	}
	if s.unit != "" && o.selector == "" {
		return &usageError{errors.New("give the labels of units in Loki, such as --loki-selector '{unit=\"{{.Unit}}\"}'")}
	}
	q, err := s.query(o.selector)
	if err != nil {
		return err
	}
	n, err := readLoki(ctx, loki, q, s.from, s.to, func(e *logLine) {
		fmt.Fprintf(g.stdout, "%s %s %s\n", e.at.UTC().Format("2006-01-02T15:04:05.000Z"), term.Safe(e.from), term.Safe(e.text))
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("no line of %s from %s to %s in Loki", q, s.from.UTC().Format(time.RFC3339), s.to.UTC().Format(time.RFC3339))
	}
	return err
}

// logLine is one line of a log.
type logLine struct {
	at         time.Time
	from, text string
}

// readLoki calls f for each line, in order of time, page after page (GET /loki/api/v1/query_range,
// https://grafana.com/docs/loki/latest/reference/loki-http-api/). A page begins with the time of the last line of the one before it,
// since several lines can have one time.
func readLoki(ctx context.Context, server, query string, from, to time.Time, f func(*logLine)) (n int, err error) {
	base, err := url.Parse(server)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return 0, &usageError{errors.New("--loki is not valid; write it like http://loki:3100")}
	}
	seen := map[logLine]bool{} // of the last time
	for {
		page, err := askLoki(ctx, base, query, from, to)
		if err != nil {
			return n, err
		}
		fresh := 0
		for i := range page {
			e := &page[i]
			if seen[*e] {
				continue
			}
			if !e.at.Equal(from) {
				clear(seen)
				from = e.at
			}
			seen[*e] = true
			f(e)
			fresh++
		}
		n += fresh
		switch {
		case len(page) < lokiPage:
			return n, nil
		case fresh == 0: // more lines of one time than a page has
			from = from.Add(1)
			clear(seen)
		}
	}
}

// askLoki asks for a page, ordered by time.
func askLoki(ctx context.Context, base *url.URL, query string, from, to time.Time) ([]logLine, error) {
	u := base.JoinPath("loki/api/v1/query_range")
	u.RawQuery = url.Values{
		"query": {query}, "start": {strconv.FormatInt(from.UnixNano(), 10)}, "end": {strconv.FormatInt(to.UnixNano(), 10)},
		"limit": {strconv.Itoa(lokiPage)}, "direction": {"forward"},
	}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the password that the address may have
		}
		return nil, fmt.Errorf("ask Loki: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLokiLen))
	if err != nil {
		return nil, fmt.Errorf("ask Loki: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answer of Loki: %s: %.200s", resp.Status, strings.TrimSpace(string(body)))
	}
	var answer struct {
		Data struct {
			Type   string `json:"resultType"`
			Result []struct {
				Stream map[string]string `json:"stream"`
				Values [][]any           `json:"values"` // nanoseconds, line, and maybe more
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Data.Type != "streams" {
		return nil, fmt.Errorf("read the answer of Loki: %w", cmp.Or(err, errors.New("it has no streams; the selector is to be one of streams, without functions")))
	}
	var out []logLine
	for _, r := range answer.Data.Result {
		from := strings.Trim(r.Stream["pod"]+"/"+r.Stream["container"], "/")
		for _, v := range r.Values {
			if len(v) < 2 {
				continue
			}
			at, _ := v[0].(string)
			text, _ := v[1].(string)
			ns, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read the answer of Loki: %q is no time", at)
			}
			out = append(out, logLine{time.Unix(0, ns), cmp.Or(from, "-"), text})
		}
	}
	slices.SortStableFunc(out, func(a, b logLine) int { return a.at.Compare(b.at) })
	return out, nil
}
