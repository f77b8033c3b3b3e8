package push

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/s2"
)

// Finding is the result of testing an endpoint.
type Finding struct {
	URL      string
	Protocol string // "2.0" or "1.0"
	// Problem describes the failure and the remedy. It is empty on success.
	Problem string
}

// writePaths are the usual paths of remote write, with the servers that use them.
var writePaths = []struct{ path, of string }{
	{defaultPath, "reckon, Prometheus, VictoriaMetrics"},
	{"/api/v1/push", "Mimir, Cortex"},
	{"/api/v1/receive", "Thanos"},
	{"/insert/0/prometheus/api/v1/write", "VictoriaMetrics cluster"},
	{"/api/v1/prom/write?db=prometheus", "InfluxDB 1.x"},
}

// check sends a request without samples and explains the response.
func (t *target) check(ctx context.Context) Finding {
	f := Finding{URL: t.shown}
	a, err := t.post(ctx, s2.EncodeSnappy(nil, appendString(nil, reqSymbol, "")), true)
	if err != nil {
		f.Problem = Explain(t.url, &t.e, err)
		return f
	}
	if a.supportsOnlyV1(false) && t.e.Protocol != "2.0" {
		f.Protocol = "1.0"
		if a, err = t.post(ctx, s2.EncodeSnappy(nil, nil), false); err != nil {
			f.Problem = Explain(t.url, &t.e, err)
			return f
		}
	} else if a.status/100 == 2 {
		f.Protocol = "2.0"
	}
	switch {
	case a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed || strings.Contains(a.text, "unsupported path") ||
		a.location != "" || a.isHTMLPage():
		f.Problem = t.explainWrongPath(ctx, a)
	case a.status/100 == 2:
	case a.status == http.StatusBadRequest && !a.isPlainToTLS() && a.header.Get(writtenHeader) != "":
		// A complaint about the empty request is fine.
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		// A token that may only send samples is refused at every other path.
		if f.Problem = t.suggestPath(ctx, a); f.Problem == "" {
			f.Problem = Explain(t.url, &t.e, a.checkStatus())
		}
	default:
		f.Problem = Explain(t.url, &t.e, a.checkStatus())
	}
	if f.Problem != "" {
		f.Protocol = ""
	}
	return f
}

// statusError is a response that refuses the whole request.
type statusError struct {
	*response
	err error
}

func (e *statusError) Error() string { return e.err.Error() }

func (a *response) isHTMLPage() bool {
	return a.status/100 == 2 && strings.HasPrefix(a.header.Get("Content-Type"), "text/html")
}

func (a *response) isPlainToTLS() bool {
	return strings.Contains(a.text, "HTTP request to an HTTPS server")
}

// explainWrongPath explains a response that shows a wrong path. It names the right path if it finds one.
func (t *target) explainWrongPath(ctx context.Context, a *response) string {
	u, err := url.Parse(t.url)
	if err != nil {
		return err.Error()
	}
	said := fmt.Sprintf("%s answers %d to %s", u.Host, a.status, u.Path)
	if a.location != "" {
		if to, err := u.Parse(a.location); err == nil {
			return fmt.Sprintf("%s and sends us on to %s; write --push %s if that is the same server", said, to.Redacted(), to.Redacted())
		}
	}
	if strings.Contains(a.text, "remote-write-receiver") || strings.Contains(a.text, "remote write receiver") {
		return fmt.Sprintf(
			"%s: it is a Prometheus without the remote write receiver (%q); start it with --web.enable-remote-write-receiver", said, a.text)
	}
	if right := t.suggestPath(ctx, a); right != "" {
		return right
	}
	if a.isHTMLPage() {
		return said + " with a web page, which is not a remote write endpoint; give the whole address, with the path from the " +
			"documentation of that server"
	}
	return said + ", so there is no remote write receiver, nor at the usual paths; give the whole address, with the path from the " +
		"documentation of that server"
}

