package metricsetlog

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, name string) *Log {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *Log) figure(name string) *Figure {
	for i := range l.Figures {
		if l.Figures[i].Name == name {
			return &l.Figures[i]
		}
	}
	return nil
}

// TestPublishedLogs compares with figures read manually from the published logs of the metrics-operator.
func TestPublishedLogs(t *testing.T) {
	for _, c := range []struct {
		log, name, unit string
		n               int
		first, last     float64
	}{
		{"io-fio", "test read bw_bytes", "bytes_per_second", 1, 696630235, 696630235},
		{"io-fio", "test read iops", "per_second", 1, 170075.741182, 170075.741182},
		{"io-fio", "test read bw_mean", "bytes_per_second", 1, 678997.555556 * 1024, 678997.555556 * 1024},
		{"io-fio", "test write runtime", "seconds", 1, 4.621, 4.621},
		{"network-osu-benchmark", "osu_get_acc_latency 1 bytes", "seconds", 1, 52.67e-6, 52.67e-6},
		{"network-osu-benchmark", "osu_get_acc_latency 4194304 bytes", "seconds", 1, 5630.91e-6, 5630.91e-6},
		{"network-osu-benchmark", "osu_fop_latency 8 bytes", "seconds", 1, 33.40e-6, 33.40e-6},
		{"network-osu-benchmark-7.4", "osu_latency 1 bytes", "seconds", 1, 85.46e-6, 85.46e-6},
		{"network-osu-benchmark-7.4", "osu_latency 4194304 bytes", "seconds", 1, 18744.01e-6, 18744.01e-6},
		{"network-osu-benchmark-7.4", "osu_bw 4194304 bytes", "bytes_per_second", 1, 345.30e6, 345.30e6},
		{"network-netmark", "round trip rank 0 to rank 1", "seconds", 20, 34.527e-6, math.NaN()},
		{"app-lammps", "loop time", "seconds", 1, 11.8719, 11.8719},
		{"app-lammps", "steps", "count", 1, 100, 100},
		{"app-lammps", "ns/day", "count", 1, 0.073, 0.073},
		{"app-lammps", "timesteps/s", "per_second", 1, 8.423, 8.423},
		{"app-lammps", "memory of a rank, max", "bytes", 1, 143.9 * (1 << 20), 143.9 * (1 << 20)},
		{"app-lammps", "thermo Temp", "count", 11, 300, 305.38276},
		{"app-lammps", "time of Pair, max", "seconds", 1, 8.7659, 8.7659},
		{"app-lammps", "time of Other, mean", "seconds", 1, 0.0007992, 0.0007992},
		{"app-lammps", "time of Comm, share", "ratio", 1, 0.0273, 0.0273},
		{"app-lammps", "Nghost min", "count", 1, 7586, 7586},
		{"app-lammps", "CPU use", "ratio", 1, 0.964, 0.964},
		{"app-lammps", "total wall time", "seconds", 1, 12, 12},
		{"app-amg", "Problem 1: AMG Setup Time: wall clock time", "seconds", 1, 5.690908, 5.690908},
		{"app-amg", "Problem 1: AMG-PCG Solve Time: cpu clock time", "seconds", 1, 72.573477, 72.573477},
		{"app-amg", "Iterations", "count", 1, 14, 14},
		{"app-amg", "Figure of Merit (FOM_1)", "count", 1, 2.892458e+04, 2.892458e+04},
		{"perf-sysstat", "cpu statistics child mpirun pid 20 usr-ms", "seconds", 3, 0.03, math.NaN()},
		{"addon-mpitrace", "rank 2 MPI_Send calls", "count", 1, 20560, 20560},
		{"addon-mpitrace", "rank 2 MPI_Wait time", "seconds", 1, 0.056, 0.056},
		{"addon-mpitrace", "rank 2 max resident set size", "bytes", 1, 129.863 * (1 << 20), 129.863 * (1 << 20)},
		{"addon-mpitrace", "rank 2 MPI_Send of 176.0 bytes, calls", "count", 1, 1, 1},
	} {
		l := read(t, c.log)
		f := l.figure(c.name)
		if f == nil {
			t.Errorf("%s has no %s", c.log, c.name)
			continue
		}
		if len(f.Values) != c.n || f.Unit != c.unit || math.Abs(f.Values[0]-c.first) > 1e-9*math.Abs(c.first) || !math.IsNaN(c.last) && math.Abs(f.Values[len(f.Values)-1]-c.last) > 1e-9*math.Abs(c.last) {
			t.Errorf("%s: %+v, want %d values from %g to %g %s", c.log, *f, c.n, c.first, c.last, c.unit)
		}
	}
	if l := read(t, "network-osu-benchmark-7.4"); len(l.Notes) != 0 || len(l.Figures) != 46 {
		t.Errorf("OSU 7.4: %d figures, %q", len(l.Figures), l.Notes)
	}
	disks := read(t, "io-sysstat")
	if disks.Metric != "io-sysstat" || len(disks.Figures) == 0 || len(disks.Figures[0].Values) != 3 {
		t.Errorf("%s with %d figures", disks.Metric, len(disks.Figures))
	}
	if l := read(t, "io-fio"); l.Options["blocksize"] != "4k" || !strings.HasPrefix(l.Command, "fio --randrepeat=1") || !l.Start.Equal(time.UnixMilli(1691554888193)) || len(l.Notes) != 0 || l.Text != "" {
		t.Errorf("fio: %v %q %s %v", l.Options, l.Command, l.Start, l.Notes)
	}
	if l := read(t, "app-lammps"); !strings.Contains(l.Text, "Histogram: 2 0 0 0") || !strings.HasPrefix(l.Text, "LAMMPS (29 Sep 2021") {
		t.Errorf("the text of LAMMPS: %.80q", l.Text)
	}
	if l := read(t, "perf-sysstat"); len(l.Notes) != 1 || !strings.Contains(l.Notes[0], "process start or boot") {
		t.Errorf("pidstat without an interval: %v", l.Notes)
	}
}

