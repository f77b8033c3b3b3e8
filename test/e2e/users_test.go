//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
)

const (
	kind1 = "application/x-protobuf"
	kind2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

// Users of the test alone: others of the machine may run what they like.
const hostile, innocent = "48711", "48712"

// login is a node with a server in which games tries what the list reports, and news works.
type login struct {
	*up
	t      *testing.T
	socket string
	job    string        // of news
	used   time.Duration // CPU time of what news ran, by the kernel's count (getrusage(2))
}

// request is sent by curl, as a user of the machine or of a namespace.
type request struct {
	as     []string // what curl is started by
	by     string   // "socket": the Unix socket
	method string
	path   string
	kind   string
	header []string
	body   []byte
}

func (l *login) ask(r request) (status int, answer string) {
	l.t.Helper()
	args := append([]string{}, r.as...)
	args = append(args, "curl", "-sS", "-m", "150", "-w", "\n%{http_code}")
	if r.by == "socket" {
		args = append(args, "--unix-socket", l.socket)
	}
	if r.method != "" {
		args = append(args, "-X", r.method)
	}
	if r.kind != "" {
		args = append(args, "-H", "Content-Type: "+r.kind)
	}
	for _, h := range r.header {
		args = append(args, "-H", h)
	}
	if r.body != nil {
		args = append(args, "--data-binary", "@-")
	}
	at := l.url(r.path)
	if strings.HasPrefix(r.path, "http:") {
		at = r.path
	}
	cmd := exec.Command(args[0], append(args[1:], at)...)
	cmd.Stdin = bytes.NewReader(r.body)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Sprintf("%v: %s", err, out)
	}
	i := bytes.LastIndexByte(out, '\n')
	status, _ = strconv.Atoi(string(out[i+1:]))
	return status, string(out[:i])
}

// games runs what follows as the hostile user.
var games = []string{"setpriv", "--reuid=" + hostile, "--regid=" + hostile, "--clear-groups"}

// series is one sample of now by remote write 1.0; the label try marks it.
func series(try string, pairs ...string) []byte {
	ts := prompb.TimeSeries{Samples: []prompb.Sample{{Timestamp: time.Now().UnixMilli(), Value: 360000}}}
	for i := 0; i < len(pairs); i += 2 {
		ts.Labels = append(ts.Labels, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	ts.Labels = append(ts.Labels, prompb.Label{Name: "try", Value: try})
	raw, _ := proto.Marshal(&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}})
	return s2.EncodeSnappy(nil, raw)
}

func series2(try string, pairs ...string) []byte {
	if try != "" {
		pairs = append(pairs, "try", try)
	}
	ts := writev2.TimeSeries{Samples: []writev2.Sample{{Timestamp: time.Now().UnixMilli(), Value: 360000}}}
	for i := range pairs {
		ts.LabelsRefs = append(ts.LabelsRefs, uint32(i+1))
	}
	raw, _ := proto.Marshal(&writev2.Request{Symbols: append([]string{""}, pairs...), Timeseries: []writev2.TimeSeries{ts}})
	return s2.EncodeSnappy(nil, raw)
}

