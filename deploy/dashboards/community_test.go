package dashboards

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/access"
	"reckon/agent/external/textfile"
	"reckon/metric"
	"reckon/metric/compat"
	"reckon/query"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/hwmon"
	nodesensor "reckon/sensor/node"
	"reckon/sensor/thermal"
	"reckon/web/api"
	"reckon/web/promapi"
)

// gaps are the series that dashboards of others ask for and reckon lacks, with the reason, as
// doc/guides/alerts.md has the reason. A name ends in * for all that begin so.
var gaps = map[string]string{
	"node_processes_*":                     "off in node_exporter unless asked for; reckon counts processes by workload",
	"node_interrupts_total":                "off in node_exporter unless asked for",
	"node_tcp_connection_states":           "off in node_exporter unless asked for; node_netstat_Tcp_CurrEstab is there",
	"node_systemd_*":                       "off in node_exporter unless asked for; units are workloads",
	"node_softnet_*":                       "one series for each processor; node_network_receive_drop_total tells of drops",
	"node_schedstat_*":                     "one series for each processor; reckon_workload_cpu_wait_seconds_total says who waits",
	"node_cpu_scaling_frequency_*":         "one series for each processor",
	"node_udp_queues":                      "all sockets would have to be read for it",
	"node_arp_entries":                     "hardly says anything of a machine",
	"node_entropy_*":                       "the same on every machine since Linux 5.18",
	"node_kernel_hung_tasks":               "only in the newest kernels",
	"node_timex_pps_*":                     "hardly a machine has a pulse per second",
	"node_netstat_Tcp_MaxConn":             "-1 on every machine",
	"node_network_receive_nohandler_total": "not in /proc/net/dev",
	"node_power_supply_online":             "reckon_battery_state tells it",
	"node_hwmon_fan_min_rpm":               "a setting, not a measurement",
	"node_hwmon_temp_crit_hyst_celsius":    "a setting, not a measurement",
	"node_scrape_collector_*":              "reckon_sensor_up tells it",
	"process_*":                            "about the exporter itself; reckon_agent_* tells it",
	`operstate="up"`:                       "node_exporter has no such label on node_network_up either",
	"node_memory_HardwareCorrupted_bytes":  "the kernel of the recorded machine does not have the figure",
	"node_pressure_irq_*":                  "the kernel of the recorded machine does not have the figure",
	"kepler_vm_*":                          "virtual machines are workloads like others",
	"DCGM_FI_PROF_*":                       "needs the profiling of DCGM",
	"container_network_*":                  "measured of pods, and the recorded machine has none",
	"container_fs_usage_bytes":             "measured of pods, and the recorded machine has none",
	`fstype="aufs"`:                        "the file system is gone from Linux",
}

// community is a dashboard of others with what Grafana puts in for its variables, and how
// many of its queries show something.
type community struct {
	file string
	vars map[string]string
	full int
}

