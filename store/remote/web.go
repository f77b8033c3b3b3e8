package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"reckon/internal/phrase"
	"reckon/store"
)

// serverClient sends HTTP requests to the remote server.
type serverClient struct {
	conf   *settings
	client *http.Client
	// A store with a full disk answers queries but accepts no samples; one without queriers does
	// the reverse. Each direction therefore has its own breaker.
	reads, writes breaker
	pulse         healthProbe
}

func newServerClient(c *settings) (*serverClient, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caFile != "" {
		pem, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust for %s: %w", c.shown, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", c.caFile)
		}
	}
	if c.certFile != "" {
		if _, err := tls.LoadX509KeyPair(c.certFile, c.keyFile); err != nil {
			return nil, fmt.Errorf("read the certificate to show to %s: %w", c.shown, err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile) // read each time, so that it can be replaced
			return &pair, err
		}
	}
	for _, file := range []string{c.tokenFile, c.passwordFile} {
		if file != "" {
			if _, err := readSecret(file); err != nil {
				return nil, fmt.Errorf("store %s: %w", c.shown, err)
			}
		}
	}
	return &serverClient{conf: c, pulse: healthProbe{silence: healthTimeout, grace: healthTimeout}, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: min(c.timeout, 10*time.Second), KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     conf,
			TLSHandshakeTimeout: min(c.timeout, 10*time.Second),
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
			ForceAttemptHTTP2:   true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// readSecret reads a file that holds one line.
func readSecret(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(raw))
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return "", fmt.Errorf("%s should hold one line", file)
	}
	return s, nil
}

// statusError is a response with status 400 or above that concerns the request, not the server.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("answer %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("answer %d: %s", e.status, e.text)
}

// sendRequest sends a request and returns the body and header of a 2xx response. The caller must close the body. The
// timeout applies to the start of the response and to each read from the body. It ends early if the server fails a
// health check; see [healthProbe]. After a temporary failure the error matches store.ErrUnavailable.
func (w *serverClient) sendRequest(ctx context.Context, method, address string, header map[string]string, body []byte) (io.ReadCloser,
	http.Header, error) {
	return w.sendWithBreaker(ctx, &w.reads, method, address, header, body)
}

// sendWithBreaker is sendRequest with the given circuit breaker.
func (w *serverClient) sendWithBreaker(ctx context.Context, b *breaker, method, address string, header map[string]string,
	body []byte) (io.ReadCloser, http.Header, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := b.allow(); err != nil {
		return nil, nil, err
	}
	limit, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(w.conf.timeout, func() { cancel(os.ErrDeadlineExceeded) })
	watch := w.watch(limit, cancel)
	resp, err := w.send(limit, method, address, header, body)
	if err == nil && resp.StatusCode/100 == 2 {
		b.recordSuccess()
		return &responseBody{LimitedReader: io.LimitedReader{R: resp.Body, N: w.conf.maxBytes}, body: resp.Body, limit: limit, outer: ctx,
			cancel: cancel, timer: timer, watch: watch, w: w, breaker: b}, resp.Header, nil
	}
	defer cancel(nil)
	defer watch.Stop()
	defer timer.Stop()
	if err != nil && timedOut(limit) {
		err = context.Cause(limit)
	}
	if err == nil {
		err = w.readStatusError(resp)
		if !errors.Is(err, store.ErrUnavailable) {
			b.recordSuccess() // it is up, and objects to the request
			return nil, nil, err
		}
	} else if ctx.Err() != nil {
		b.recordAbandoned()
		return nil, nil, ctx.Err()
	}
	return nil, nil, b.recordFailure(w.explainError(err))
}

func (w *serverClient) send(ctx context.Context, method, address string, header map[string]string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	req.Header.Set("User-Agent", "reckon")
	if w.conf.tenant != "" {
		req.Header.Set("X-Scope-OrgID", w.conf.tenant)
	}
	switch {
	case w.conf.tokenFile != "":
		token, err := readSecret(w.conf.tokenFile)
		if err != nil {
			return nil, err
		}
		scheme := "Bearer "
		if w.conf.kind == kindInflux2 {
			scheme = "Token "
		}
		req.Header.Set("Authorization", scheme+token)
	case w.conf.username != "":
		password, err := readSecret(w.conf.passwordFile)
		if err != nil {
			return nil, err
		}
		req.SetBasicAuth(w.conf.username, password)
	}
	return w.client.Do(req)
}

