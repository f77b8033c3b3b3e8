// Command graph measures the knowledge graph: what a statement takes on disk and in memory, and the processor time of writes, reads and
// the query of a real client. Times of the clock are worth what the machine is idle.
//
//	go run ./test/bench/graph -statements 1000000
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/glaciation"
	"reckon/graph/object"
	"reckon/graph/own"
	"reckon/graph/sparql"
)

func main() {
	statements := flag.Int("statements", 1_000_000, "about how many statements are stored")
	nodes := flag.Int("nodes", 100, "nodes of the workloads query")
	pods := flag.Int("pods", 2000, "pods of the workloads query")
	export := flag.String("export", "", "also write the data of the workloads query here, as N-Quads")
	rate := flag.Int("rate", 200, "changes a second of the workloads that are stored")
	length := flag.Duration("for", 0, "for how long workloads change; 0 leaves this out")
	bursts := flag.Int("burst", 0, "workloads that begin, and then change thrice, at once; 0 leaves this out")
	flag.Parse()
	if err := run(*statements, *nodes, *pods, *export, *rate, *length, *bursts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(statements, nodes, pods int, export string, rate int, length time.Duration, bursts int) error {
	dir, err := os.MkdirTemp("", "reckon-graph-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	file := filepath.Join(dir, "c.db")
	c, err := database.Open(file, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	shared := c.Shared()
	s, err := embedded.Open(ctx, embedded.Options{DB: shared.DB, Write: shared.Write})
	if err != nil {
		return err
	}
	if err := workloadsQuery(ctx, s, nodes, pods, export); err != nil {
		return err
	}
	n, err := fill(ctx, s, statements)
	if err != nil {
		return err
	}
	if length > 0 {
		if err := change(ctx, s, rate, length); err != nil {
			return err
		}
	}
	if bursts > 0 {
		if err := burst(ctx, s, file, bursts); err != nil {
			return err
		}
	}
	if _, err := s.Query(ctx, "ASK { ?s <x:none> ?o }", sparql.Limits{}, nil); err != nil {
		return err
	}
	debug.FreeOSMemory()
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%d statements: %.0f MB on disk, %.0f MB resident with the index for queries\n", n, float64(st.Size())/1e6, resident()/1e6)
	return s.Close()
}

func workload(i int) object.Workload {
	name := "w" + strconv.Itoa(i)
	t := &object.Telemetry{Metrics: &object.Metrics{Source: object.Source{Type: "prometheus", URL: "http://prometheus:9090"}}}
	for _, m := range []string{"cpu_seconds_total", "memory_bytes", "network_bytes_total", "energy_joules_total"} {
		t.Metrics.Series = append(t.Metrics.Series, object.Series{Name: "reckon_workload_" + m, Unit: "1", Type: "counter", Query: "sum(rate(reckon_workload_" + m + `{workload="` + name + `"}[5m]))`})
	}
	return object.Workload{Kind: "deployment", Namespace: "ns" + strconv.Itoa(i%50), Name: name, UID: strconv.Itoa(i), ID: "deployment/" + name, Owner: "ns", State: "running",
		RunsOn: []string{"n" + strconv.Itoa(i%100)}, Containers: []object.Requirements{{Requests: object.Amounts{object.CPU: float64(i % 8), object.Memory: 1 << 30}}}, Telemetry: t}
}

// fill writes workloads until there are so many statements, and says what that took.
func fill(ctx context.Context, s *embedded.Store, statements int) (n int, err error) {
	v := own.Vocabulary{Site: "bench"}
	id := func(w object.Workload) string { return v.WorkloadID(w.Kind, w.Namespace, w.Name, w.UID).Value }
	var puts, gets []time.Duration
	cpu := cpuTime()
	count := 0
	for ; n < statements; count++ {
		w := workload(count)
		quads := v.Workload(w)
		begin := time.Now()
		if _, _, err := s.Put(ctx, id(w), graph.Put{Quads: quads, Owner: "ns", IfVersion: graph.AnyVersion}); err != nil {
			return n, err
		}
		puts = append(puts, time.Since(begin))
		n += len(quads)
	}
	write := cpuTime() - cpu
	cpu = cpuTime()
	for i := range min(count, 2000) {
		begin := time.Now()
		if _, _, err := s.Get(ctx, id(workload(i))); err != nil {
			return n, err
		}
		gets = append(gets, time.Since(begin))
	}
	read := cpuTime() - cpu
	again := 0
	for i := range min(count, 1000) {
		w := workload(i)
		_, changed, err := s.Put(ctx, id(w), graph.Put{Quads: v.Workload(w), Owner: "ns", IfVersion: graph.AnyVersion})
		if err != nil {
			return n, err
		}
		if changed {
			again++
		}
	}
	fmt.Printf("%d subgraphs: PUT %v of CPU time each, p99 %v by the clock; GET %v, p99 %v; the same 1000 again: %d written\n",
		count, (write / time.Duration(count)).Round(time.Microsecond), p99(puts), (read / time.Duration(len(gets))).Round(time.Microsecond), p99(gets), again)
	return n, nil
}

// workloads are as many as are changed and read.
const workloads = 10_000

// change lets workloads change what they ask for, so many a second and each at its time, and reads others beside. A latency is counted from
// when the change was due, so that what waits behind a slow one counts.
func change(ctx context.Context, s *embedded.Store, rate int, length time.Duration) error {
	v := own.Vocabulary{Site: "bench"}
	for i := range workloads { // all are there
		w := workload(i)
		if _, _, err := s.Put(ctx, v.WorkloadID(w.Kind, w.Namespace, w.Name, w.UID).Value, graph.Put{Quads: v.Workload(w), Owner: "ns", IfVersion: graph.AnyVersion}); err != nil {
			return err
		}
	}
	var puts, gets []time.Duration
	cpu, begin := cpuTime(), time.Now()
	for n := 0; time.Since(begin) < length; n++ {
		due := begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		w := workload(n * 7919 % workloads)
		w.State, w.Containers[0].Requests[object.CPU] = "changed "+strconv.Itoa(n), float64(n%64)+0.5
		if _, _, err := s.Put(ctx, v.WorkloadID(w.Kind, w.Namespace, w.Name, w.UID).Value, graph.Put{Quads: v.Workload(w), Owner: "ns", IfVersion: graph.AnyVersion}); err != nil {
			return err
		}
		puts = append(puts, time.Since(due))
		read := workload(n * 104729 % workloads)
		at := time.Now()
		if _, _, err := s.Get(ctx, v.WorkloadID(read.Kind, read.Namespace, read.Name, read.UID).Value); err != nil {
			return err
		}
		gets = append(gets, time.Since(at))
	}
	fmt.Printf("%d workloads, %d changes/s for %v: PUT p50 %v, p99 %v after it was due; GET p50 %v, p99 %v; %.0f%% of a core\n", workloads, rate, length,
		p50(puts), p99(puts), p50(gets), p99(gets), 100*(cpuTime()-cpu).Seconds()/time.Since(begin).Seconds())
	return nil
}

// workloadsQuery asks what the trade-off service asks of all workloads, of one graph of a whole cluster.
func workloadsQuery(ctx context.Context, s *embedded.Store, nodes, pods int, export string) error {
	quads := cluster(nodes, pods)
	if export != "" {
		var b strings.Builder
		for _, q := range quads {
			q.G = graph.Node("timestamp:1000")
			b.WriteString(q.String() + "\n")
		}
		if err := os.WriteFile(export, []byte(b.String()), 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(export+".rq", []byte(query), 0o600); err != nil {
			return err
		}
	}
	if _, _, err := s.Put(ctx, "timestamp:1000", graph.Put{Quads: quads, IfVersion: graph.AnyVersion}); err != nil {
		return err
	}
	best, rows := time.Hour, 0
	var cpu time.Duration
	for i := range 6 {
		begin, used := time.Now(), cpuTime()
		r, err := s.Query(ctx, query, sparql.Limits{}, nil)
		if err != nil {
			return err
		}
		if i > 0 { // the first reads the index
			best = min(best, time.Since(begin))
			cpu += cpuTime() - used
		}
		rows = len(r.Rows)
	}
	fmt.Printf("workloads query over %d nodes, %d pods, %d statements: %d rows, %v of CPU time, %v by the clock at best\n",
		nodes, pods, len(quads), rows, (cpu / 5).Round(time.Millisecond), best.Round(time.Millisecond))
	return nil
}

func cluster(nodes, pods int) []graph.Quad {
	d := glaciation.New("").Document()
	for i := range nodes {
		d.Node(object.Node{Name: "n" + strconv.Itoa(i), Status: "Ready", Allocatable: object.Amounts{object.CPU: 8, object.Memory: 1 << 35}}, 1000)
	}
	for i := range pods {
		name := "w" + strconv.Itoa(i)
		d.Workload(object.Workload{Kind: "ReplicaSet", Name: name, Containers: []object.Requirements{{Requests: object.Amounts{object.CPU: 1, object.Memory: 1 << 30}, Limits: object.Amounts{object.CPU: 2}}}})
		d.Pod(object.Pod{Namespace: "ns", Name: name, Node: "n" + strconv.Itoa(i%nodes), Phase: "Running", Start: time.Unix(1000, 0), Owners: []object.Ref{{Kind: "ReplicaSet", Name: name}}})
		for _, m := range []string{"CPU", "RAM"} {
			d.PodMeasurement(object.Measurement{Query: object.Query{Measurement: "Usage", Subresource: m, Source: "cAdvisor", Unit: "Core", Property: m + ".Usage"}, Resource: "ns." + name, Time: 1000, Value: float64(i) / 7}, 1000)
		}
	}
	return d.Quads()
}

// query is in the manner of the trade-off service (workloads-sparql-query), rewritten.
const query = `PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
SELECT ?pod ?node ?m ?name ?t ?unit ?value ?start ?end WHERE {
  { SELECT ?g ?slice WHERE { GRAPH ?g {} FILTER regex(str(?g), "^timestamp:") BIND(xsd:integer(replace(str(?g), "^timestamp:", "")) AS ?slice) } }
  FILTER(?slice >= 0 && ?slice < 5000)
  GRAPH ?g {
    { SELECT ?pod ?node ?m ?name ?ts ?value ?unit ?start ?end WHERE { ?pod <glc:hasDescription> "Pod" . ?pod <glc:hasMeasurement> ?m . ?pod <glc:consumes> ?node . ?m <glc:hasDescription> ?name . ?m <glc:hasTimestamp> ?ts . ?m <glc:hasValue> ?value . ?m <glc:measuredIn> ?unit . ?pod <glc:hasStatus> ?status . OPTIONAL { ?status <glc:startTime> ?start } OPTIONAL { ?status <glc:endTime> ?end } } }
    UNION
    { SELECT ?pod ?node ?m ?name ?ts ?value ?unit ?start ?end WHERE { BIND(0 AS ?ts) ?pod <glc:hasDescription> "Pod" . ?pod <glc:consumes> ?node . ?task rdf:type <glc:AssignedTask> . ?task <glc:makes> ?pod . ?task <glc:hasConstraint> ?m . ?m <glc:hasDescription> ?name . ?m <glc:maxValue> ?value . ?m <glc:measuredIn> ?unit . ?pod <glc:hasStatus> ?status . OPTIONAL { ?status <glc:startTime> ?start } OPTIONAL { ?status <glc:endTime> ?end } } }
  }
  BIND(IF(?ts = 0, ?slice, ?ts) AS ?t)
} ORDER BY DESC(?m)`

func p99(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)*99/100].Round(10 * time.Microsecond)
}

func p50(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2].Round(10 * time.Microsecond)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory of this process in bytes.
func resident() float64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	var kb float64
	_, _ = fmt.Sscan(rest, &kb)
	return kb * 1024
}
