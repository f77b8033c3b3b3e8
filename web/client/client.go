// Package client is the Go client of reckon's HTTP API. The types of its answers are those of package figure/wire, which have their
// names here too.
//
// Times are RFC 3339 in UTC; figures are in SI base units. A figure that was not
// measured is absent (null), never zero.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DefaultServer is the default address of `reckon up`.
const DefaultServer = "http://127.0.0.1:9870"

// maxAnswer limits the bytes read from a response, so that a wrong address cannot exhaust memory.
const maxAnswer = 1 << 30

// Client queries one server. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	http      *http.Client
	userAgent string
	token     string
	socket    string // path of a Unix socket; empty for none
}

// Option configures a new [Client].
type Option func(*Client)

// WithHTTP sets the HTTP client, for TLS, proxies and tests.
func WithHTTP(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithUserAgent sets the User-Agent header.
func WithUserAgent(s string) Option { return func(c *Client) { c.userAgent = s } }

// WithToken sends a token with every request to the server, and nowhere else.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// Sockets returns the default API sockets of servers on this machine, in order of preference. The first is the socket of the user's own
// server in runtimeDir (XDG_RUNTIME_DIR), unless runtimeDir is empty. The other is the socket of a server run by root.
func Sockets(runtimeDir string) []string {
	out := []string{"/run/reckon/api.sock"}
	if runtimeDir != "" {
		out = append([]string{filepath.Join(runtimeDir, "reckon", "api.sock")}, out...)
	}
	return out
}

// New returns a client for the server at an address, or at [DefaultServer] if it is empty. unix:PATH is a local Unix
// socket. The scheme (http) and the port (9870) are optional. A path is kept as a prefix of all requests, for servers
// behind a proxy. New sends no request.
func New(server string, opts ...Option) (*Client, error) {
	path, socket := strings.CutPrefix(strings.TrimSpace(server), "unix:")
	if socket {
		server = "http://localhost"
	}
	base, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	c := &Client{base: base, http: &http.Client{}, userAgent: "reckon"}
	if socket {
		c.socket = path
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	for _, o := range opts {
		o(c)
	}
	return c, nil
}

// Server returns the full address, without a password.
func (c *Client) Server() string {
	if c.socket != "" {
		return "unix:" + c.socket
	}
	return c.base.Redacted()
}

func parseServer(server string) (*url.URL, error) {
	text := cmp.Or(strings.TrimSpace(server), DefaultServer)
	bad := func(why string) error {
		return fmt.Errorf("server address %q: %s; write it as http://HOST:9870 or https://HOST", server, why)
	}
	if strings.HasPrefix(text, ":") && strings.Count(text, ":") == 1 { // :9870, as in --listen
		text = "127.0.0.1" + text
	}
	explicit := strings.Contains(text, "://")
	if !explicit {
		if strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") { // a bare IPv6 address
			text = "[" + text + "]"
		}
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, bad(err.Error())
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, bad("the scheme " + u.Scheme + " is not http or https")
	case u.Hostname() == "":
		return nil, bad("there is no host in it")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, bad("it must end with the host or a path")
	}
	if u.Port() == "" && !explicit {
		u.Host = net.JoinHostPort(u.Hostname(), "9870")
	}
	if host := u.Hostname(); host == "0.0.0.0" || host == "::" { // addresses to listen on, not to connect to
		u.Host = strings.Replace(u.Host, host, map[string]string{"0.0.0.0": "127.0.0.1", "::": "::1"}[host], 1)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// APIError is a response of the server with a status of 400 or above.
type APIError struct {
	Status int
	Err    Error
}

// Error returns the error and the hint of the server.
func (e *APIError) Error() string {
	if e.Err.Hint != "" {
		return e.Err.Error + "; " + e.Err.Hint
	}
	return e.Err.Error
}

// Workloads lists the workloads that the filter selects.
func (c *Client) Workloads(ctx context.Context, f Filter) (WorkloadList, error) {
	var list WorkloadList
	err := c.get(ctx, "/api/reckon/v1/workloads", f.Query(), &list)
	return list, err
}

// Workload returns a workload with its profile. The id is kind/name; a unique name is enough.
func (c *Client) Workload(ctx context.Context, id string, r Range) (WorkloadDetail, error) {
	var d WorkloadDetail
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	err := c.get(ctx, "/api/reckon/v1/workloads/"+strings.Join(words, "/"), r.Query(), &d)
	return d, err
}

// Nodes lists the nodes of the site.
func (c *Client) Nodes(ctx context.Context) (NodeList, error) {
	var list NodeList
	err := c.get(ctx, "/api/reckon/v1/nodes", nil, &list)
	return list, err
}

func (c *Client) get(ctx context.Context, path string, q url.Values, into any) error {
	return c.getJSON(ctx, http.MethodGet, path, q, into)
}

func (c *Client) post(ctx context.Context, path string, q url.Values, into any) error {
	return c.getJSON(ctx, http.MethodPost, path, q, into)
}

func (c *Client) getJSON(ctx context.Context, method, path string, q url.Values, into any) error {
	body, err := c.send(ctx, method, path, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s%s did not answer with reckon's JSON (%v); is this a reckon server?", c.Server(), path, err)
	}
	return nil
}

// send sends a request and returns the body of a 200 response. POST sends q as a form.
func (c *Client) send(ctx context.Context, method, path string, q url.Values) ([]byte, error) {
	resp, err := c.sendRequest(ctx, method, path, q, "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.Server(), err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.responseError(resp, body)
	}
	return body, nil
}

func (c *Client) sendRequest(ctx context.Context, method, path string, q url.Values, accept string) (*http.Response, error) {
	target, err := url.Parse(c.base.String() + path)
	if err != nil {
		return nil, fmt.Errorf("address %s%s: %w", c.Server(), path, err)
	}
	var form io.Reader
	if method == http.MethodPost {
		form = strings.NewReader(q.Encode())
	} else {
		target.RawQuery = q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), form)
	if err != nil {
		return nil, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachableError(ctx, err)
	}
	return resp, nil
}

// responseError converts an error response, also one of a proxy or of another program.
func (c *Client) responseError(resp *http.Response, body []byte) error {
	e := &APIError{Status: resp.StatusCode}
	if json.Unmarshal(body, &e.Err) == nil && e.Err.Error != "" {
		return e
	}
	e.Err.Error = fmt.Sprintf("%s answered %s", c.Server(), resp.Status)
	if resp.StatusCode == http.StatusNotFound {
		e.Err.Hint = "is this a reckon server? name one with --server or RECKON_SERVER"
	}
	return e
}

// unreachableError returns an error with the reason for a missing response and the remedy.
func (c *Client) unreachableError(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		err = transport.Err
	}
	const do = "start one with `reckon up`, or name one with --server or RECKON_SERVER"
	var dns *net.DNSError
	switch {
	case c.socket != "" && errors.Is(err, syscall.ENOENT):
		return &UnreachableError{c.Server(), "there is no such socket", do, err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &UnreachableError{c.Server(), "connection refused", do, err}
	case errors.As(err, &dns):
		return &UnreachableError{c.Server(), "the name " + dns.Name + " is unknown", "check --server or RECKON_SERVER", err}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return &UnreachableError{c.Server(), "no answer in time", "check the address, a firewall, and whether the server is busy", err}
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &UnreachableError{c.Server(), "it speaks http, not https", "write " + strings.Replace(c.Server(), "https:", "http:", 1), err}
	case strings.Contains(err.Error(), "malformed HTTP"):
		return &UnreachableError{c.Server(), "it does not speak HTTP", "check the port, or write https:// in front", err}
	}
	return &UnreachableError{c.Server(), err.Error(), do, err}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// UnreachableError means that no server responded.
type UnreachableError struct {
	Server string
	Reason string
	Fix    string
	Err    error
}

// Error returns one line with the place, the reason and the remedy.
func (e *UnreachableError) Error() string {
	return "no reckon server at " + e.Server + ": " + e.Reason + "; " + e.Fix
}

// Unwrap returns the cause, for errors.Is.
func (e *UnreachableError) Unwrap() error { return e.Err }

// timeFloat converts Unix seconds, as in the Prometheus API.
func timeFloat(seconds float64) time.Time {
	return time.UnixMilli(int64(seconds * 1000)).UTC()
}
