package alerting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/alert"
	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/marker"
	"github.com/prometheus/alertmanager/matcher/compat"
	amlabels "github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/version"
)

// api serves version 2 of the API of Alertmanager, for amtool, Grafana and others
// (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml). The library's
// own handlers would add 4 MB of code generated from that description to the program.
type api struct {
	e       *embedded
	started time.Time
}

// maxBody bounds what a request may hold, in bytes.
const maxBody = 8 << 20

func (e *embedded) handler() http.Handler {
	a := &api{e, time.Now()}
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(*http.Request) (any, error){
		"GET /status":          a.status,
		"GET /receivers":       a.receivers,
		"GET /alerts":          a.alerts,
		"POST /alerts":         a.postAlerts,
		"GET /alerts/groups":   a.groups,
		"GET /silences":        a.silences,
		"POST /silences":       a.postSilence,
		"GET /silence/{id}":    a.silence,
		"DELETE /silence/{id}": a.expireSilence,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Prefix+"/api/v2"+path, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			answer(w, r, h)
		})
	}
	return mux
}

// statusError is an error that the sender of a request has to mend.
type statusError struct {
	code int
	err  error
}

func (e statusError) Error() string { return e.err.Error() }

func badRequest(err error) error { return statusError{http.StatusBadRequest, err} }

