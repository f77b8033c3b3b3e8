package answer

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/metadata"

	"reckon/access"
	"reckon/answer/dataset"
	"reckon/figure/wire"
	"reckon/query"
	"reckon/web/promapi"
)

// waves is an hour in which the use of alice and bob rises and falls, bob's a minute later,
// and power follows the processors.
func waves(t *testing.T) *history {
	h := newHistory(t)
	at, busy, joules := h.now, 0.0, 0.0
	var cpu [2]float64
	for i := range 480 {
		x := float64(i) / 15
		load := 0.5 + 0.4*math.Sin(x) + 0.05*math.Sin(7*x)
		busy, joules = busy+load*15, joules+(50+100*load)*15
		cpu[0] += 15 * load
		cpu[1] += 15 * (0.5 + 0.4*math.Sin(x-4.0/15))
		when := at.Add(time.Duration(i) * 15 * time.Second)
		h.put(when, "n1", "node_load1", load)
		h.put(when, "n1", "reckon_workload_cpu_seconds_total", cpu[0], "workload", "slurm/1", "owner", "alice")
		h.put(when, "n1", "reckon_workload_cpu_seconds_total", cpu[1], "workload", "slurm/2", "owner", "bob")
		h.put(when, "n1", "node_cpu_seconds_total", float64(i+1)*15-busy, "mode", "idle", "cpu", "0")
		h.put(when, "n1", "node_cpu_seconds_total", busy, "mode", "user", "cpu", "0")
		h.put(when, "n1", "reckon_node_energy_joules_total", joules, "domain", "board", "method", "measured")
	}
	// put registers all metrics as gauges; these are counters.
	if err := h.s.Describe("reckon_workload_cpu_seconds_total", metadata.Metadata{Type: "counter", Unit: "seconds"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *history) data() *Data {
	return &Data{Series: promapi.Restricted(h.s), Parser: query.NewEngine(query.EngineOptions{}).Parser(), Metadata: h.s.Metadata, Slots: make(chan struct{}, 1)}
}

func as(t *testing.T, v access.Viewer) context.Context { return access.With(t.Context(), v) }

func TestDataOfSeries(t *testing.T) {
	h := waves(t)
	d, all := h.data(), as(t, access.Viewer{Role: access.Admin})
	q := wire.DataQuery{Select: []string{`reckon_workload_cpu_seconds_total`, `{__name__="node_load1"}`, `node_load1{node="n1"}`}, From: h.now.Add(time.Minute), To: h.now.Add(30 * time.Minute), Step: time.Minute}
	table, err := d.Data(all, q)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Columns) != 3 || len(table.Times) != 29 || len(table.Warnings) != 0 {
		t.Fatalf("%d columns, %d rows, %v", len(table.Columns), len(table.Times), table.Warnings)
	}
	for _, c := range table.Columns {
		for i, v := range c.Values {
			if v == nil || *v < 0 || *v > 1.01 {
				t.Fatalf("%s at %d is no load", c.Name, i)
			}
		}
	}
	// A user gets their own series and those without an owner; an anonymous viewer gets none.
	for want, role := range []access.Viewer{{}, {Role: access.Public}, {Role: access.User, Name: "alice"}} {
		table, err := d.Data(as(t, role), q)
		if err != nil || len(table.Columns) != want {
			t.Errorf("%s sees %d series, want %d (%v)", role.Role, len(table.Columns), want, err)
		}
		if want == 0 && len(table.Warnings) == 0 {
			t.Error("that nothing was found is not said")
		}
	}
	var file bytes.Buffer
	if err := d.WriteData(all, q, "csv", &file); err != nil {
		t.Fatal(err)
	}
	if rows, err := csv.NewReader(&file).ReadAll(); err != nil || len(rows) != 30 || len(rows[0]) != 4 {
		t.Errorf("%d rows %v", len(rows), err)
	}
	file.Reset()
	if err := d.WriteData(all, q, "parquet", &file); err != nil {
		t.Fatal(err)
	}
	if f, err := dataset.ReadParquet(bytes.NewReader(file.Bytes()), int64(file.Len())); err != nil || f.Rows() != 29 || len(f.Columns) != 3 {
		t.Errorf("%+v %v", f, err)
	}
	q.Select = []string{"rate(x[5m])"}
	if _, err := d.Data(all, q); err == nil {
		t.Error("a function is taken for a selector")
	}
	stopped, stop := context.WithCancel(all)
	stop()
	d.Slots <- struct{}{}
	if _, err := d.Data(stopped, q); !errors.Is(err, context.Canceled) {
		t.Errorf("a question whose asker went away waits: %v", err)
	}
}

func TestCorrelationFindsTheLag(t *testing.T) {
	h := waves(t)
	d, all := h.data(), as(t, access.Viewer{Role: access.Admin})
	lag := 20
	c, err := d.Correlate(all, wire.DataQuery{Select: []string{`reckon_workload_cpu_seconds_total`}, From: h.now, To: h.now.Add(2 * time.Hour), Step: 15 * time.Second, MaxLag: &lag})
	if err != nil || len(c.Pairs) != 1 {
		t.Fatalf("%+v %v", c, err)
	}
	if p := c.Pairs[0]; p.LagSeconds != 60 || p.LagPearson == nil || *p.LagPearson < 0.95 || *p.Pearson >= *p.LagPearson {
		t.Errorf("bob follows alice by a minute: %+v", p)
	}
	if c, err := d.Correlate(all, wire.DataQuery{Select: []string{"node_load1"}, From: h.now, To: h.now.Add(time.Hour), Step: time.Minute}); err != nil || len(c.Pairs) != 0 || len(c.Warnings) == 0 {
		t.Errorf("one series: %+v %v", c, err)
	}
}

func TestPowerFollowsWork(t *testing.T) {
	h := waves(t)
	p := &Power{Series: promapi.Restricted(h.s), Engine: query.NewEngine(query.EngineOptions{}), Slots: make(chan struct{}, 1)}
	fit, err := p.PowerFit(as(t, access.Viewer{Role: access.Admin}), wire.PowerFitQuery{From: h.now, To: h.now.Add(2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if fit.Node != "n1" || fit.Score.MAPE > 0.05 || fit.Score.MAPE >= fit.Baseline.MAPE || len(fit.Points) < 400 || fit.BandLow > 1 || fit.BandHigh < 1 {
		t.Errorf("%s: %+v against %+v, %d points, band %g to %g", fit.Family, fit.Score, fit.Baseline, len(fit.Points), fit.BandLow, fit.BandHigh)
	}
	sum, mean := fit.BaseWatts, 0.0
	for _, c := range fit.Contributions {
		sum += c.Watts
	}
	for _, x := range fit.Points {
		mean += x.Modelled / float64(len(fit.Points))
	}
	if len(fit.Contributions) == 0 || math.Abs(sum-mean) > 0.01*mean {
		t.Errorf("base and contributions add up to %g W, the model says %g W: %+v", sum, mean, fit.Contributions)
	}
	_, err = p.PowerFit(as(t, access.Viewer{Role: access.Admin}), wire.PowerFitQuery{Node: "n9", From: h.now, To: h.now.Add(time.Hour)})
	if err == nil || !strings.Contains(err.Error(), errNoMeter.Error()) {
		t.Errorf("a node without a meter: %v", err)
	}
}