// suggestPath returns a hint if another of the usual paths accepts our remote write.
func (t *target) suggestPath(ctx context.Context, a *response) string {
	u, err := url.Parse(t.url)
	if err != nil {
		return ""
	}
	for _, o := range writePaths {
		other, err := url.Parse(u.Scheme + "://" + u.Host + o.path)
		if err != nil || other.Path == u.Path {
			continue
		}
		b, err := t.postTo(ctx, other.String(), s2.EncodeSnappy(nil, nil), false)
		if err == nil && b.status/100 == 2 && !b.isHTMLPage() && b.status != http.StatusOK {
			return fmt.Sprintf("%s answers %d to %s, so there is no remote write receiver, but there is one at %s; write --push %s", u.Host,
				a.status, u.Path, o.path, other.Redacted())
		}
	}
	return ""
}

// Explain describes an error of sending and its remedy.
func Explain(address string, e *Endpoint, err error) string {
	u, bad := url.Parse(address)
	if bad != nil {
		return bad.Error()
	}
	var later *retryError
	if errors.As(err, &later) {
		err = later.err
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var (
		status   *statusError
		dns      *net.DNSError
		name     x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		record   tls.RecordHeaderError
		alert    tls.AlertError
		timeouts interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &status):
		return explainStatus(u, e, status)
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return fmt.Sprintf("no host is called %s; check the name, or write the IP address", u.Hostname())
		}
		return fmt.Sprintf("the name %s cannot be looked up now: %v", u.Hostname(), dns)
	case errors.As(err, &name):
		return explainName(u, name)
	case errors.As(err, &unknown):
		return fmt.Sprintf(
			"the certificate of %s is not signed by an authority that this machine trusts; give the file of the authority with the "+
				"setting push-ca", u.Host)
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired {
			return fmt.Sprintf("the certificate of %s is not valid at present (%v); renew it, or set the clock of this machine (now %s)",
				u.Host, invalid, time.Now().UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("the certificate of %s cannot be used: %v", u.Host, invalid)
	case errors.As(err, &record), u.Scheme == "https" && strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		plain := *u
		plain.Scheme = "http"
		return fmt.Sprintf("%s speaks no TLS; write --push %s", u.Host, plain.Redacted())
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return fmt.Sprintf("%s refuses the TLS connection (%v); if it requires a client certificate give cert_file and key_file", u.Host,
			err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s; is the server started, and is the port right?", u.Host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("%s cannot be reached from here: %v; check the network and the routes", u.Host, err)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return err.Error()
	case errors.As(err, &timeouts) && timeouts.Timeout() && !isDialError(err):
		return fmt.Sprintf("%s accepts connections but did not respond in time: it, or its store, is slow or hangs", u.Host)
	case errors.As(err, &timeouts) && timeouts.Timeout():
		return fmt.Sprintf("%s did not answer in time; a firewall may drop the packets", u.Host)
	}
	return err.Error()
}

// isDialError reports whether the error occurred before there was a connection.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func explainName(u *url.URL, err x509.HostnameError) string {
	names := err.Certificate.DNSNames
	for _, ip := range err.Certificate.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return fmt.Sprintf("the certificate of %s names no host at all; make a new one with a subject alternative name %s", u.Host,
			u.Hostname())
	}
	other := *u
	other.Host = names[0]
	if port := u.Port(); port != "" {
		other.Host = net.JoinHostPort(names[0], port)
	}
	return fmt.Sprintf("the certificate of %s is for %s; write --push %s if that is the same server, or make a certificate for %s",
		u.Host, strings.Join(names, ", "), other.Redacted(), u.Hostname())
}

func explainStatus(u *url.URL, e *Endpoint, a *statusError) string {
	switch {
	case a.isPlainToTLS():
		secure := *u
		secure.Scheme = "https"
		return fmt.Sprintf("%s speaks TLS only; write --push %s", u.Host, secure.Redacted())
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		switch {
		case e.TokenFile != "":
			return fmt.Sprintf("%s refuses the token in %s (%v); write a valid one into that file", u.Host, e.TokenFile, a.err)
		case e.Username != "":
			return fmt.Sprintf("%s refuses the user %s with the password in %s (%v)", u.Host, e.Username, e.PasswordFile, a.err)
		}
		return fmt.Sprintf("%s requires authentication (%v); give a file with a token by --push-token-file FILE", u.Host, a.err)
	case a.status == http.StatusTooManyRequests:
		return fmt.Sprintf("%s limits the rate (%v)", u.Host, a.err)
	}
	return fmt.Sprintf("%s: %v", u.Host, a.err)
}