// answer writes what a handler returns. As upstream, an error is a JSON string, and
// nothing where it says that something is not there.
func answer(w http.ResponseWriter, r *http.Request, h func(*http.Request) (any, error)) {
	body, err := h(r)
	code := http.StatusOK
	if err != nil {
		code, body = http.StatusInternalServerError, err.Error()
		var se statusError
		if errors.As(err, &se) {
			code = se.code
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	if body == nil || code == http.StatusNotFound {
		w.WriteHeader(code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the receiver has gone
}

type named struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

type apiStatus struct {
	Cluster struct {
		Status string     `json:"status"`
		Peers  []struct{} `json:"peers"`
	} `json:"cluster"`
	Config struct {
		Original string `json:"original"`
	} `json:"config"`
	Uptime      time.Time         `json:"uptime"`
	VersionInfo map[string]string `json:"versionInfo"`
}

func (a *api) status(*http.Request) (any, error) {
	s := apiStatus{Uptime: a.started.UTC(), VersionInfo: map[string]string{
		"version": version.Version, "revision": version.Revision, "branch": version.Branch,
		"buildUser": version.BuildUser, "buildDate": version.BuildDate, "goVersion": version.GoVersion,
	}}
	s.Cluster.Status, s.Cluster.Peers = "disabled", []struct{}{}
	s.Config.Original = a.e.present().config.String()
	return s, nil
}

func (a *api) receivers(r *http.Request) (any, error) {
	want, err := matchers(r, "receiver_matchers")
	out := []named{}
	for _, rc := range a.e.present().config.Receivers {
		if matchAll(want, rc.Labels) {
			out = append(out, named{rc.Name, rc.Labels})
		}
	}
	return out, err
}

// alertFilter is what a request wants of alerts.
type alertFilter struct {
	labels, receiverLabels      []*amlabels.Matcher
	receiver                    *regexp.Regexp // nil: any
	active, silenced, inhibited bool
	muted                       bool // groups only
	config                      *amconfig.Config
	mute                        func(context.Context, model.LabelSet)
}

func (a *api) filter(r *http.Request) (f alertFilter, err error) {
	p := a.e.present()
	f.config, f.mute = p.config, p.mute
	for name, to := range map[string]*bool{"active": &f.active, "silenced": &f.silenced, "inhibited": &f.inhibited, "muted": &f.muted} {
		if *to, err = flag(r, name); err != nil {
			return f, err
		}
	}
	if f.labels, err = matchers(r, "filter"); err != nil {
		return f, err
	}
	if f.receiverLabels, err = matchers(r, "receiver_matchers"); err != nil {
		return f, err
	}
	if text := r.FormValue("receiver"); text != "" {
		if f.receiver, err = regexp.Compile("^(?:" + text + ")$"); err != nil {
			return f, badRequest(fmt.Errorf("receiver: %w", err))
		}
	}
	return f, nil
}

// wantsReceiver reports whether one of the receivers, by name, is wanted.
func (f *alertFilter) wantsReceiver(names ...string) bool {
	byName := f.receiver == nil || slices.ContainsFunc(names, f.receiver.MatchString)
	return byName && (len(f.receiverLabels) == 0 || slices.ContainsFunc(f.config.Receivers, func(rc amconfig.Receiver) bool {
		return slices.Contains(names, rc.Name) && matchAll(f.receiverLabels, rc.Labels)
	}))
}

// state is whether an alert is silenced or inhibited now.
func (f *alertFilter) state(ctx context.Context, al *alert.Alert) alert.AlertStatus {
	m := marker.NewAlertMarker()
	f.mute(marker.WithContext(ctx, m), al.Labels)
	return m.Status(al.Fingerprint())
}

func (f *alertFilter) wants(ctx context.Context, al *alert.Alert, now time.Time) bool {
	if (!al.EndsAt.IsZero() && al.EndsAt.Before(now)) || !matchAll(f.labels, plain(al.Labels)) {
		return false
	}
	s := f.state(ctx, al)
	return (f.active || s.State != alert.AlertStateActive) && (f.silenced || len(s.SilencedBy) == 0) && (f.inhibited || len(s.InhibitedBy) == 0)
}

type apiAlert struct {
	Annotations  map[string]string `json:"annotations"`
	EndsAt       time.Time         `json:"endsAt"`
	Fingerprint  string            `json:"fingerprint"`
	Receivers    []named           `json:"receivers"`
	StartsAt     time.Time         `json:"startsAt"`
	Status       apiAlertStatus    `json:"status"`
	UpdatedAt    time.Time         `json:"updatedAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
	Labels       map[string]string `json:"labels"`
}

type apiAlertStatus struct {
	InhibitedBy []string `json:"inhibitedBy"`
	MutedBy     []string `json:"mutedBy"`
	SilencedBy  []string `json:"silencedBy"`
	State       string   `json:"state"`
}

func toAPI(al *alert.Alert, s alert.AlertStatus, receivers, mutedBy []string) apiAlert {
	out := apiAlert{
		Annotations: plain(al.Annotations), Labels: plain(al.Labels), GeneratorURL: al.GeneratorURL, Fingerprint: al.Fingerprint().String(),
		StartsAt: al.StartsAt, EndsAt: al.EndsAt, UpdatedAt: al.UpdatedAt, Receivers: []named{},
		Status: apiAlertStatus{
			InhibitedBy: append([]string{}, s.InhibitedBy...), SilencedBy: append([]string{}, s.SilencedBy...),
			MutedBy: append([]string{}, mutedBy...), State: string(s.State),
		},
	}
	if len(mutedBy) > 0 {
		out.Status.State = string(alert.AlertStateSuppressed)
	}
	for _, name := range receivers {
		out.Receivers = append(out.Receivers, named{Name: name})
	}
	return out
}

func (a *api) alerts(r *http.Request) (any, error) {
	f, err := a.filter(r)
	if err != nil {
		return nil, err
	}
	pending, now := a.e.alerts.GetPending(), time.Now()
	defer pending.Close()
	out := []apiAlert{}
	for p := range pending.Next() {
		if err := errors.Join(pending.Err(), r.Context().Err()); err != nil {
			return nil, err
		}
		var receivers []string
		for _, route := range a.e.present().routes.Match(p.Data.Labels) {
			receivers = append(receivers, route.RouteOpts.Receiver)
		}
		if f.wantsReceiver(receivers...) && f.wants(r.Context(), p.Data, now) {
			out = append(out, toAPI(p.Data, f.state(r.Context(), p.Data), receivers, nil))
		}
	}
	slices.SortFunc(out, func(x, y apiAlert) int { return strings.Compare(x.Fingerprint, y.Fingerprint) })
	return out, nil
}

type apiGroup struct {
	Alerts      []apiAlert        `json:"alerts"`
	Labels      map[string]string `json:"labels"`
	Receiver    named             `json:"receiver"`
	RouteLabels map[string]string `json:"routeLabels"`
}

func (a *api) groups(r *http.Request) (any, error) {
	f, err := a.filter(r)
	if err != nil {
		return nil, err
	}
	groups, receivers, err := a.e.present().dispatcher.Groups(r.Context(),
		func(route *dispatch.Route) bool { return f.wantsReceiver(route.RouteOpts.Receiver) },
		func(al *alert.Alert, now time.Time) bool { return f.wants(r.Context(), al, now) })
	if err != nil {
		return nil, err
	}
	out := []apiGroup{}
	for _, g := range groups {
		mutedBy, muted := a.e.groups.Muted(g.RouteID, g.GroupKey)
		if muted && !f.muted {
			continue
		}
		one := apiGroup{Alerts: []apiAlert{}, Labels: plain(g.Labels), Receiver: named{Name: g.Receiver}, RouteLabels: plain(g.RouteLabels)}
		for _, al := range g.Alerts {
			one.Alerts = append(one.Alerts, toAPI(al, f.state(r.Context(), al), receivers[al.Fingerprint()], mutedBy))
		}
		out = append(out, one)
	}
	return out, nil
}

// postAlerts takes alerts of others; those that are not valid are refused, the rest is taken.
func (a *api) postAlerts(r *http.Request) (any, error) {
	var list []struct {
		Labels, Annotations model.LabelSet
		StartsAt, EndsAt    time.Time
		GeneratorURL        string
	}
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		return nil, badRequest(err)
	}
	now, resolve := time.Now(), time.Duration(a.e.present().config.Global.ResolveTimeout)
	var valid []*alert.Alert
	var errs []error
	for _, in := range list {
		al := &alert.Alert{UpdatedAt: now, Alert: model.Alert{
			Labels: in.Labels, Annotations: in.Annotations, StartsAt: in.StartsAt, EndsAt: in.EndsAt, GeneratorURL: in.GeneratorURL,
		}}
		switch {
		case al.StartsAt.IsZero() && al.EndsAt.IsZero():
			al.StartsAt = now
		case al.StartsAt.IsZero():
			al.StartsAt = al.EndsAt
		}
		if al.EndsAt.IsZero() {
			al.Timeout, al.EndsAt = true, now.Add(resolve)
		}
		for name, value := range al.Labels {
			if value == "" {
				delete(al.Labels, name)
			}
		}
		if err := al.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		valid = append(valid, al)
	}
	if err := a.e.alerts.Put(r.Context(), valid...); err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		return nil, badRequest(errors.Join(errs...))
	}
	return nil, nil
}

// flag reads a parameter that is true unless it says otherwise.
func flag(r *http.Request, name string) (bool, error) {
	text := r.FormValue(name)
	if text == "" {
		return true, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest(fmt.Errorf("%s: %q is neither true nor false", name, text))
	}
	return v, nil
}

func matchers(r *http.Request, name string) (out []*amlabels.Matcher, err error) {
	if err := r.ParseForm(); err != nil {
		return nil, badRequest(err)
	}
	for _, text := range r.Form[name] {
		m, err := compat.Matcher(text, "api")
		if err != nil {
			return nil, badRequest(fmt.Errorf("%s: %w", name, err))
		}
		out = append(out, m)
	}
	return out, nil
}

// matchAll reports whether labels match. A label that is not there is the empty one, but
// name!="" and name="" ask whether it is there.
func matchAll(list []*amlabels.Matcher, labels map[string]string) bool {
	for _, m := range list {
		v, there := labels[m.Name]
		negative := m.Type == amlabels.MatchNotEqual || m.Type == amlabels.MatchNotRegexp
		if m.Value == "" && there == negative {
			continue
		}
		if !m.Matches(v) {
			return false
		}
	}
	return true
}

func plain(set model.LabelSet) map[string]string {
	out := make(map[string]string, len(set))
	for name, value := range set {
		out[string(name)] = string(value)
	}
	return out
}