// tries returns the requests behind the lines of the list.
func (l *login) tries() map[string]request {
	write := func(header []string, as []string, body []byte) request {
		return request{as: as, path: "/api/v1/write", kind: kind1, header: header, body: body}
	}
	forge := func(try string, pairs ...string) request { return write(nil, games, series(try, pairs...)) }
	two := func(try string, pairs ...string) request {
		r := write(nil, games, series2(try, pairs...))
		r.kind = kind2
		return r
	}
	cpu := []string{"__name__", "reckon_workload_cpu_seconds_total", "kind", "slurm", "mode", "user", "node", "login", "owner", "root", "workload", "slurm/666"}
	root := series("as root", cpu...)
	query := func(text string) request {
		return request{as: games, path: "/api/v1/query", body: []byte(url.Values{"query": {text}}.Encode())}
	}
	bySocket := func(as ...string) request {
		r := write(nil, as, root)
		r.by = "socket"
		return r
	}
	names := map[string]request{
		"forge CPU time of a job of root, remote write 1.0": forge("1", cpu...),
		"forge CPU time of a job of root, remote write 2.0": two("2", cpu...),
		"forge CPU time of a job of root, OTLP": {as: games, path: "/v1/metrics", kind: "application/json", body: []byte(
			`{"resourceMetrics":[{"resource":{"attributes":[{"key":"node","value":{"stringValue":"login"}}]},"scopeMetrics":[{"metrics":[{"name":"reckon_workload_cpu_seconds_total","gauge":{"dataPoints":[{"timeUnixNano":"` +
				fmt.Sprint(time.Now().UnixNano()) + `","asDouble":360000,"attributes":[{"key":"owner","value":{"stringValue":"root"}},{"key":"try","value":{"stringValue":"otlp"}}]}]}}]}]}]}`)},
		"forge CPU time by the agent's own labels, from the cache of series": two("", "__name__", "cached", "node", "login", "owner", "root"),
		"figure of news, remote write 2.0":                                   two("fig2", "__name__", "loss", "owner", innocent),
		"figure of another node, remote write 2.0":                           two("fig2n", "__name__", "loss", "node", "elsewhere"),
		"send as the agent of the node shows itself":                         write([]string{"Reckon-Instance: x", "Reckon-Node: login"}, games, series("agent", cpu...)),
		"send as root of another network namespace":                          bySocket("unshare", "-n"),
		"send as root of another process namespace":                          bySocket("unshare", "-p", "-f"),
		"send as root of both":                                               bySocket("unshare", "-n", "-p", "-f"),
		"send as root of a user namespace, by the socket":                    bySocket(append(games[:len(games):len(games)], "unshare", "-U", "-r")...),
		"send as root of a user namespace":                                   write(nil, append(games[:len(games):len(games)], "unshare", "-U", "-r"), root),
		"send with a wrong token":                                            write([]string{"Authorization: Bearer rkn_wrong"}, games, root),
		"send with a wrong password":                                         write([]string{"Authorization: Basic cm9vdDpyb290"}, games, root),
		"send from a page of another site":                                   write([]string{"Origin: http://evil.example", "Sec-Fetch-Site: cross-site"}, []string{"env"}, root),
		"send by a name that points here":                                    write([]string{"Host: evil.example"}, []string{"env"}, root),
		"histogram that loops":                                               write(nil, games, loops()),
		"import history":                                                     {as: games, method: "POST", path: "/api/reckon/v1/import/sacct", body: []byte("x")},
		"give a name of a node away":                                         {as: games, method: "POST", path: "/api/reckon/v1/nodes/replace?node=login", body: []byte(`{"node":"login"}`), kind: "application/json"},
		"take a backup":                                                      {as: games, path: "/api/reckon/v1/backup"},
		"delete series":                                                      {as: games, method: "POST", path: "/api/v1/admin/tsdb/delete_series?match[]={owner=%22x%22}"},
		"mute an alert":                                                      {as: games, method: "POST", path: "/api/reckon/v1/alerts/test", body: []byte(`{}`), kind: "application/json"},
		"keep a graph":                                                       {as: games, method: "PUT", path: "/subgraph/urn:evil", body: []byte("<urn:a> <urn:b> <urn:c> ."), kind: "application/n-triples"},
		"read the workloads of news":                                         {as: games, path: "/api/reckon/v1/workloads"},
		"read the series of news":                                            query(`{owner="` + innocent + `"}`),
		"read owners as values of a label":                                   {as: games, path: "/api/v1/label/owner/values"},
		"read the series by remote read":                                     {as: games, method: "POST", path: "/api/v1/read", kind: kind1, header: []string{"Content-Encoding: snappy"}, body: remoteRead()},
		"read /metrics of the server":                                        {as: games, path: "/metrics"},
		"read the workloads as root of another network namespace":            {as: []string{"unshare", "-n"}, by: "socket", path: "/api/reckon/v1/workloads"},
		"read the users of a usage report":                                   {as: games, path: "/api/reckon/v1/usage"},
		"query that holds all series against all":                            query(`count({__name__=~".+"} + on(__name__) group_left(a) {__name__=~".+"})`),
		"brackets, 20,000 deep":                                              query(strings.Repeat("(", 20_000) + "1" + strings.Repeat(")", 20_000)),
		"subquery of a million steps":                                        query("max_over_time(vector(1)[90d:1s])"),
	}
	for name, labels := range map[string][]string{
		"forge the command of a workload":            {"__name__", "reckon_workload_info", "command", "bitcoin", "node", "login", "owner", "root", "workload", "slurm/666"},
		"forge the start of a workload":              {"__name__", "reckon_workload_start_time_seconds", "node", "login", "owner", "root", "workload", "slurm/666"},
		"forge that a node is up":                    {"__name__", "reckon_node_up", "node", "login"},
		"forge the memory of the machine":            {"__name__", "node_memory_MemTotal_bytes", "node", "login"},
		"forge a container":                          {"__name__", "container_cpu_usage_seconds_total"},
		"forge a pod":                                {"__name__", "kube_pod_info"},
		"forge a GPU":                                {"__name__", "DCGM_FI_DEV_GPU_UTIL"},
		"forge energy as kepler":                     {"__name__", "kepler_node_cpu_joules_total"},
		"forge the result of a rule":                 {"__name__", "job:cpu:rate5m"},
		"forge an alert":                             {"__name__", "ALERTS"},
		"forge up":                                   {"__name__", "up"},
		"forge target_info":                          {"__name__", "target_info"},
		"forge a scrape":                             {"__name__", "scrape_duration_seconds"},
		"figure of root":                             {"__name__", "loss", "owner", "root"},
		"figure of news":                             {"__name__", "loss", "owner", innocent},
		"figure of another node":                     {"__name__", "loss", "node", "elsewhere"},
		"figure of another site":                     {"__name__", "loss", "site", "elsewhere"},
		"figure about a job of news":                 {"__name__", "loss", "workload", l.job},
		"figure about a job that does not exist":     {"__name__", "loss", "workload", "slurm/666"},
		"figure of a kind without a workload":        {"__name__", "loss", "kind", "slurm"},
		"figure of news by the socket of the server": {"__name__", "loss", "owner", innocent},
	} {
		r := forge(name, labels...)
		if strings.HasSuffix(name, "the server") {
			r.by = "socket"
		}
		names[name] = r
	}
	for _, h := range []string{"X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: reckon.example", "Forwarded: for=10.0.0.1", "Via: 1.1 proxy", "X-Real-IP: 10.0.0.1"} {
		name, _, _ := strings.Cut(h, ":")
		names["send through a proxy of root, "+name] = write([]string{h}, []string{"env"}, root)
	}
	return names
}

