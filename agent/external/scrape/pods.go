package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/internal/kubelet"
)

// Pods configures the discovery of pods of this node that request scraping by an annotation. Fields
// are named as in the configuration.
//
// Annotations have the names of Prometheus's example configuration (prometheus.io/scrape: "true", with
// /port, /path and /scheme) and the short form reckon/metrics: "8080" or "8080/path", separated by
// commas.
type Pods struct {
	// Kubelet is the address of the kubelet, https://127.0.0.1:10250 by default; its /pods is read.
	Kubelet  string        `yaml:"kubelet"`
	Interval time.Duration `yaml:"interval"` // of scrapes and of reading the list of pods; 30 s by default
	// All scrapes every pod that declares a port with metrics in its name, except those with prometheus.io/scrape:
	// "false".
	All bool `yaml:"all"`
	// TokenFile holds the token for the kubelet, by default the pod's service account token; CAFile
	// the authorities to trust. Insecure accepts any certificate, because certificates of kubelets are
	// mostly self-signed; the token is then sent to any process that listens there.
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`
	Insecure  bool   `yaml:"insecure"`
	// MaxSeries is the maximum number of series of a page, 1000 by default.
	MaxSeries int `yaml:"max_series"`
}

const maxPodTargets = 500

// podFinder keeps the targets of pods in sync with the kubelet's list of pods.
type podFinder struct {
	Pods
	root string
	list *kubelet.Cache
	name string
}

func newPodFinder(root string, p Pods, list *kubelet.Cache) (*podFinder, error) {
	p.Interval = cmp.Or(p.Interval, 30*time.Second)
	if p.Interval < time.Second {
		return nil, fmt.Errorf("pods: interval %v is shorter than 1s", p.Interval)
	}
	return &podFinder{Pods: p, root: root, list: list, name: list.URL()}, nil
}

// targets returns the pages that the annotations of a pod request to be scraped, by display name. bad describes
// requests that cannot be met.
func (f *Pods) targets(p *kubelet.Pod) (list map[string]Target, bad error) {
	if p.Phase != "Running" || p.IP == "" {
		return nil, nil
	}
	type page struct{ scheme, port, path string }
	var pages []page
	wish := p.Annotations["prometheus.io/scrape"]
	number, offered := defaultPort(p)
	if wish == "true" || f.All && offered && wish != "false" && p.Annotations["reckon/metrics"] == "" {
		pages = append(pages, page{p.Annotations["prometheus.io/scheme"], cmp.Or(p.Annotations["prometheus.io/port"], number),
			p.Annotations["prometheus.io/path"]})
	}
	if short := p.Annotations["reckon/metrics"]; short != "" {
		for one := range strings.SplitSeq(short, ",") {
			port, path, _ := strings.Cut(strings.TrimSpace(one), "/")
			pages = append(pages, page{"", port, path})
		}
	}
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
		u := url.URL{Scheme: scheme, Host: net.JoinHostPort(p.IP, g.port), Path: path, RawQuery: query}
		name := fmt.Sprintf("pod %s/%s %s%s", p.Namespace, p.Name, g.port, path)
		list[name] = Target{URL: u.String(), Workload: "pod/" + p.UID}
	}
	return list, bad
}

// defaultPort returns the default port of a pod: the port named metrics, or else the first port. offers is true for a port
// named metrics.
func defaultPort(p *kubelet.Pod) (number string, offers bool) {
	first := ""
	for _, c := range p.Containers {
		for _, x := range c.Ports {
			if x.Protocol != "" && x.Protocol != "TCP" {
				continue
			}
			if strings.Contains(x.Name, "metrics") {
				return strconv.Itoa(x.Number), true
			}
			first = cmp.Or(first, strconv.Itoa(x.Number))
		}
	}
	return first, false
}

// watchPods keeps the targets of pods in sync with the list until ctx ends.
func (s *Sensor) watchPods(ctx context.Context, f *podFinder) {
	var version uint64
	for {
		pods, now, err := f.list.Next(ctx, version)
		if ctx.Err() != nil {
			return
		}
		s.updatePods(ctx, f, pods, err)
		version = now
	}
}

// updatePods starts to scrape new pods and stops for deleted ones. If err shows that the kubelet did not respond, it
// keeps the known pods.
func (s *Sensor) updatePods(ctx context.Context, f *podFinder, pods []*kubelet.Pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kubelet = err
	if err != nil {
		return
	}
	wanted, wrong := map[string]Target{}, []error(nil)
	for i := range pods {
		list, bad := f.targets(pods[i])
		if bad != nil {
			wrong = append(wrong, fmt.Errorf("pod %s/%s: %w", pods[i].Namespace, pods[i].Name, bad))
		}
		for name, t := range list {
			if len(wanted) < maxPodTargets {
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
		t.setName(name)
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
