// Package dashboards holds the Grafana dashboards of reckon's figures, generated from the
// descriptions in this package. `go generate` writes the files, and a test fails if they differ.
//
// They query a Prometheus data source: reckon's own server, or the Mimir, Thanos or VictoriaMetrics
// that agents send to. The model is Grafana's JSON model of schema 39, which Grafana 10 and later
// read
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).
// Units are Grafana's names of SI units.
package dashboards

//go:generate go test -run TestFiles . -update

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Dashboard is one page of Grafana.
type Dashboard struct {
	Name, Title, Description string
	Vars                     []Var
	Rows                     []Row
}

// Var is a choice at the top of the page with the values of a label.
type Var struct {
	Name, Metric, Label string
	Filter              string // restriction of the values, such as site=~"$site"
	Text                bool   // typed in, not chosen
}

// Row is a heading with panels under it.
type Row struct {
	Title     string
	Panels    []Panel
	Collapsed bool // opened on demand: its panels are empty on most machines
}

// Panel is one plot or figure.
type Panel struct {
	Title, Help, Unit string
	Kind              string // timeseries, stat, table or bargauge; empty is timeseries
	Width             int    // of 24; 0 is 12
	Stack             bool
	Queries           []Query
	Link              string // a page of reckon or another dashboard, see [link]
}

// Query is the expression of one or several lines in a panel.
type Query struct {
	Expr, Legend string
	Instant      bool
}

type object = map[string]any

// dataSource is the data source that the reader chooses.
var dataSource = object{"type": "prometheus", "uid": "${source}"}

// JSON returns the dashboard in Grafana's format.
func (d *Dashboard) JSON() ([]byte, error) {
	panels := []object{}
	id, y := 1, 0
	for _, r := range d.Rows {
		row, under := object{"id": id, "type": "row", "title": r.Title, "collapsed": r.Collapsed,
			"gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}}, []object{}
		id, y = id+1, y+1
		x, height := 0, 0
		for i := range r.Panels {
			p := &r.Panels[i]
			w, h := p.panelSize()
			if x+w > 24 {
				x, y, height = 0, y+height, 0
			}
			under = append(under, p.toJSON(id, x, y, w, h))
			id, x, height = id+1, x+w, max(height, h)
		}
		y += height
		if r.Collapsed {
			row["panels"], under = under, nil
		} else {
			row["panels"] = []object{}
		}
		panels = append(append(panels, row), under...)
	}
	raw, err := json.MarshalIndent(object{
		"uid": "reckon-" + d.Name, "title": "reckon / " + d.Title, "description": d.Description, "tags": []string{"reckon"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time": object{"from": "now-6h", "to": "now"}, "templating": object{"list": d.variableList()}, "panels": panels,
		"annotations": object{"list": []object{}},
		"links": []object{
			{"type": "dashboards", "title": "reckon", "tags": []string{"reckon"}, "asDropdown": true, "includeVars": true, "keepTime": true,
				"icon": "external link"},
			{"type": "link", "title": "Pages of reckon", "url": "${reckon}", "targetBlank": true, "icon": "external link"},
		},
	}, "", "  ")
	return append(raw, '\n'), err
}

func (d *Dashboard) variableList() []object {
	out := []object{
		{"name": "source", "label": "data source", "type": "datasource", "query": "prometheus", "current": object{}},
		{"name": "reckon", "label": "address of reckon", "type": "constant", "query": "http://localhost:9870", "hide": 2,
			"current": object{"text": "http://localhost:9870", "value": "http://localhost:9870"}},
	}
	for _, v := range d.Vars {
		if v.Text {
			out = append(out, object{"name": v.Name, "type": "textbox", "query": "", "current": object{"text": "", "value": ""}})
			continue
		}
		q := v.Query()
		out = append(out, object{
			"name": v.Name, "type": "query", "datasource": dataSource, "query": object{"query": q, "refId": v.Name}, "definition": q,
			"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		})
	}
	return out
}

// Query returns Grafana's query for the values.
func (v *Var) Query() string {
	return fmt.Sprintf("label_values(%s{%s}, %s)", v.Metric, v.Filter, v.Label)
}

func (p *Panel) panelSize() (w, h int) {
	w, h = p.Width, 8
	w = cmp.Or(w, 12)
	if p.Kind == "stat" {
		h = 4
	}
	return w, h
}

func (p *Panel) toJSON(id, x, y, w, h int) object {
	kind := cmp.Or(p.Kind, "timeseries")
	targets := []object{}
	for i, q := range p.Queries {
		t := object{"refId": string(rune('A' + i)), "datasource": dataSource, "expr": q.Expr, "legendFormat": q.Legend, "range": !q.Instant,
			"instant": q.Instant}
		if kind == "table" {
			t["format"] = "table"
		}
		targets = append(targets, t)
	}
	custom, options := object{}, object{}
	switch kind {
	case "timeseries":
		custom = object{"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
		if p.Stack {
			custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 60
		}
		options = object{
			"legend":  object{"displayMode": "table", "placement": "bottom", "calcs": []string{"mean", "max"}, "showLegend": true},
			"tooltip": object{"mode": "multi", "sort": "desc"}}
	case "stat":
		options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "none", "graphMode": "area"}
	case "bargauge":
		options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "orientation": "horizontal", "displayMode": "basic"}
	}
	defaults := object{"unit": p.Unit, "custom": custom, "color": object{"mode": "palette-classic"}, "noValue": p.emptyText()}
	if p.Link != "" {
		defaults["links"] = []object{{"title": linkTitle(p.Link), "url": p.Link, "targetBlank": !strings.HasPrefix(p.Link, "/d/")}}
	}
	return object{
		"id": id, "type": kind, "title": p.Title, "description": p.description(), "datasource": dataSource, "targets": targets,
		"options":     options,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "gridPos": object{"h": h, "w": w, "x": x, "y": y},
	}
}

func linkTitle(to string) string {
	if strings.HasPrefix(to, "/d/reckon-") {
		name, _, _ := strings.Cut(strings.TrimPrefix(to, "/d/reckon-"), "?")
		return "Dashboard of this " + name
	}
	return "Page of reckon"
}
