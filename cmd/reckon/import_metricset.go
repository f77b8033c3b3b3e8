package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/interop/metricsetlog"
	"reckon/web/client"
)

type metricSetImport struct {
	namespace, set, site, time string
	format                     *choice
}

// maxLogBytes limits the size of one imported log, in bytes.
const maxLogBytes = 1 << 30

func newImportMetricSet(g *globals) *cobra.Command {
	var o metricSetImport
	cmd := &cobra.Command{
		Use:   "metricset-log FILE...",
		Short: "Import logs of the metrics-operator as runs",
		Long: `metricset-log takes the logs of pods of the metrics-operator (` + "`kubectl logs`" + `), one file
each, and keeps each as a run: ` + "`reckon runs`" + ` lists, shows and compares them. "-" is
standard input. It reads the output of fio, iostat, pidstat, the OSU micro-benchmarks,
netmark, LAMMPS, AMG and mpitrace, in SI units. Of other programs it keeps the text.

A log needs a time: from kubectl logs --timestamps, from fio's last line, from --time,
or from the file itself. The same file again adds nothing.`,
		Example: `  kubectl logs --timestamps demo-m-0-0-xyz | reckon import metricset-log -n bench --set demo -
  reckon import metricset-log -n bench old/*.log`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return importMetricSets(cmd, g, o, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace that the runs belong to")
	f.StringVar(&o.set, "set", "", "name of the MetricSet (default: from the file)")
	f.StringVar(&o.site, "site", "", "site of the runs")
	f.StringVar(&o.time, "time", "", "when it was measured, for logs without a time (default: the modification time of the file)")
	o.format = g.shared.addFormatFlag(cmd, "text", "json")
	return cmd
}

func importMetricSets(cmd *cobra.Command, g *globals, o metricSetImport, files []string) error {
	when, err := parseTime("time", o.time, g.now())
	if err != nil {
		return err
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	bad := 0
	var runs []client.MetricRun
	for _, name := range files {
		run, err := o.readRun(g, name, when)
		if err != nil {
			fmt.Fprintln(g.stderr, toOneLine(fmt.Errorf("%s: %w", name, err)))
			bad++
			continue
		}
		if _, err := c.KeepMetricRun(cmd.Context(), run.Namespace, run.Name, client.MetricRunUpdate{Run: *run}); err != nil {
			return err
		}
		runs = append(runs, *run)
		if o.format.value == "text" {
			p := &run.Pods[0]
			fmt.Fprintf(g.stdout, "%s: %s, %d figures, run %s\n", term.Safe(name), term.Safe(run.Metrics[0].Name), len(p.Reported),
				term.Safe(run.Namespace+"/"+run.Name))
			if p.Incomplete != "" {
				fmt.Fprintf(g.stdout, "  %s\n", term.Safe(p.Incomplete))
			}
		}
	}
	if o.format.value == "json" {
		if err := printJSON(g, runs); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d files were not imported", bad, len(files))
	}
	return nil
}

// readRun builds a run from a file.
func (o *metricSetImport) readRun(g *globals, name string, when time.Time) (*client.MetricRun, error) {
	in, base := io.NopCloser(g.stdin), "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in, base = f, strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		if st, err := f.Stat(); err == nil && when.IsZero() {
			when = st.ModTime()
		}
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxLogBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxLogBytes {
		return nil, fmt.Errorf("it is longer than %d MiB", maxLogBytes>>20)
	}
	l, err := metricsetlog.Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	id := hex.EncodeToString(sum[:4])
	start, end := l.Start, l.End
	if start.IsZero() {
		start = when
	}
	if start.IsZero() {
		start = g.now()
	}
	set := cmp.Or(o.set, base)
	options := l.Options
	if l.Command != "" {
		options["command"] = l.Command
	}
	job := l.Metric + "-0"
	pod := client.MetricRunPod{Name: base, UID: "log-" + hex.EncodeToString(sum[:16]), Job: job, Text: l.Text,
		Incomplete: strings.Join(l.Notes, "; ")}
	var finished *time.Time
	if l.End.After(l.Start) { // the duration is known
		pod.Started, pod.Finished, finished = &start, &end, &end
	}
	for _, f := range l.Figures {
		pod.Reported = append(pod.Reported, client.MetricRunReport{Name: f.Name, Unit: f.Unit, Values: f.Values, Times: f.Times})
	}
	return &client.MetricRun{
		Namespace: o.namespace, Name: set + "-" + id, Site: o.site, Set: set, Origin: "metricset-log", Outcome: "Finished",
		Started: start.UTC(), Finished: finished,
		Metrics: []client.MetricRunMetric{{Name: l.Metric, Job: job, Options: options}}, Pods: []client.MetricRunPod{pod},
	}, nil
}