func loops() []byte {
	raw, _ := proto.Marshal(&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{Labels: []prompb.Label{{Name: "__name__", Value: "loops"}, {Name: "try", Value: "loops"}},
		Histograms: []prompb.Histogram{{Timestamp: time.Now().UnixMilli(), ZeroThreshold: nan(), Count: &prompb.Histogram_CountFloat{}, ZeroCount: &prompb.Histogram_ZeroCountFloat{}}}}}})
	return s2.EncodeSnappy(nil, raw)
}

func nan() float64 { var zero float64; return zero / zero }

func remoteRead() []byte {
	raw, _ := proto.Marshal(&prompb.ReadRequest{Queries: []*prompb.Query{{StartTimestampMs: 0, EndTimestampMs: time.Now().UnixMilli(),
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: "owner", Value: innocent}}}}})
	return s2.EncodeSnappy(nil, raw)
}

// own are the tries that are not one request.
func (l *login) own() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"describe a metric of ours anew": func(t *testing.T) {
			raw, _ := proto.Marshal(&prompb.WriteRequest{Metadata: []prompb.MetricMetadata{{Type: prompb.MetricMetadata_GAUGE, MetricFamilyName: "reckon_workload_cpu_seconds_total", Help: "forged"}}})
			l.ask(request{as: games, path: "/api/v1/write", kind: kind1, body: s2.EncodeSnappy(nil, raw)})
			if _, text := l.ask(request{path: "/api/v1/metadata?metric=reckon_workload_cpu_seconds_total", as: []string{"env"}}); strings.Contains(text, "forged") {
				t.Error(text)
			}
		},
		"2,000 series of their own": func(t *testing.T) {
			taken := 0
			for part := range 4 {
				w := &prompb.WriteRequest{}
				for i := range 500 {
					w.Timeseries = append(w.Timeseries, prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "own"}, {Name: "i", Value: fmt.Sprint(part, "-", i)}},
						Samples: []prompb.Sample{{Timestamp: time.Now().UnixMilli(), Value: 1}}})
				}
				raw, _ := proto.Marshal(w)
				l.ask(request{as: games, path: "/api/v1/write", kind: kind1, body: s2.EncodeSnappy(nil, raw)})
			}
			for _, v := range l.promBy("count(own) by (owner)", "owner") {
				taken += int(v)
			}
			if by := l.promBy("count(own) by (owner)", "owner"); len(by) != 1 || by[hostile] > 1000 || by[hostile] < 900 {
				t.Errorf("%v of 2,000 series were taken, by owner", by)
			}
		},
		"2,600 process groups that sleep": func(t *testing.T) {
			sleepers := l.start(hostile, 75, "/usr/bin/python3", "-c", sleepersScript)
			pause(20 * time.Second) // all are there before the other begins
			job := l.start(innocent, 30, "sh", "-c", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done")
			pause(20 * time.Second)
			began := time.Now().Add(-25 * time.Second)
			listed := false
			for _, w := range l.workloads("owner=" + innocent) {
				listed = listed || w.Start.After(began)
			}
			if !listed {
				t.Error("what the other began meanwhile is not listed")
			}
			if rows := l.prom(`sum by (workload) (reckon_workload_processes{owner="` + hostile + `",kind="group"})`); len(rows) > 260 {
				t.Errorf("%d groups have rows", len(rows))
			}
			if held := l.promBy(`reckon_short_live_groups`, "owner")[hostile]; held < 2000 {
				t.Errorf("%v groups are held", held)
			}
			for _, args := range [][]string{{"nodes"}, {"job", "short/" + hostile + "/login"}, {"job", "group/login/1-1"}} {
				out, _ := exec.Command(program(t, "reckon"), append(args, "--server", l.url(""))...).CombinedOutput()
				if !strings.Contains(string(out), "process groups of "+hostile+" have no row of their own") {
					t.Errorf("reckon %s names nobody: %s", args, out)
				}
			}
			l.end(job)
			_ = sleepers.Wait()
		},
		"name a job of news by LSB_JOBID": func(t *testing.T) {
			job := l.start(innocent, 60, "env", "LSB_JOBID=91", "setsid", "sh", "-c", "while :; do sleep 0.3; done")
			pause(8 * time.Second)
			borrowed := l.start(hostile, 20, "env", "LSB_JOBID=91", "setsid", "sh", "-c", "while :; do :; done")
			pause(24 * time.Second)
			l.end(job)
			_ = borrowed.Wait() // timeout(1) has ended it
			used := (borrowed.ProcessState.UserTime() + borrowed.ProcessState.SystemTime()).Seconds()
			cpu := l.prom(`sum by (workload) (reckon_workload_cpu_seconds_total{owner="` + innocent + `",workload="lsf/91"})`)["lsf/91"]
			if _, there := l.prom(`sum by (workload) (reckon_workload_cpu_seconds_total{workload="lsf/91"})`)["lsf/91"]; !there || cpu > 3 {
				t.Errorf("the job of news: %v CPU s, which is of games", cpu)
			}
			if mine := l.promBy(`sum by (owner) (last_over_time(reckon_workload_cpu_seconds_total{owner="`+hostile+`"}[5m]))`, "owner")[hostile]; mine < 0.95*used-0.05 {
				t.Errorf("games has %v of %v CPU s", mine, used)
			}
		},
	}
}

