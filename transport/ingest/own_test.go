package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"reckon/transport/limits"
)

// A user of the machine without a token sends figures of its own, which get its name and the node's, by all three protocols;
// everything else refuses the whole request with 403, so that an agent keeps it.
func TestOwnFiguresOnly(t *testing.T) {
	s := openStore(t)
	l := limits.New(limits.Config{}, nil, nil)
	described := map[string]bool{}
	o := Options{Store: s, Describe: func(name string, _ metadata.Metadata) error { described[name] = true; return nil },
		Begin: func(context.Context) (*limits.Request, error) { return l.Begin("games", limits.Bound{Series: 4}) },
		Own: func(context.Context) *RestrictedSender {
			return &RestrictedSender{Owner: "games", Node: "n1", Site: "lab", Runs: func(_ context.Context, id string) (bool, error) { return id == "slurm/7", nil }}
		}}
	write, otlp := Handler(o), OTLP(o)
	at := time.Now()
	one := func(pairs ...string) proto.Message {
		ts := prompb.TimeSeries{Samples: []prompb.Sample{{Timestamp: at.UnixMilli(), Value: 1}}}
		for i := 0; i < len(pairs); i += 2 {
			ts.Labels = append(ts.Labels, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		return &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}, Metadata: []prompb.MetricMetadata{{MetricFamilyName: "reckon_forged", Help: "x"}}}
	}
	two := func(pairs ...string) proto.Message {
		r := &writev2.Request{Symbols: append([]string{""}, pairs...)}
		ts := writev2.TimeSeries{Samples: []writev2.Sample{{Timestamp: at.UnixMilli(), Value: 1}}}
		for i := range pairs {
			ts.LabelsRefs = append(ts.LabelsRefs, uint32(i+1))
		}
		r.Timeseries = []writev2.TimeSeries{ts}
		return r
	}
	for kind, make := range map[string]func(...string) proto.Message{"application/x-protobuf": one, "application/x-protobuf;proto=io.prometheus.write.v2.Request": two} {
		for _, tt := range []struct {
			labels []string
			code   int
		}{
			{[]string{"__name__", "loss", "kind", "slurm", "node", "n1", "owner", "games", "workload", "slurm/7"}, 204},
			{[]string{"__name__", "loss"}, 204},
			{[]string{"__name__", "reckon_workload_cpu_seconds_total"}, 403},
			{[]string{"__name__", "node_memory_MemTotal_bytes"}, 403},
			{[]string{"__name__", "a:rule"}, 403},
			{[]string{"__name__", "up"}, 403},
			{[]string{"__name__", "loss", "owner", "root"}, 403},
			{[]string{"__name__", "loss", "node", "n2"}, 403},
			{[]string{"__name__", "loss", "site", "elsewhere"}, 403},
			{[]string{"__name__", "loss", "workload", "slurm/8"}, 403},
			{[]string{"__name__", "loss", "kind", "pod", "workload", "slurm/7"}, 403},
			{[]string{"__name__", "loss", "kind", "pod"}, 403},
		} {
			w := post(t, write, kind, make(tt.labels...))
			if w.Code != tt.code || tt.code == 403 && !strings.Contains(w.Body.String(), "reckon token create --agent") {
				t.Errorf("%v by %s: %d %s", tt.labels, kind, w.Code, w.Body)
			}
		}
	}
	r := pmetric.NewMetrics()
	rm := r.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("host.name", "n1.example.org")
	rm.Resource().Attributes().PutStr("service.name", "train")
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("by_otlp")
	p := m.SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.NewTimestampFromTime(at))
	p.SetIntValue(1)
	if n, why := sendDeltas(t, otlp, r); n != 0 {
		t.Errorf("OTLP: %d refused: %s", n, why)
	}
	want := map[string]string{
		"loss":    `{__name__="loss", kind="slurm", node="n1", owner="games", site="lab", workload="slurm/7"} {__name__="loss", node="n1", owner="games", site="lab"}`,
		"by_otlp": `{__name__="by_otlp", job="train", node="n1", owner="games", site="lab"}`,
	}
	for name, series := range want {
		got := read(t, s, name)
		for _, one := range strings.SplitAfter(series, "}") {
			if one = strings.TrimSpace(one); one != "" && len(got[one]) != 1 {
				t.Errorf("no %s in %v", one, got)
			}
		}
	}
	for _, name := range []string{"reckon_workload_cpu_seconds_total", "target_info", "up"} {
		if got := read(t, s, name); len(got) != 0 {
			t.Errorf("stored: %v", got)
		}
	}
	if described["reckon_forged"] {
		t.Error("a metric of ours was described anew")
	}
	var refused string
	for i := range 3 {
		w := post(t, write, "application/x-protobuf", one("__name__", "many", "i", fmt.Sprint(i)))
		if w.Code == http.StatusBadRequest {
			refused = w.Body.String()
		}
	}
	if !strings.Contains(refused, "series") {
		t.Errorf("more than the bound: %s", refused)
	}
}

// The cache of series knows what agents sent: a user who sends the same labels is not taken for one.
func TestOwnFiguresAreNotTakenFromTheCache(t *testing.T) {
	s := openStore(t)
	user := false
	h := Handler(Options{Store: s, Own: func(context.Context) *RestrictedSender {
		if user {
			return &RestrictedSender{Owner: "games", Node: "n1"}
		}
		return nil
	}})
	at := time.Now()
	for i, code := range []int{204, 403, 204} {
		user = i == 1
		r := &writev2.Request{Symbols: []string{"", "__name__", "reckon_workload_cpu_seconds_total", "owner", "root"}, Timeseries: []writev2.TimeSeries{{
			LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []writev2.Sample{{Timestamp: at.Add(time.Duration(i) * time.Second).UnixMilli(), Value: 1}}}}}
		if w := post(t, h, "application/x-protobuf;proto=io.prometheus.write.v2.Request", r); w.Code != code {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
}
