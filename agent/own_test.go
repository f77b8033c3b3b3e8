package agent

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/web/client"
)

// own holds the metrics of an export with names in this prefix, with their labels.
func own(b *metric.Batch, prefix string) map[string]float64 {
	got := map[string]float64{}
	for _, s := range b.Samples {
		if !strings.HasPrefix(s.Series.Desc.Name, prefix) {
			continue
		}
		key := s.Series.Desc.Name
		for i, l := range s.Series.Desc.Labels {
			key += " " + l + "=" + s.Series.Values[i]
		}
		got[key] = s.Value
	}
	return got
}

// twice ticks and exports, so that what began a moment ago is known.
func twice(t *testing.T, a *Agent) *metric.Batch {
	t.Helper()
	for range 2 {
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		a.export(time.Now())
	}
	return &a.batch
}

// ownGroup takes this process out of the group that it was started in: others may be in there, such as tests of users without privileges.
func ownGroup(t *testing.T) {
	t.Helper()
	was := syscall.Getpgrp()
	if err := syscall.Setpgid(0, 0); err != nil {
		t.Logf("the process stays in its group: %v", err) // it leads its session
		return
	}
	t.Cleanup(func() { _ = syscall.Setpgid(0, was) })
}

// labelsOf are the labels of this process.
func labelsOf(t *testing.T, a *Agent) string {
	t.Helper()
	w, err := a.processOwner(int32(os.Getpid()), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	s := " workload=" + string(w.id) + " kind=" + string(w.id.Kind())
	if w.part != "" {
		s += " part=" + w.part
	}
	return s + " owner=" + w.owner
}

func TestOwnMetrics(t *testing.T) {
	ownGroup(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "own_requests_total 7\nown_kind{kind=\"x\"} 1\nreckon_workload_cpu_seconds_total 1\n")
	}))
	defer srv.Close()
	dir := t.TempDir()
	files := map[string]string{
		"rig.json": `{"volts": 11.5}`,
		"own.yaml": "textfile:\n  - dir: " + dir + "\nscrape:\n  - url: " + srv.URL + "\n    labels: {app: shop}\ncustom:\n  - name: own_rig_volts\n    unit: volts\n    file: " + dir + "/rig.json\n    json: volts\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, Config{Source: "procfs", Node: "n1", OwnMetrics: filepath.Join(dir, "own.yaml")})
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	mine, _ := a.processOwner(int32(os.Getpid()), 0, false)
	page := fmt.Sprintf("own_backup_seconds 812\nown_loss{workload=%q} 0.5\nown_other{workload=\"slurm/none\"} 1\nnode_load1 3\n", mine.id)
	if err := os.WriteFile(filepath.Join(dir, "a.prom"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	var got map[string]float64
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if got = own(twice(t, a), "own_"); len(got) >= 5 { // the first answer of the server has come
			break
		}
	}
	label := labelsOf(t, a)
	claimed := " workload=" + string(mine.id) + " kind=" + string(mine.id.Kind()) + " owner=" + mine.owner
	want := map[string]float64{
		"own_backup_seconds":                             812,
		"own_rig_volts":                                  11.5,
		"own_loss" + claimed:                             0.5,
		"own_requests_total" + label + " app=shop":       7,
		"own_kind" + label + " app=shop exported_kind=x": 1,
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %v, want %v in %v", k, got[k], v, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	var reasons []string
	for _, in := range a.Inputs() {
		reasons = append(reasons, in.Sensor+": "+in.Reason)
	}
	slices.Sort(reasons)
	if want := []string{
		"custom: ",
		"scrape: 1 series were not taken: reckon_workload_cpu_seconds_total: names that begin with reckon_ are the agent's; choose another",
		"textfile: 2 series were not taken: no workload slurm/none runs on this node",
	}; !slices.Equal(reasons, want) {
		t.Errorf("%q", reasons)
	}
	if up := own(&a.batch, "reckon_own_input_up"); len(up) != 3 {
		t.Errorf("%v", up)
	}
}

func TestOwnBounds(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1"})
	a.own.limit = 3
	twice(t, a)
	var b metric.Batch
	origin := &sensor.Origin{PID: int32(os.Getpid())}
	machine := &sensor.Origin{Trusted: true}
	theirs := &sensor.Origin{UID: 54321, HasUID: true}
	a.own.round++
	sample := func(o *sensor.Origin, name string) error {
		d := &metric.Desc{Name: name, Kind: metric.Gauge}
		return a.addOwnFigure(&b, &sensor.OwnSample{Series: metric.NewSeries(d), Origin: o})
	}
	for i := range 3 {
		if err := sample(origin, fmt.Sprint("m", i)); err != nil {
			t.Error(err)
		}
	}
	for want, err := range map[string]error{
		"has 3 series of its own already":           sample(origin, "m3"),
		"the agent measures that itself":            sample(machine, "node_load1"),
		"only root's figures may be":                sample(theirs, "node_mine"),
		"are those of rules":                        sample(theirs, "job:x"),
		"the name is taken":                         sample(theirs, "up"),
		"their owner is not known":                  sample(&sensor.Origin{}, "m"),
		"is not written as kind/name":               sample(&sensor.Origin{Workload: "7", Trusted: true}, "m"),
		"no workload other/n1 of 54321 runs":        sample(&sensor.Origin{Workload: "other/n1", UID: 54321, HasUID: true}, "m"),
		"the process that they come from has ended": sample(&sensor.Origin{PID: 1 << 30}, "m"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := errors.Join(sample(theirs, "mine"), sample(machine, "mine"), sample(machine, "node_mine")); err != nil {
		t.Error(err)
	}
	if err := sample(machine, "mine"); err == nil || err.Error() != "mine is there twice" {
		t.Error(err)
	}
}

// A source that hangs holds nobody up, and is asked again when it is back.
func TestOwnHangs(t *testing.T) {
	a := open(t, Config{Source: "procfs"})
	s := &hanging{release: make(chan struct{}), calls: make(chan struct{}, 10)}
	a.Attach(s)
	a.openOwnReaders(0)
	_ = a.tick()
	a.export(time.Now())
	state := func() client.Sensor {
		all := a.Sensors()
		return all[slices.IndexFunc(all, func(u client.Sensor) bool { return u.Sensor == s.Name() })]
	}
	if up := state(); up.Up || !strings.Contains(up.Reason, "takes long") {
		t.Errorf("%+v", up)
	}
	a.export(time.Now())
	if len(s.calls) != 1 || s.reads != 0 {
		t.Errorf("asked %d times while it hung, %d reads", len(s.calls), s.reads)
	}
	close(s.release)
	for deadline := time.Now().Add(2 * time.Minute); !state().Up && time.Now().Before(deadline); {
		a.export(time.Now())
	}
	if got := own(&a.batch, "thing"); got["thing"] != 1 {
		t.Errorf("%v", got)
	}
}

type hanging struct {
	release chan struct{}
	calls   chan struct{}
	reads   int
}

func (*hanging) Name() string               { return "hanging" }
func (*hanging) Descs() []*metric.Desc      { return nil }
func (*hanging) Close() error               { return nil }
func (h *hanging) Read(*metric.Batch) error { h.reads++; return nil }
func (h *hanging) ReadOwn(p *sensor.OwnPass) {
	h.calls <- struct{}{}
	<-h.release
	p.Samples = append(p.Samples, sensor.OwnSample{Series: thing, Value: 1})
}

var thing = metric.NewSeries(&metric.Desc{Name: "thing", Kind: metric.Gauge})

func TestOwnConfigErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	for want, text := range map[string]string{
		"field targets not found":      "targets: []\n",
		"names nothing under textfile": "# nothing\n",
		"is below 0":                   "max_series_per_workload: -1\ntextfile: [{dir: /x}]\n",
		"own metrics, scrape: target 1 (ftp://x): the url does not begin with": "scrape: [{url: 'ftp://x'}]\n",
		"own metrics, custom: reading 1 (a)":                                   "custom: [{name: a, file: b}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(Config{Source: "procfs", OwnMetrics: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A steady page costs nothing for each series of it.
func TestOwnDoesNotAllocate(t *testing.T) {
	a, export := steadyPage(t, 500)
	if n := testing.AllocsPerRun(20, export); n > 40 {
		t.Errorf("%v allocations for 500 series", n)
	}
	if got := own(&a.batch, "own_things"); len(got) != 500 {
		t.Errorf("%d series", len(got))
	}
}

func BenchmarkOwn(b *testing.B) {
	_, export := steadyPage(b, 5000)
	b.ReportAllocs()
	for b.Loop() {
		export()
	}
}

// steadyPage is an agent with a file of n series about the machine.
func steadyPage(t testing.TB, n int) (a *Agent, export func()) {
	dir := t.TempDir()
	var page strings.Builder
	for i := range n {
		fmt.Fprintf(&page, "own_things{i=\"%d\"} %d\n", i, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.prom"), []byte(page.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "own.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("textfile: [{dir: %s, max_series: %d}]\n", dir, n)), 0o644); err != nil {
		t.Fatal(err)
	}
	a, _, err := Open(Config{Source: "procfs", OwnMetrics: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	export = func() {
		a.batch.Reset(time.Time{})
		a.exportOwn(&a.batch)
	}
	export()
	return a, export
}