// sleepersScript starts 2,600 process groups that sleep for 70 s.
const sleepersScript = `
import os, time
pids = []
for i in range(2600):
    p = os.fork()
    if p == 0:
        os.setpgid(0, 0)
        time.sleep(70)
        os._exit(0)
    pids.append(p)
time.sleep(65)
for p in pids:
    os.kill(p, 9)
`

// start runs a command as a user for so many seconds at most.
func (l *login) start(name string, seconds int, args ...string) *exec.Cmd {
	l.t.Helper()
	cmd := exec.Command("setpriv", append([]string{"--reuid=" + name, "--regid=" + name, "--clear-groups", "timeout", fmt.Sprint(seconds)}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { // timeout(1) passes it on, also to who left the group
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	})
	return cmd
}

// end ends what news runs and adds what it used.
func (l *login) end(cmd *exec.Cmd) {
	l.t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	_ = cmd.Wait()
	l.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// TestHostileUsers has one user of a login node try each line of testdata/hostile-users.txt, while another one works.
func TestHostileUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	for _, program := range []string{"curl", "setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir, err := os.MkdirTemp("", "reckon-users")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l := &login{t: t, socket: filepath.Join(dir, "api", "api.sock")}
	l.up = start(t, "up", filepath.Join(dir, "data"), []string{"--export", "2s", "--node", "login", "--set", "api-socket=" + l.socket, "--set", "push-socket=none"})
	work := l.start(innocent, 600, "sh", "-c", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done")
	for i := 0; l.job == ""; i++ {
		if i > 60 {
			t.Fatal("the work of news is not there")
		}
		pause(time.Second)
		for _, w := range l.workloads("owner=" + innocent) {
			l.job = w.ID
		}
	}
	cached := request{as: []string{"env"}, path: "/api/v1/write", kind: kind2, body: series2("", "__name__", "cached", "node", "login", "owner", "root")}
	if status, text := l.ask(cached); status != http.StatusNoContent {
		t.Fatalf("root: %d %s", status, text)
	}
	text, err := os.ReadFile("testdata/hostile-users.txt")
	if err != nil {
		t.Fatal(err)
	}
	requests, own, held := l.tries(), l.own(), 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, want, _ := cutLast(strings.TrimSpace(line), ": ")
		t.Run(name, func(t *testing.T) {
			if try, ok := own[name]; ok {
				try(t)
			} else if r, ok := requests[name]; !ok {
				t.Fatal("no such try")
			} else {
				l.judge(t, r, want)
			}
			if !t.Failed() {
				held++
			}
		})
	}
	if n := l.prom(`count({try!=""})`)[""]; n != 0 {
		t.Errorf("%v forged series are stored", n)
	}
	if got := l.prom(`count({workload="slurm/666"})`); len(got) != 0 {
		t.Errorf("a job that never was has %v series", got)
	}
	l.end(work)
	pause(8 * time.Second)
	used := l.used.Seconds()
	var have float64
	for _, v := range l.prom(`sum by (workload) (last_over_time(reckon_workload_cpu_seconds_total{owner="` + innocent + `"}[30m]))`) {
		have += v
	}
	t.Logf("%d tries are held; news used %.3f CPU s, reckon has %.3f", held, used, have)
	if have < 0.99*used-0.02 || have > 1.01*used+0.02 {
		t.Errorf("news used %.3f CPU s, reckon has %.3f", used, have)
	}
	l.stopsIn(20 * time.Second)
}

// judge sends a request and holds the answer against what the list promises.
func (l *login) judge(t *testing.T, r request, want string) {
	t.Helper()
	status, text := l.ask(r)
	switch want {
	case "refused":
		if status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("%d %.300s", status, text)
		}
	case "hidden":
		if status/100 == 5 || status == 0 || regexp.MustCompile(`"`+innocent+`"|`+regexp.QuoteMeta(l.job)+`"|loss`).MatchString(text) {
			t.Errorf("%d %.600s", status, text)
		}
	case "bounded":
		if status < 400 || status == 500 || status > 503 {
			t.Errorf("%d %.300s", status, text)
		}
	default:
		t.Errorf("%q is not a promise", want)
	}
}

// stopsIn ends the server by SIGTERM within a time.
func (l *login) stopsIn(limit time.Duration) {
	l.t.Helper()
	began := time.Now()
	l.stop(syscall.SIGTERM)
	if took := time.Since(began); took > limit || !l.cmd.ProcessState.Success() {
		l.t.Errorf("the server ended after %s: %s", took, l.cmd.ProcessState)
	}
}

// cutLast cuts around the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
