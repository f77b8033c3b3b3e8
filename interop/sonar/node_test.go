package sonar

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestBusy: the test of sonar itself, and a line of a real node.
func TestBusy(t *testing.T) {
	for in, want := range map[string]string{
		")(t*1b": "[1 30 89 12]", "((": "[0]", "": "error", ")": "error", "1(": "error", "(\x00": "error", "(é": "error",
		"((" + strings.Repeat("1", 40): "error",
	} {
		got := "error"
		if v, err := parseBusy([]byte(in)); err == nil {
			got = fmt.Sprint(v)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	raw, err := os.ReadFile("testdata/simple-input.csv")
	if err != nil {
		t.Fatal(err)
	}
	g := readText(t, string(raw))
	n := 0
	for _, s := range g.samples {
		if s.System == nil {
			continue
		}
		n++
		if len(s.System.CPU) != 64 {
			t.Fatalf("%s: %d processors", s.Node, len(s.System.CPU))
		}
		for _, v := range s.System.CPU {
			if v < 1 || v > 1e8 {
				t.Errorf("%s: busy for %g s", s.Node, v)
			}
		}
	}
	if n != 9 || len(g.bad) != 1 { // one line is a comment
		t.Errorf("%d lines with load, bad %v", n, g.bad)
	}
}

func TestGPUInfo(t *testing.T) {
	const line = `v=0.13.200,time=2025-03-07T13:44:18+01:00,host=gpu-11,user=u,cmd=python,job=1,pid=2,cputime_sec=1,memtotalkib=1024,"gpuinfo=%s"` + "\n"
	g := readText(t, fmt.Sprintf(line, "fan%=35|31,perf=P2|P8,musekib=1024|0,cutil%=71|,tempc=65|51,poww=311|165,powlimw=350|350,cez=1680|210,memz=9501|405,new=1|2"))
	if len(g.samples) != 1 || g.samples[0].System == nil || len(g.samples[0].System.Cards) != 2 {
		t.Fatalf("%+v %v", g.samples, g.bad)
	}
	s := g.samples[0].System
	a, b := s.Cards[0], s.Cards[1]
	if a.Fan < 0.349 || a.Fan > 0.351 || *a.Performance != 2 || a.Memory != 1<<20 || a.Busy != 0.71 || a.Temperature != 65 || a.Power != 311 || a.PowerLimit != 350 || a.Clock != 1680e6 ||
		b.Index != 1 || *b.Performance != 8 || b.Busy != 0 || b.MemoryClock != 405e6 || s.TotalMemory != 1<<20 {
		t.Errorf("%+v %+v", a, b)
	}
	for _, bad := range []string{"fan%", "=1", "fan%=x", "perf=fast", "tempc=" + strings.Repeat("1|", 300)} {
		if g := readText(t, fmt.Sprintf(line, bad)); len(g.bad) != 1 {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCluster(t *testing.T) {
	raw, err := os.ReadFile("testdata/newfmt_cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	var got []Cluster
	h := &Handler{Cluster: func(c *Cluster) error { got = append(got, *c); return nil }, Bad: func(line int, err error) { t.Errorf("%d: %v", line, err) }}
	if err := NewReader(Options{}).Read(strings.NewReader(string(raw)), h); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Cluster != "xyzzy.no" || got[0].Time != 1743504078 || len(got[0].Partitions) != 11 || got[0].Partitions[0].Nodes[0] != "c1-[5-28]" || len(got[0].Nodes) == 0 || len(got[0].Nodes[0].States) == 0 {
		t.Errorf("%+v", got)
	}
	if g := readText(t, `{"data":{"type":"cluster","attributes":{"time":"2025-04-01T12:41:18+02:00","partitions":[{"name":"","nodes":["a"]}]}}}`); len(g.bad) != 1 {
		t.Error("a partition without a name is taken")
	}
}
