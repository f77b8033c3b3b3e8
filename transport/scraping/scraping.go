// Package scraping scrapes targets, so that the metrics of any exporter are stored beside reckon's own. It uses
// Prometheus's scrape manager with its discovery of static lists, files and HTTP, configured by a file in the form of
// Prometheus (https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config).
//
// The sections global and scrape_configs of that file are used. Sections that reckon configures elsewhere (rules,
// alerting, remote write) and the discovery of clouds and clusters are refused by name. The file is read again when it
// changes. If it is invalid then, that is logged and the previous one stays in force.
//
// If limits are set (package limits), excess series are refused one by one, and scrapes that come too fast as a whole.
// [Refused] counts the former beside up.
//
// Times are the targets' own if they provide any. The methods are safe for concurrent use.
package scraping

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/file" // registers file_sd_configs
	_ "github.com/prometheus/prometheus/discovery/http" // registers http_sd_configs
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"go.yaml.in/yaml/v3"

	"reckon/transport/limits"
)

// Options configures the targets and the destination.
type Options struct {
	// File is a configuration in the form of Prometheus.
	File  string
	Store storage.AppendableV2
	// Describe takes type, unit and help of a metric, when they are new; may be nil.
	Describe func(name string, m metadata.Metadata) error
	// Begin counts the samples of a target against the limits of scraping. An error refuses all of them for now; nil sets no limit.
	Begin  func() (*limits.Request, error)
	Logger *slog.Logger
	// Reread is the interval of looks at the file, 15 s by default. Settle is the time for which changes are gathered, 5 s by default.
	Reread, Settle time.Duration
}

// Service scrapes targets. Run may be called once.
type Service struct {
	*scrape.Manager // the targets, for the HTTP API

	o       Options
	found   *discovery.Manager
	stop    context.CancelFunc
	again   chan struct{}
	text    []byte // that is in force
	refused []byte // that was wrong, and was stated to be
	jobs    int
}

// Open reads and checks the configuration. Scraping starts with Run.
func Open(o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Reread, o.Settle = cmp.Or(o.Reread, 15*time.Second), cmp.Or(o.Settle, 5*time.Second)
	text, conf, err := readConfig(o.File, o.Logger)
	if err != nil {
		return nil, err
	}
	own := prometheus.NewRegistry()
	metrics, err := discovery.CreateAndRegisterSDMetrics(own)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background()) // discovery begins with the manager and ends with Run
	s := &Service{o: o, stop: stop, again: make(chan struct{}, 1)}
	s.found = discovery.NewManager(ctx, o.Logger, own, metrics, discovery.Name("scrape"), discovery.Updatert(o.Settle))
	if s.found == nil {
		stop()
		return nil, errors.New("the discovery of targets could not be made; the log has more")
	}
	s.Manager, err = scrape.NewManager(&scrape.Options{
		AppendMetadata: true, ParseST: true, DiscoveryReloadInterval: model.Duration(o.Settle), DiscoveryReloadOnStartup: true,
	}, o.Logger, nil, nil, &describingStore{AppendableV2: &limitedStore{AppendableV2: o.Store, begin: o.Begin}, describe: o.Describe,
		seen: map[string]metadata.Metadata{}}, own)
	if err == nil {
		err = s.setConfig(text, conf)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// Jobs returns the number of scrape_configs in the current configuration.
func (s *Service) Jobs() int { return s.jobs }

// Close releases the resources of a service if Run was not called.
func (s *Service) Close() { s.stop() }

// Run scrapes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	wg.Go(func() {
		if err := s.found.Run(); err != nil && !errors.Is(err, context.Canceled) {
			failed <- fmt.Errorf("find targets: %w", err)
		}
	})
	wg.Go(func() {
		if err := s.Manager.Run(s.found.SyncCh()); err != nil {
			failed <- fmt.Errorf("scrape targets: %w", err)
		}
	})
	defer wg.Wait()
	defer s.Manager.Stop()
	defer s.stop()
	ticker := time.NewTicker(s.o.Reread)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-ticker.C:
			s.applyConfig()
		case <-s.again:
			s.refused = nil // to be stated again
			s.applyConfig()
		}
	}
}

