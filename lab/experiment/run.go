package experiment

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Mark records the start, end and result of a run.
type Mark struct {
	Name       string
	Repetition int
	Start, End time.Time
	// Failed is the reason why it was not completed, or empty. A failed run is marked like any
	// other, because the machine was loaded.
	Failed string
}

// Runner executes the runs of a plan. All fields are required.
type Runner struct {
	// Stress runs a load program; its error fails the run, not the experiment.
	Stress func(ctx context.Context, t Turn) error
	// Output is the destination of commands; nil throws it away.
	Output func(t Turn) (io.WriteCloser, error)
	// Before is called before each run, with its number from 1 and the number of runs.
	Before func(t Turn, n, of int)
	// After is called with the mark of each run.
	After func(m Mark)
	Clock func() time.Time
}

// Do executes the runs of the plan in order and returns a mark for each run that began. When ctx ends, it stops the
// current run, marks it, and returns the error of ctx.
func (r *Runner) Do(ctx context.Context, p *Plan) ([]Mark, error) {
	var marks []Mark
	order := p.Order()
	for i, t := range order {
		if err := sleepContext(ctx, time.Duration(p.Pause)); err != nil {
			return marks, err
		}
		r.Before(t, i+1, len(order))
		m := Mark{Name: t.Run.Name, Repetition: t.Repetition, Start: r.Clock()}
		var err error
		if len(t.Run.Command) > 0 {
			err = r.runCommand(ctx, t)
		} else {
			err = r.Stress(ctx, t)
		}
		m.End = r.Clock()
		if err != nil {
			m.Failed = err.Error()
		}
		if ctx.Err() != nil {
			m.Failed = "interrupted"
		}
		marks = append(marks, m)
		r.After(m)
		if ctx.Err() != nil {
			return marks, ctx.Err()
		}
	}
	return marks, sleepContext(ctx, time.Duration(p.Pause))
}

func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// terminateTimeout is the time that a command has to end after SIGTERM.
const terminateTimeout = 5 * time.Second

// runCommand runs a program in its own process group, so that its children end with it.
func (r *Runner) runCommand(ctx context.Context, t Turn) (err error) {
	limit := time.Duration(t.Run.Timeout)
	if limit == 0 {
		limit = time.Hour
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(timed, t.Run.Command[0], t.Run.Command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = terminateTimeout
	out, err := r.Output(t)
	if err != nil {
		return err
	}
	if out != nil {
		defer func() { err = errors.Join(err, out.Close()) }()
		cmd.Stdout, cmd.Stderr = out, out
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children left behind; an error means that there are none
	switch {
	case timed.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("stopped after its timeout of %s", limit)
	case err != nil:
		return fmt.Errorf("%s: %w", t.Run.Command[0], err)
	}
	return nil
}

// WriteMarks writes marks as CSV: run, repetition, start, end (RFC 3339) and failed.
func WriteMarks(w io.Writer, marks []Mark) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"workload", "repetition", "start", "end", "failed"})
	for _, m := range marks {
		_ = out.Write([]string{m.Name, strconv.Itoa(m.Repetition), formatStamp(m.Start), formatStamp(m.End), m.Failed})
	}
	out.Flush() // the first error is kept and returned here
	return out.Error()
}

func formatStamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// RunAt returns the run that covers the whole time step from one time to the other. ok is false if the step crosses the
// start or end of a run, because it then belongs neither to the run nor to idle time.
func RunAt(marks []Mark, from, to time.Time) (name string, repetition int, ok bool) {
	for _, m := range marks {
		switch {
		case !from.Before(m.Start) && !to.After(m.End):
			return m.Name, m.Repetition, true
		case from.Before(m.End) && to.After(m.Start):
			return "", 0, false
		}
	}
	return Idle, 0, true
}
