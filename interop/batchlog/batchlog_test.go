package batchlog

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"reckon/interop/sacct"
	"reckon/workload"
)

// wanted is a job in the form of testdata/*.want: id, user, account, queue, name, state, exit code, submit, start, end, cores, nodes, names
// of nodes, GPUs, CPU seconds, memory, time limit, requested memory.
func wanted(j *sacct.Job) string {
	word := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	number := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'f', -1, 64)
	}
	exit := "-"
	if j.ExitCode != nil {
		exit = strconv.Itoa(*j.ExitCode)
	}
	cpu := j.CPUUser
	if cpu != nil && j.CPUSystem != nil {
		sum := *cpu + *j.CPUSystem
		cpu = &sum
	}
	start := j.Start.Unix()
	if j.Start.IsZero() {
		start = 0
	}
	return fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|%d|%d|%d|%s|%s|%s|%s|%s|%s|%s|%s", j.ID, j.User, word(j.Account), j.Partition, j.Name, j.State,
		exit,
		j.Submit.Unix(), start, j.End.Unix(), number(j.AllocCores), number(j.AllocNodes), word(j.Nodes), number(j.AllocGPUs), number(cpu),
		number(j.PeakMemory), number(j.TimeLimit), number(j.ReqMemory))
}

// jobs parses a text.
func jobs(t *testing.T, text string, kind workload.Kind) (list []*sacct.Job, bad []error) {
	t.Helper()
	if err := Read(strings.NewReader(text), kind, func(j *sacct.Job) error { list = append(list, j); return nil },
		func(line int, err error) { bad = append(bad, fmt.Errorf("%d: %w", line, err)) }); err != nil {
		t.Fatal(err)
	}
	return list, bad
}

// TestRecords: records written by hand after the manuals of each system give the jobs that are meant.
func TestRecords(t *testing.T) {
	for _, kind := range []workload.Kind{workload.PBS, workload.GridEngine, workload.LSF} {
		raw, err := os.ReadFile("testdata/" + string(kind) + ".log")
		if err != nil {
			t.Fatal(err)
		}
		if got := Format(raw); got != kind {
			t.Errorf("%s is taken for %q", kind, got)
		}
		list, bad := jobs(t, string(raw), kind)
		want, err := os.ReadFile("testdata/" + string(kind) + ".want")
		if err != nil || len(bad) > 0 {
			t.Fatal(err, bad)
		}
		lines := strings.Split(strings.TrimSpace(string(want)), "\n")
		for i, j := range list {
			if i >= len(lines) || wanted(j) != lines[i] || len(j.Unread) > 0 || j.Kind != kind {
				t.Errorf("%s %d: got %s (%v)\nwant %s", kind, i, wanted(j), j.Unread, lines[min(i, len(lines)-1)])
			}
		}
		if len(list) != len(lines) || len(list) < 17 {
			t.Errorf("%s: %d jobs, want %d", kind, len(list), len(lines))
		}
	}
}

// TestDamagedRecords: a record that is cut off, or that has no times, is an error; a field that cannot be read is left out.
func TestDamagedRecords(t *testing.T) {
	for _, kind := range []workload.Kind{workload.PBS, workload.GridEngine, workload.LSF} {
		raw, err := os.ReadFile("testdata/" + string(kind) + ".log")
		if err != nil {
			t.Fatal(err)
		}
		all, _ := jobs(t, string(raw), kind)
		for at := range raw {
			list, bad := jobs(t, string(raw[:at]), kind)
			if len(list) > len(all) || len(bad) > 1 {
				t.Fatalf("%s cut at %d: %d jobs, %v", kind, at, len(list), bad)
			}
		}
	}
	pbs := "01/01/2026 00:00:00;E;1.s;user=a queue=q ctime=x start=1760000000 end=1760000100 exec_host=n1/0 Exit_status=zero " +
		"resources_used.cput=1h resources_used.mem=much"
	list, bad := jobs(t, pbs, workload.PBS)
	if len(list) != 1 || len(bad) != 0 || len(list[0].Unread) != 4 || *list[0].AllocCores != 1 || list[0].CPUUser != nil {
		t.Errorf("%+v %v", list, bad)
	}
	if _, bad := jobs(t, strings.Replace(pbs, "start=1760000000", "start=soon", 1), workload.PBS); len(bad) != 1 {
		t.Error(bad)
	}
}

func FuzzRecords(f *testing.F) {
	for _, kind := range []string{"pbs", "sge", "lsf"} {
		raw, err := os.ReadFile("testdata/" + kind + ".log")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		Format(raw)
		for _, kind := range []workload.Kind{workload.PBS, workload.GridEngine, workload.LSF} {
			_ = Read(strings.NewReader(string(raw)), kind, func(j *sacct.Job) error {
				if j.ID == "" || j.State == "" || j.End.Before(j.Start) && j.State != "pending" {
					t.Errorf("%+v", j)
				}
				return nil
			}, func(int, error) {})
		}
	})
}
