package alerting

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	configutil "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/notifier"
)

// remoteManagers notifies external Alertmanagers through version 2 of their API
// (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml).
type remoteManagers struct {
	manager *notifier.Manager
	targets map[string][]*targetgroup.Group
	bases   []*url.URL
	http    *http.Client

	mu    sync.Mutex
	ready bool
	early []*notifier.Alert
}

func newRemote(addresses []string, log *slog.Logger) (*remoteManagers, error) {
	r := &remoteManagers{targets: map[string][]*targetgroup.Group{}, http: &http.Client{Timeout: 10 * time.Second}}
	conf := &config.Config{GlobalConfig: config.DefaultGlobalConfig}
	for i, text := range addresses {
		u, err := url.Parse(text)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("alertmanager %s: write it as http://HOST:9093 or https://HOST/PATH", redactPassword(text))
		}
		am := config.DefaultAlertmanagerConfig
		am.Scheme, am.PathPrefix = u.Scheme, "/"+strings.Trim(u.Path, "/")
		if password, has := u.User.Password(); has {
			am.HTTPClientConfig.BasicAuth = &configutil.BasicAuth{Username: u.User.Username(), Password: configutil.Secret(password)}
		}
		conf.AlertingConfig.AlertmanagerConfigs = append(conf.AlertingConfig.AlertmanagerConfigs, &am)
		r.targets[fmt.Sprintf("config-%d", i)] = []*targetgroup.Group{
			{Source: text, Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(u.Host)}}}}
		r.bases = append(r.bases, u)
	}
	r.manager = notifier.NewManager(&notifier.Options{QueueCapacity: 10_000, DrainOnShutdown: true}, model.UTF8Validation, quietLogger(log))
	if err := r.manager.ApplyConfig(conf); err != nil {
		return nil, fmt.Errorf("alertmanager: %w", err)
	}
	return r, nil
}

func (r *remoteManagers) run(ctx context.Context) {
	sets := make(chan map[string][]*targetgroup.Group)
	go func() {
		defer r.manager.Stop()
		for range 2 { // the second is taken when the first is in place
			select {
			case sets <- r.targets:
			case <-ctx.Done():
				return
			}
		}
		r.waitForTargets()
		<-ctx.Done()
	}()
	r.manager.Run(sets)
}

// put sends alerts. It keeps them until the notifier has its targets, because the notifier drops earlier ones.
func (r *remoteManagers) put(list ...*notifier.Alert) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready {
		r.early = append(r.early, list...)
		return
	}
	r.manager.Send(list...)
}

func (r *remoteManagers) waitForTargets() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = true
	r.manager.Send(r.early...)
	r.early = nil
}

func (r *remoteManagers) reload() error    { return nil }
func (r *remoteManagers) urls() []*url.URL { return r.bases }

// check queries each Alertmanager for the arrival of the test.
func (r *remoteManagers) check(ctx context.Context, id string) (out []Delivery) {
	for _, u := range r.bases {
		d := Delivery{Alertmanager: u.Redacted()}
		receivers, err := r.findReceivers(ctx, u, id)
		switch {
		case err != nil:
			d.Error = err.Error()
		case receivers != nil:
			d.Arrived, d.Receiver = true, strings.Join(receivers, ", ")
		}
		out = append(out, d)
	}
	return out
}

// findReceivers returns the receivers of the test at an Alertmanager; nil if it has no such alert.
func (r *remoteManagers) findReceivers(ctx context.Context, base *url.URL, id string) ([]string, error) {
	list, err := r.fetchAlerts(ctx, base, fmt.Sprintf("%s=%q", testLabel, id))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out := []string{}
	for _, rcv := range list[0].Receivers {
		out = append(out, rcv.Name)
	}
	return out, nil
}

// peerAlert is the part that we read of an alert of another Alertmanager.
type peerAlert struct {
	Receivers []struct{ Name string }
}

// fetchAlerts returns the alerts of an Alertmanager that match a matcher.
func (r *remoteManagers) fetchAlerts(ctx context.Context, base *url.URL, matcher string) ([]peerAlert, error) {
	u := *base
	u.Path = strings.TrimRight(u.Path, "/") + "/api/v2/alerts"
	u.RawQuery = url.Values{"filter": {matcher}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", base.Redacted(), resp.Status)
	}
	var list []peerAlert
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%s did not answer as an Alertmanager: %w", base.Redacted(), err)
	}
	return list, nil
}
