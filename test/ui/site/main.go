// Command site serves the pages of reckon over a simulated site for the tests of the pages: nodes,
// workloads with hostile names, history, live ticks and series, at http://127.0.0.1:PORT with the
// port that the argument names (0: any; it is printed). With -fail every request gets an error,
// with -empty all answers are empty, and with -partial a part of each is missing. It runs until
// standard input ends.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"reckon/figure"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
	"reckon/web/ui"
)

func main() {
	fail := flag.Bool("fail", false, "answer every question with an error")
	empty := flag.Bool("empty", false, "nothing was measured")
	partial := flag.Bool("partial", false, "a part of the site cannot be asked")
	nodes := flag.Int("nodes", 12, "number of nodes")
	jobs := flag.Int("jobs", 5000, "number of jobs")
	flag.Parse()
	b := site(*nodes, *jobs)
	switch {
	case *fail:
		b.Err = errors.New("the store cannot be read: disk I/O error")
	case *empty:
		b.Details, b.Machine = nil, nil
	case *partial:
		b.Missing = []string{"site north: no route to host"}
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	hub := &api.Hub{}
	hub.Subscribe(context.Background()) // the hub keeps its tick while there is a reader
	hub.Publish(tick())
	auth := http.NewServeMux()
	auth.HandleFunc("GET /auth/me", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"alice","role":"admin","owners":[]}`) // the browser went away: nothing to report
	})
	begun := time.Now()
	if len(b.Details) > 0 {
		begun = b.Details[0].Start
	}
	found := newCases()
	if *empty {
		found.list = nil
	}
	h := api.New(api.Options{
		Findings: found, Data: tables{*empty}, Power: tables{*empty},
		Backend: b, Hub: hub, Usage: history{*empty}, Scale: scales{b, begun}, Prometheus: series(*empty), Auth: auth,
		Version: "1.0.0-test",
		Pages:   &api.Pages{Files: ui.Files(), Paths: ui.Paths()},
	})
	fmt.Println(l.Addr())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the test ended
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

const siteName = "lab"

// hostile are names that a page must show as text and survive.
func hostile() []string {
	return []string{
		`<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`, "abc\u202egnp.exe", "🦊🔥 job 你好 שלום",
		strings.Repeat("long-name/", 409) + "end",
		"a\"b'c&amp;{{7*7}}${1}`", "tab\there\x1b[31mred",
	}
}

func tick() client.Live {
	l := apitest.Tick(time.Now(), 20)
	l.Workloads[1].ID, l.Workloads[1].Name = "group/n1/"+hostile()[0], hostile()[0]
	l.Workloads[2].ID, l.Workloads[2].Owner = "group/n1/"+hostile()[1], hostile()[2]
	return l
}

func site(nodes, jobs int) *apitest.Backend {
	b := apitest.Site(time.Now())
	b.Details[0].GPUEngines = map[string]float64{"sm": 0.82, "tensor": 0.34, "fp64": 0, "dram": 0.61}
	b.Details[0].Profile = append(b.Details[0].Profile,
		scaledProfile(b.Details[0].Profile[0], "memory_traffic_bytes_per_second", "bytes_per_second", 2e9))
	b.Details[0].MemoryTrafficBytes = ptr(3e13)
	b.Machine[1].Sensors = append(b.Machine[1].Sensors,
		client.Sensor{Sensor: "uncore", Reason: "a virtual machine has no memory controllers"})
	first := b.Details[0]
	for i, name := range hostile() {
		d := first
		d.ID, d.Kind, d.Name, d.Owner = fmt.Sprintf("group/n1/%s", name), "group", name, name[:min(len(name), 40)]
		d.Start = first.Start.Add(time.Duration(i+1) * time.Minute)
		b.Details = append(b.Details, d)
	}
	for i := range jobs {
		d := b.Details[1]
		cpu := float64((i*7919)%100000) / 3
		d.ID, d.Name, d.Owner = fmt.Sprintf("slurm/%d", 10000+i), fmt.Sprintf("step%03d", i%250), []string{"alice", "bob", "carol"}[i%3]
		d.Start, d.CPUSeconds = first.Start.Add(-time.Duration(i)*time.Minute), &cpu
		if d.Profile = nil; i < runs {
			d.Profile = earlier(first.Profile, d.Start.Sub(first.Start), 1/float64(i+1))
		}
		b.Details = append(b.Details, d)
	}
	for i := range b.Details {
		b.Details[i].Site = siteName
	}
	for i := 2; i < nodes; i++ {
		n := b.Machine[0]
		used, watts, pressure := 16*math.Abs(math.Sin(float64(i))), 80+10*float64(i%30), float64(i%9)/10
		n.Node, n.CoresUsed, n.Watts, n.PowerMethod, n.CPUPressure = fmt.Sprintf("node-%04d", i), &used, &watts, "measured", &pressure
		n.Up = i%37 != 5
		addHistory(&n, i, used)
		b.Machine = append(b.Machine, n)
	}
	return b
}

// addHistory adds to a node the report of the batch system, its last day and week, and pressure figures, which only
// some kernels report.
func addHistory(n *client.Node, i int, used float64) {
	cores, share, storage, energy := 16.0, used/16, float64(i%7)/8, 4e6
	unused, week, held := (1-share)*cores*86400, 0.8*share, math.Ceil(used)
	n.IOPressure = &storage
	n.Batch = &client.NodeBatch{State: "mixed", Open: true, Partitions: []string{"batch"}, Cores: &cores, CoresHeld: &held}
	if i == 3 {
		n.Batch.State, n.Batch.Open, n.Batch.Flags, n.Batch.Reason = "drained", false, []string{"drain"}, "disk errors <b>sdb</b>"
	}
	n.Day = &client.NodeSpan{UpShare: ptr(1), CPUShare: &share, UnusedCoreSeconds: &unused, EnergyJoules: &energy}
	n.Week = &client.NodeSpan{UpShare: ptr(0.98), CPUShare: &week}
	n.Waiting = &client.NodeWaiting{Jobs: i % 4, Now: i % 2, CoreSeconds: 3600 * float64(i%4)}
}

// runs is the number of jobs that have figures over time.
const runs = 4

// scaledProfile returns a figure that follows another one.
func scaledProfile(p client.Profile, name, unit string, factor float64) client.Profile {
	of := p
	of.Metric, of.Unit, of.Points = name, unit, nil
	for _, at := range p.Points {
		if at.Value != nil {
			at.Value = ptr(*at.Value * factor)
		}
		of.Points = append(of.Points, at)
	}
	return of
}

// earlier returns a profile of another run.
func earlier(list []client.Profile, by time.Duration, share float64) (out []client.Profile) {
	for _, p := range list {
		points := make([]client.Point, 0, len(p.Points))
		for _, x := range p.Points {
			if x.Value != nil {
				v := *x.Value * share
				points = append(points, client.Point{Time: x.Time.Add(by), Value: &v})
			}
		}
		p.Points = points
		out = append(out, p)
	}
	return out
}

type scales struct {
	b     *apitest.Backend
	first time.Time
}

func (s scales) Scale(ctx context.Context, w client.Workload) (client.Scale, error) {
	answer, err := s.b.Scale(ctx, w)
	for i := range answer.Runs { // of jobs that the site has
		r := &answer.Runs[i]
		r.ID, r.Start = fmt.Sprintf("slurm/%d", 10000+i), s.first.Add(-time.Duration(i)*time.Minute)
	}
	return answer, err
}

// history is a month with a daily pattern of work.
type history struct{ empty bool }

func (h history) Usage(_ context.Context, q client.UsageQuery) (client.UsageList, error) {
	l := client.UsageList{Since: q.Since, Until: q.Until, Span: q.Span, By: q.By, Total: client.Usage{}}
	if h.empty {
		return l, nil
	}
	step := map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
		"hour-of-week": time.Hour}[q.Span]
	from, until := q.Since.Truncate(time.Hour), q.Until
	if q.Span == "hour-of-week" {
		from = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)
		until = from.Add(168 * time.Hour)
	}
	names := []string{"alice", "bob", "shop", hostile()[0]}
	if len(q.By) == 0 {
		names = []string{""}
	}
	for at := from; at.Before(until); at = at.Add(max(step, time.Minute)) {
		for i, name := range names {
			cpu := 3600 * float64(i+1) * (1.2 + math.Sin(float64(at.Hour()-6)/24*2*math.Pi)) * max(step, time.Hour).Hours()
			joules, started := cpu*9, float64(10*(i+1))
			u := client.Usage{UsageFigures: client.UsageFigures{CPUSeconds: &cpu, EnergyJoules: &joules, Started: &started}}
			if step > 0 {
				u.From = &at
			}
			by := map[string]*string{"account": &u.Account, "partition": &u.Partition, "command": &u.Command, "kind": &u.Kind,
				"node": &u.Node}
			if slices.Contains(q.By, "owner") {
				u.Owner, u.HeldCoreSeconds = name, ptr(1.5*cpu)
			} else if len(q.By) == 1 && by[q.By[0]] != nil {
				*by[q.By[0]] = name
			}
			l.Rows = append(l.Rows, u)
			figure.Add(&l.Total.UsageFigures, &u.UsageFigures)
		}
		if step == 0 {
			break
		}
	}
	return l, nil
}

