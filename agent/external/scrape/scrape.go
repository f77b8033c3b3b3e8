// Package scrape reads figures from programs on this node: the /metrics of an exporter or of a program with a
// Prometheus library, in the text format 0.0.4, over HTTP, HTTPS or a unix socket (unix:/run/app.sock, or
// unix:/run/app.sock:/path).
//
// Each target is scraped by a goroutine of its own. Its last response is used until it is older than two intervals; a
// target that does not respond leaves no series. A page is limited in bytes and series, and accepted completely or not
// at all.
//
// If the response comes from an address of this machine, the process that listens there is looked up, so that the
// figures belong to its workload: by /proc/net/tcp and the descriptors of processes (CAP_SYS_PTRACE and
// CAP_DAC_READ_SEARCH for other users'; without them only the user is found), on a unix socket by the kernel's
// credentials of the other end. The configuration can name the workload instead. A program in another network namespace
// (a container) that is reached over a bridge is not on an address of this machine: configure its workload, or let pods
// of Kubernetes request scraping by an annotation (see Pods), because the kubelet maps addresses to pods.
//
// A Sensor is used from one goroutine beside its own.
package scrape

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/agent/external/promtext"
	"reckon/internal/kubelet"
	"reckon/metric"
	"reckon/sensor"
)

// Target is one page to scrape. The fields have the names of the configuration.
type Target struct {
	URL      string        `yaml:"url"`
	Interval time.Duration `yaml:"interval"` // 15 s by default, at least 1 s
	Timeout  time.Duration `yaml:"timeout"`  // 10 s by default, at most the interval
	// Labels are added to every series.
	Labels map[string]string `yaml:"labels"`
	// Keep and Drop select metrics by name, with * and ?. Without Keep all are taken.
	Keep []string `yaml:"keep"`
	Drop []string `yaml:"drop"`
	// MaxSeries is the maximum number of series of a page, 1000 by default.
	MaxSeries int `yaml:"max_series"`
	// Workload is the workload of the figures, as kind/name; if empty it is looked up.
	Workload string `yaml:"workload"`
	// TokenFile holds a bearer token, CAFile the authorities to trust for https.
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`
}

// maxBytes is the maximum size of a page.
const maxBytes = 4 << 20

var duration = metric.NewDesc("reckon_own_scrape_duration_seconds", metric.Gauge, metric.Seconds, []string{"target"},
	"Duration of the last scrape of a target.")

// Descs lists the series about the sensor itself.
func Descs() []*metric.Desc { return []*metric.Desc{duration} }

// Sensor scrapes targets.
type Sensor struct {
	targets []*target
	finder  *podFinder // nil if pods are not scraped

	mu      sync.Mutex // guards the fields below
	pods    []*target
	kubelet error // error of the discovery of pods

	cancel context.CancelFunc
	wg     sync.WaitGroup
	now    func() time.Time
}

// target is the state of one page that is scraped.
type target struct {
	Target
	url    string // requested URL
	unix   string // path of the socket, empty for TCP
	name   string // displayed name
	client *http.Client
	page   *promtext.Page
	body   []byte
	peers  peerFinder
	row    *metric.Series
	// strange targets requested scraping themselves. Their owner is known, and they may not claim
	// to be another workload.
	strange bool
	stop    func() // stops scraping the target of a pod

	mu      sync.Mutex // guards the fields below
	last    []promtext.Figure
	at      time.Time
	took    time.Duration
	origin  *sensor.Origin
	err     error
	fetched bool
}

// New validates the targets and starts to scrape them. If pods is not nil, it also scrapes pods
// from the kubelet's list that request it. root is the mount point of the host's file systems.
func New(root string, list []Target, pods *Pods, kubelet *kubelet.Cache) (*Sensor, error) {
	if len(list) == 0 && pods == nil {
		return nil, sensor.Unavailable("no targets with figures of their own are configured", "", nil)
	}
	s := &Sensor{now: time.Now}
	seen := map[string]bool{}
	for i := range list {
		t, err := newTarget(root, list[i])
		if err != nil {
			return nil, fmt.Errorf("target %d (%s): %w", i+1, withoutPassword(list[i].URL), err)
		}
		if seen[t.name] {
			return nil, fmt.Errorf("target %d: %s is named twice", i+1, t.name)
		}
		seen[t.name] = true
		s.targets = append(s.targets, t)
	}
	if pods != nil {
		var err error
		if s.finder, err = newPodFinder(root, *pods, kubelet); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if s.finder != nil {
		s.wg.Go(func() { s.watchPods(ctx, s.finder) })
	}
	for _, t := range s.targets {
		s.wg.Go(func() { t.run(ctx, s.now) })
	}
	return s, nil
}

// withoutPassword returns an address without its password.
func withoutPassword(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "its url"
}

func newTarget(root string, c Target) (*target, error) {
	t := &target{Target: c, name: c.URL, peers: peerFinder{root: cmp.Or(root, "/")}}
	t.Interval = cmp.Or(c.Interval, 15*time.Second)
	if t.Interval < time.Second {
		return nil, fmt.Errorf("interval %v is shorter than 1s", c.Interval)
	}
	t.Timeout = min(cmp.Or(c.Timeout, 10*time.Second), t.Interval)
	if t.Timeout <= 0 {
		return nil, fmt.Errorf("timeout %v is not above 0", c.Timeout)
	}
	if err := t.parseAddress(c.URL); err != nil {
		return nil, err
	}
	for _, pattern := range slices.Concat(c.Keep, c.Drop) {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("%q is no pattern of names: a [ is not closed", pattern)
		}
	}
	rules := promtext.Rules{MaxSeries: c.MaxSeries, Wanted: t.isSelected}
	for _, n := range slices.Sorted(maps.Keys(c.Labels)) {
		if !promtext.ValidLabel(n) || slices.Contains(promtext.Reserved(), n) {
			return nil, fmt.Errorf("label %q cannot be used: letters, digits and _ only, and none of %s", n,
				strings.Join(promtext.Reserved(), ", "))
		}
		if c.Labels[n] != "" {
			rules.Labels = append(rules.Labels, promtext.Label{Name: n, Value: c.Labels[n]})
		}
	}
	if len(c.Keep)+len(c.Drop) == 0 {
		rules.Wanted = nil
	}
	t.page = promtext.NewPage(rules)
	t.row = metric.NewSeries(duration, t.name)
	return t, t.createClient()
}

// parseAddress parses the URL.
func (t *target) parseAddress(s string) error {
	if rest, ok := strings.CutPrefix(s, "unix:"); ok {
		file, page, _ := strings.Cut(rest, ":")
		if !filepath.IsAbs(file) {
			return errors.New("write a unix socket as unix:/path/of/the.sock, with :/page behind it where that is not /metrics")
		}
		t.unix, t.url = file, "http://localhost"+cmp.Or(page, "/metrics")
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("the url is not valid; write it like http://127.0.0.1:9100/metrics")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("the url does not begin with http://HOST, https://HOST or unix:/; write it like http://127.0.0.1:9100/metrics")
	case u.User != nil:
		return errors.New("the url holds a password; put a token into token_file")
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	t.url = u.String()
	return nil
}

func (t *target) createClient() error {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca_file: %s holds no certificate in PEM form", t.CAFile)
		}
	}
	dialer := &net.Dialer{Timeout: t.Timeout}
	t.client = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: conf, MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * t.Interval,
			ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10, MaxResponseHeaderBytes: 64 << 10,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if t.unix != "" {
					network, address = "unix", t.unix
				}
				c, err := dialer.DialContext(ctx, network, address)
				if err == nil {
					t.peers.recordConnection(c)
				}
				return c, err
			},
		},
		Timeout: t.Timeout,
		// Figures come from the configured address, and from nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

func (t *target) isSelected(name string) bool {
	for _, p := range t.Drop {
		if ok, _ := path.Match(p, name); ok {
			return false
		}
	}
	for _, p := range t.Keep {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return len(t.Keep) == 0
}

// setName gives a target a name other than its address.
func (t *target) setName(name string) {
	t.name = name
	t.row = metric.NewSeries(duration, name)
}

// allTargets returns the configured targets and the targets of pods. The caller holds mu.
func (s *Sensor) allTargets() []*target {
	if len(s.pods) == 0 {
		return s.targets
	}
	return append(s.targets[:len(s.targets):len(s.targets)], s.pods...)
}

// Name implements sensor.Sensor.
func (*Sensor) Name() string { return "scrape" }

// Descs implements sensor.Sensor.
func (*Sensor) Descs() []*metric.Desc { return Descs() }

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.allTargets() {
		t.mu.Lock()
		if t.fetched {
			b.Add(t.row, t.took.Seconds())
		}
		t.mu.Unlock()
	}
	return nil
}

// ReadOwn implements sensor.OwnSource. It does not block.
func (s *Sensor) ReadOwn(p *sensor.OwnPass) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finder != nil {
		p.Input(s.finder.name, s.kubelet)
	}
	for _, t := range s.allTargets() {
		t.mu.Lock()
		if !t.fetched { // the first response is still to come
			t.mu.Unlock()
			continue
		}
		in := p.Input(t.name, t.err)
		if now.Sub(t.at) <= 2*t.Interval+t.Timeout {
			for i := range t.last {
				f := &t.last[i]
				p.Samples = append(p.Samples, sensor.OwnSample{Series: f.Series, Value: f.Value, Origin: t.origin, Input: in})
			}
		}
		t.mu.Unlock()
	}
}

// Close stops the goroutines.
func (s *Sensor) Close() error {
	s.cancel()
	s.wg.Wait()
	for _, t := range s.targets {
		t.client.CloseIdleConnections()
	}
	return nil
}
