// Command reckon-operator runs MetricSets. It creates their JobSets, reads the measurements, stores
// the runs, and serves the API server's admission requests for MetricSets and annotated pods.
// `reckon-operator check FILE` validates the MetricSets of a file without a cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "reckon-operator: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) > 0 && args[0] == "check" {
		return checkFiles(args[1:], out)
	}
	var o options
	f := newFlags(&o, errs)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; there are flags, and the command check", f.Arg(0))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(20) // Informer caches make up most of the heap, so little garbage is allowed.
	}
	log := slog.New(slog.NewTextHandler(errs, nil))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	return runManager(ctx, o, log)
}

func newFlags(o *options, errs io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("reckon-operator", flag.ContinueOnError)
	f.SetOutput(errs)
	o.register(f)
	return f
}

// checkFiles prints the result of admitting the MetricSets in files, and returns an error if one is refused.
func checkFiles(files []string, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("check needs a file with MetricSets")
	}
	refused := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		sets, err := metricset.Decode(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, ms := range sets {
			if !checkOne(out, name, ms) {
				refused++
			}
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d MetricSets are refused", refused)
	}
	return nil
}

func checkOne(out io.Writer, file string, ms *v1alpha2.MetricSet) bool {
	set, problems := metricset.Read(ms)
	for _, p := range problems {
		fmt.Fprintf(out, "# %s: %s: refused: %v\n", file, ms.Name, p)
	}
	if len(problems) > 0 {
		return false
	}
	for _, n := range append(set.Notes, set.Warnings...) {
		fmt.Fprintf(out, "# %s: %s: %s\n", file, ms.Name, n)
	}
	o, err := jobs.Build(set, jobs.Config{ProbeImage: defaultProbe, ProbePort: probePort, TTL: defaultTTL})
	if err != nil {
		fmt.Fprintf(out, "# %s: %s: refused: %v\n", file, ms.Name, err)
		return false
	}
	for _, object := range []any{o.Service, o.ConfigMap, o.JobSet} {
		text, err := yaml.Marshal(object)
		if err == nil && string(text) != "null\n" {
			fmt.Fprintf(out, "---\n%s", text)
		}
	}
	return true
}
