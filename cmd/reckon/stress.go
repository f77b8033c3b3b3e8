package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/lab/stress"
)

type stressOptions struct {
	cpu, memory, disk, net, gpu string
	length                      string
	ramp, trace                 string
	random, cpuOnly             bool
	steps, device               int
	seed                        uint64
	pin, keep, strict, quiet    bool
	period, dir, diskSize       string
	diskMode, format            *choice
	peer, sink, output          string
}

// newStress returns `reckon stress`.
func newStress(g *globals) *cobra.Command { return stressCommand(g, &stressOptions{}) }

func stressCommand(g *globals, o *stressOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stress",
		Short: "Put a known load on this machine, and compare measurements",
		Long: `Load this machine with a known use: a row of steps, each an amount of CPU, memory,
storage and network for some time. Each step reports the requested and the achieved
amount, by the kernel's own figures. It warns when the machine could not give it.

The target is for the process as a whole, its own overhead included. CPU is burnt in
bursts of a few milliseconds that follow the CPU clocks of the threads. The share is
met over any time and hardly differs from one tenth of a second to the next.

Every program ends: after --for, at the end of the trace, or on the first signal,
with a report on the load so far. Nothing is left behind: the file of the disk
load has no name unless --keep gives it one.

Amounts: 20MB is 20,000,000 bytes, 20MiB and 20M are 20 x 1024 x 1024.`,
		Example: `  reckon stress --cpu 2x40% --for 20s
  reckon stress --cpu 2x40% --memory 512MiB --disk write=20MB/s --net 5MB/s --for 30s
  reckon stress --ramp 0..100 --steps 10 --for 5m           all CPUs, by tenths
  reckon stress --cpu 4 --memory 2GiB --random --seed 7 --steps 60 --for 10m
  reckon job slurm/4711 --trace csv > job.csv               record a real workload ...
  reckon stress --trace job.csv                             ... and play it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStress(cmd, g, *o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.cpu, "cpu", "", "CPU: 40% of a core, 2x40% (two threads), all, allx40%, or cores such as 1.5")
	f.StringVar(&o.memory, "memory", "", "resident memory: 512MiB")
	f.StringVar(&o.disk, "disk", "", "storage: write=20MB/s, read=5MB/s or both with a comma")
	f.StringVar(&o.net, "net", "", "bytes sent each second: 5MB/s; over loopback to itself unless --net-peer is given")
	f.StringVar(&o.gpu, "gpu", "", "busy share of a GPU: 30% (needs the build for NVIDIA machines)")
	f.IntVar(&o.device, "gpu-device", 0, "number of the GPU, from 0")
	f.StringVar(&o.length, "for", "", "how long: 30s, 0.5s, 2h (default 30s; of a trace: all of it)")
	f.StringVar(&o.ramp, "ramp", "", "from one share of the load to another in --steps steps: 0..100 (alone: of all CPUs)")
	f.IntVar(&o.steps, "steps", 10, "steps of --ramp and --random")
	f.BoolVar(&o.random, "random", false, "a random share of each resource in each of --steps steps (alone: of all CPUs)")
	f.Uint64Var(&o.seed, "seed", 0, "seed of --random; the same one gives the same program (default: another each time, printed)")
	f.StringVar(&o.trace, "trace", "", "play this file: CSV or JSON, as reckon job ID --trace writes it; - is standard input")
	f.BoolVar(&o.cpuOnly, "cpu-only", false, "play only the CPU part of the program")
	f.BoolVar(&o.pin, "pin", false, "keep each CPU thread on a CPU of its own")
	f.StringVar(&o.period, "period", "2ms", "length of the period of CPU bursts")
	f.StringVar(&o.dir, "dir", ".", "folder for the file of the disk load")
	f.StringVar(&o.diskSize, "disk-size", "256MiB", "size of that file; it is written and read around")
	o.diskMode = &choice{value: string(stress.DiskAuto),
		words: []string{string(stress.DiskAuto), string(stress.DiskDirect), string(stress.DiskSync), string(stress.DiskCached)}}
	f.Var(o.diskMode, "disk-mode",
		"direct (O_DIRECT), sync (fdatasync after each piece), cached, or auto: direct where the file system can, else sync")
	completeWords(cmd, "disk-mode", o.diskMode.words...)
	f.BoolVar(&o.keep, "keep", false, "leave the file of the disk load behind")
	f.StringVar(&o.peer, "net-peer", "", "send the network load to this HOST:PORT, where --net-sink takes it")
	f.StringVar(&o.sink, "net-sink", "", "take network loads on this ADDRESS:PORT and throw them away, until a signal or --for")
	o.format = g.shared.addFormatFlag(cmd, "table", "csv", "json")
	g.shared.addFlag(cmd, "output", &o.output)
	f.BoolVar(&o.strict, "strict", false, "exit with 1 when the target was not achieved")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no line on standard error for each step")
	cmd.MarkFlagsMutuallyExclusive("ramp", "random", "trace", "net-sink")
	return cmd
}

func runStress(cmd *cobra.Command, g *globals, o stressOptions) error {
	ctx := cmd.Context()
	length, err := parseSpan("for", o.length)
	if err != nil {
		return err
	}
	if o.sink != "" {
		return runSink(ctx, g, o.sink, length)
	}
	l, err := o.buildLoad(cmd, g, length)
	if err != nil {
		return asUsageError(cmd, err)
	}
	p, so := l.program, l.options
	output, err := createOutput("output", o.output)
	if err != nil {
		return err
	}
	s := g.screen()
	if !o.quiet && len(p.Steps) > 1 {
		so.Done = func(step stress.StepReport) {
			fmt.Fprintf(g.stderr, "step %d of %d: %s\n", step.Step, len(p.Steps), describeStep(step))
		}
	}
	report, err := stress.Run(ctx, p, so)
	if err != nil {
		if output != nil {
			err = errors.Join(err, output.Close())
		}
		return err
	}
	w := io.Writer(s)
	if output != nil {
		w = output
	}
	err = writeStress(g, w, report, o.format.value)
	if output != nil {
		err = errors.Join(err, output.Close())
	}
	for _, n := range report.Notes {
		fmt.Fprintln(g.stderr, "reckon: note: "+term.Safe(n))
	}
	for _, n := range report.Warnings {
		fmt.Fprintln(g.stderr, "reckon: warning: "+term.Safe(n))
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Canceled
	case o.strict && len(report.Warnings) > 0:
		return runExit(1)
	}
	return nil
}

// load is a program and its arguments.
type load struct {
	program stress.Program
	options stress.Options
}

// buildLoad builds the load that the flags describe.
func (o *stressOptions) buildLoad(cmd *cobra.Command, g *globals, length time.Duration) (l load, err error) {
	if l.program, err = o.buildProgram(cmd, g, length); err != nil {
		return l, err
	}
	l.options = stress.Options{Pin: o.pin, Dir: o.dir, Keep: o.keep, DiskMode: stress.DiskMode(o.diskMode.value), Peer: o.peer,
		GPU: o.device}
	if l.options.Period, err = parseSpan("period", o.period); err != nil {
		return l, err
	}
	size, err := stress.ParseBytes(o.diskSize)
	if err != nil {
		return l, fmt.Errorf("--disk-size: %w", err)
	}
	l.options.FileSize = int64(size)
	return l, nil
}

// defaultLength is the run time of a program that does not define one.
const defaultLength = 30 * time.Second

// buildProgram builds the program that the flags describe.
func (o *stressOptions) buildProgram(cmd *cobra.Command, g *globals, length time.Duration) (stress.Program, error) {
	level, workers, err := o.parseLevel()
	if err != nil {
		return stress.Program{}, err
	}
	base := level
	if (o.ramp != "" || o.random) && level == (stress.Level{}) {
		base[stress.CPU], workers = float64(runtime.NumCPU()), runtime.NumCPU()
	}
	var p stress.Program
	total := cmp.Or(length, defaultLength)
	switch {
	case o.trace != "":
		if level != (stress.Level{}) {
			return p, errors.New("--trace sets all loads: drop --cpu, --memory, --disk, --net and --gpu")
		}
		if p, err = readTrace(g, o.trace); err != nil {
			return p, err
		}
		if length > 0 {
			p = p.Cut(length)
		}
	case o.ramp != "":
		from, to, err := stress.ParseRange(o.ramp)
		if err != nil {
			return p, fmt.Errorf("--ramp: %w", err)
		}
		if p, err = stress.Ramp(base, from, to, o.steps, total); err != nil {
			return p, fmt.Errorf("--steps: %w", err)
		}
	case o.random:
		if !cmd.Flags().Changed("seed") {
			o.seed = rand.Uint64N(1_000_000)
			fmt.Fprintf(g.stderr, "reckon: seed %d\n", o.seed)
		}
		if p, err = stress.Random(base, o.steps, total, o.seed); err != nil {
			return p, fmt.Errorf("--steps: %w", err)
		}
	default:
		if level == (stress.Level{}) {
			return p, errors.New("no load given: use --cpu, --memory, --disk, --net, --gpu, --ramp, --random or --trace")
		}
		p = stress.Constant(base, total)
	}
	p.Workers = max(p.Workers, workers)
	if o.cpuOnly {
		for i := range p.Steps {
			p.Steps[i].Level = p.Steps[i].Level.Only(stress.CPU)
		}
	}
	if top := p.Peak()[stress.CPU]; float64(p.Workers) < top {
		p.Workers = 0 // a ramp beyond 100 %: as many threads as needed
	}
	return p, p.Check()
}

// parseLevel parses the flags that select a resource.
func (o *stressOptions) parseLevel() (l stress.Level, workers int, err error) {
	one := func(flag, text string, parse func(string) error) {
		if text == "" || err != nil {
			return
		}
		if e := parse(text); e != nil {
			err = fmt.Errorf("--%s: %w", flag, e)
		}
	}
	one("cpu", o.cpu, func(s string) (e error) { l[stress.CPU], workers, e = stress.ParseCPU(s, runtime.NumCPU()); return e })
	one("memory", o.memory, func(s string) (e error) { l[stress.Memory], e = stress.ParseBytes(s); return e })
	one("disk", o.disk, func(s string) (e error) { l[stress.DiskRead], l[stress.DiskWrite], e = stress.ParseDisk(s); return e })
	one("net", o.net, func(s string) (e error) { l[stress.Network], e = stress.ParseRate(s); return e })
	one("gpu", o.gpu, func(s string) (e error) { l[stress.GPU], e = stress.ParseShare(s); return e })
	return l, workers, err
}

func readTrace(g *globals, name string) (stress.Program, error) {
	in := g.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return stress.Program{}, fmt.Errorf("--trace: %w", err)
		}
		defer f.Close()
		in = f
	}
	p, ignored, err := stress.ReadTrace(in)
	if err != nil {
		return p, fmt.Errorf("--trace %s: %w", name, err)
	}
	if len(ignored) > 0 {
		fmt.Fprintf(g.stderr, "reckon: note: columns of %s that are no resource: %s\n", term.Safe(name),
			term.Safe(strings.Join(ignored, ", ")))
	}
	return p, nil
}

func runSink(ctx context.Context, g *globals, address string, length time.Duration) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return &usageError{fmt.Errorf("--net-sink: %w", err)}
	}
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	fmt.Fprintf(g.stderr, "reckon: takes network loads on %s\n", l.Addr())
	n, err := stress.Sink(ctx, l)
	fmt.Fprintf(g.stdout, "%d bytes came\n", n)
	return err
}