// TestDamagedLogs: data before and after damage is parsed.
func TestDamagedLogs(t *testing.T) {
	osu := read(t, "network-osu-benchmark")
	text, err := os.ReadFile("testdata/network-osu-benchmark.log")
	if err != nil {
		t.Fatal(err)
	}
	half, err := Read(strings.NewReader(string(text[:len(text)/2])))
	if err != nil || len(half.Figures) == 0 || len(half.Figures) >= len(osu.Figures) || len(half.Notes) != 1 {
		t.Errorf("half a log: %d of %d figures, %v, %v", len(half.Figures), len(osu.Figures), half.Notes, err)
	}
	const stamped = "2026-11-22T10:00:0%d.5Z %s\n"
	var b strings.Builder
	for i, line := range []string{`METADATA START {"metricName":"io-sysstat"`, "METADATA END", `METADATA START {"metricName":"perf-sysstat","metricOptions":{"rate":10}}`, "METRICS OPERATOR COLLECTION START", "METRICS OPERATOR TIMEPOINT",
		"CPU STATISTICS TASK", "not JSON at all", `[{"pid": 1, "command": "a", "percent_cpu": 20.0}]`, "POLICY", `[{"pid": broken`} {
		fmt.Fprintf(&b, stamped, i, line)
	}
	l, err := Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	f := l.figure("not json at all a pid 1 percent_cpu")
	if l.Metric != "perf-sysstat" || f == nil || f.Values[0] != 0.2 || len(f.Times) != 1 || f.Times[0].Second() != 4 || l.End.Sub(l.Start) != 9*time.Second || len(l.Notes) != 4 {
		t.Errorf("%+v", l)
	}
	for _, other := range []string{"", "hello\n", "METRICS OPERATOR TIMEPOINT\n{}"} {
		if _, err := Read(strings.NewReader(other)); !errors.Is(err, ErrNoLog) {
			t.Errorf("%q: %v", other, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"io-fio", "network-netmark", "network-osu-benchmark", "app-lammps", "app-amg", "perf-sysstat", "addon-mpitrace"} {
		text, err := os.ReadFile("testdata/" + name + ".log")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, x := range l.Figures {
			if x.Name == "" || x.Unit == "" || len(x.Values) == 0 || x.Times != nil && len(x.Times) > len(x.Values) {
				t.Errorf("%+v", x)
			}
		}
	})
}

// TestLongLine: a line of 10 MB in the output is truncated, with a note, and the lines after it count.
func TestLongLine(t *testing.T) {
	log, err := Read(strings.NewReader("METADATA START {\"metricName\":\"app-amg\"}\nMETADATA END\nMETRICS OPERATOR COLLECTION START\nMETRICS OPERATOR TIMEPOINT\n" +
		strings.Repeat("x", 10<<20) + "\nFigure of Merit (FOM_1): 2.892458e+04\nMETRICS OPERATOR COLLECTION END\n"))
	if err != nil || len(log.Text) > maxText || len(log.Notes) != 1 || !strings.Contains(log.Notes[0], "output was truncated") {
		t.Fatalf("%d bytes, %q, %v", len(log.Text), log.Notes, err)
	}
	if len(log.Figures) == 0 {
		t.Error("the figure behind the long line is not there")
	}
}
