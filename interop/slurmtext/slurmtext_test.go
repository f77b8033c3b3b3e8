package slurmtext

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	oslo := time.FixedZone("", 7200)
	for in, want := range map[string]string{
		"2026-11-21T10:00:00":       "2026-11-21T08:00:00Z",
		"2026-11-21T10:00:00+01:00": "2026-11-21T09:00:00Z",
		"1732183200":                "2024-11-21T10:00:00Z",
		"1732183200.5":              "2024-11-21T10:00:00Z",
		"":                          "none", "Unknown": "none", "N/A": "none", "0": "none", "4294967294": "none", "18446744073709551614": "error",
		"yesterday": "error", "1066-10-14T09:00:00": "error", "12345": "error", "2026-13-01T00:00:00": "error",
	} {
		got := "none"
		if at, err := Time(in, oslo); err != nil {
			got = "error"
		} else if !at.IsZero() {
			got = at.UTC().Truncate(time.Second).Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]float64{
		"1-02:03:04": 93784, "02:03:04": 7384, "03:04": 184, "22:53.824": 1373.824, "1-02": 93600, "1-02:03": 93780, "366-00:00:00": 366 * 86400,
		"": -1, "5": -1, "1:2:3:4": -1, "x:y": -1, "-1:00": -1, "UNLIMITED": -1, "00:1e99": -1, "00:NaN": -1,
	} {
		got, err := Duration(in)
		if err != nil {
			got = -1
		}
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: %g, want %g", in, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]float64{
		"10808.05M": 10808.05 * (1 << 20), "4k": 4096, "2G": 2 << 30, "1T": 1 << 40, "7": 7 * 3, "0": 0,
		"": -1, "M": -1, "-3": -1, "1X": -1, "Inf": -1, "1e30": -1,
	} {
		got, err := Size(in, 3)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %g, want %g", in, got, want)
		}
	}
}

func TestTRES(t *testing.T) {
	for in, want := range map[string]TRES{
		"billing=6,cpu=6,gres/gpu:a100=1,gres/gpu=2,mem=10000M,node=1": {6, 10000 << 20, 2, 1},
		"cpu=2,gres/gpu:a100=1,gres/gpu:v100=3,mem=100":                {2, 100 << 20, 4, 0},
		"": {}, "cpu=x,mem=,fs/disk=1": {},
	} {
		if got := ReadTRES(in); got != want {
			t.Errorf("%q: %+v, want %+v", in, got, want)
		}
	}
	for in, want := range map[string]float64{"gpu:a100:4(S:0-1),gpu:2,shard:8": 6, "gres/gpu:1": 1, "gpu": 1, "gpu:a100": 1, "(null)": 0, "": 0, "gres:gpu:rtx:2(IDX:0,1),gpu:1": 3} {
		if got := GPUs(in); got != want {
			t.Errorf("%q: %g, want %g", in, got, want)
		}
	}
}

func TestID(t *testing.T) {
	for in, want := range map[string]string{
		"4711": "4711  0", "4711_3": "4711_3  0", "4711_[0-9%2]": "4711  10", "4711_[1,3,7-9:2]": "4711  4", "4711+1": "4711+1  0", "4711+1.0": "4711+1 0 0",
		"4711.batch": "4711 batch 0", "4711_[1-3].batch": "4711 batch 3", "4711_[0x1f]": "4711  5",
		"": "error", "x": "error", "0": "error", "47_x": "error", "47_": "error", "4 7": "error", "_3": "error", ".batch": "error",
	} {
		got := "error"
		if id, err := ReadID(in); err == nil {
			got = fmt.Sprint(id.Job, " ", id.Step, " ", id.Tasks)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]int{"0-9999%1": 10000, "[1,3,7-9:2]": 4, "": 1, "...": 1, "0xff": 8} {
		if got := CountTasks(in); got != want {
			t.Errorf("%q: %d tasks, want %d", in, got, want)
		}
	}
}

func TestExit(t *testing.T) {
	for in, want := range map[string]int{"0:0": 0, "3:0": 3, "0:9": 137, "1:9": 1, "0:125": -1, "7": 7, "": -1, "x:0": -1, "-1:0": -1} {
		got := -1
		if e, err := Exit(in); err == nil && e != nil {
			got = *e
		}
		if got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
	for _, c := range [][2]float64{{-1, 0}, {math.NaN(), 0}, {0, 1e9}, {math.Inf(1), 0}} {
		if ExitCode(c[0], c[1]) != nil {
			t.Errorf("%v is taken", c)
		}
	}
}

func TestState(t *testing.T) {
	for in, want := range map[string]string{"CANCELLED by 1001": "cancelled by 1001", "OUT_OF_ME+": "out_of_memory ", "CANCELLED+": "cancelled ", "COMPLETED": "completed ", "": " ", "NEWWORD+": "newword "} {
		if a, b := State(in); a+" "+b != want {
			t.Errorf("%q: %q %q", in, a, b)
		}
	}
	for in, want := range map[string]string{"mixed+drain": "mixed [drain] false", "idle*": "idle [not_responding] false", "IDLE PLANNED": "idle [planned] true", "allocated": "allocated [] true", "down": "down [] false", "": " [] false", "drained": "drained [drained] false"} {
		a, b := NodeState(strings.Fields(in))
		if got := fmt.Sprint(a, " ", b, " ", NodeOpen(a, b)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if IsFinal("running") || !IsFinal("timeout") || !IsPending("pending") || IsPending("completed") {
		t.Error("what is over and what waits")
	}
}

// FuzzFields: every parsed figure is finite and valid, and every parsed id can be parsed again.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"4711_[0-9%2]", "1-02:03:04.5", "10808.05M", "cpu=2,mem=100M,gres/gpu:a100=1", "gpu:a100:4(S:0-1)", "0:125", "CANCELLED by 0", "2026-11-21T10:00:00", "1732183200", "mixed+drain*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, _ := Duration(s)
		n, _ := Size(s, 1)
		x := ReadTRES(s)
		for _, v := range []float64{d, n, x.Cores, x.GPUs, x.Memory, x.Nodes, GPUs(s)} {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Errorf("%q: %g", s, v)
			}
		}
		if at, err := Time(s, time.UTC); err == nil && !at.IsZero() && (at.Year() < 1970 || at.Year() > 2200) {
			t.Errorf("%q: %s", s, at)
		}
		if id, err := ReadID(s); err == nil {
			again, err := ReadID(id.Job)
			if err != nil || again.Job != id.Job || again.Tasks != 0 {
				t.Errorf("%q: %+v, again %+v %v", s, id, again, err)
			}
		}
		if e, _ := Exit(s); e != nil && *e < 0 {
			t.Errorf("%q: exit %d", s, *e)
		}
		if a, _ := State(s); IsFinal(a) && a == "" {
			t.Errorf("%q: no state, and over", s)
		}
		NodeOpen(NodeState([]string{s}))
	})
}