// Unchanged dashboards of others show data: what a Prometheus has that scrapes an agent
// with the setting compat. What they do not show is a known gap.
func TestCommunityDashboards(t *testing.T) {
	p := agentsScraped(t)
	guide, err := os.ReadFile("../../doc/guides/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, c := range []community{
		{"node-exporter-full", map[string]string{"node": instance, "nodename": "vm", "job": job}, 217},
		{"dcgm-exporter", map[string]string{"instance": ".+", "gpu": ".+"}, 7},
		{"kepler", map[string]string{"job": job, "node": ".+", "zone": ".+", "process": "77", "container": ".+", "namespace": ".+", "pod": ".+", "vm": ".+"}, 18},
		{"dockprom-containers", nil, 12},
	} {
		exprs, choices := queriesOf(t, c.file)
		have := 0
		for _, e := range exprs {
			expr := filled(e, c.vars)
			n, err := p.ask(expr, false)
			if err != nil {
				t.Errorf("%s: %v\n%s", c.file, err, expr)
			}
			if n > 0 {
				have++
				continue
			}
			gap := gapOf(e)
			if gap == "" {
				t.Errorf("%s: no data: %s", c.file, expr)
			}
			used[gap] = true
		}
		t.Logf("%s: %d of %d queries show something", c.file, have, len(exprs))
		if have < c.full {
			t.Errorf("%s: %d of %d queries show something, %d did", c.file, have, len(exprs), c.full)
		}
		if !strings.Contains(string(guide), fmt.Sprintf("%d of %d", have, len(exprs))) {
			t.Errorf("doc/guides/alerts.md does not say %d of %d for %s", have, len(exprs), c.file)
		}
		for _, q := range choices {
			m := regexp.MustCompile(`^label_values\((.*),\s*(\w+)\)$`).FindStringSubmatch(filled(q, c.vars))
			if m == nil || gapOf(q) != "" {
				continue
			}
			n, err := p.get("/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {m[1]}, "start": {"0"}, "end": {fmt.Sprint(end.Unix())}})
			if err != nil || n == 0 {
				t.Errorf("%s: the choice %s is empty: %v", c.file, q, err)
			}
		}
	}
	for _, g := range slices.Sorted(maps.Keys(gaps)) {
		if !used[g] {
			t.Errorf("%s is no gap", g)
		}
		if !strings.Contains(string(guide), strings.TrimSuffix(g, "*")) {
			t.Errorf("doc/guides/alerts.md does not say why there is no %s", g)
		}
	}
}

// What the dashboard "Cadvisor exporter" (14282) chooses by and shows is there. It is not among
// the recorded ones, as no licence is stated for it.
func TestContainersByName(t *testing.T) {
	p := agentsScraped(t)
	for metric, want := range map[string]int{
		"container_cpu_usage_seconds_total": 1, "container_memory_rss": 1, "container_memory_cache": 1, "container_start_time_seconds": 1,
		"container_network_receive_bytes_total": 0, "container_network_transmit_bytes_total": 0, // doc/guides/alerts.md explains why
	} {
		if n, err := p.ask(fmt.Sprintf(`count by (name) (%s{instance=~".+",name="web"})`, metric), false); err != nil || n != want {
			t.Errorf("%s by name: %d containers, %v; want %d", metric, n, err, want)
		}
	}
}

func gapOf(expr string) string {
	for _, g := range slices.Sorted(maps.Keys(gaps)) {
		prefix, many := strings.CutSuffix(g, "*")
		at := strings.Index(expr, prefix)
		if at < 0 {
			continue
		}
		end := expr[at+len(prefix):]
		if many || end == "" || !regexp.MustCompile(`^\w`).MatchString(end) {
			return g
		}
	}
	return ""
}

// filled puts in what Grafana puts in.
func filled(expr string, vars map[string]string) string {
	expr = strings.NewReplacer("$__rate_interval", "2m", "$__interval", "1m", "$__range", "1h").Replace(expr)
	for name, v := range vars {
		expr = regexp.MustCompile(`\$(?:\{`+name+`\}|`+name+`\b)`).ReplaceAllLiteralString(expr, v)
	}
	return expr
}

// queriesOf reads the queries of panels and of variables.
func queriesOf(t *testing.T, name string) (exprs, choices []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "community", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if e, ok := v["expr"].(string); ok {
				exprs = append(exprs, e)
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(v[k])
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(d["panels"])
	walk(d["rows"])
	for _, v := range d["templating"].(map[string]any)["list"].([]any) {
		switch q := v.(map[string]any)["query"].(type) {
		case string:
			choices = append(choices, q)
		case map[string]any:
			if s, ok := q["query"].(string); ok {
				choices = append(choices, s)
			}
		}
	}
	return exprs, choices
}

const (
	job      = "agents"
	instance = "n1:9871"
)

// agentsScraped is the Prometheus that scrapes one agent: the recorded machine of sensor/node,
// boards with one of each sensor, and workloads and a GPU through every view. Figures of
// workloads are made up.
func agentsScraped(t *testing.T) prometheus {
	t.Helper()
	var b metric.Batch
	b.Reset(time.Unix(1_800_000_000, 0))
	for _, e := range all.Sensors("../../sensor/node/testdata/vm") {
		s, err := e.Open()
		if errors.Is(err, sensor.ErrUnavailable) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Read(&b); err != nil && e.Name != "filesystem" { // its mounts are not here
			t.Fatal(err)
		}
	}
	for _, d := range slices.Concat(hwmon.Descs(), thermal.Descs(), textfile.Descs(), nodesensor.TimexDescs()) {
		values := make([]string, len(d.Labels))
		for i, l := range d.Labels {
			values[i] = map[string]string{"chip": "chip0", "sensor": "temp1"}[l]
			if values[i] == "" {
				values[i] = "1"
			}
		}
		b.Add(metric.NewSeries(d, values...), 1)
	}
	for _, line := range strings.Split(strings.TrimSpace(scraped), "\n") {
		b.Add(parsed(line), 5)
	}
	views, err := compat.New("n1", compat.Names())
	if err != nil {
		t.Fatal(err)
	}
	n := len(b.Samples)
	for range 2 { // a rate needs two rounds
		b.Samples = b.Samples[:n]
		b.Time = b.Time.Add(30 * time.Second)
		for i := range b.Samples {
			if b.Samples[i].Series.Desc.Kind == metric.Counter {
				b.Samples[i].Value += 30
			}
		}
		for _, v := range views {
			v.Append(&b, n)
		}
	}
	var load strings.Builder
	load.WriteString("load 30s\n")
	for _, s := range b.Samples {
		step := ""
		if s.Series.Desc.Kind == metric.Counter {
			step = "+1"
		}
		pairs := []string{fmt.Sprintf("job=%q", job), fmt.Sprintf("instance=%q", instance)}
		for i, l := range s.Series.Desc.Labels {
			if v := s.Series.Values[i]; v != "" {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l, v))
			}
		}
		fmt.Fprintf(&load, "  %s{%s} %v%sx240\n", s.Series.Desc.Name, strings.Join(pairs, ","), s.Value, step)
	}
	storage := promqltest.LoadedStorage(t, load.String())
	engine := query.NewEngine(query.EngineOptions{})
	return prometheus{t, api.New(api.Options{
		Viewer: func(*http.Request) (access.Viewer, error) {
			return access.Viewer{Role: access.Support, Name: "grafana"}, nil
		},
		Prometheus: promapi.Handler(promapi.Options{Engine: engine, Queryable: storage, Exemplars: storage}),
	})}
}

