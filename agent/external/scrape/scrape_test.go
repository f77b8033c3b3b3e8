package scrape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// once creates a sensor with a target that was scraped once, synchronously.
func once(t *testing.T, c Target) (*Sensor, *target) {
	t.Helper()
	x, err := newTarget("", c)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sensor{targets: []*target{x}, now: time.Now, cancel: func() {}}
	t.Cleanup(func() { _ = s.Close() })
	x.fetch(context.Background(), s.now)
	return s, x
}

func read(s *Sensor) (map[string]float64, *sensor.Origin, string) {
	var p sensor.OwnPass
	s.ReadOwn(&p)
	got := map[string]float64{}
	var o *sensor.Origin
	for _, m := range p.Samples {
		got[sensortest.Key(m.Series)] = m.Value
		o = m.Origin
	}
	text := ""
	if len(p.Inputs) > 0 && p.Inputs[0].Err != nil {
		text = p.Inputs[0].Err.Error()
	}
	return got, o, text
}

const text = "# TYPE requests_total counter\nrequests_total{code=\"200\",workload=\"slurm/1\"} 7\ngo_threads 3\nsecret 1\n"

func TestScrape(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/metrics":
			http.NotFound(w, r)
		case !strings.HasPrefix(r.Header.Get("Accept"), "text/plain"):
			http.Error(w, "odd", http.StatusBadRequest)
		default:
			fmt.Fprint(w, text)
		}
	}))
	defer srv.Close()
	s, x := once(t, Target{URL: srv.URL, Labels: map[string]string{"app": "shop"}, Keep: []string{"re*", "sec*"}, Drop: []string{"secret"}})
	got, origin, reason := read(s)
	if reason != "" || len(got) != 1 || got[`requests_total{app="shop",code="200",exported_workload="slurm/1"}`] != 7 {
		t.Fatalf("%v %s", got, reason)
	}
	if origin.Trusted || !origin.HasUID || origin.UID != uint32(os.Geteuid()) || origin.PID != int32(os.Getpid()) {
		t.Errorf("it comes from this process: %+v", origin)
	}
	var b metric.Batch
	if err := s.Read(&b); err != nil || len(b.Samples) != 1 {
		t.Errorf("%v %v", b.Samples, err)
	}

	// Old figures are not returned, and a removed target leaves nothing.
	s.now = func() time.Time { return time.Now().Add(time.Minute) }
	if got, _, _ := read(s); len(got) != 0 {
		t.Errorf("%v", got)
	}
	s.now = time.Now
	srv.Close()
	x.fetch(context.Background(), s.now)
	if got, _, reason := read(s); len(got) != 0 || reason != "nothing listens there" {
		t.Errorf("%v %q", got, reason)
	}
}

func TestScrapeUnix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "path{p=%q} 1\n", r.URL.Path) })}
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	for address, path := range map[string]string{"unix:" + file: "/metrics", "unix:" + file + ":/stats": "/stats"} {
		s, _ := once(t, Target{URL: address})
		got, origin, reason := read(s)
		if reason != "" || got[`path{p="`+path+`"}`] != 1 || origin.PID != int32(os.Getpid()) || origin.Trusted {
			t.Errorf("%v %+v %s", got, origin, reason)
		}
	}
	s, _ := once(t, Target{URL: "unix:" + file, Workload: "unit/app.service"})
	if _, origin, _ := read(s); *origin != (sensor.Origin{Workload: "unit/app.service", Trusted: true}) {
		t.Errorf("%+v", origin)
	}
}

func TestScrapeErrors(t *testing.T) {
	answer := ""
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(answer, "<") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		} else {
			w.Header().Set("Content-Type", "text/plain")
		}
		if status == 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer srv.Close()
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{200, "a 1\nb", "line 2: there is no value behind the name"},
		{200, "a 1\nb 2\nc 3\n", "it has more than 2 series; leave some out, or allow more"},
		{500, "", "it answers 500 Internal Server Error"},
		{302, "", `it answers 302 Found and points to "/elsewhere"; write that address`},
		{200, "<html>", "it answers with text/html; charset=utf-8, not with metrics in the text format; is the path right?"},
		{200, strings.Repeat("# long\n", 1<<20), "the page is larger than 4 MiB"},
	} {
		status, answer = c.status, c.answer
		s, _ := once(t, Target{URL: srv.URL, MaxSeries: 2})
		if got, _, reason := read(s); reason != c.want || len(got) != 0 {
			t.Errorf("%q: %v %q", c.want, got, reason)
		}
	}
	s, _ := once(t, Target{URL: "unix:/nowhere/at/all"})
	if _, _, reason := read(s); reason != "there is no such socket" {
		t.Errorf("%q", reason)
	}
	for want, c := range map[string]Target{
		"does not begin with http://HOST": {URL: "localhost:9100"},
		"holds a password":                {URL: "http://a:b@h/"},
		"write a unix socket as":          {URL: "unix:app.sock"},
		"is shorter than 1s":              {URL: "http://h", Interval: time.Millisecond},
		"is no pattern of names":          {URL: "http://h", Keep: []string{"[a"}},
		"label \"node\" cannot be used":   {URL: "http://h", Labels: map[string]string{"node": "x"}},
		"ca_file: open":                   {URL: "https://h", CAFile: "/nowhere"},
	} {
		if _, err := New("", []Target{c}, nil, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":b@") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := New("", nil, nil, nil); !errors.Is(err, sensor.ErrUnavailable) {
		t.Error(err)
	}
	two, err := New("", []Target{{URL: srv.URL}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(two.Close(), two.Close()); err != nil {
		t.Error(err)
	}
}

func TestListening(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
   3: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 4714 1 0000000000000000 100 0 0 10 0
   4: broken
`
	if e, _ := parseEndpoint("0100007F:0050"); e.Addr() != netip.MustParseAddr("127.0.0.1") {
		t.Skip("the table is of a machine with the other order of bytes")
	}
	for at, want := range map[string]socketEntry{
		"127.0.0.1:8080": {4711, 1000},
		"10.0.0.7:8080":  {4712, 0},
		"127.0.0.1:8081": {},
		"[::1]:80":       {4714, 33},
	} {
		if got, _ := findInTable(strings.NewReader(table), netip.MustParseAddrPort(at)); got != want {
			t.Errorf("%s: %+v, want %+v", at, got, want)
		}
	}
}

func FuzzListening(f *testing.F) {
	f.Add(" 0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711")
	f.Fuzz(func(t *testing.T, text string) {
		if s, score := findInTable(strings.NewReader(text), netip.MustParseAddrPort("127.0.0.1:8080")); score == 0 && s != (socketEntry{}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestDescs(t *testing.T) {
	for _, d := range Descs() {
		for _, problem := range sensortest.Lint(d, false) {
			t.Errorf("%s: %s", d.Name, problem)
		}
	}
}
