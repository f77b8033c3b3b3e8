package experiment_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/lab/experiment"
)

const plan = `
name: demo
seed: 7
repeat: 3
shuffle: true
measure:
  node: n1
  step: 1s
  columns: {watts: "sum(x)"}
runs:
  - {name: half, stress: {cpu: 50%, for: 1s}}
  - {name: full, stress: {cpu: all, for: 1s}}
  - {name: list, command: [ls, -l, /], timeout: 10s}
`

func TestRead(t *testing.T) {
	p, err := experiment.Read(strings.NewReader(plan))
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "demo" || len(p.Runs) != 3 || p.Runs[0].Stress["cpu"] != "50%" || time.Duration(p.Runs[2].Timeout) != 10*time.Second || p.Measure.Columns["watts"] != "sum(x)" {
		t.Errorf("%+v", p)
	}
	order := p.Order()
	again := p.Order()
	if len(order) != 9 {
		t.Fatalf("%d turns", len(order))
	}
	same := true
	for i := range order {
		if order[i].Run.Name != again[i].Run.Name {
			t.Error("the same seed gives another order")
		}
		same = same && order[i].Run.Name == order[i%3].Run.Name
	}
	if same {
		t.Error("every repetition has the same order")
	}
	for rep := range 3 { // each run once in each repetition
		var names []string
		for _, turn := range order[3*rep : 3*rep+3] {
			names = append(names, turn.Run.Name)
			if turn.Repetition != rep+1 {
				t.Errorf("repetition %d", turn.Repetition)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"full", "half", "list"}) {
			t.Errorf("repetition %d does %v", rep+1, names)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "empty",
		"runs: []":              "no runs",
		"runs: [{name: a}]":     "one of stress and command",
		"run: [{name: a}]":      "line 1: field run not found",
		"pause: soon\nruns: []": `line 1: "soon" is no duration`,
		"runs: [{name: a, command: [x], stress: {cpu: 1}}]":                  "one of stress and command",
		"runs: [{name: a, command: [x]},{name: a, command: [y]}]":            "used twice",
		"runs: [{name: ../a, command: [x]}]":                                 "name of a file",
		"runs: [{name: idle, command: [x]}]":                                 `other than "idle"`,
		"runs: [{name: '', command: [x]}]":                                   "a word of its own",
		"repeat: -1\nruns: [{name: a, command: [x]}]":                        "repeat: -1",
		"repeat: 99999\nruns: [{name: a, command: [x]}]":                     "at most 10000",
		"measure: {step: 1ms}\nruns: [{name: a, command: [x]}]":              "1s or more",
		"measure: {columns: {workload: a}}\nruns: [{name: a, command: [x]}]": "name of ours",
		"runs: [{name: a, command: ['']}]":                                   "command is empty",
		"\t- x":                                                              "",
	} {
		if _, err := experiment.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

// runner records the runs; its clock advances by a second at each reading.
func runner(out *buffer) (*experiment.Runner, *[]string) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	var did []string
	return &experiment.Runner{
		Stress: func(_ context.Context, t experiment.Turn) error {
			did = append(did, t.Run.Name)
			if t.Run.Stress["cpu"] == "fail" {
				return errors.New("no such load")
			}
			return nil
		},
		Output: func(experiment.Turn) (io.WriteCloser, error) { return out, nil },
		Before: func(experiment.Turn, int, int) {},
		After:  func(m experiment.Mark) { did = append(did, m.Name+":"+m.Failed) },
		Clock:  func() time.Time { now = now.Add(time.Second); return now },
	}, &did
}

func TestDo(t *testing.T) {
	p, err := experiment.Read(strings.NewReader(`
runs:
  - {name: bad, stress: {cpu: fail}}
  - {name: echo, command: [echo, hello]}
  - {name: false, command: ["false"]}
  - {name: none, command: [/no/such/program]}
  - {name: slow, command: [sleep, "600"], timeout: 20ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	r, did := runner(&out)
	marks, err := r.Do(t.Context(), p)
	if err != nil || len(marks) != 5 {
		t.Fatalf("%v, %v", marks, err)
	}
	want := []string{"bad", "bad:no such load", "echo:", "false:false: exit status 1", "none:fork/exec /no/such/program: no such file or directory", "slow:stopped after its timeout of 20ms"}
	if !slices.Equal(*did, want) {
		t.Errorf("did %q", *did)
	}
	if out.String() != "hello\n" {
		t.Errorf("output %q", out.String())
	}
	var csv bytes.Buffer
	if err := experiment.WriteMarks(&csv, marks[:2]); err != nil || csv.String() != `workload,repetition,start,end,failed
bad,1,2026-11-21T00:00:01.000Z,2026-11-21T00:00:02.000Z,no such load
echo,1,2026-11-21T00:00:03.000Z,2026-11-21T00:00:04.000Z,
` {
		t.Errorf("%v\n%s", err, csv.String())
	}
}

// TestInterrupted: a run that began is marked, and no further run starts.
func TestInterrupted(t *testing.T) {
	p, err := experiment.Read(strings.NewReader("repeat: 4\nruns: [{name: a, stress: {cpu: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := runner(nil)
	n := 0
	r.Stress = func(context.Context, experiment.Turn) error {
		if n++; n == 2 {
			cancel()
		}
		return nil
	}
	marks, err := r.Do(ctx, p)
	if !errors.Is(err, context.Canceled) || len(marks) != 2 || marks[1].Failed != "interrupted" || marks[0].Failed != "" {
		t.Errorf("%+v, %v", marks, err)
	}
}

func TestAt(t *testing.T) {
	base := time.Unix(1000, 0)
	s := func(n int) time.Time { return base.Add(time.Duration(n) * time.Second) }
	marks := []experiment.Mark{{Name: "a", Repetition: 1, Start: s(10), End: s(20)}, {Name: "b", Repetition: 2, Start: s(30), End: s(40)}}
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 5, "idle 0 true"}, {5, 10, "idle 0 true"}, {8, 12, " 0 false"}, {10, 15, "a 1 true"}, {15, 20, "a 1 true"},
		{18, 22, " 0 false"}, {20, 30, "idle 0 true"}, {5, 50, " 0 false"}, {31, 39, "b 2 true"}, {40, 45, "idle 0 true"},
	} {
		name, rep, ok := experiment.RunAt(marks, s(c.from), s(c.to))
		if got := fmt.Sprint(name, " ", rep, " ", ok); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}
