package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Pushing defines how a script's own figures are sent; see [PushOwn].
type Pushing struct {
	// Socket is the socket of the agent of this machine.
	Socket string
	// Add adds the figures to those sent before, for counters.
	Add bool
	// Keep is the time that a figure is valid, unless its workload ends before; 0 means the default of the agent.
	Keep time.Duration
}

// PushOwn sends figures in the Prometheus text format to the agent on this machine. The agent attributes them to the
// workload of the sending process. answer is a sentence that names the workload.
func PushOwn(ctx context.Context, p Pushing, text []byte) (answer string, err error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	q := url.Values{}
	if p.Add {
		q.Set("add", "1")
	}
	if p.Keep > 0 {
		q.Set("for", p.Keep.String())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/?"+q.Encode(), bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "text/plain; version=0.0.4")
	resp, err := (&http.Client{Transport: transport, Timeout: 15 * time.Second}).Do(req)
	if err != nil {
		return "", socketError(p.Socket, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return "", fmt.Errorf("read the answer of the agent: %w", err)
	}
	answer = strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(answer)
	}
	return answer, nil
}

// socketError explains why there is no answer at a socket.
func socketError(socket string, err error) error {
	const start = "start `reckon-agent` or `reckon up` on this machine, or name its socket with --socket"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no agent listens at %s: there is no such socket; %s", socket, start)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no agent listens at %s any more; %s", socket, start)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be opened by this user; name another socket with --socket", socket)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("send to the agent at %s: %w", socket, err)
}