// series answers as Prometheus does, with waves.
func series(empty bool) http.Handler {
	mux := http.NewServeMux()
	send := func(w http.ResponseWriter, data any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}) // the browser went away: nothing to report
	}
	labels := func(q string) []map[string]string {
		if empty {
			return nil
		}
		return labelsOf(q)
	}
	mux.HandleFunc("GET /api/v1/query", func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		if strings.Contains(q, "oops") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			// as above
			_, _ = io.WriteString(w, `{"status":"error","errorType":"bad_data","error":"1:5: parse error: unexpected end of input"}`)
			return
		}
		out := []any{}
		for i, l := range labels(q) {
			out = append(out, map[string]any{"metric": l, "value": []any{time.Now().Unix(), fmt.Sprint(sizeOf(q, i))}})
		}
		send(w, map[string]any{"resultType": "vector", "result": out})
	})
	mux.HandleFunc("GET /api/v1/query_range", func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		number := func(name string) float64 { v, _ := strconv.ParseFloat(r.FormValue(name), 64); return v }
		from, to, step := number("start"), number("end"), max(1, number("step"))
		out := []any{}
		for i, l := range labels(q) {
			var values [][]any
			for t := from; t <= to; t += step {
				wave := 1.0
				if strings.Contains(q, "workload") && !strings.HasPrefix(q, "sum(") {
					wave = 1 + 0.3*math.Sin(t/900+float64(i))
				}
				values = append(values, []any{t, fmt.Sprint(sizeOf(q, i) * wave)})
			}
			out = append(out, map[string]any{"metric": l, "values": values})
		}
		send(w, map[string]any{"resultType": "matrix", "result": out})
	})
	mux.HandleFunc("GET /api/v1/metadata", func(w http.ResponseWriter, _ *http.Request) {
		send(w, map[string]any{
			"reckon_workload_cpu_seconds_total": []any{map[string]string{"type": "counter", "unit": "seconds", "help": "CPU time."}}})
	})
	mux.HandleFunc("GET /api/v1/label/{name}/values", func(w http.ResponseWriter, r *http.Request) {
		send(w, []string{"reckon_workload_cpu_seconds_total", "reckon_workload_memory_bytes", "node_load1"})
	})
	mux.HandleFunc("GET /api/v1/series", func(w http.ResponseWriter, r *http.Request) {
		send(w, []map[string]string{
			{"__name__": "node_load1", "node": "n1"}, {"__name__": "node_load1", "node": "n2"},
			{"__name__": "node_load1", "node": "n2", "workload": hostile()[0]},
		})
	})
	mux.HandleFunc("GET /api/v1/labels", func(w http.ResponseWriter, _ *http.Request) { send(w, []string{"node", "owner", "workload"}) })
	return mux
}

