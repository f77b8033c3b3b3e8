package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"reckon/answer/dataset"
	"reckon/internal/term"
	"reckon/web/client"
)

func newRunsShow(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run: what each pod used, when and where, with plots",
		Long: `show prints one run: pods with their nodes, times and exit codes, their use in all, cores
and memory over time, and the reports of the programs themselves.

--format csv and parquet give the samples: a row for each, with the pod, the end of the
interval and its length. Figures that add up are differences of counters.`,
		Args: cobra.ExactArgs(1),
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			namespace, name, err := findRun(ctx, c, args[0])
			if err != nil {
				return err
			}
			run, err := c.MetricRun(ctx, namespace, name)
			if err != nil {
				return err
			}
			samples, err := c.MetricRunSamples(ctx, namespace, name)
			if err != nil {
				return err
			}
			switch format.value {
			case "json":
				return printJSON(g, struct {
					client.MetricRun
					Series []client.MetricRunSeries `json:"series"`
				}{run, samples.Pods})
			case "csv":
				return sampleFrame(&samples).WriteCSV(g.stdout)
			case "parquet":
				return sampleFrame(&samples).WriteParquet(g.stdout)
			}
			return printRun(g, &run, &samples)
		}),
	}
	format = g.shared.addFormatFlag(cmd, "text", "json", "csv", "parquet")
	return cmd
}

// sampleColumns are the figures of a sample by the names of their fields.
var sampleColumns = []struct {
	name, unit, help string
	of               func(*client.ProbeUse) *float64
}{
	{"cpu_seconds", "s", "processor time in the interval", func(u *client.ProbeUse) *float64 { return u.CPUSeconds }},
	{"user_seconds", "s", "of it in user mode", func(u *client.ProbeUse) *float64 { return u.UserSeconds }},
	{"system_seconds", "s", "of it in the kernel", func(u *client.ProbeUse) *float64 { return u.SystemSeconds }},
	{"wait_seconds", "s", "time in which it could have run", func(u *client.ProbeUse) *float64 { return u.WaitSeconds }},
	{"io_wait_seconds", "s", "time in which it waited for storage", func(u *client.ProbeUse) *float64 { return u.IOWaitSeconds }},
	{"read_bytes", "By", "read from storage in the interval", func(u *client.ProbeUse) *float64 { return u.ReadBytes }},
	{"write_bytes", "By", "written to storage in the interval", func(u *client.ProbeUse) *float64 { return u.WriteBytes }},
	{"minor_faults", "1", "page faults without storage in the interval", func(u *client.ProbeUse) *float64 { return u.MinorFaults }},
	{"major_faults", "1", "page faults with storage in the interval", func(u *client.ProbeUse) *float64 { return u.MajorFaults }},
	{"voluntary_switches", "1", "switches in the interval", func(u *client.ProbeUse) *float64 { return u.Voluntary }},
	{"involuntary_switches", "1", "switches in the interval", func(u *client.ProbeUse) *float64 { return u.Involuntary }},
	{"resident_bytes", "By", "resident memory at the end", func(u *client.ProbeUse) *float64 { return u.ResidentBytes }},
	{"threads", "1", "threads at the end", func(u *client.ProbeUse) *float64 { return u.Threads }},
}

// sampleFrame returns the samples of a run as a table.
func sampleFrame(s *client.MetricRunSamples) *dataset.Frame {
	f := &dataset.Frame{Labels: []dataset.LabelColumn{{Name: "pod"}, {Name: "job"}},
		Columns: []dataset.Column{{Name: "interval_seconds", Unit: "s", Help: "from the first reading to the second"}}}
	for _, c := range sampleColumns {
		f.Columns = append(f.Columns, dataset.Column{Name: c.name, Unit: c.unit, Help: c.help})
	}
	for _, p := range s.Pods {
		for i := range p.Samples {
			x := &p.Samples[i]
			f.Time = append(f.Time, x.To.UnixMilli())
			f.Labels[0].Values, f.Labels[1].Values = append(f.Labels[0].Values, p.Pod), append(f.Labels[1].Values, p.Job)
			f.Columns[0].Values = append(f.Columns[0].Values, x.To.Sub(x.From).Seconds())
			for k, c := range sampleColumns {
				v := math.NaN()
				if have := c.of(&x.Total); have != nil {
					v = *have
				}
				f.Columns[k+1].Values = append(f.Columns[k+1].Values, v)
			}
		}
	}
	return f
}

