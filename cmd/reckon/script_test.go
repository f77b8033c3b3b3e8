package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/rogpeppe/go-internal/testscript"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
	"reckon/web/promapi"
)

var update = flag.Bool("update", false, "write the golden parts of testdata/script anew")

// fixedNow is the time of day in the scripts.
func fixedNow() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// TestMain makes this binary the reckon of the scripts, with a fixed clock.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"reckon": func() {
			if os.Getenv("RECKON_TEST_MAIN") != "" {
				main()
			}
			d := deps{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
			if os.Getenv("RECKON_TEST_CLOCK") == "fixed" {
				d.clock = fixedNow
			}
			if n := os.Getenv("RECKON_TEST_LOCAL"); n != "" {
				d.localLive = localLive
			}
			os.Exit(execute(context.Background(), d, os.Args[1:]))
		},
	})
}

// localLive is a feed of five workloads with changing figures.
func localLive(ctx context.Context) (<-chan client.Live, error) {
	hub := new(api.Hub)
	hub.Publish(client.Live{Time: time.Now(), Cores: 8}) // the first reading knows no rate
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				hub.Publish(apitest.Tick(now, 5))
			}
		}
	}()
	return hub.Subscribe(ctx), nil
}

// site serves the site of apitest with the handlers of the real server.
func site(t testing.TB) *httptest.Server {
	storage := promqltest.LoadedStorage(t, `
load 1m
  reckon_workload_cpu_seconds_total{workload="slurm/4711",owner="alice"} 0+60x1440
  reckon_workload_cpu_seconds_total{workload="slurm/4712",owner="bob"} 0+6x720 _x720
  node_cpu_seconds_total{node="n1",cpu="0",mode="idle"} 0+60x60 3630+30x60 5430+0x60 5490+60x60 9120+30x60
  node_cpu_seconds_total{node="n1",cpu="0",mode="user"} 0+0x60 30+30x60 1890+60x60 5490+0x60 5520+30x60
  reckon_node_energy_joules_total{node="n1",domain="package",zone="0",method="measured"} 0+3600x60 222000+6000x60 590400+8400x60 1098000+3600x60 1320000+6000x60
  reckon_node_energy_joules_total{node="n2",domain="package",zone="0",method="modelled"} 0+3600x300
  reckon_node_energy_joules_total{node="n3",domain="gpu",zone="GPU-1",method="measured"} _x310 0+4800x60 288000+30000x60 2088000+4800x60
  reckon_gpu_busy_seconds_total{node="n3",device="GPU-1"} _x310 0+0x60 0+60x60 3600+0x60
`)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	hub := new(api.Hub)
	hub.Subscribe(t.Context()) // the hub keeps its tick while there is a reader
	hub.Publish(apitest.Tick(fixedNow(), 12))
	backend := apitest.Site(fixedNow())
	server := httptest.NewServer(api.New(api.Options{
		Backend: backend, Scale: backend, Devices: backend, Hub: hub, Version: "test",
		Prometheus: promapi.Handler(promapi.Options{Engine: engine, Queryable: storage, Exemplars: storage}),
	}))
	t.Cleanup(func() {
		hub.Close()
		server.Close()
	})
	return server
}

func TestScripts(t *testing.T) {
	server := site(t)
	empty := httptest.NewServer(api.New(api.Options{Backend: &apitest.Backend{}}))
	t.Cleanup(empty.Close) // the scripts run in parallel, after this function
	array := httptest.NewServer(api.New(api.Options{Backend: apitest.Array(fixedNow())}))
	t.Cleanup(array.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("RECKON_SERVER", server.URL)
			e.Setenv("EMPTY", empty.URL)
			e.Setenv("ARRAY", array.URL)
			e.Setenv("RECKON_TEST_CLOCK", "fixed")
			e.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"json": checkJSON, "csvrows": checkCSV,
		},
	})
}

// checkJSON: `json FILE KEY...` requires an array of elements with the keys.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	var rows []map[string]any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &rows); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if len(rows) == 0 {
		ts.Fatalf("%s: no elements", args[0])
	}
	for i, row := range rows {
		for _, key := range args[1:] {
			if _, ok := row[key]; ok == neg {
				ts.Fatalf("element %d: key %q present: %v", i, key, ok)
			}
		}
	}
}

// checkCSV: `csvrows FILE N` requires N rows under the header, all with the same number of fields.
func checkCSV(ts *testscript.TestScript, _ bool, args []string) {
	rows, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[0]))).ReadAll()
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if got := fmt.Sprint(len(rows) - 1); got != args[1] {
		ts.Fatalf("%s: %s rows, want %s", args[0], got, args[1])
	}
}

// TestHelp requires that every help text has lines of at most 80 columns, and an example for
// every command that has arguments or flags of its own.
func TestHelp(t *testing.T) {
	root := newTree(deps{getenv: func(string) string { return "" }}, "")
	for _, cmd := range root.Commands() {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short text %q must be a phrase without a full stop", cmd.Name(), cmd.Short)
		}
		if n := 2 + max(11, len(cmd.Name())) + 1 + len(cmd.Short); n > 80 {
			t.Errorf("%s: its line in `reckon --help` is %d columns wide", cmd.Name(), n)
		}
		for _, line := range strings.Split(cmd.Long+"\n"+cmd.Example, "\n") {
			if len(line) > 88 {
				t.Errorf("%s: help line is %d columns long: %q", cmd.Name(), len(line), line)
			}
		}
		if cmd.Example == "" && cmd.Name() != "version" && cmd.Name() != "completion" && cmd.Name() != "help" {
			t.Errorf("%s has no example", cmd.Name())
		}
	}
}

func TestOneLine(t *testing.T) {
	var errOut bytes.Buffer
	code := execute(t.Context(), deps{stdin: strings.NewReader(""), stdout: &errOut, stderr: &errOut, getenv: func(string) string { return "" }}, []string{"job"})
	if code != 2 || strings.Count(errOut.String(), "\n") != 1 || !strings.HasPrefix(errOut.String(), "reckon: ") {
		t.Errorf("exit code %d, errors %q; want 2 and one line", code, errOut.String())
	}
}
