// Package alerting evaluates recording and alerting rules over our store and delivers alerts. It
// uses Prometheus's own rule manager and notifier and, if no other Alertmanager is configured,
// Alertmanager's own dispatcher inside this process.
//
// Rules are files in the form of Prometheus
// (https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/), the configuration
// of receivers is one in the form of Alertmanager
// (https://prometheus.io/docs/alerting/latest/configuration/).
//
// Nothing is lost or sent twice when either side is killed. The pending time of an alert is in the
// store (ALERTS_FOR_STATE), and the embedded Alertmanager writes firing alerts, sent notifications
// and silences to files whenever they change. A stop waits for deliveries in flight. The outcome of
// a delivery that was in flight during a kill is unknown. It is sent again if the alert still
// fires; otherwise its end is sent.
//
// A [Service] is safe for concurrent use. Times are UTC.
package alerting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"reckon/access"
	"reckon/store"
)

// Options configures the service. Engine, Parser, Queryable and Appendable are required.
type Options struct {
	Engine     promql.QueryEngine
	Parser     parser.Parser
	Queryable  storage.Queryable
	Appendable storage.AppendableV2

	// Rules are rule files or patterns of names. The word default stands for the built-in rules,
	// none for no rules. Empty means default.
	Rules []string
	// Alertmanagers are the addresses of external Alertmanagers. Config is the file of the one in
	// this process. With neither but a Dir, it uses the receivers of [Service.SetContact].
	Alertmanagers []string
	Config        string
	Loopback      bool // contacts may be on this machine
	// Dir is the directory for state that must survive a restart: reported findings, and the state
	// of the embedded Alertmanager.
	Dir string

	// Shared keeps the files of Dir for the other servers of a cluster, too; nil for one server.
	Shared Shared

	// External is the address under which people reach this server, for links.
	External string
	// Interval is the interval of rules that set none; 0 is 30 s.
	Interval time.Duration
	// Resend is the interval at which a lasting alert is reported to the Alertmanager, which
	// assumes its end after four times as long without a report; 0 means a minute.
	Resend time.Duration
	// Findings gives the open cases of misuse that are to be reported; nil: there are none.
	Findings func(context.Context) ([]Finding, error)
	Logger   *slog.Logger
}

// Shared is the state that a leader among several servers passes to the next leader.
type Shared interface {
	// Put keeps a file of [Options.Dir] under its name.
	Put(name string, body []byte) error
	// Leads reports whether this server leads at this moment. Only the leader sends notifications.
	Leads() bool
}

// alertSink accepts alerts: external Alertmanagers or the one in this process.
type alertSink interface {
	put(...*notifier.Alert)
	run(context.Context)
	check(ctx context.Context, id string) []Delivery
	reload() error
	urls() []*url.URL
}

// Service evaluates rules. Open it and Run it once.
type Service struct {
	o       Options
	log     *slog.Logger
	manager *rules.Manager
	sinks   []alertSink
	inside  *embeddedManager
	// contacts are nil if a file or another Alertmanager has the receivers.
	contacts *contactList

	following sync.Mutex // held from the reading of findings until they are reported
	mu        sync.Mutex
	firing    map[string]*notifier.Alert // findings that fire or ended lately, by id
	tests     map[string]time.Time
}

