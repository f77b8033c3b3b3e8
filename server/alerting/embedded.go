package alerting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/alert"
	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/config/receiver"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/marker"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/notifier"
)

// alertRetention is the time that reports are remembered, longer than any finding lasts.
const alertRetention = 400 * 24 * time.Hour

// Prefix is the path prefix of the embedded Alertmanager's API.
const Prefix = "/alertmanager"

// embeddedManager is an Alertmanager in this process. It uses Alertmanager's own routes, grouping, inhibition, silences and
// receivers. It writes state that must survive a restart at every change.
type embeddedManager struct {
	read     func() (*amconfig.Config, error)
	dir      string
	external *url.URL
	log      *slog.Logger
	metrics  *prometheus.Registry
	flags    featurecontrol.Flagger
	recorder eventrecorder.Recorder

	alerts   *mem.Alerts
	silences *silence.Silences
	silencer *silence.Silencer
	notified *nflog.Log
	groups   marker.GroupMarker
	pipeline *notify.PipelineBuilder
	measured *dispatch.DispatcherMetrics
	memory   *alertState
	drain    *drainStage // notifications in flight

	mu         sync.RWMutex
	conf       *amconfig.Config // in force
	api        http.Handler     // of conf, nil before it is asked
	dispatcher *dispatch.Dispatcher
	inhibitor  *inhibit.Inhibitor
	routes     *dispatch.Route
	times      *timeinterval.Intervener
	counts     map[string][]string // integrations by receiver

	stop   chan struct{}
	closed sync.Once
	wg     sync.WaitGroup
}

func openEmbedded(read func() (*amconfig.Config, error), kept stateFiles, external string,
	resend time.Duration, log *slog.Logger) (*embeddedManager, error) {
	dir := kept.dir
	conf, err := read()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of alerts: %w", err)
	}
	log = quietLogger(log).With("part", "alertmanager")
	e := &embeddedManager{
		read: read, dir: dir, log: log, metrics: prometheus.NewRegistry(), flags: featurecontrol.NoopFlags{},
		groups: marker.NewGroupMarker(), stop: make(chan struct{}),
	}
	if e.external, err = url.Parse(strings.TrimRight(external, "/") + Prefix); err != nil {
		return nil, fmt.Errorf("address %q for links in alerts: %w", external, err)
	}
	if e.notified, err = nflog.New(nflog.Options{SnapshotFile: filepath.Join(dir, "nflog"), Retention: alertRetention, Logger: log,
		Metrics: e.metrics}); err != nil {
		return nil, fmt.Errorf("read the sent notifications (%s): %w; remove it, and lasting alerts are sent once more",
			filepath.Join(dir, "nflog"), err)
	}
	e.silences, err = silence.New(silence.Options{SnapshotFile: filepath.Join(dir, "silences"), Retention: 120 * time.Hour, Logger: log,
		Metrics: e.metrics})
	if err != nil {
		return nil, fmt.Errorf("read silences (%s): %w; remove it, and set them anew", filepath.Join(dir, "silences"), err)
	}
	e.silencer = silence.NewSilencer(e.silences, log, e.recorder)
	if e.alerts, err = mem.NewAlerts(context.Background(), 30*time.Minute, 0, e.silencer, log, e.recorder, e.metrics, e.flags); err != nil {
		return nil, err
	}
	e.pipeline = notify.NewPipelineBuilder(e.metrics, e.flags, e.recorder)
	e.measured = dispatch.NewDispatcherMetrics(false, e.metrics, e.flags)
	if e.memory, err = openMemory(kept, resend, log); err != nil {
		e.alerts.Close()
		return nil, err
	}
	if err := e.memory.resumeInterrupted(e.notified); err != nil {
		e.alerts.Close()
		return nil, err
	}
	if err := e.alerts.Put(context.Background(), e.memory.loadAlerts()...); err != nil {
		e.alerts.Close()
		return nil, err
	}
	if err := e.applyConfig(conf); err != nil {
		e.alerts.Close()
		return nil, err
	}
	return e, nil
}

