package newfigure

import (
	"path/filepath"
	"testing"
)

const counterCode = `// Package iocalls counts the calls by which each process reads and writes, from /proc/PID/io (proc(5)).
//
// A [Source] is used from one goroutine.
package iocalls

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"reckon/metric"
	"reckon/sensor"
)

// Spec describes what is counted.
var Spec = &sensor.TallySpec{Name: "iocalls", Sets: []sensor.TallySet{{Series: []sensor.TallySeries{series("read"), series("write")}}}}

var calls = &metric.Desc{
	Name: "reckon_workload_io_calls_total", Kind: metric.Counter,
	Help:   "Calls of the workload that read or write, by direction.",
	Labels: sensor.Charged("direction"),
}

var figure = &sensor.TallyFigure{Name: "io_calls", Source: "readings", Lacks: []sensor.Lack{sensor.LackEndedProcesses}}

func series(direction string) sensor.TallySeries {
	return sensor.TallySeries{Desc: calls, Values: []string{direction}, Always: true, Figure: figure}
}

// Source reads the tables of processes.
type Source struct {
	root string
	last map[int32][2]uint64
}

// Open returns a source of the machine with its files at root.
func Open(root string) (*Source, error) { return &Source{root, map[int32][2]uint64{}}, nil }

// Spec describes what is counted.
func (s *Source) Spec() *sensor.TallySpec { return Spec }

// Close implements [sensor.Tally].
func (s *Source) Close() error { return nil }

// Read implements [sensor.Tally].
func (s *Source) Read(p *sensor.TallyPass) error {
	dirs, err := filepath.Glob(filepath.Join(s.root, "proc/[0-9]*"))
	for _, dir := range dirs {
		text, _ := os.ReadFile(filepath.Join(dir, "io"))
		pid, _ := strconv.ParseInt(filepath.Base(dir), 10, 32)
		var skipped, now [2]uint64
		if n, _ := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &skipped[0], &skipped[1], &now[0], &now[1]); n < 4 {
			continue
		}
		for i, was := range s.last[int32(pid)] {
			p.Add(int32(pid), 5e9, i, now[i]-min(was, now[i]))
		}
		s.last[int32(pid)] = now
	}
	return err
}
`

const counterTest = `package iocalls

import (
	"os"
	"path/filepath"
	"testing"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

func TestCalls(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/10"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, _ := Open(root)
	for _, text := range []string{"rchar: 1\nwchar: 1\nsyscr: 5\nsyscw: 7\n", "rchar: 1\nwchar: 1\nsyscr: 6\nsyscw: 9\n"} {
		if err := os.WriteFile(filepath.Join(root, "proc/10/io"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var p sensor.TallyPass
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		if r, w := sensortest.Sum(&p, 0, 10), sensortest.Sum(&p, 1, 10); text[25] == '6' && (r != 1 || w != 2) {
			t.Errorf("%d reads and %d writes", r, w)
		}
	}
}
`

// charged holds that the account charges, exports, saves and restores the counter.
const charged = `package account

import (
	"testing"

	"reckon/sensor"
	"reckon/sensor/task/iocalls"
)

func TestCallsAreCharged(t *testing.T) {
	r := newRig(t, Config{})
	c := r.l.config
	c.Tallies = []*sensor.TallySpec{iocalls.Spec}
	r.l = New(c)
	live := []sensor.Process{proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)}
	r.tick(0, live)
	r.l.Tally(iocalls.Spec, passOf([]sensor.TallyRow{row(10, 5*second, 0, 3), row(10, 5*second, 1, 4)}))
	r.restart()
	r.tick(0, live)
	r.l.Tally(iocalls.Spec, passOf([]sensor.TallyRow{row(10, 5*second, 0, 1)}))
	r.export()
	const of = "reckon_workload_io_calls_total|group/n1/"
	if got := r.values[of+"10|group||alice|read"]; got != 4 {
		t.Errorf("%v reads, want 4", got)
	}
	if got, ok := r.values[of+"20|group||alice|write"]; !ok || got != 0 {
		t.Errorf("%v writes (%v) of one that did nothing", got, ok)
	}
	if d, ok := r.degrees("group")["io_calls readings"]; !ok || d == 0 {
		t.Errorf("%v", r.degrees("group"))
	}
}
`

// counterRow is the figure of the counter.
const counterRow = `	{Key: "io_calls", Unit: metric.None, Heading: "I/O calls", Help: "Calls that read or write.",
		In: Runs | Hours, From: allSeries("reckon_workload_io_calls_total"), How: counted},
`

// TestNewCounter: a counter of processes from a new source is its folder with a test, a line in the list of tallies, the row of its figure, and a
// test of what is charged.
func TestNewCounter(t *testing.T) {
	root, scratch := copied(t)
	list := filepath.Join(scratch, "sensor/task/tallies.go")
	edit(t, list, "\t\t{Spec: counters.Spec,", "\t\t{Spec: iocalls.Spec, open: func(o Options) (sensor.Tally, error) { return openedTally(iocalls.Open(o.Root)) }},\n\t\t{Spec: counters.Spec,")
	edit(t, list, "\t\"reckon/sensor/task/rdma\"\n", "\t\"reckon/sensor/task/iocalls\"\n\t\"reckon/sensor/task/rdma\"\n")
	write(t, filepath.Join(scratch, "sensor/task/iocalls/iocalls.go"), counterCode)
	write(t, filepath.Join(scratch, "sensor/task/iocalls/iocalls_test.go"), counterTest)
	write(t, filepath.Join(scratch, "account/iocalls_test.go"), charged)
	edit(t, filepath.Join(scratch, "figure/table.go"), "\t{Key: \"swap_peak_bytes\"", counterRow+"\t{Key: \"swap_peak_bytes\"")
	run(t, scratch, "go", "generate", "./figure")
	run(t, scratch, "go", "test", "-run", "TestReference", "./internal/metricdoc", "-update")
	atMost(t, root, scratch, 5)
	contains(t, filepath.Join(scratch, "doc/metrics.md"), "reckon_workload_io_calls_total")
	contains(t, filepath.Join(scratch, "doc/figures.md"), "io_calls")
	contains(t, filepath.Join(scratch, "web/ui/src/lib/vocabulary.ts"), "io_calls")
	run(t, scratch, "go", "build", "./cmd/...")
	run(t, scratch, "go", "test", "-run", "Calls|Tall|Traffic|State|Table|Generated|UpToDate|OpenAPI|Architecture", "./sensor/task/iocalls", "./account", "./figure/...", "./web/api", "./internal/archtest")
}
