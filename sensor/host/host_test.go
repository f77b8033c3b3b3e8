package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// guest writes a share and opens it, with a clock set by the test.
func guest(t *testing.T, s *Share) (g *Sensor, dir string, clock *time.Time) {
	t.Helper()
	dir = t.TempDir()
	if err := s.Write(dir, "alice", "db-1"); err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{File: filepath.Join(dir, "alice/db-1", FileName)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1790000000, 0)
	clock = &now
	g.now = func() time.Time { return *clock }
	g.changed = now
	return g, dir, clock
}

func meters(t *testing.T, g *Sensor) map[sensor.Domain]float64 {
	t.Helper()
	list, err := g.ReadMeters(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[sensor.Domain]float64)
	for _, m := range list {
		got[m.Domain] += m.Joules
	}
	return got
}

func TestDomains(t *testing.T) {
	for _, tt := range []struct {
		name   string
		energy []Energy
		want   map[sensor.Domain]float64
	}{
		{"none yet", nil, map[sensor.Domain]float64{}},
		{"narrow meters", []Energy{{"package", "measured", 10}, {"dram", "measured", 2}}, map[sensor.Domain]float64{"package": 10, "dram": 2}},
		{"two methods", []Energy{{"package", "measured", 10}, {"package", "measured-by-cpu", 5}}, map[sensor.Domain]float64{"package": 15}},
		{"rest beside them", []Energy{{"package", "measured", 10}, {"rest", "measured-by-cpu", 7}}, map[sensor.Domain]float64{"package": 10, "board": 17}},
		{"a board alone", []Energy{{"board", "modelled", 9}}, map[sensor.Domain]float64{"board": 9}},
		{"a graphics processor", []Energy{{"gpu", "measured", 30}, {"psys", "measured-by-cpu", 5}}, map[sensor.Domain]float64{"gpu": 30, "board": 35}},
	} {
		g, _, _ := guest(t, &Share{Written: time.Unix(1790000000, 0), Energy: tt.energy})
		got := meters(t, g)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		for d, v := range tt.want {
			if got[d] != v {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

// TestMethod follows a host that measures, models, measures again and is reset.
func TestMethod(t *testing.T) {
	s := &Share{Written: time.Unix(1790000000, 0)}
	s.Add("package", "measured", 100)
	g, dir, _ := guest(t, s)
	for _, step := range []struct {
		measured, modelled float64
		want               bool
	}{{110, 0, false}, {110, 20, true}, {130, 21, false}, {3, 0, false}, {3, 4, true}} {
		s.Energy = []Energy{{"package", "measured", step.measured}}
		if step.modelled > 0 {
			s.Add("board", "modelled", step.modelled)
		}
		if err := s.Write(dir, "alice", "db-1"); err != nil {
			t.Fatal(err)
		}
		var b metric.Batch
		if err := g.Read(&b); err != nil { // a fall counts when the host has written again
			if n, alone := sensor.Implausible(err); n != 1 || !alone || len(b.Samples) > 0 {
				t.Fatal(err)
			}
			s.Written = s.Written.Add(15 * time.Second)
			if err := errors.Join(s.Write(dir, "alice", "db-1"), g.Read(&b)); err != nil {
				t.Fatal(err)
			}
		}
		method := methodMeasured
		if step.want {
			method = methodModelled
		}
		if g.ModelledMeters() != step.want || b.Samples[0].Series.Label("method") != method {
			t.Errorf("%+v: modelled is %v, %v", step, g.ModelledMeters(), b.Samples[0].Series.Values)
		}
	}
}

// TestGate: a file with a blank value, a spike or a fall is absent until the host has written again, is counted once however often it is read,
// and what was counted goes on.
func TestGate(t *testing.T) {
	for name, odd := range map[string]float64{"blank": 1 << 45, "spike": 100 + 3e6, "fall": 7} {
		s := &Share{Written: time.Unix(1790000000, 0)}
		s.Add("package", "measured", 100)
		g, dir, clock := guest(t, s)
		var errs []error
		write := func(joules float64) {
			*clock, s.Written = clock.Add(15*time.Second), s.Written.Add(15*time.Second)
			s.Energy[0].Joules = joules
			if err := s.Write(dir, "alice", "db-1"); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				var b metric.Batch
				list, err := g.ReadMeters(nil)
				if raw := g.Read(&b); raw != err || len(b.Samples) != len(list) {
					t.Errorf("%s: raw %v and %d samples, meters %v and %d", name, raw, len(b.Samples), err, len(list))
				}
				if errs = append(errs, err); err != nil && len(list) > 0 {
					t.Errorf("%s: %v beside %v", name, list, err)
				}
			}
		}
		write(110)
		write(odd)
		first := errs[5]
		if n, alone := sensor.Implausible(first); n != 1 || !alone || !strings.Contains(first.Error(), "energy of package of the host") {
			t.Errorf("%s: %v", name, first)
		}
		for i, err := range errs {
			if (err != nil) != (i >= 5) || i >= 5 && err != first {
				t.Errorf("%s, reading %d: %v", name, i, err)
			}
		}
		write(130)
		if got := meters(t, g); got["package"] != 130 {
			t.Errorf("%s: %v afterwards", name, got)
		}
	}
}

// TestStale: the host's agent stops, and comes back.
func TestStale(t *testing.T) {
	s := &Share{Written: time.Unix(1790000000, 0)}
	s.Add("package", "measured", 100)
	g, dir, clock := guest(t, s)
	*clock = clock.Add(maxFileAge)
	if got := meters(t, g); got["package"] != 100 {
		t.Errorf("after %v: %v", maxFileAge, got)
	}
	*clock = clock.Add(time.Second)
	if list, err := g.ReadMeters(nil); len(list) > 0 || err == nil || !strings.Contains(err.Error(), "has not written for 91 s") {
		t.Errorf("after 91 s: %v, %v", list, err)
	}
	s.Written = s.Written.Add(time.Minute) // no energy was charged, but the file is new
	if err := s.Write(dir, "alice", "db-1"); err != nil {
		t.Fatal(err)
	}
	if got := meters(t, g); got["package"] != 100 {
		t.Errorf("written again: %v", got)
	}
}

func TestBadFiles(t *testing.T) {
	good := `{"format":"reckon-guest-energy","version":1,"written":1,"energy":[{"domain":"package","method":"measured","joules":1}]}`
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":       {"", "unexpected end"},
		"cut":           {good[:60], "unexpected end"},
		"other format":  {strings.Replace(good, "reckon-guest", "x", 1), `the format is "x-energy"`},
		"newer version": {strings.Replace(good, `"version":1`, `"version":2`, 1), "this agent reads 1: update it"},
		"negative":      {strings.Replace(good, `"joules":1`, `"joules":-1`, 1), "has -1 J"},
		"too much":      {strings.Replace(good, `"joules":1`, `"joules":1e300`, 1), "has 1e+300 J"},
		"too big":       {good + strings.Repeat(" ", maxFileSize), "not a file of at most"},
	} {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{File: path}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ...%s...", name, err, tt.want)
		}
	}
	if _, err := New(Options{File: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := New(Options{Root: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no host hands in") {
		t.Errorf("no file: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", "a\x00b"} {
		if err := new(Share).Write(t.TempDir(), "alice", name); err == nil {
			t.Errorf("%q was taken", name)
		}
		if err := new(Share).Write(t.TempDir(), name, "db-1"); err == nil {
			t.Errorf("owner %q was taken", name)
		}
	}
}
