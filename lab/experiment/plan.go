// Package experiment runs a plan: load programs and commands, repeated, in an order
// determined by a seed, with pauses between them. It records when each began and ended,
// so that measurements can be assigned to runs.
//
// A plan is a YAML file. Unknown fields are errors that name their line. Durations are
// written as 30s, 5m or 1h. Every step of a plan ends: a load program has its length, a
// command its timeout (default 1 h).
//
// The package starts commands and waits for them; the caller provides load programs and
// measurements. It is used from one goroutine.
package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time.Duration written as in 1m30s.
type Duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is no duration; write 30s, 5m or 1h", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML implements yaml.Marshaler.
func (d Duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

// Plan is the content of a plan file.
type Plan struct {
	Name string `yaml:"name"`
	// Seed determines the order and random programs; the same seed gives the same experiment.
	Seed uint64 `yaml:"seed"`
	// Repeat is the number of repetitions of every run; 0 is one.
	Repeat int `yaml:"repeat"`
	// Shuffle reorders the runs of each repetition independently, so that drift (such as a machine
	// warming up) does not look like an effect.
	Shuffle bool `yaml:"shuffle"`
	// Pause is the rest before each run and after the last.
	Pause   Duration `yaml:"pause"`
	Measure Measure  `yaml:"measure"`
	Runs    []Run    `yaml:"runs"`
}

// Measure selects the series of the server that become columns.
type Measure struct {
	// Node is the measured machine; empty for the only one with a meter.
	Node string `yaml:"node"`
	// Columns are PromQL expressions by column name. Without columns and selectors, they are the
	// power of the node and its explanatory features.
	Columns map[string]string `yaml:"columns"`
	// Select are PromQL selectors of series that become columns unchanged.
	Select []string `yaml:"select"`
	// Step is the time between rows; 0 is 15 s.
	Step Duration `yaml:"step"`
}

// Run is one load program, or one command.
type Run struct {
	Name string `yaml:"name"`
	// Stress has the flags of `reckon stress` by their names: cpu: 2x40%, for: 30s.
	Stress map[string]string `yaml:"stress,omitempty"`
	// Command is a program and its arguments; it is not run by a shell.
	Command []string `yaml:"command,omitempty,flow"`
	// Timeout ends a command; 0 is an hour.
	Timeout Duration `yaml:"timeout,omitempty"`
}

// maxRuns is the maximum number of runs of one plan.
const maxRuns = 10_000

// Read reads and checks a plan.
func Read(r io.Reader) (*Plan, error) {
	text, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var p Plan
	if err := dec.Decode(&p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the plan is empty")
		}
		text := strings.Join(strings.Fields(err.Error()), " ")
		return nil, errors.New(strings.NewReplacer("yaml: ", "", "unmarshal errors: ", "", " in type experiment.Plan", "",
			" in type experiment.", " in ").Replace(text))
	}
	return &p, p.check()
}

func (p *Plan) check() error {
	if len(p.Runs) == 0 {
		return errors.New("the plan has no runs; list them under runs:, each with a name and one of stress and command")
	}
	if p.Repeat < 0 || max(p.Repeat, 1)*len(p.Runs) > maxRuns {
		return fmt.Errorf("repeat: %d times %d runs; give 1 or more, and at most %d runs in all", p.Repeat, len(p.Runs), maxRuns)
	}
	seen := map[string]bool{}
	for i, r := range p.Runs {
		switch {
		case r.Name == "" || r.Name == Idle || r.Name != filepath.Base(r.Name) || strings.ContainsAny(r.Name, "\\\x00\n") ||
			strings.HasPrefix(r.Name, "."):
			return fmt.Errorf("run %d: name %q; give each run a word of its own, other than %q, that can be the name of a file", i+1,
				r.Name, Idle)
		case seen[r.Name]:
			return fmt.Errorf("run %d: the name %q is used twice; repeat: does a run several times", i+1, r.Name)
		case (len(r.Stress) > 0) == (len(r.Command) > 0):
			return fmt.Errorf("run %q: give one of stress and command", r.Name)
		case len(r.Command) > 0 && r.Command[0] == "":
			return fmt.Errorf("run %q: the command is empty", r.Name)
		}
		seen[r.Name] = true
	}
	for name := range p.Measure.Columns {
		if name == "" || name == "time" || name == "workload" || name == "repetition" {
			return fmt.Errorf("measure: the column %q has a name of ours; choose another", name)
		}
	}
	if s := time.Duration(p.Measure.Step); s != 0 && s < time.Second {
		return fmt.Errorf("measure: step %s; give 1s or more", s)
	}
	return nil
}

// Idle is the name of the time between runs.
const Idle = "idle"

// Turn is one execution of a run of the plan.
type Turn struct {
	Run        *Run
	Repetition int // from 1
}

// Order returns every run of every repetition, in the order of execution.
func (p *Plan) Order() []Turn {
	rng := rand.New(rand.NewPCG(p.Seed, 0x5eed))
	var out []Turn
	for rep := 1; rep <= max(p.Repeat, 1); rep++ {
		at := len(out)
		for i := range p.Runs {
			out = append(out, Turn{&p.Runs[i], rep})
		}
		if p.Shuffle {
			mine := out[at:]
			rng.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
		}
	}
	return out
}
