// Package loki fetches the logs of a workload from Grafana Loki (GET /loki/api/v1/query_range,
// https://grafana.com/docs/loki/latest/reference/loki-http-api/). A LogQL template selects the streams, since collectors use different
// labels. A [Client] is safe for concurrent use.
package loki

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"reckon/answer"
	"reckon/figure/wire"
)

const (
	// DefaultSelector selects the logs of pods by the usual labels of collectors in Kubernetes.
	DefaultSelector = `{namespace="{{.Namespace}}",pod=~"{{.Pods}}"}`
	// Page is the number of lines per request, Loki's default limit.
	Page = 5000
	// maxAnswer limits a response, bytes.
	maxAnswer = 64 << 20
)

// ErrConfig means an invalid address or selector.
var ErrConfig = errors.New("not valid")

// Client queries one Loki server.
type Client struct {
	base     *url.URL
	selector *template.Template
	text     string
	http     *http.Client
}

// New returns a client for a Loki address, which may contain a user and a password. selector is a stream selector, or
// empty for [DefaultSelector]. The error for an invalid argument matches [ErrConfig].
func New(address, selector string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the address of Loki is %w; write it like http://loki:3100", ErrConfig)
	}
	c := &Client{base: base, text: selector, http: &http.Client{Timeout: time.Minute}}
	c.selector, err = parseSelector(selector)
	return c, err
}

func parseSelector(selector string) (*template.Template, error) {
	t, err := template.New("selector").Option("missingkey=error").Parse(cmp.Or(selector, DefaultSelector))
	if err == nil {
		_, err = renderSelector(t, &answer.LogPlace{})
	}
	if err != nil {
		return nil, fmt.Errorf("the selector is %w: %w; it may have {{.Namespace}}, {{.Pods}}, {{.Unit}} and {{.Nodes}}", ErrConfig, err)
	}
	return t, nil
}

// Query returns the LogQL query of a place for a selector, as accepted by New.
func Query(selector string, p *answer.LogPlace) (string, error) {
	t, err := parseSelector(selector)
	if err != nil {
		return "", err
	}
	return renderSelector(t, p)
}

// renderSelector quotes values for LogQL, so that no name can end a string.
func renderSelector(t *template.Template, p *answer.LogPlace) (string, error) {
	inner := func(v string) string { q := strconv.Quote(v); return q[1 : len(q)-1] }
	var b strings.Builder
	err := t.Execute(&b, map[string]string{
		"Namespace": inner(p.Namespace), "Pods": inner(p.PodPattern()), "Unit": inner(p.Unit), "Nodes": inner(strings.Join(p.Nodes, "|")),
	})
	return b.String(), err
}

// errSystemdUnit is for systemd units, which have no standard labels.
var errSystemdUnit = fmt.Errorf("the labels of units in Loki are %w: give them, such as '{unit=\"{{.Unit}}\"}'", ErrConfig)

func (c *Client) buildQuery(p *answer.LogPlace) (string, error) {
	if p.Unit != "" && c.text == "" {
		return "", errSystemdUnit
	}
	return renderSelector(c.selector, p)
}

// Logs implements answer.LogSource.
func (c *Client) Logs(ctx context.Context, p *answer.LogPlace, first bool, limit int) (wire.Logs, error) {
	q, err := c.buildQuery(p)
	if errors.Is(err, errSystemdUnit) {
		err = answer.NotFound("", err)
	}
	if err != nil {
		return wire.Logs{}, err
	}
	lines, err := c.fetchPage(ctx, q, p.From, p.To, first, min(limit+1, Page))
	if err != nil {
		return wire.Logs{}, err
	}
	kept, more := answer.SortLogs(lines, first, limit)
	return wire.Logs{Source: "loki", Query: q, Lines: kept, More: more}, nil
}

// Each calls f for each log line of a place in order of time. It returns the query and the number of lines. Each page
// of results starts at the last time of the previous page, because several lines can have the same time.
func (c *Client) Each(ctx context.Context, p *answer.LogPlace, f func(*wire.LogLine)) (query string, n int, err error) {
	if query, err = c.buildQuery(p); err != nil {
		return "", 0, err
	}
	n, err = EachPage(p.From, func(from time.Time) ([]wire.LogLine, error) { return c.fetchPage(ctx, query, from, p.To, true, Page) },
		Page, f)
	return query, n, err
}

// EachPage calls f for each line of pages of the given size; each starts at the time of the last line of the previous one.
func EachPage(from time.Time, page func(from time.Time) ([]wire.LogLine, error), size int, f func(*wire.LogLine)) (n int, err error) {
	seen := map[wire.LogLine]bool{} // with the time of the last line
	for {
		lines, err := page(from)
		if err != nil {
			return n, err
		}
		fresh := 0
		for i := range lines {
			e := &lines[i]
			if seen[*e] {
				continue
			}
			if !e.Time.Equal(from) {
				clear(seen)
				from = e.Time
			}
			seen[*e] = true
			f(e)
			fresh++
		}
		n += fresh
		switch {
		case len(lines) < size:
			return n, nil
		case fresh == 0: // more lines with one time than fit in a page
			from = from.Add(1)
			clear(seen)
		}
	}
}

// fetchPage fetches one page in order of time.
func (c *Client) fetchPage(ctx context.Context, query string, from, to time.Time, first bool, limit int) ([]wire.LogLine, error) {
	direction := "backward"
	if first {
		direction = "forward"
	}
	u := c.base.JoinPath("loki/api/v1/query_range")
	u.RawQuery = url.Values{
		"query": {query}, "start": {strconv.FormatInt(from.UnixNano(), 10)}, "end": {strconv.FormatInt(to.UnixNano(), 10)},
		"limit": {strconv.Itoa(limit)}, "direction": {direction},
	}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the password that the address may contain
		}
		return nil, fmt.Errorf("ask Loki: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask Loki: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answer of Loki: %s: %.200s", resp.Status, strings.TrimSpace(string(body)))
	}
	return parseResponse(body)
}

// parseResponse parses a response: nanoseconds and lines of each stream.
func parseResponse(body []byte) ([]wire.LogLine, error) {
	var answer struct {
		Data struct {
			Type   string `json:"resultType"`
			Result []struct {
				Stream map[string]string `json:"stream"`
				Values [][]any           `json:"values"` // nanoseconds, line, and optional metadata
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Data.Type != "streams" {
		return nil, fmt.Errorf("read the answer of Loki: %w",
			cmp.Or(err, errors.New("it has no streams; the selector is to be one of streams, without functions")))
	}
	var out []wire.LogLine
	for _, r := range answer.Data.Result {
		pod, container := cmp.Or(r.Stream["pod"], r.Stream["k8s_pod_name"]), cmp.Or(r.Stream["container"], r.Stream["k8s_container_name"])
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
			out = append(out, wire.LogLine{Time: time.Unix(0, ns), Pod: pod, Container: container, Text: text})
		}
	}
	slices.SortStableFunc(out, func(a, b wire.LogLine) int { return a.Time.Compare(b.Time) })
	return out, nil
}