// readStatusError turns a failure response into an error and closes the response.
func (w *serverClient) readStatusError(resp *http.Response) error {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if err != nil && len(raw) == 0 {
		raw = nil // the status is sufficient
	}
	e := &statusError{resp.StatusCode, phrase.OneLine(raw)}
	host := w.conf.shown
	switch {
	case resp.StatusCode/100 == 3:
		return fmt.Errorf("%w: %s sends us on to %s; write that address", store.ErrUnavailable, host, resp.Header.Get("Location"))
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		hint := "give token_file=FILE, or username=NAME&password_file=FILE, behind a ? in the address"
		if w.conf.tokenFile != "" || w.conf.username != "" {
			hint = "write the right one into the file"
		}
		if strings.Contains(e.text, "no org id") { // the wording of Mimir, Cortex and Loki
			hint = "name the tenant: tenant=NAME behind a ? in the address"
		}
		return fmt.Errorf("%w: %s does not let us in (%w); %s", store.ErrUnavailable, host, e, hint)
	case resp.StatusCode == http.StatusNotFound && w.conf.database != "":
		return fmt.Errorf("%w: %s (%w); make the database", store.ErrUnavailable, host, e)
	case resp.StatusCode == http.StatusNotFound && strings.Contains(e.text, "remote write receiver"),
		resp.StatusCode == http.StatusNotFound && strings.Contains(e.text, "remote-write-receiver"):
		return fmt.Errorf("%w: %s is a Prometheus without the remote write receiver; start it with --web.enable-remote-write-receiver",
			store.ErrUnavailable, host)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %s answers %w to %s; see which kinds of store `reckon serve --help` names", store.ErrUnavailable, host, e,
			resp.Request.URL.Path)
	case resp.StatusCode == http.StatusTooManyRequests:
		return &retryLaterError{fmt.Errorf("%w: %s limits the rate (%w)", store.ErrUnavailable, host, e), retryAfter(resp)}
	case resp.StatusCode >= 500:
		return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, host, e)
	}
	return e
}

// retryLaterError is the server's request to wait before the next attempt.
type retryLaterError struct {
	err   error
	after time.Duration
}

func (e *retryLaterError) Error() string { return e.err.Error() }
func (e *retryLaterError) Unwrap() error { return e.err }

func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, 5*time.Minute)
}

// explainError turns a network error into one that names the cause and the remedy.
func (w *serverClient) explainError(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	host := w.conf.shown
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nothing listens at %s; is the server started, and is the port right?", store.ErrUnavailable, host)
	case errors.As(err, &dns):
		return fmt.Errorf("%w: unknown host %s (%w)", store.ErrUnavailable, host, dns)
	case errors.As(err, &unknown):
		return fmt.Errorf(
			"%w: the certificate of %s is not signed by an authority that this machine trusts; give ca_file=FILE behind a ? in the address",
			store.ErrUnavailable, host)
	case errors.Is(err, errUnresponsive):
		return fmt.Errorf("%w: %s accepts connections but does not respond; it hangs, or its machine does", store.ErrUnavailable, host)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %s did not answer within %s", store.ErrUnavailable, host, w.conf.timeout)
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, host, err)
}

// responseBody is a response body that explains its read errors.
type responseBody struct {
	io.LimitedReader
	body   io.Closer
	limit  context.Context
	outer  context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	watch  *time.Timer
	w      *serverClient

	breaker *breaker
}

// Read implements io.Reader.
func (a *responseBody) Read(p []byte) (int, error) {
	a.timer.Reset(a.w.conf.timeout)
	a.watch.Reset(a.w.pulse.silence)
	n, err := a.LimitedReader.Read(p)
	if err != nil && timedOut(a.limit) {
		err = context.Cause(a.limit)
	}
	switch {
	case a.N <= 0:
		return n, fmt.Errorf("the response of %s is larger than %d MiB; narrow the query", a.w.conf.shown, a.w.conf.maxBytes>>20)
	case err == nil, errors.Is(err, io.EOF):
	case a.outer.Err() != nil:
		err = a.outer.Err()
	default:
		err = a.breaker.recordFailure(a.w.explainError(err))
	}
	return n, err
}

// Close implements io.Closer.
func (a *responseBody) Close() error {
	defer a.cancel(nil)
	a.timer.Stop()
	a.watch.Stop()
	return a.body.Close()
}