// Open reads the rules and the configuration; nothing runs yet.
func Open(ctx context.Context, o Options) (_ *Service, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Interval <= 0 {
		o.Interval = 30 * time.Second
	}
	if o.Resend <= 0 {
		o.Resend = time.Minute
	}
	s := &Service{o: o, log: o.Logger, tests: map[string]time.Time{}}
	if len(o.Alertmanagers) > 0 && o.Config != "" {
		return nil, errors.New(
			"give the setting alertmanager for Alertmanagers that run elsewhere, or alertmanager-config for the one in this process, " +
				"not both")
	}
	if len(o.Alertmanagers) > 0 {
		r, err := newRemote(o.Alertmanagers, s.log)
		if err != nil {
			return nil, err
		}
		s.sinks = append(s.sinks, r)
	}
	kept := stateFiles{o.Dir, o.Shared}
	read := func() (*amconfig.Config, error) { return readConfig(o.Config) }
	if len(s.sinks) == 0 && o.Config == "" && o.Dir != "" {
		if s.contacts, err = openContacts(kept, o.Loopback); err != nil {
			return nil, err
		}
		read = s.contacts.readConfig
	}
	if o.Config != "" || s.contacts != nil {
		e, err := openEmbedded(read, kept, o.External, o.Resend, s.log)
		if err != nil {
			return nil, err
		}
		s.inside, s.sinks = e, append(s.sinks, e)
	}
	if s.firing, err = openFindings(o.Dir); err != nil {
		s.Close()
		return nil, err
	}
	link, err := url.Parse(o.External)
	if err != nil {
		return nil, fmt.Errorf("address %q for links in alerts: %w", o.External, err)
	}
	everything := access.With(context.WithoutCancel(ctx), access.Viewer{Role: access.Support, Name: "rules"}) // a rule has no viewer
	s.manager = rules.NewManager(&rules.ManagerOptions{
		ExternalURL: link, QueryFunc: rules.EngineQueryFunc(o.Engine, o.Queryable), NotifyFunc: s.notify,
		Context: everything, Appendable: appendableV1{o.Appendable}, Queryable: o.Queryable, Logger: quietLogger(s.log),
		OutageTolerance: 24 * time.Hour, ForGracePeriod: o.Resend, ResendDelay: o.Resend,
		GroupLoader: ruleLoader{o.Parser, s.log}, Parser: o.Parser, RestoreNewRuleGroups: true,
	})
	if err := s.loadRules(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Run evaluates and notifies until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for _, k := range s.sinks {
		wg.Go(func() { k.run(run) })
	}
	wg.Go(s.manager.Run)
	if s.o.Findings != nil && len(s.sinks) > 0 {
		wg.Go(func() {
			_ = store.Repeat(ctx, 0, s.o.Interval, 0, func(ctx context.Context) error { return s.Follow(ctx, time.Now()) },
				func(err error) { s.log.Error("findings could not be notified", "err", err) })
		})
	}
	<-ctx.Done()
	s.manager.Stop() // Stop it first, so that its last alerts are still sent.
	cancel()
	wg.Wait()
	return nil
}

// Close frees the resources of a service that was never Run; after Run it does nothing.
func (s *Service) Close() {
	if s.inside != nil {
		s.inside.close()
	}
}

// Reload reads the rules and the configuration again. If they are invalid, the current ones stay in use.
func (s *Service) Reload() error {
	errs := []error{s.loadRules()}
	for _, k := range s.sinks {
		errs = append(errs, k.reload())
	}
	return errors.Join(errs...)
}

// RuleGroups implements the retriever of Prometheus's HTTP API.
func (s *Service) RuleGroups() []*rules.Group { return s.manager.RuleGroups() }

// AlertingRules implements it too.
func (s *Service) AlertingRules() []*rules.AlertingRule { return s.manager.AlertingRules() }

// Alertmanagers returns the addresses that alerts go to.
func (s *Service) Alertmanagers() (out []*url.URL) {
	for _, k := range s.sinks {
		out = append(out, k.urls()...)
	}
	return out
}

// DroppedAlertmanagers returns none, because addresses are configured and not discovered.
func (s *Service) DroppedAlertmanagers() []*url.URL { return nil }

// notify receives alerts of rules.
func (s *Service) notify(_ context.Context, expr string, list ...*rules.Alert) {
	out := make([]*notifier.Alert, 0, len(list))
	for _, a := range list {
		n := &notifier.Alert{
			StartsAt: a.FiredAt, EndsAt: a.ValidUntil, Labels: a.Labels, Annotations: a.Annotations,
			GeneratorURL: chartURL(s.o.External, expr, a.ActiveAt, a.ResolvedAt),
		}
		if !a.ResolvedAt.IsZero() {
			n.EndsAt = a.ResolvedAt
		}
		out = append(out, n)
	}
	s.put(out...)
}

// chartURL returns the URL of a chart of an expression around an alert. The chart begins an hour before the alert. It
// ends an hour after the end of the alert, or an hour after the start if the alert is active.
func chartURL(external, expr string, begin, end time.Time) string {
	q := url.Values{"expr": {expr}}
	if !begin.IsZero() {
		if end.IsZero() {
			end = begin
		}
		q.Set("from", strconv.FormatInt(begin.Add(-time.Hour).Unix(), 10))
		q.Set("to", strconv.FormatInt(end.Add(time.Hour).Unix(), 10))
	}
	return strings.TrimRight(external, "/") + "/explore?" + q.Encode()
}

func (s *Service) put(list ...*notifier.Alert) {
	if len(list) == 0 || (s.o.Shared != nil && !s.o.Shared.Leads()) {
		return
	}
	for _, k := range s.sinks {
		k.put(list...)
	}
}

// Findings and tests are alerts under these names.
const (
	findingName = "Finding"
	testName    = "ReckonTest"
	testLabel   = "reckon_test"
)

func newLabels(pairs ...string) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for i := 0; i < len(pairs); i += 2 {
		b.Set(pairs[i], pairs[i+1]) // an empty value is no label
	}
	return b.Labels()
}
