// Package kubelet queries the kubelet of this node for its pods over plain HTTP: GET /pods, a v1.PodList with specification and status of
// every pod on the node (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/). The caller needs get on
// nodes/pods (Kubernetes 1.33 or later); nodes/proxy would also be enough, but it is never requested because it means root in every pod.
//
// [Client] sends one query and decodes the answer pod by pod, so that a list of 32 MB takes only the memory of its largest pod and of the
// kept fields. Text that is unchanged since the previous answer is not decoded again. [Cache] keeps the pods and repeats the query. Cores
// are in cores, memory in bytes. Both are safe for concurrent use; a [Pod] is never changed after it was made.
package kubelet

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"reckon/internal/webconfig"
)

// DefaultAddress is the machine's kubelet, for an agent in the machine's network.
const DefaultAddress = "https://127.0.0.1:10250"

// serviceAccountDir is the folder of a pod's service account files, with which it accesses the cluster.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Bounds of an answer. The API server refuses objects above 1.5 MiB.
const (
	maxResponse = 128 << 20
	maxPod      = 8 << 20
	maxPods     = 10_000
)

// ErrRefused is the error for responses with status 401 or 403.
var ErrRefused = errors.New("the kubelet refuses")

// Config controls how the kubelet is reached.
type Config struct {
	// Address is http(s)://HOST:PORT, [DefaultAddress] if empty.
	Address string
	// TokenFile holds the bearer token, CAFile the authorities to trust. The default is the service
	// account of the agent's pod. Both are read again for each use, because they are rotated.
	TokenFile, CAFile string
	// Insecure takes any certificate: the token is then shown to whatever listens at the address.
	Insecure bool
	// Node is the name of the node, which a kubelet's certificate may have instead of its address.
	Node string
	// Root is the mount point of the machine's file tree, "/" if empty. A self-signed kubelet
	// certificate is trusted if it is in var/lib/kubelet/pki there.
	Root string
	// Timeout is for one whole answer, 10 s if 0.
	Timeout time.Duration
}

// InCluster reports whether the program runs in a pod with a service account, which may be authorized to query.
func InCluster() bool {
	_, err := os.Stat(serviceAccountDir + "/token")
	return err == nil
}

// Client queries one kubelet.
type Client struct {
	config Config
	http   *http.Client
	url    string

	mu      sync.Mutex // guards decoder
	decoder decoder
}

// New checks the configuration without sending a query.
func New(c Config) (*Client, error) {
	c.Address = strings.TrimSuffix(cmp.Or(c.Address, DefaultAddress), "/")
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	u, err := url.Parse(c.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("kubelet: the address is not valid; write it like %s", DefaultAddress)
	}
	t := &serverTrust{Config: c, host: u.Hostname()}
	if c.CAFile != "" && !c.Insecure {
		if _, err := t.certificateRoots(); err != nil {
			return nil, err
		}
	}
	return &Client{
		config: c, url: c.Address + "/pods",
		http: &http.Client{
			Timeout: c.Timeout,
			Transport: &http.Transport{
				// trust.verify checks the certificate: one that the kubelet signed itself names no address.
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12,
					InsecureSkipVerify: true, VerifyConnection: t.verify}, //nolint:gosec // see above
				MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, IdleConnTimeout: 90 * time.Second,
				ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10, MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// URL returns the address of the kubelet.
func (c *Client) URL() string { return c.url }

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Pods queries the pods of the node. If the answer breaks off, it returns the complete pods and the error.
func (c *Client) Pods(ctx context.Context) ([]*Pod, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return nil, err
	}
	if err := c.authorize(req); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.describeError(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf(
			"%w: %s; give a token of an account that may get nodes/pods (Kubernetes 1.33 or later); never grant nodes/proxy, which is "+
				"root on every pod", ErrRefused, resp.Status)
	default:
		return nil, fmt.Errorf("the kubelet answers %s", resp.Status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pods, err := c.decoder.decode(resp.Body)
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // a connection that was read to its end serves the next question
	}
	return pods, c.describeError(err)
}

// authorize adds the token, but only to connections that no one else can read.
func (c *Client) authorize(req *http.Request) error {
	if req.URL.Scheme == "http" && !webconfig.LocalHost(req.URL.Host) {
		return nil
	}
	token, err := os.ReadFile(cmp.Or(c.config.TokenFile, serviceAccountDir+"/token"))
	switch {
	case err == nil:
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	case c.config.TokenFile != "":
		return fmt.Errorf("read the token for the kubelet: %w", err)
	}
	return nil
}

// describeError adds an explanation to errors of package net/http.
func (c *Client) describeError(err error) error {
	var op *net.OpError
	var u *url.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the kubelet did not answer within %v", c.config.Timeout)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("the kubelet can not be reached: %w", op.Err)
	case errors.As(err, &u):
		return fmt.Errorf("ask the kubelet: %w", u.Err)
	}
	return err
}

// Decode reads a v1.PodList. If the input breaks off, it returns the complete pods and an error.
func Decode(r io.Reader) ([]*Pod, error) { return new(decoder).decode(r) }

func malformedError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the list of pods can not be read: %w", err)
}