func readConfig(file string) (*amconfig.Config, error) {
	conf, err := amconfig.LoadFile(file)
	if err != nil {
		return nil, fmt.Errorf("alertmanager-config %s: %w; deploy/alerts/alertmanager.yml is an example", file, err)
	}
	return conf, nil
}

// alertGroups lists the groups of alerts of the configuration in force.
func (e *embeddedManager) alertGroups(ctx context.Context, of func(*dispatch.Route) bool, wanted func(*alert.Alert, time.Time) bool) (
	dispatch.AlertGroups, map[model.Fingerprint][]string, error,
) {
	e.mu.RLock()
	dispatcher := e.dispatcher
	e.mu.RUnlock()
	return dispatcher.Groups(ctx, of, wanted)
}

// applyConfig builds routes, receivers and stages from a configuration and then replaces the current ones. If a step fails,
// the current ones stay in use.
func (e *embeddedManager) applyConfig(conf *amconfig.Config) error {
	tmpl, err := template.FromGlobs(conf.Templates)
	if err != nil {
		return fmt.Errorf("templates of the receivers: %w", err)
	}
	tmpl.ExternalURL = e.external
	routes := dispatch.NewRoute(conf.Route, nil)
	used := map[string]bool{}
	routes.Walk(func(r *dispatch.Route) { used[r.RouteOpts.Receiver] = true })
	receivers, counts := map[string][]notify.Integration{}, map[string][]string{}
	for _, rc := range conf.Receivers {
		if !used[rc.Name] {
			continue
		}
		list, err := receiver.BuildReceiverIntegrations(rc, tmpl, e.log)
		if err != nil {
			return fmt.Errorf("receiver %s: %w", rc.Name, err)
		}
		receivers[rc.Name] = e.memory.trackDeliveries(rc.Name, list)
		counts[rc.Name] = []string{}
		for i := range list {
			counts[rc.Name] = append(counts[rc.Name], list[i].String())
		}
	}
	times := map[string][]timeinterval.TimeInterval{}
	for _, t := range conf.MuteTimeIntervals {
		times[t.Name] = t.TimeIntervals
	}
	for _, t := range conf.TimeIntervals {
		times[t.Name] = t.TimeIntervals
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopCurrent()
	e.times = timeinterval.NewIntervener(times)
	e.inhibitor = inhibit.NewInhibitor(e.alerts, conf.InhibitRules, e.log, e.recorder)
	inhibitor := e.inhibitor
	stage := e.pipeline.New(receivers, func() time.Duration { return 0 }, inhibitor, e.silencer,
		e.times, e.groups, &deliveryLog{e.notified, e.memory, e.notified.Snapshot}, nil)
	e.drain = &drainStage{stage: stage}
	e.dispatcher = dispatch.NewDispatcher(e.alerts, routes, e.drain, e.groups,
		func(d time.Duration) time.Duration { return max(d, notify.MinTimeout) }, 30*time.Second, nil, e.log, e.recorder, e.measured, tmpl)
	e.routes, e.counts = routes, counts
	go inhibitor.Run()
	inhibitor.WaitForLoading()
	go e.dispatcher.Run(time.Now())
	e.dispatcher.WaitForLoading()
	e.conf, e.api = conf, nil
	return nil
}

func (e *embeddedManager) stopCurrent() {
	if e.inhibitor != nil {
		e.inhibitor.Stop()
	}
	if e.dispatcher != nil {
		e.dispatcher.Stop()
		if !e.drain.close() {
			e.log.Warn("a receiver did not answer within 15 s of the stop; it may be notified once more")
		}
	}
}

func (e *embeddedManager) reload() error {
	conf, err := e.read()
	if err != nil {
		return err
	}
	return e.applyConfig(conf)
}

func (e *embeddedManager) run(ctx context.Context) {
	maintain := func(f func()) { e.wg.Go(f) }
	maintain(func() {
		e.notified.Maintenance(time.Hour, filepath.Join(e.dir, "nflog"), e.stop, nil)
	})
	maintain(func() {
		e.silences.Maintenance(time.Hour, filepath.Join(e.dir, "silences"), e.stop, nil)
	})
	<-ctx.Done()
	e.close()
}

func (e *embeddedManager) close() {
	e.closed.Do(func() {
		e.mu.Lock()
		e.stopCurrent()
		e.mu.Unlock()
		close(e.stop)
		e.wg.Wait()
		e.alerts.Close()
	})
}

func (e *embeddedManager) urls() []*url.URL { return []*url.URL{e.external} }

func (e *embeddedManager) put(list ...*notifier.Alert) {
	now := time.Now()
	out := make([]*alert.Alert, 0, len(list))
	for _, n := range list {
		a := &alert.Alert{UpdatedAt: now, Alert: model.Alert{
			Labels: model.LabelSet{}, Annotations: model.LabelSet{}, StartsAt: n.StartsAt, EndsAt: n.EndsAt, GeneratorURL: n.GeneratorURL,
		}}
		n.Labels.Range(func(l labelPair) { a.Labels[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
		n.Annotations.Range(func(l labelPair) { a.Annotations[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
		if a.Resolved() && !e.memory.firedRecently(a.Fingerprint()) {
			continue // its beginning was never notified
		}
		out = append(out, a)
	}
	e.memory.put(out) // Store first, so that after a kill the next start sends the notification.
	if err := e.alerts.Put(context.Background(), out...); err != nil {
		e.log.Error("alerts were not taken", "err", err)
	}
}

// receiversFor returns the names of the receivers that the routes choose for an alert. held has the reason why the receiver
// with the same index is not notified now, or "".
func (e *embeddedManager) receiversFor(of map[string]string) (names, held []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	set := model.LabelSet{}
	for name, value := range of {
		set[model.LabelName(name)] = model.LabelValue(value)
	}
	why, ctx := "", context.Background()
	switch {
	case e.inhibitor.Mutes(ctx, set):
		why = "another alert inhibits it"
	case e.silencer.Mutes(ctx, set):
		why = "silenced"
	}
	for _, r := range e.routes.Match(set) {
		names, held = append(names, r.RouteOpts.Receiver), append(held, cmp.Or(why, e.muteInterval(&r.RouteOpts)))
	}
	return names, held
}

// muteInterval returns the time interval that currently mutes a route, or "" if there is none.
func (e *embeddedManager) muteInterval(r *dispatch.RouteOpts) string {
	if is, by, err := e.times.Mutes(r.MuteTimeIntervals, time.Now()); is && err == nil {
		return "mute time " + strings.Join(by, ", ")
	}
	if is, _, err := e.times.Mutes(r.ActiveTimeIntervals, time.Now()); !is && err == nil && len(r.ActiveTimeIntervals) > 0 {
		return "outside of " + strings.Join(r.ActiveTimeIntervals, ", ")
	}
	return ""
}

func (e *embeddedManager) check(_ context.Context, id string) []Delivery {
	e.mu.RLock()
	counts := e.counts
	e.mu.RUnlock()
	var out []Delivery
	names := slices.Sorted(maps.Keys(counts))
	if id != LastTest {
		names, _ = e.receiversFor(map[string]string{"alertname": testName, testLabel: id, "severity": "info"})
	}
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	for _, name := range names {
		if len(counts[name]) == 0 {
			out = append(out, Delivery{Alertmanager: "embedded", Receiver: name, Arrived: true, Error: "this receiver notifies nobody"})
		}
		for _, integration := range counts[name] {
			d := e.memory.tests[id+"/"+name+"/"+integration]
			d.Alertmanager, d.Receiver, d.Integration = "embedded", name, integration
			out = append(out, d)
		}
	}
	return out
}

// Handler serves the API of the embedded Alertmanager below Prefix; nil without one.
func (s *Service) Handler() http.Handler {
	if s.inside == nil {
		return nil
	}
	return s.inside
}

var errNoReceiver = errors.New("alerts go nowhere; add a receiver on the page Alerts, or start the server with the setting alertmanager " +
	"or alertmanager-config")

// Reachable returns the reason why no alert can be delivered, or nil.
func (s *Service) Reachable() error {
	if len(s.sinks) == 0 || s.contacts != nil && len(s.Receivers().Receivers) == 0 {
		return errNoReceiver
	}
	return nil
}
