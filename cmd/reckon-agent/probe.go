package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/agent/probe"
	"reckon/web/client"
)

// probeOptions are the flags of `reckon-agent probe` and its subcommands.
type probeOptions struct {
	probe.Options
	listen   string
	index    string
	commands []string
	ending   probe.Ending
}

func newProbe() *cobra.Command {
	var o probeOptions
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Measure the processes of one pod from inside it, and serve the samples",
		Long: `probe is the container beside an application that the operator adds for a MetricSet. It
reads the processes of its process namespace: what they used between two readings, by command and on
demand by process and by thread. It serves the samples until they were read, and needs no right, no
volume and no network but one port. It lists unreadable sources, with the reason.

The first reading is a baseline; --completions samples follow, at --rate, or as many as fit until the
application has ended.`,
		Example: `  reckon-agent probe --rate 1s --completions 30
  reckon-agent probe --rate 1s --threads --command "all=mpirun" --command "0=python train.py"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Commands, err = selectCommands(o.commands, o.index); err != nil {
				return &usageError{err}
			}
			p, err := probe.New(o.Options)
			if err != nil {
				return &usageError{err}
			}
			return o.serve(cmd.Context(), p, p.Run)
		},
	}
	f := cmd.Flags()
	o.register(cmd, "listen")
	f.DurationVar(&o.Rate, "rate", 10*time.Second, "time between two readings")
	f.Int64Var(&o.Completions, "completions", 0, "number of samples; 0: until the application ends")
	f.BoolVar(&o.Processes, "pids", false, "a row for each process")
	f.BoolVar(&o.Threads, "threads", false, "a row for each thread")
	f.StringArrayVar(&o.commands, "command", nil,
		"tables have processes of this command only; INDEX=COMMAND for one pod of a job, all=COMMAND for the others")
	f.StringVar(&o.index, "index", os.Getenv("RECKON_POD_INDEX"), "index of this pod in its job")
	f.BoolVar(&o.ending.Exit, "exit", false, "end with the measurement, as in an ephemeral container")
	cmd.AddCommand(newProbeStorage(), newProbeNetwork())
	return cmd
}

func (o *probeOptions) register(cmd *cobra.Command, listen string) {
	f := cmd.Flags()
	f.StringVar(&o.listen, listen, ":9878", "address to serve the measurements on")
	f.StringVar(&o.Pod, "pod", os.Getenv("RECKON_POD"), "name of the pod")
	f.StringVar(&o.PodUID, "pod-uid", os.Getenv("RECKON_POD_UID"), "UID of the pod")
	f.DurationVar(&o.ending.Linger, "linger", 10*time.Second, "how long unread samples are kept when the pod ends")
	f.StringVar(&o.ending.Summary, "summary", "", "file for the totals, such as /dev/termination-log")
}

// serve runs the measurement and the HTTP server.
func (o *probeOptions) serve(ctx context.Context, p *probe.Probe, run func(context.Context) error) error {
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	return p.Serve(ctx, l, o.ending, run)
}

// selectCommands returns the commands for the pod with an index. given has elements of the forms INDEX=COMMAND, all=COMMAND
// and COMMAND. INDEX=COMMAND takes precedence over all=COMMAND. A command without an index applies to every pod.
func selectCommands(given []string, index string) (out []string, err error) {
	all, own := "", ""
	for _, text := range given {
		name, command, indexed := strings.Cut(text, "=")
		_, isNumber := strconv.Atoi(name)
		switch {
		case indexed && name == "all":
			all = command
		case indexed && isNumber == nil && name == index:
			own = command
		case indexed && isNumber == nil:
		case text == "":
			return nil, errors.New("--command: a command is needed")
		default:
			out = append(out, text)
		}
	}
	own = cmp.Or(own, all)
	if own != "" {
		out = append(out, own)
	}
	return out, nil
}

func newProbeStorage() *cobra.Command {
	var o probeOptions
	var s probe.StorageOptions
	var size, block string
	cmd := &cobra.Command{
		Use:     "storage",
		Short:   "Measure a volume: throughput, operations and their latency",
		Example: `  reckon-agent probe storage --directory /data --size 1Gi --block 4Ki --duration 10s`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if s.Size, err = parseBytes(size); err != nil {
				return &usageError{fmt.Errorf("--size: %w", err)}
			}
			if s.Block, err = parseBytes(block); err != nil {
				return &usageError{fmt.Errorf("--block: %w", err)}
			}
			return o.runProgram(cmd, func(ctx context.Context) (*client.ProbeResult, error) { return probe.Storage(ctx, s) })
		},
	}
	f := cmd.Flags()
	o.register(cmd, "listen")
	f.StringVar(&s.Directory, "directory", ".", "folder on the volume")
	f.StringVar(&size, "size", "64Mi", "size of the file")
	f.StringVar(&block, "block", "4Ki", "size of a block")
	f.DurationVar(&s.Duration, "duration", 10*time.Second, "time to read, and time to write, at random")
	return cmd
}

func newProbeNetwork() *cobra.Command {
	var o probeOptions
	var n probe.NetworkOptions
	var address string
	cmd := &cobra.Command{
		Use:   "network",
		Short: "Measure latency and bandwidth between all pairs of pods",
		Long: `network answers other pods at --listen. With --hosts, which names all pods and this one
first, it has each pair measured, one after the other, and ends with the result.`,
		Example: `  reckon-agent probe network
  reckon-agent probe network --hosts a.ms.demo.svc,b.ms.demo.svc --trials 1000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			_, n.Port, _ = net.SplitHostPort(l.Addr().String())
			if len(n.Hosts) == 0 {
				return probe.ServeNetwork(cmd.Context(), l, n.Port)
			}
			go func() { _ = probe.ServeNetwork(cmd.Context(), l, n.Port) }()
			return o.runProgram(cmd, func(ctx context.Context) (*client.ProbeResult, error) { return probe.Network(ctx, n) })
		},
	}
	f := cmd.Flags()
	o.register(cmd, "results")
	f.StringVar(&address, "listen", ":9879", "address to answer other pods at")
	f.StringSliceVar(&n.Hosts, "hosts", nil, "all pods, this one first")
	f.IntVar(&n.Trials, "trials", 100, "round trips of each pair")
	f.IntVar(&n.Message, "message", 64, "bytes of one message")
	f.DurationVar(&n.Duration, "duration", 2*time.Second, "how long one stream sends")
	f.DurationVar(&n.Patience, "patience", 2*time.Minute, "how long a pod that does not answer is waited for")
	return cmd
}

