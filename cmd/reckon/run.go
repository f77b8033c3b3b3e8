package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"reckon/agent/run"
	"reckon/analysis/rightsize"
	"reckon/internal/term"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/task/ebpf"
	"reckon/sensor/task/taskstats"
	"reckon/web/client"
)

type runOptions struct {
	json, plot, wait bool
	output, profile  string
	without          []string
	exits            *choice
}

// runExit carries the exit code of the command; it needs no message.
type runExit int

func (e runExit) Error() string { return "" }
func (e runExit) ExitCode() int { return int(e) }

// newRunCommand returns `reckon run`.
func newRunCommand(g *globals) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command and report what it and all its descendants used",
		Long: `Run a command and report the use of it and all its descendants: wall time, CPU time,
cores in use, CPU wait, memory, storage, processes and a breakdown by program. A plain
sentence explains each resource. No server and no privilege is needed.

The command keeps standard input, output and error. The report follows on standard
error, so that pipes keep working. With --json it goes to standard output, after the
output of the command; --output FILE writes it to a file.

Every descendant counts, even one that daemonises or lives for a millisecond. The report
is made when the command ends. Processes that still run are named, counted up to that
moment and left alone; --wait waits for them.

Signals are passed on to the command; those of the keyboard reach it anyway. The exit
code is the command's: 128+N when signal N ended it, 127 when it was not found, 126 when
it could not be run.`,
		Example: `  reckon run -- make -j8
  reckon run --json --output report.json -- ./simulate input.dat
  reckon run --plot --profile profile.csv -- python3 train.py`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runProgram(g, cmd, o, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the rest belongs to the command
	f.BoolVar(&o.json, "json", false, "print the report as JSON, on standard output")
	g.shared.addFlag(cmd, "output", &o.output)
	f.StringVar(&o.profile, "profile", "", "write the profile, one line a second, to this CSV file")
	f.BoolVar(&o.plot, "plot", false, "draw cores and memory over time after the report")
	f.BoolVar(&o.wait, "wait", false, "wait for every descendant, also those that daemonised")
	f.StringSliceVar(&o.without, "without", nil, "leave out a source: cgroup, perf")
	completeWords(cmd, "without", "cgroup", "perf")
	o.exits = &choice{value: "auto", words: []string{"auto", "taskstats", "ebpf", "none"}}
	f.Var(o.exits, "exits", "exit records, for exact figures of each process: auto, taskstats, ebpf (half a second to load), none")
	completeWords(cmd, "exits", o.exits.words...)
	return cmd
}

func runProgram(g *globals, cmd *cobra.Command, o runOptions, args []string) error {
	if len(args) == 0 {
		return asUsageError(cmd, errors.New("no command given: reckon run -- COMMAND"))
	}
	ro := run.Options{Args: args, Wait: o.wait, GPUs: gpuSensors}
	for _, w := range o.without {
		switch w {
		case "cgroup":
			ro.NoCgroup = true
		case "perf":
			ro.NoPerf = true
		default:
			return asUsageError(cmd, fmt.Errorf("--without %s: give cgroup or perf", w))
		}
	}
	exits, err := openExitSource(o.exits.value)
	if err != nil {
		return err
	}
	if exits != nil {
		defer exits.Close()
		ro.Exits = exits
	}
	// Both files are opened first, so that hours of work do not end with an unwritable path.
	profile, err := createOutput("profile", o.profile)
	if err != nil {
		return err
	}
	output, err := createOutput("output", o.output)
	if err != nil {
		return err
	}
	var lost error // error of the profile: the command continues without it
	if profile != nil {
		rows, err := run.NewCSV(profile)
		if err != nil {
			return fmt.Errorf("write %s: %w", o.profile, err)
		}
		ro.Row = func(r run.Row) {
			if lost == nil {
				lost = rows.Write(r)
			}
		}
	}
	report, err := run.Run(ro)
	if err != nil {
		return asExitError(err)
	}
	if profile != nil {
		if err := errors.Join(lost, profile.Close()); err != nil {
			report.Notes = append(report.Notes, fmt.Sprintf("the profile is not complete: write %s: %v", o.profile, err))
		}
	}
	if err := writeReport(g, o, output, report); err != nil {
		fmt.Fprintln(g.stderr, "reckon: write the report: "+toOneLine(err))
	}
	if report.ExitCode != 0 {
		return runExit(report.ExitCode)
	}
	return nil
}

