package alerting

import (
	"net/http"
	"strings"

	amapi "github.com/prometheus/alertmanager/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/route"
)

// maxBody bounds what a request may hold, in bytes.
const maxBody = 8 << 20

// serveAPI sets up version 2 of the API of Alertmanager, for amtool, Grafana and others
// (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml). A silence that
// was set or ended is written to the disk before the request returns.
func (e *embedded) serveAPI() (err error) {
	e.api, err = amapi.New(amapi.Options{
		Alerts: e.alerts, Silences: e.silences, GroupMutedFunc: e.groups.Muted, GroupFunc: e.grouped, Logger: e.log, Registry: e.metrics,
		RequestDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "alertmanager_http_request_duration_seconds", Help: "Duration of requests.",
		}, []string{"handler", "method", "code"}),
	})
	if err != nil {
		return err
	}
	served := e.api.Register(route.New(), Prefix)
	e.mux = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		served.ServeHTTP(w, r)
		if r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, Prefix+"/api/v2/silence") {
			e.memory.snapshot("silences", e.silences.Snapshot)
		}
	})
	return nil
}
