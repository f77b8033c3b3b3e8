package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
	reckon "reckon/web/client"
)

// Server stores runs in a reckon server. It is safe for concurrent use.
type Server struct {
	Client *reckon.Client
	Cached client.Reader // of MetricSets, for Sweep
	Live   client.Reader // the same past the cache
	Site   string
}

var (
	_ Runs = (*Server)(nil)
	_ Runs = (*Objects)(nil)
)

// ServerOptions configures the connection to a server.
type ServerOptions struct {
	URL       string
	TokenFile string // read again for each request: Kubernetes replaces it; empty sends none
	CAFile    string // empty: the authorities of the system
}

// maxBatch is the number of samples that are sent at once.
const maxBatch = 1000

// NewServer returns a client of a server. Nothing is sent yet.
func NewServer(o ServerOptions) (*reckon.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--server-ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--server-ca: %s holds no certificate in PEM form", o.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	web := &http.Client{Timeout: time.Minute, Transport: &tokenTransport{transport, o.TokenFile}}
	return reckon.New(o.URL, reckon.WithHTTP(web), reckon.WithUserAgent("reckon-operator"))
}

// tokenTransport adds the token of a file to each request.
type tokenTransport struct {
	next http.RoundTripper
	file string
}

// RoundTrip implements http.RoundTripper.
func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.file != "" {
		token, err := os.ReadFile(t.file)
		if err != nil {
			return nil, fmt.Errorf("the token for the server: %w", err)
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return t.next.RoundTrip(r)
}

// RunURL returns the address of the page that shows a run on a server.
func RunURL(base string, key types.NamespacedName) string {
	return strings.TrimRight(base, "/") + "/run?" + url.Values{"namespace": {key.Namespace}, "name": {key.Name}}.Encode()
}

func (s *Server) sendUpdate(ctx context.Context, key types.NamespacedName, u reckon.MetricRunUpdate) (reckon.MetricRunKept, error) {
	return s.Client.KeepMetricRun(ctx, key.Namespace, key.Name, u)
}

// Begin implements Runs.
func (s *Server) Begin(ctx context.Context, key types.NamespacedName, ms *v1alpha2.MetricSet, set *metricset.Set) error {
	run := reckon.MetricRun{Site: s.Site, Set: ms.Name, SetUID: string(ms.UID), Origin: "operator", Outcome: "Running",
		Started: time.Now().UTC()}
	for _, m := range set.Metrics {
		run.Metrics = append(run.Metrics,
			reckon.MetricRunMetric{Name: m.Name, Job: m.Job, Attach: string(m.Attach), Options: maps.Clone(map[string]string(m.Values))})
	}
	_, err := s.sendUpdate(ctx, key, reckon.MetricRunUpdate{Run: run})
	return err
}

// Pod implements Runs.
func (s *Server) Pod(ctx context.Context, key types.NamespacedName, p Pod) (Kept, error) {
	k, err := s.sendUpdate(ctx, key, reckon.MetricRunUpdate{Run: reckon.MetricRun{Pods: []reckon.MetricRunPod{serverPod(&p)}}, Pod: p.UID})
	return Kept{Samples: k.Samples, Offset: k.Offset, Start: k.Start, Last: k.Last}, err
}

// Add implements Runs.
func (s *Server) Add(ctx context.Context, key types.NamespacedName, p Pod, b *sampleBatch) error {
	pod := serverPod(&p)
	pod.Offset, pod.Kernel, pod.Absent, pod.Incomplete, pod.Result = b.offset, b.page.Kernel, b.page.Absent, b.broken, b.page.Result
	if !b.start.IsZero() {
		pod.Probe = &b.start
	}
	samples := b.samples
	for {
		now := samples[:min(len(samples), maxBatch)]
		samples = samples[len(now):]
		if len(samples) == 0 && b.page.Ended {
			pod.Ended = b.page.Reason
		}
		if _, err := s.sendUpdate(ctx, key, reckon.MetricRunUpdate{Run: reckon.MetricRun{Pods: []reckon.MetricRunPod{pod}}, Pod: pod.UID,
			Samples: now}); err != nil {
			return err
		}
		if len(samples) == 0 {
			return nil
		}
	}
}

// End implements Runs.
func (s *Server) End(ctx context.Context, key types.NamespacedName, outcome string, pods []v1alpha2.PodStatus, records []Pod) error {
	_, ended := runSpan(pods, metav1.Now())
	all := map[string]reckon.MetricRunPod{}
	for i := range records {
		p := serverPod(&records[i])
		if p.Text != "" { // logs of many pods are too much for one request
			if _, err := s.sendUpdate(ctx, key, reckon.MetricRunUpdate{Run: reckon.MetricRun{Pods: []reckon.MetricRunPod{p}}}); err != nil {
				return err
			}
			p.Text = ""
		}
		all[records[i].UID] = p
	}
	for _, st := range pods {
		p := all[st.UID]
		p.Name, p.UID, p.Job, p.Node = st.Name, st.UID, st.Metric, st.Node
		p.Started, p.Finished, p.ExitCode = toTime(st.Started), toTime(st.Finished), st.ExitCode
		all[st.UID] = p
	}
	run := reckon.MetricRun{Outcome: outcome, Finished: toTime(&ended)}
	for _, p := range all {
		run.Pods = append(run.Pods, p)
	}
	_, err := s.sendUpdate(ctx, key, reckon.MetricRunUpdate{Run: run})
	var refused *reckon.APIError
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound && outcome == "Deleted" {
		return nil // it never began
	}
	return err
}

// Sweep ends the runs of sets that were deleted while no operator was there.
func (s *Server) Sweep(ctx context.Context, namespace string) error {
	f := reckon.MetricRunFilter{Since: time.Now().Add(-30 * 24 * time.Hour), Limit: 1000}
	if s.Site != "" {
		f.Sites = []string{s.Site}
	}
	if namespace != "" {
		f.Namespaces = []string{namespace}
	}
	list, err := s.Client.MetricRuns(ctx, f)
	if err != nil {
		return err
	}
	for _, r := range list.Runs {
		if r.Outcome != "Running" || r.Origin != "operator" || time.Since(r.Started) < time.Minute {
			continue
		}
		there, err := setExists(ctx, s.Cached, s.Live, types.NamespacedName{Namespace: r.Namespace, Name: r.Set},
			func(ms *v1alpha2.MetricSet) bool { return string(ms.UID) == r.SetUID })
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if err := s.End(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, "Deleted", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func toTime(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// serverPod returns a pod in the form that a server stores, without the sums over its samples.
func serverPod(p *Pod) reckon.MetricRunPod {
	out := reckon.MetricRunPod{Name: p.Name, UID: p.UID, Job: p.Job, Node: p.Node, Kernel: p.Kernel, Images: p.Images,
		Resources: p.Resources,
		Started:   toTime(p.Started), Finished: toTime(p.Finished), ExitCode: p.ExitCode, Ended: p.Ended, Absent: p.Absent,
		Incomplete: p.Incomplete, Offset: p.Offset}
	out.Text = p.Log
	if p.Probe != nil {
		t := p.Probe.UTC()
		out.Probe = &t
	}
	if p.Result != "" {
		var r reckon.ProbeResult
		if json.Unmarshal([]byte(p.Result), &r) == nil { // it was written by us
			out.Result = &r
		}
	}
	return out
}