// scraped are series of workloads and of a GPU that views are made of.
const scraped = `
reckon_node_attributed_energy_joules_total domain=package share=active method=measured
reckon_node_attributed_energy_joules_total domain=package share=idle method=measured
reckon_workload_energy_joules_total workload=group/n1/77-18 kind=group part= owner=al domain=package share=active method=measured
reckon_workload_energy_joules_total workload=container/abc kind=container part= owner=root domain=package share=active method=measured
reckon_workload_energy_joules_total workload=deployment/shop/cart kind=deployment part=cart-1/app owner=shop domain=package share=active method=measured
reckon_workload_info workload=container/abc kind=container part= owner=root name=web account= partition= command=nginx
reckon_workload_cpu_seconds_total workload=container/abc kind=container part= owner=root mode=user
reckon_workload_cpu_seconds_total workload=container/abc kind=container part= owner=root mode=system
reckon_workload_memory_bytes workload=container/abc kind=container part= owner=root type=anon
reckon_workload_memory_bytes workload=container/abc kind=container part= owner=root type=file
reckon_workload_start_time_seconds workload=container/abc kind=container part= owner=root
reckon_gpu_info vendor=nvidia device=GPU-1 index=0 model=H200 driver=1 parent=
reckon_gpu_busy_seconds_total vendor=nvidia device=GPU-1 index=0
reckon_gpu_power_watts vendor=nvidia device=GPU-1 index=0
reckon_gpu_memory_bytes vendor=nvidia device=GPU-1 index=0
reckon_gpu_clock_hertz vendor=nvidia device=GPU-1 index=0 clock=compute
reckon_gpu_temperature_celsius vendor=nvidia device=GPU-1 index=0 place=core
`

func parsed(line string) *metric.Series {
	name, rest, _ := strings.Cut(line, " ")
	d := &metric.Desc{Name: name, Kind: metric.Gauge}
	if strings.HasSuffix(name, "_total") {
		d.Kind = metric.Counter
	}
	var values []string
	for _, kv := range strings.Fields(rest) {
		k, v, _ := strings.Cut(kv, "=")
		d.Labels, values = append(d.Labels, k), append(values, v)
	}
	return metric.NewSeries(d, values...)
}
