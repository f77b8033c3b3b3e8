package scrape

import (
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pods says how the pods of this node are found that ask by an annotation to be scraped. The
// names of the fields are those of the configuration.
//
// Annotations are those that Prometheus's example configuration made common
// (prometheus.io/scrape: "true", with /port, /path and /scheme) and, in short,
// reckon/metrics: "8080" or "8080/path", several with commas.
type Pods struct {
	// Kubelet is its address, https://127.0.0.1:10250 by default; it is asked for /pods.
	Kubelet  string        `yaml:"kubelet"`
	Interval time.Duration `yaml:"interval"` // of pods and of the list of them; 30 s by default
	// TokenFile holds the token for the kubelet, that of a service account in a pod by default;
	// CAFile the authorities to trust. Insecure takes any certificate of a kubelet, which
	// mostly signs its own: the token is then shown to whatever listens there.
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`
	Insecure  bool   `yaml:"insecure"`
	// MaxSeries bounds a page, 1000 by default.
	MaxSeries int `yaml:"max_series"`
}

const (
	kubeletAddress = "https://127.0.0.1:10250"
	accountToken   = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	mostPodBytes   = 32 << 20 // of the list of pods
	mostPodTargets = 500
)

// finder keeps the targets of pods in step with the list of the kubelet.
type finder struct {
	Pods
	root   string
	client *http.Client
	name   string
}

func newFinder(root string, p Pods) (*finder, error) {
	p.Kubelet, p.Interval = strings.TrimSuffix(cmp.Or(p.Kubelet, kubeletAddress), "/"), cmp.Or(p.Interval, 30*time.Second)
	u, err := url.Parse(p.Kubelet)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "":
		return nil, fmt.Errorf("pods: kubelet is no address; write it like %s", kubeletAddress)
	case p.Interval < time.Second:
		return nil, fmt.Errorf("pods: interval %v is shorter than 1s", p.Interval)
	}
	f := &finder{Pods: p, root: root, name: p.Kubelet + "/pods"}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: p.Insecure} //nolint:gosec // as the configuration says
	if p.CAFile != "" {
		pem, err := os.ReadFile(p.CAFile)
		if err != nil {
			return nil, fmt.Errorf("pods: ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("pods: ca_file: %s holds no certificate in PEM form", p.CAFile)
		}
	}
	f.client = &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: conf, MaxConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return f, nil
}

// podList is what is read of the answer of GET /pods, a v1.PodList
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/).
type podList struct {
	Items []pod `json:"items"`
}

type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Ports []struct {
				Name     string `json:"name"`
				Port     int    `json:"containerPort"`
				Protocol string `json:"protocol"`
			} `json:"ports"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		IP    string `json:"podIP"`
	} `json:"status"`
}

// list asks the kubelet.
func (f *finder) list(ctx context.Context) ([]pod, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.name, nil)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(cmp.Or(f.TokenFile, accountToken))
	switch {
	case err == nil:
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	case f.TokenFile != "":
		return nil, fmt.Errorf("token_file: %w", err)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, plain(err, f.client.Timeout)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("the kubelet answers %s; give a token_file of an account that may get nodes/pods (Kubernetes 1.33 or later); never grant nodes/proxy, which is root on every pod", resp.Status)
	default:
		return nil, fmt.Errorf("the kubelet answers %s", resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostPodBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the list of pods: %w", err)
	}
	if len(raw) > mostPodBytes {
		return nil, fmt.Errorf("the list of pods is larger than %d bytes", mostPodBytes)
	}
	return readPods(raw)
}

func readPods(raw []byte) ([]pod, error) {
	var l podList
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("the list of pods can not be read: %w", err)
	}
	return l.Items, nil
}