// Reload reads the configuration file now.
func (s *Service) Reload() {
	select {
	case s.again <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// applyConfig reads the configuration file and applies it if it changed.
func (s *Service) applyConfig() {
	text, err := os.ReadFile(s.o.File)
	if err == nil && (bytes.Equal(text, s.text) || s.refused != nil && bytes.Equal(text, s.refused)) {
		return
	}
	var conf *config.Config
	if err == nil {
		text, conf, err = readConfig(s.o.File, s.o.Logger)
	}
	if err == nil {
		err = s.setConfig(text, conf)
	}
	if err != nil {
		if s.refused == nil || !bytes.Equal(text, s.refused) {
			s.o.Logger.Error("the scrape configuration changed and is wrong; the one before stays in force", "err", err)
		}
		s.refused = append([]byte{}, text...)
		return
	}
	s.o.Logger.Warn("the scrape configuration changed and is in force", "file", s.o.File, "jobs", s.jobs)
}

func (s *Service) setConfig(text []byte, conf *config.Config) error {
	if err := s.Manager.ApplyConfig(conf); err != nil {
		return fmt.Errorf("scrape-config %s: %w", s.o.File, err)
	}
	jobs, err := conf.GetScrapeConfigs()
	if err != nil {
		return fmt.Errorf("scrape-config %s: %w", s.o.File, err)
	}
	sd := make(map[string]discovery.Configs, len(jobs))
	for _, j := range jobs {
		sd[j.JobName] = j.ServiceDiscoveryConfigs
	}
	if err := s.found.ApplyConfig(sd); err != nil {
		return fmt.Errorf("scrape-config %s: %w", s.o.File, err)
	}
	s.text, s.refused, s.jobs = text, nil, len(jobs)
	return nil
}

// readConfig reads and checks a file.
func readConfig(file string, log *slog.Logger) (text []byte, conf *config.Config, err error) {
	text, err = os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("scrape-config: %w", err)
	}
	if err := checkConfig(text); err != nil {
		return text, nil, fmt.Errorf("scrape-config %s: %w", file, err)
	}
	conf, err = config.LoadFile(file, false, log)
	if err != nil {
		cause := err
		if inner := errors.Unwrap(err); inner != nil {
			cause = inner
		}
		return text, nil, fmt.Errorf("scrape-config %s: %s", file, strings.TrimPrefix(cause.Error(), "yaml: "))
	}
	return text, conf, nil
}

// checkConfig rejects text if Prometheus's own reader would report an unknown field of a type.
func checkConfig(text []byte) error {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	for name := range top {
		switch name {
		case "global", "scrape_configs", "scrape_config_files":
		case "rule_files", "alerting":
			return fmt.Errorf("%s has no meaning here; see the setting rules and `reckon docs alerts`", name)
		default:
			return fmt.Errorf("%s has no meaning here; global and scrape_configs have", name)
		}
	}
	var global struct {
		External map[string]string `yaml:"external_labels"`
		Rest     map[string]any    `yaml:",inline"`
	}
	node := top["global"]
	if err := node.Decode(&global); err == nil && len(global.External) > 0 {
		return errors.New("global.external_labels says nothing here, since nothing is sent on; give labels under static_configs")
	}
	var jobs []map[string]yaml.Node
	node = top["scrape_configs"]
	if err := node.Decode(&jobs); err != nil && node.Kind != 0 {
		return errors.New("scrape_configs is no list of jobs")
	}
	if len(jobs) == 0 && len(top["scrape_config_files"].Content) == 0 {
		return errors.New("it names no job under scrape_configs")
	}
	for i, job := range jobs {
		name := job["job_name"]
		for field := range job {
			if strings.HasSuffix(field, "_sd_configs") && !slices.Contains([]string{"file_sd_configs", "http_sd_configs"}, field) {
				return fmt.Errorf(
					"scrape_configs, job %d (%s): %s is not built in; targets are found by static_configs, file_sd_configs and "+
						"http_sd_configs", i+1, name.Value, field)
			}
		}
	}
	return nil
}

// describingStore stores the descriptions of metrics that targets report.
type describingStore struct {
	storage.AppendableV2
	describe func(string, metadata.Metadata) error
	mu       sync.Mutex
	seen     map[string]metadata.Metadata
}

// maxDescribed limits the number of remembered descriptions, because targets choose the names.
const maxDescribed = 20_000

// AppenderV2 implements storage.AppendableV2.
func (d *describingStore) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return &describingAppender{AppenderV2: d.AppendableV2.AppenderV2(ctx), d: d}
}

func (d *describingStore) record(name string, m metadata.Metadata) {
	if d.describe == nil || name == "" || m.IsEmpty() {
		return
	}
	d.mu.Lock()
	known := d.seen[name] == m || len(d.seen) >= maxDescribed
	if !known {
		d.seen[strings.Clone(name)] = metadata.Metadata{Type: m.Type, Unit: strings.Clone(m.Unit), Help: strings.Clone(m.Help)}
		m = d.seen[name]
	}
	d.mu.Unlock()
	if !known {
		_ = d.describe(strings.Clone(name), m) // the description is optional; the samples matter more
	}
}
