// Command reckon-agent measures one node: the sensors and the accounts, with
// /metrics for scraping, and no store. It is the lightweight part of reckon; the other
// commands are in `reckon`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"reckon/cmd/manpage"
	"reckon/internal/buildinfo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(2*time.Second, stop) }) // a later signal ends the process at once
	if os.Getenv("GOGC") == "" {
		// The heap is small and steady. Collecting more often costs less than a thousandth of a
		// core and saves a third of the memory.
		debug.SetGCPercent(40)
	}
	root := newRoot()
	err := root.ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "reckon-agent: "+strings.Join(strings.Fields(err.Error()), " "))
	var u *usageError
	if errors.As(err, &u) {
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is an error in how the program was called: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func asUsageError(err error) error { return &usageError{err} }

func newRoot() *cobra.Command {
	o := newOptions()
	version := false
	root := &cobra.Command{
		Use:   "reckon-agent",
		Short: "Measure who uses what on this node, and expose it at /metrics",
		Long: `reckon-agent reads the processes, control groups and devices of this node every second.
It charges their use to jobs, pods, services, sessions and process groups, and exposes
the accounts at /metrics for Prometheus. With --push it sends them to a reckon server or
any other that takes Prometheus remote write. It buffers on disk while the endpoint is
unreachable.

It needs no root, but sees more with it: eBPF and exit records take CAP_BPF,
CAP_PERFMON and CAP_NET_ADMIN, the I/O of other users' processes CAP_SYS_PTRACE.
Unreadable sources are reported at start, with the reason, and in reckon_sensor_up.`,
		Example: `  reckon-agent                          # http://127.0.0.1:9871/metrics
  reckon-agent --listen :9871 --web-config web.yml   # for a Prometheus elsewhere
  reckon-agent --source procfs          # without eBPF
  reckon-agent --push http://server:9870
  reckon-agent check --push http://server:9870
  reckon-agent record -o node.rec       # record this machine for a bug report`,
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(cmd)
			}
			if err := o.profile.apply(o); err != nil {
				return err
			}
			return runAgent(cmd.Context(), cmd.ErrOrStderr(), o)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.Flags().SortFlags = false
	o.set.Attach(root, asUsageError)
	// This is not cobra's Version, because its template would link text/template, which makes the
	// linker keep every exported method (2 MB).
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.AddCommand(newRecord(o), newCheck(o), newProbe(), newGPULoad(), newVersion(), manpage.Command())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), buildinfo.Get().String())
	return err
}