// targets are the pages that a pod asks to be read, by the names that people see; bad is
// what it asks that can not be done.
func (p *pod) targets() (list map[string]Target, bad error) {
	m := &p.Metadata
	if p.Status.Phase != "Running" || p.Status.IP == "" || m.UID == "" {
		return nil, nil
	}
	type page struct{ scheme, port, path string }
	var pages []page
	if m.Annotations["prometheus.io/scrape"] == "true" {
		pages = append(pages, page{m.Annotations["prometheus.io/scheme"], cmp.Or(m.Annotations["prometheus.io/port"], p.port()), m.Annotations["prometheus.io/path"]})
	}
	if short := m.Annotations["reckon/metrics"]; short != "" {
		for one := range strings.SplitSeq(short, ",") {
			port, path, _ := strings.Cut(strings.TrimSpace(one), "/")
			pages = append(pages, page{"", port, path})
		}
	}
	// A static pod is known to the machine by the hash of its file.
	uid := cmp.Or(m.Annotations["kubernetes.io/config.hash"], m.UID)
	list = map[string]Target{}
	for _, g := range pages {
		port, err := strconv.ParseUint(g.port, 10, 16)
		scheme := cmp.Or(strings.ToLower(g.scheme), "http")
		switch {
		case g.port == "":
			bad = errors.New("it names no port; write prometheus.io/port, or reckon/metrics: PORT/PATH")
			continue
		case err != nil || port == 0:
			bad = fmt.Errorf("%.60q is no port", g.port)
			continue
		case scheme != "http" && scheme != "https":
			bad = fmt.Errorf("%.60q is neither http nor https", g.scheme)
			continue
		}
		path, query, _ := strings.Cut("/"+strings.TrimPrefix(cmp.Or(g.path, "metrics"), "/"), "?")
		u := url.URL{Scheme: scheme, Host: net.JoinHostPort(p.Status.IP, g.port), Path: path, RawQuery: query}
		name := fmt.Sprintf("pod %s/%s %s%s", m.Namespace, m.Name, g.port, path)
		list[name] = Target{URL: u.String(), Workload: "pod/" + uid}
	}
	return list, bad
}

// port is the one that a pod without a word means: that called metrics, else the first.
func (p *pod) port() string {
	first := ""
	for _, c := range p.Spec.Containers {
		for _, x := range c.Ports {
			if x.Protocol != "" && x.Protocol != "TCP" {
				continue
			}
			if strings.Contains(x.Name, "metrics") {
				return strconv.Itoa(x.Port)
			}
			first = cmp.Or(first, strconv.Itoa(x.Port))
		}
	}
	return first
}

// follow keeps the targets of pods in step with the list until ctx ends.
func (s *Sensor) follow(ctx context.Context, f *finder) {
	ticker := time.NewTicker(f.Interval)
	defer ticker.Stop()
	defer f.client.CloseIdleConnections()
	for {
		pods, err := f.list(ctx)
		if ctx.Err() != nil {
			return
		}
		s.take(ctx, f, pods, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// take begins to ask pods that are new and forgets those that are gone. While the kubelet
// does not answer those that are known are asked on.
func (s *Sensor) take(ctx context.Context, f *finder, pods []pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kubelet = err
	if err != nil {
		return
	}
	wanted, wrong := map[string]Target{}, []error(nil)
	for i := range pods {
		list, bad := pods[i].targets()
		if bad != nil {
			wrong = append(wrong, fmt.Errorf("pod %s/%s: %w", pods[i].Metadata.Namespace, pods[i].Metadata.Name, bad))
		}
		for name, t := range list {
			if len(wanted) < mostPodTargets {
				wanted[name] = t
			}
		}
	}
	if len(wrong) > 0 {
		s.kubelet = errors.Join(wrong[:min(len(wrong), 3)]...)
	}
	s.pods = slices.DeleteFunc(s.pods, func(t *target) bool {
		w, ok := wanted[t.name]
		if ok && w.URL == t.URL && w.Workload == t.Workload {
			delete(wanted, t.name)
			return false
		}
		t.stop()
		return true
	})
	for name, c := range wanted {
		c.Interval, c.MaxSeries = f.Interval, f.MaxSeries
		t, err := newTarget(f.root, c)
		if err != nil {
			s.kubelet = errors.Join(s.kubelet, fmt.Errorf("%s: %w", name, err))
			continue
		}
		t.rename(name)
		t.strange = true
		own, stop := context.WithCancel(ctx)
		t.stop = stop
		s.pods = append(s.pods, t)
		s.wg.Go(func() {
			defer t.client.CloseIdleConnections()
			t.run(own, s.now)
		})
	}
	slices.SortFunc(s.pods, func(a, b *target) int { return cmp.Compare(a.name, b.name) })
}
