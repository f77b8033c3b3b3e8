package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"reckon/web/client"
)

// Limits of one response and of waiting for one.
const (
	maxPage = 500
	maxWait = 30 * time.Second
)

// Handler serves the samples of a probe:
//
//	GET /v1/samples?after=SEQ&kept=SEQ&wait=10s   a client.ProbePage; waits for new samples
//	GET /healthz
//
// kept tells the probe that the caller has stored the samples up to SEQ, so that the probe may discard them. The
// default is after. There is no access control. The samples contain names of programs but no arguments.
func (p *Probe) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /v1/samples", func(w http.ResponseWriter, r *http.Request) {
		after, err := sequenceNumber(r, "after", 0)
		kept, err2 := sequenceNumber(r, "kept", after)
		if err = errors.Join(err, err2); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
		if err != nil || wait < 0 {
			wait = 0
		}
		ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
		defer cancel()
		page := p.Page(ctx, after, kept, maxPage)
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(page); err == nil && page.Ended && kept >= page.Last {
			p.markServed()
		}
	})
	return mux
}

// sequenceNumber reads the number of a sample.
func sequenceNumber(r *http.Request, name string, missing int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: the number of a sample is needed", name)
	}
	return n, nil
}

// markServed records that a reader has received the end of the measurement.
func (p *Probe) markServed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.drained:
	default:
		close(p.drained)
	}
}

// Ending reports how long a probe serves after its measurement.
type Ending struct {
	// Linger bounds the wait for a reader when nothing else keeps the pod.
	Linger time.Duration
	// Exit ends the probe with its measurement. Otherwise it stays until ctx ends, because an ended
	// sidecar would be restarted.
	Exit bool
	// Summary is a file for the total measurement in a few KB: the container's termination message.
	Summary string
}

// Serve measures by run and serves the samples until they were read.
func (p *Probe) Serve(ctx context.Context, l net.Listener, e Ending, run func(context.Context) error) error {
	server := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	err := run(ctx)
	if err != nil {
		p.failMeasurement(err)
	}
	if e.Summary != "" {
		err = errors.Join(err, os.WriteFile(e.Summary, p.summaryJSON(), 0o644))
	}
	if !e.Exit {
		select {
		case <-ctx.Done():
		case broken := <-failed:
			return errors.Join(err, broken)
		}
	}
	select {
	case <-p.drained:
	case <-time.After(e.Linger):
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(stop))
}

// failMeasurement ends the measurement with an error.
func (p *Probe) failMeasurement(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page.Absent == nil {
		p.page.Absent = map[string]string{}
	}
	p.page.Absent["measurement"] = err.Error()
	p.page.Ended, p.page.Reason = true, "failed"
	p.wakeWaiters()
}

// maxSummary is the length of a termination message that the kubelet keeps.
const maxSummary = 4096

// summaryJSON returns the page without samples, with the total use of all samples.
func (p *Probe) summaryJSON() []byte {
	p.mu.Lock()
	page := p.page
	page.Last = p.next - 1
	page.Total, page.To = p.total, p.lastTo
	p.mu.Unlock()
	page.Samples = []client.ProbeSample{}
	text, err := json.Marshal(page)
	if err == nil && len(text) > maxSummary && page.Result != nil {
		page.Result.Pairs = nil
		text, err = json.Marshal(page)
	}
	if err != nil || len(text) > maxSummary {
		return nil
	}
	return text
}
