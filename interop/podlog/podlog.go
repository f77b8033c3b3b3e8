// Package podlog reads the logs of existing pods from the API server of the cluster that the program runs in (GET
// /api/v1/namespaces/NAMESPACE/pods/POD/log, https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/), with the
// token of its service account, which needs get on pods/log. A [Client] is safe for concurrent use.
package podlog

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"reckon/answer"
	"reckon/figure/wire"
)

const (
	// maxContainers limits the number of logs per question, maxLog the bytes per log.
	maxContainers = 50
	maxLog        = 4 << 20
	maxLine       = 256 << 10
)

// AccountFolder is the place where Kubernetes mounts the credentials of a pod's service account.
const AccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// Client queries one API server.
type Client struct {
	server, tokenFile string
	http              *http.Client
}

// New returns a client of the API server at an address, with the token and the CA certificate in a service account folder.
func New(host, port, folder string) (*Client, error) {
	if host == "" {
		return nil, errors.New("logs of pods: no API server: this is no pod of Kubernetes (KUBERNETES_SERVICE_HOST is not set)")
	}
	ca, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("logs of pods: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("logs of pods: ca.crt holds no certificate in PEM form")
	}
	return &Client{
		server: "https://" + net.JoinHostPort(host, port), tokenFile: filepath.Join(folder, "token"),
		http: &http.Client{
			Timeout: 30 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxConnsPerHost: 4,
				IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// errGone is for a pod or container that no longer exists.
var errGone = errors.New("gone")

// Logs implements answer.LogSource.
func (c *Client) Logs(ctx context.Context, p *answer.LogPlace, first bool, limit int) (wire.Logs, error) {
	logs := wire.Logs{Source: "kubernetes"}
	if p.Namespace == "" {
		return logs, answer.NotFound("", errors.New("only pods have logs at the API server"))
	}
	read, more := 0, false
	for _, pod := range p.Pods {
		containers := p.Containers[pod]
		if len(containers) == 0 {
			containers = []string{""} // a pod with one container needs no name
		}
		for _, name := range containers {
			if read++; read > maxContainers {
				logs.Missing = append(logs.Missing, fmt.Sprintf("more than %d containers", maxContainers))
				break
			}
			lines, cut, err := c.readContainer(ctx, p, pod, name, first, limit)
			if errors.Is(err, errGone) {
				logs.Missing = append(logs.Missing, strings.Trim(pod+"/"+name, "/"))
				continue
			}
			if err != nil {
				return logs, err
			}
			logs.Lines, more = append(logs.Lines, lines...), more || cut
		}
		if read > maxContainers {
			break
		}
	}
	logs.Lines, logs.More = answer.SortLogs(logs.Lines, first, limit)
	logs.More = logs.More || more
	return logs, nil
}

// readContainer reads the log of one container.
func (c *Client) readContainer(ctx context.Context, p *answer.LogPlace, pod, name string, first bool, limit int) (lines []wire.LogLine,
	more bool, err error) {
	q := url.Values{"timestamps": {"true"}, "sinceTime": {p.From.UTC().Format(time.RFC3339)}, "limitBytes": {strconv.Itoa(maxLog)}}
	if name != "" {
		q.Set("container", name)
	}
	if !first {
		q.Set("tailLines", strconv.Itoa(limit+1))
	}
	u := c.server + "/api/v1/namespaces/" + url.PathEscape(p.Namespace) + "/pods/" + url.PathEscape(pod) + "/log?" + q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, false, err
	}
	token, err := os.ReadFile(c.tokenFile) // it is rotated
	if err != nil {
		return nil, false, fmt.Errorf("logs of pods: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, false, fmt.Errorf("ask the API server for logs: %w", err)
	}
	defer resp.Body.Close()
	if err := responseError(resp); err != nil {
		return nil, false, err
	}
	return parseLog(io.LimitReader(resp.Body, maxLog), p, wire.LogLine{Pod: pod, Container: name}, first, limit)
}

// responseError returns an error for a response that is not a log.
func responseError(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var status struct {
		Message string `json:"message"`
	}
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&status)
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusBadRequest: // deleted, or not started yet
		return errGone
	case http.StatusForbidden:
		return fmt.Errorf("the API server refuses logs: grant the server's account get on pods/log (logs.pods=true in the chart): %.200s",
			status.Message)
	}
	return fmt.Errorf("answer of the API server: %s: %.200s", resp.Status, status.Message)
}

// parseLog reads lines "TIME TEXT" within the times of a place. A line longer than maxLine is truncated.
func parseLog(r io.Reader, p *answer.LogPlace, of wire.LogLine, first bool, limit int) (lines []wire.LogLine, more bool, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, cut, err := in.ReadLine()
		at, text, _ := strings.Cut(string(line), " ")
		for rest := err; cut && rest == nil; {
			_, cut, rest = in.ReadLine()
		}
		if errors.Is(err, io.EOF) {
			return lines, more, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read a log: %w", err)
		}
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.Before(p.From) || t.After(p.To) {
			continue // an incomplete line at a limit, or from another run with the name
		}
		if of.Time, of.Text = t, text; len(lines) == limit {
			more = true
			if first {
				return lines, more, nil
			}
			lines = append(lines[:0], lines[1:]...)
		}
		lines = append(lines, of)
	}
}
