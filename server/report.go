package server

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"time"

	"reckon/web/client"
	"reckon/web/report"
)

// reportPath is the path of HTML reports. The parameters period, until, public and title select a report about the
// site, and owner, since and until one about an owner.
const reportPath = "/report"

// defaultOwnerRange is the default time range of a report on an owner.
const defaultOwnerRange = 7 * 24 * time.Hour

// reportHandler serves reports. It queries the API with the rights of the viewer of the page.
type reportHandler struct{ api http.Handler }

// ServeHTTP implements http.Handler.
func (p reportHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	if err := p.writePage(&page, r); err != nil {
		status, refused, wrong := http.StatusInternalServerError, (*client.APIError)(nil), (*parameterError)(nil)
		switch {
		case errors.As(err, &refused):
			status = refused.Status
		case errors.As(err, &wrong):
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// A report is one file with its own style, and no script.
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(page.Bytes()) // the client went away: nothing left to report
}

type parameterError struct{ error }

func (p reportHandler) writePage(page *bytes.Buffer, r *http.Request) error {
	c, err := client.New("", client.WithHTTP(&http.Client{Transport: senderTransport{p.api, r}}))
	if err != nil {
		return err
	}
	q, now := r.URL.Query(), time.Now()
	moment := func(name string, or time.Time) (time.Time, error) {
		if q.Get(name) == "" {
			return or, nil
		}
		t, err := client.ParseTime(q.Get(name), now)
		if err != nil {
			return t, &parameterError{err}
		}
		return t, nil
	}
	until, err := moment("until", now)
	if err != nil {
		return err
	}
	if owner := q.Get("owner"); owner != "" {
		since, err := moment("since", until.Add(-defaultOwnerRange))
		if err != nil {
			return err
		}
		if !since.Before(until) {
			return &parameterError{errors.New("since is not before until")}
		}
		o, err := c.OwnerReport(r.Context(), owner, since, until)
		if err != nil {
			return err
		}
		return report.WriteOwner(page, &o)
	}
	period := cmp.Or(q.Get("period"), "month")
	site, err := c.Report(r.Context(), period, until, q.Get("public") == "true")
	if err != nil {
		return err
	}
	return report.Write(page, &site, q.Get("title"))
}

// senderTransport calls a handler within the process with the credentials of another request.
type senderTransport struct {
	api  http.Handler
	from *http.Request
}

// RoundTrip implements http.RoundTripper.
func (t senderTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	inner := r.Clone(t.from.Context())
	inner.Host, inner.RemoteAddr, inner.TLS = t.from.Host, t.from.RemoteAddr, t.from.TLS
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "X-Forwarded-Proto", "Sec-Fetch-Site", "Origin"} {
		if v := t.from.Header.Values(name); len(v) > 0 {
			inner.Header[name] = v
		}
	}
	return serveInProcess(t.api, inner), nil
}
