package alerting

import (
	"context"
	"net/http"
	"strings"

	amapi "github.com/prometheus/alertmanager/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/route"
)

// maxBody is the size limit of a request in bytes.
const maxBody = 8 << 20

// newAPI returns a handler with version 2 of the Alertmanager API for the current configuration. amtool, Grafana and
// others use it (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml).
func (e *embeddedManager) newAPI() (http.Handler, error) {
	api, err := amapi.New(amapi.Options{
		Alerts: e.alerts, Silences: e.silences, GroupMutedFunc: e.groups.Muted, GroupFunc: e.alertGroups, Logger: e.log,
		Registry:        prometheus.NewRegistry(),
		RequestDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seconds"}, []string{"handler", "method", "code"}),
	})
	if err != nil {
		return nil, err
	}
	inhibitor := e.inhibitor
	api.Update(e.conf, func(ctx context.Context, ls model.LabelSet) {
		inhibitor.Mutes(ctx, ls)
		e.silencer.Mutes(ctx, ls)
	})
	return api.Register(route.New(), Prefix), nil
}

// ServeHTTP serves the Alertmanager API. It creates the API at the first request, because it takes megabytes of memory.
// The uptime in the API begins then. A new or ended silence is on disk before the request returns.
func (e *embeddedManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	e.mu.Lock()
	if e.api == nil {
		e.api, err = e.newAPI()
	}
	api := e.api
	e.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	api.ServeHTTP(w, r)
	if r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, Prefix+"/api/v2/silence") {
		e.memory.saveSnapshot("silences", e.silences.Snapshot)
	}
}