func printRun(g *globals, r *client.MetricRun, samples *client.MetricRunSamples) error {
	w, now := g.stdout, g.now()
	fmt.Fprintf(w, "%s\n", term.Safe(r.Namespace+"/"+r.Name))
	fmt.Fprintf(w, "MetricSet  %s\nOutcome    %s\nStarted    %s\nTook       %s\n", term.Safe(r.Set), term.Safe(r.Outcome),
		term.Clock(r.Started, now), formatRunTime(r))
	for _, m := range r.Metrics {
		line := m.Job + ": " + m.Name
		if m.Attach != "" {
			line += ", attach " + m.Attach
		}
		for _, name := range slices.Sorted(maps.Keys(m.Options)) {
			line += ", " + name + " " + m.Options[name]
		}
		fmt.Fprintf(w, "Metric     %s\n", term.Safe(line))
	}
	fmt.Fprintln(w)
	t := term.TableOf("POD:s12|NODE:s8|EXIT:r|TOOK:r|SAMPLES:r|CPU TIME:r|READ:ro1|WRITTEN:ro1")
	for _, p := range r.Pods {
		exit, length := term.Unknown, term.Unknown
		if p.ExitCode != nil {
			exit = strconv.Itoa(int(*p.ExitCode))
		}
		if p.Started != nil && p.Finished != nil {
			d := p.Finished.Sub(*p.Started).Seconds()
			length = term.Seconds(&d)
		}
		t.Add(p.Name, p.Node, exit, length, strconv.FormatInt(p.Samples, 10), term.Seconds(p.Total.CPUSeconds),
			term.Bytes(p.Total.ReadBytes), term.Bytes(p.Total.WriteBytes))
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	for i := range r.Pods {
		if err := printRunPod(g, &r.Pods[i], samples); err != nil {
			return err
		}
	}
	return nil
}

func printRunPod(g *globals, pod *client.MetricRunPod, samples *client.MetricRunSamples) error {
	w := g.stdout
	for _, series := range samples.Pods {
		if series.UID != pod.UID || len(series.Samples) < 2 {
			continue
		}
		for _, c := range []struct {
			title  string
			rate   bool
			of     func(*client.ProbeUse) *float64
			format func(*float64) string
		}{
			{"cores", true, func(u *client.ProbeUse) *float64 { return u.CPUSeconds }, term.Cores},
			{"resident memory", false, func(u *client.ProbeUse) *float64 { return u.ResidentBytes }, term.Bytes},
		} {
			chart := term.Chart{Title: pod.Name + ": " + c.title, Format: c.format, Width: min(cmp.Or(g.screen().Width, 80), 80), Height: 6}
			measured := false
			for i := range series.Samples {
				x := &series.Samples[i]
				v := c.of(&x.Total)
				if v != nil && c.rate {
					each := *v / x.To.Sub(x.From).Seconds()
					v = &each
				}
				measured = measured || v != nil
				chart.Points = append(chart.Points, term.Point{Time: x.To, Value: v})
			}
			if measured {
				fmt.Fprint(w, "\n", g.screen().Draw(chart))
			}
		}
	}
	printReports(g, pod)
	for what, names := range map[string]string{"incomplete": pod.Incomplete, "output": pod.Text} {
		if names != "" {
			fmt.Fprintf(w, "\n%s, %s:\n%s\n", term.Safe(pod.Name), what, safeLines(names))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pod.Absent)) {
		fmt.Fprintf(w, "\n%s: %s could not be read: %s\n", term.Safe(pod.Name), term.Safe(name), term.Safe(pod.Absent[name]))
	}
	return nil
}

// safeLines applies term.Safe to each line.
func safeLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = "  " + term.Safe(lines[i])
	}
	return strings.Join(lines, "\n")
}

// printReports prints the figures reported by the programs themselves.
func printReports(g *globals, p *client.MetricRunPod) {
	t := term.TableOf("REPORTED:s20|VALUES:r|MEAN:r|LEAST:r|MOST:r")
	for _, f := range p.Reported {
		if len(f.Values) == 0 {
			continue
		}
		sum := 0.0
		for _, v := range f.Values {
			sum += v
		}
		t.Add(f.Name, strconv.Itoa(len(f.Values)), formatUnit(sum/float64(len(f.Values)), f.Unit), formatUnit(slices.Min(f.Values), f.Unit),
			formatUnit(slices.Max(f.Values), f.Unit))
	}
	if r := p.Result; r != nil {
		for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
			v := strconv.FormatFloat(r.Figures[name], 'g', 6, 64)
			t.Add(name, "1", v, v, v)
		}
		for _, pair := range r.Pairs {
			name := pair.From + " to " + pair.To
			if pair.Error != "" {
				t.Add(name+": "+pair.Error, "0", term.Unknown, term.Unknown, term.Unknown)
				continue
			}
			t.Add(name+": round trip", strconv.Itoa(pair.Trials), formatUnit(pair.MedianSeconds, "seconds")+" median",
				formatUnit(pair.MinSeconds, "seconds"), formatUnit(pair.MaxSeconds, "seconds"))
			v := formatUnit(pair.BytesPerSecond, "bytes/s")
			t.Add(name+": throughput", "1", v, v, v)
		}
	}
	if t.Len() > 0 {
		fmt.Fprintln(g.stdout)
		_ = t.Print(g.screen())
	}
}