// nextRequest returns the recommended request for the next run of a command, by the rule for jobs. It is nil for short and failed
// commands, and if processes of it remain.
func nextRequest(r *run.Report) *client.Advice {
	of := rightsize.Run{Seconds: r.WallSeconds, Nodes: 1, Done: r.ExitCode == 0, Cut: r.ExitCode != 0,
		MemoryInexact: r.MemoryAtMost || r.MemoryAtLeast}
	of.CPUSeconds, of.CPUWaitSeconds, of.CoresP95 = &r.CPU.Total, r.CPUWaitSeconds, &r.Cores.P95
	of.Waited = of.WaitShare() >= 0.1
	if r.MemoryPeakBytes != nil {
		of.MemoryNeededPeakBytes = new(float64(*r.MemoryPeakBytes))
	}
	a := rightsize.Recommend([]rightsize.Run{of}, false)
	if a == nil || of.Cut || of.Seconds < rightsize.Settled || len(r.Survivors) > 0 {
		return nil
	}
	out := &client.Advice{Runs: 1, Paste: a.Slurm(1, a.Memory, 0)}
	for _, why := range a.Why {
		out.Why = append(out.Why, why.String())
	}
	return out
}

// gpuSensors opens the sensors of GPUs that this machine has.
func gpuSensors() (out []sensor.Sensor) {
	for _, e := range all.Sensors("/") {
		if e.Name == "nvml" || e.Name == "amdgpu" || e.Name == "drm" {
			if s, err := e.Open(); err == nil {
				out = append(out, s)
			}
		}
	}
	return out
}

// openExitSource opens the machine's source of exit records; word is the value of the flag. By default, it uses exit records
// only if they are available at once. Without the privilege to read them, the report omits them.
func openExitSource(word string) (sensor.ExitSource, error) {
	switch word {
	case "none":
		return nil, nil
	case "ebpf":
		s, err := ebpf.New(ebpf.Options{})
		if err != nil {
			return nil, fmt.Errorf("exit records of ebpf: %w", err)
		}
		if err := s.Exits(); err != nil {
			return nil, errors.Join(fmt.Errorf("exit records of ebpf: %w", err), s.Close())
		}
		return s, nil
	}
	s, err := taskstats.New(taskstats.Options{})
	switch {
	case err == nil:
		return s, nil
	case word == "auto":
		return nil, nil
	}
	return nil, fmt.Errorf("exit records of taskstats: %w", err)
}

// asExitError maps an error to the exit code that a shell uses for it.
func asExitError(err error) error {
	var start *run.StartError
	if errors.As(err, &start) {
		return &startFailure{start}
	}
	return err
}

type startFailure struct{ *run.StartError }

func (e *startFailure) ExitCode() int { return e.Code }

func createOutput(flag, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return f, nil
}

// writeReport writes the report to the requested destination.
func writeReport(g *globals, o runOptions, file *os.File, report *run.Report) error {
	w := g.stderr
	if o.json {
		w = g.stdout
	}
	if file != nil {
		w = file
	}
	err := printReport(g, o, w, report)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	return err
}

func printReport(g *globals, o runOptions, w io.Writer, report *run.Report) error {
	if o.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(report); err != nil {
			return err
		}
		if !o.plot {
			return nil
		}
		w = g.stderr // the chart is for a person
	}
	s := term.Open(w, g.getenv)
	if !o.json {
		if s.Terminal {
			fmt.Fprintln(s)
		}
		if err := report.Print(s); err != nil {
			return err
		}
		p := &page{Screen: s}
		p.printAdvice(nextRequest(report))
		if _, err := fmt.Fprint(s, p.b.String()); err != nil {
			return err
		}
	}
	if o.plot {
		_, err := fmt.Fprint(s, "\n"+strings.TrimRight(report.Plot(s), "\n")+"\n")
		return err
	}
	return nil
}