// runProgram serves the result of a program that measures by itself, prints it, and exits with it.
func (o *probeOptions) runProgram(cmd *cobra.Command, measure func(context.Context) (*client.ProbeResult, error)) error {
	o.Rate = time.Second
	p, err := probe.New(o.Options)
	if err != nil {
		return err
	}
	o.ending.Exit = true
	return o.serve(cmd.Context(), p, func(ctx context.Context) error {
		r, err := measure(ctx)
		if r != nil {
			p.Result(r)
			err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(r))
		}
		return err
	})
}

// parseBytes parses a size such as 4096, 4k, 4Ki or 1G, in the notations of fio and Kubernetes.
func parseBytes(text string) (int64, error) {
	digits := strings.TrimRight(text, "kKmMgGtTiIbB")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size such as 64Mi", text)
	}
	unit := strings.ToLower(strings.TrimSuffix(strings.ToLower(text[len(digits):]), "b"))
	powers := map[string][2]int64{"": {1, 0}, "k": {1000, 1}, "m": {1000, 2}, "g": {1000, 3}, "t": {1000, 4}, "ki": {1024, 1},
		"mi": {1024, 2}, "gi": {1024, 3}, "ti": {1024, 4}}
	p, known := powers[unit]
	if !known {
		return 0, fmt.Errorf("%q is no size such as 64Mi", text)
	}
	for range p[1] {
		if n > 1<<53/p[0] {
			return 0, fmt.Errorf("%q is too large", text)
		}
		n *= p[0]
	}
	return n, nil
}
