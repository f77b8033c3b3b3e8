package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"reckon/agent"
	"reckon/sensor"
	"reckon/transport/push"
)

func newCheck(o *options) *cobra.Command {
	list, gpus := false, false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Test every sensor and every endpoint, and report problems",
		Long: `check takes the flags and settings of the agent. It names unknown settings of the file
of --config, reads every sensor once, and sends every endpoint an empty request. It can
run beside a running agent. The exit code is 1 when an endpoint cannot be used or a
present sensor does not work. A sensor that this machine does not have is no failure.
With --gpu-report it checks only the first GPU of NVIDIA: it runs loads of known use and
compares the charged with the measured use.`,
		Example: `  reckon-agent check
  reckon-agent check --push https://server:9870 --push-token-file /etc/reckon/token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return o.set.List(cmd.OutOrStdout())
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Minute)
			defer cancel()
			if gpus {
				return reportGPUs(ctx, cmd.OutOrStdout(), o.Root)
			}
			return runCheck(ctx, cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().SortFlags = false
	o.set.Attach(cmd, asUsageError)
	cmd.Flags().BoolVar(&gpus, "gpu-report", false,
		"compute on the first GPU for half a minute and print its charges as a line for the table in the guide")
	cmd.Flags().BoolVar(&list, "list", false, "list the settings of the file and their meaning")
	return cmd
}

func runCheck(ctx context.Context, out io.Writer, o *options) error {
	if err := o.push.buildEndpoints(); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	o.State = "" // the accounts belong to the running agent
	a, notes, err := agent.Open(o.agentConfig(log))
	if err != nil {
		return err
	}
	defer a.Close()
	broken := checkSensors(ctx, out, a, notes)
	broken += checkExternal(out, a)
	findings, err := push.Check(ctx, o.push.pusherConfig(a.Node(), log))
	if err != nil {
		return &usageError{err}
	}
	if len(findings) > 0 {
		fmt.Fprintln(out, "\nEndpoints:")
		for _, f := range findings {
			if f.Problem == "" {
				fmt.Fprintf(out, "  ok    %s (remote write %s)\n", f.URL, f.Protocol)
				continue
			}
			broken++
			fmt.Fprintf(out, "  FAIL  %s\n        %s\n", f.URL, f.Problem)
		}
		if err := checkWritable(o.push.queue); err != nil {
			broken++
			fmt.Fprintf(
				out, "\nQueue:\n  FAIL  %s\n        %v; give another directory by the setting push-queue, or let this user write there\n",
				o.push.queue, err)
		} else {
			fmt.Fprintf(out, "\nQueue:\n  ok    %s\n", o.push.queue)
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of the above failed", broken)
	}
	return nil
}

// checkSensors reads everything once and returns how many sensors fail.
func checkSensors(ctx context.Context, out io.Writer, a *agent.Agent, notes []agent.Note) (broken int) {
	why := make(map[string]error)
	for _, n := range notes {
		why[n.Sensor] = n.Err
	}
	fmt.Fprintf(out, "Node %s, reading %s.\n\nSensors:\n", a.Node(), a.Reading())
	once, cancel := context.WithCancel(ctx)
	cancel() // one reading, and the export that follows the end
	if err := a.Run(once, nil); err != nil {
		fmt.Fprintf(out, "  FAIL  %v\n", err)
		broken++
	}
	for _, s := range a.Sensors() {
		switch {
		case s.Up:
			fmt.Fprintf(out, "  ok    %s\n", s.Sensor)
		case errors.Is(why[s.Sensor], sensor.ErrUnavailable):
			fmt.Fprintf(out, "  -     %s: %v\n", s.Sensor, why[s.Sensor])
		default:
			broken++
			fmt.Fprintf(out, "  FAIL  %s: %s\n", s.Sensor, s.Reason)
		}
	}
	return broken
}

// checkExternal writes the status of each file and address with external figures to out. It returns how many of them have
// errors or figures that were not accepted.
func checkExternal(out io.Writer, a *agent.Agent) (broken int) {
	inputs := a.Inputs()
	if len(inputs) > 0 {
		fmt.Fprintln(out, "\nOwn metrics:")
	}
	for _, in := range inputs {
		if in.Reason == "" {
			fmt.Fprintf(out, "  ok    %s %s\n", in.Sensor, in.Name)
			continue
		}
		broken++
		fmt.Fprintf(out, "  FAIL  %s %s\n        %s\n", in.Sensor, in.Name, in.Reason)
	}
	return broken
}

// checkWritable tests whether a file can be written.
func checkWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".check")
	if err != nil {
		return err
	}
	_ = f.Close()
	return os.Remove(f.Name())
}