//go:embed series.json
var seriesFile string

// entry describes the series of queries that contain all words of Has; ^ stands for the beginning of a query.
type entry struct {
	Has    []string
	Labels []map[string]string
	Size   float64
	Falls  bool // each series is smaller than the one before
}

var entries = sync.OnceValue(func() (all map[string][]entry) {
	name := strings.Trim(strconv.Quote(hostile()[0]), `"`)
	if err := json.Unmarshal([]byte(strings.ReplaceAll(seriesFile, "HOSTILE", name)), &all); err != nil {
		panic(err)
	}
	return all
})

// entryOf returns the first entry of a list of series.json that a query has the words of, else the fallback.
func entryOf(list, q string, fallback entry) entry {
	for _, e := range entries()[list] {
		if !slices.ContainsFunc(e.Has, func(w string) bool { return !strings.Contains("^"+q, w) }) {
			return e
		}
	}
	return fallback
}

// labelsOf returns the labels of the series that a query gives.
func labelsOf(q string) (out []map[string]string) {
	if !strings.Contains(q, "(site, workload) (rate") || !strings.Contains(q, "=~") {
		return entryOf("labels", q, entry{Labels: []map[string]string{{}}}).Labels
	}
	_, rest, _ := strings.Cut(q, `workload=~"`)
	ids, _, _ := strings.Cut(rest, `"`)
	for _, id := range strings.Split(strings.ReplaceAll(ids, `\\`, ""), "|") { // lines in a table, for all that are asked for
		out = append(out, map[string]string{"workload": id, "site": siteName})
	}
	return out
}

// sizeOf returns the approximate value of series i of a query.
func sizeOf(q string, i int) float64 {
	e := entryOf("sizes", q, entry{Size: 3, Falls: true})
	if e.Falls {
		return e.Size / float64(i+1)
	}
	return e.Size
}
