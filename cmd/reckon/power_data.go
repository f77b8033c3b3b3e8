package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"reckon/account/attribution/feature"
	"reckon/analysis/powerfit"
	"reckon/answer/dataset"
	"reckon/internal/term"
	"reckon/web/client"
)

// powerInput is the source of power samples and their features: a data set, or the store of a server.
type powerInput struct {
	power    string   // column of watts, or a PromQL expression
	workload string   // column that names the workload
	features []string // columns, or NAME=PROMQL
	node     string
	domain   string // of the power, from the store
	from, to string
	step     string
	seed     uint64 // of random choices, for those that make them
	flags    *pflag.FlagSet
}

// newPowerInput registers the flags, which several commands add.
func newPowerInput() *powerInput {
	in := &powerInput{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
	f := in.flags
	f.SortFlags = false
	f.StringVar(&in.power, "power", "",
		"column that holds watts (default: watts, power_watts, power, or the one in watts); from the store: a PromQL expression")
	f.StringVar(&in.workload, "workload", "", "column with the name of the workload in each row (default: workload)")
	f.StringArrayVar(&in.features, "feature", nil,
		"column to use as a feature, repeatable (default: all that hold numbers); from the store: NAME=PROMQL")
	f.StringVar(&in.node, "node", "", "from the store: the node (default: the only one that has a meter)")
	f.StringVar(&in.from, "from", "2h", "from the store: start")
	f.StringVar(&in.to, "to", "now", "from the store: end")
	f.StringVar(&in.step, "step", "15s", "from the store: time between rows, 1s or more")
	f.Uint64Var(&in.seed, "seed", 1, "of random choices: the same data and seed give the same model")
	return in
}

// readData returns the data set in a file (- for standard input) or, without a name, the data of the
// node on the server.
func (in *powerInput) readData(ctx context.Context, g *globals, name string) (powerfit.Data, string, error) {
	if name == "" {
		return in.dataFromStore(ctx, g)
	}
	frame, err := readFrame(g, name)
	if err != nil {
		return powerfit.Data{}, "", err
	}
	if err := defineFrame(frame, name+".json"); err != nil {
		return powerfit.Data{}, "", err
	}
	d, err := in.dataFromFrame(frame)
	if err != nil {
		return d, "", fmt.Errorf("%s: %w", name, err)
	}
	return d, filepath.Base(name), nil
}

// readFrame reads a data set from a file: CSV, which may be gzipped, or Parquet. It detects the format by the first
// bytes. It writes anomalies of the data to standard error.
func readFrame(g *globals, name string) (*dataset.Frame, error) {
	text, err := readInput(g, name)
	if err != nil {
		return nil, err
	}
	if text, err = gunzip(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var frame *dataset.Frame
	var warnings []string
	if bytes.HasPrefix(text, []byte("PAR1")) {
		frame, err = dataset.ReadParquet(bytes.NewReader(text), int64(len(text)))
	} else {
		frame, warnings, err = dataset.ReadCSV(bytes.NewReader(text))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, w := range append(warnings, frame.Tidy()...) {
		fmt.Fprintln(g.stderr, "reckon: note: "+term.Safe(w))
	}
	return frame, nil
}

// defineFrame applies the data dictionary beside a data set, if there is one, to its columns.
func defineFrame(frame *dataset.Frame, path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data dictionary: %w", err)
	}
	d, err := dataset.ReadDictionary(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w; move it away if it is not of this data set", path, err)
	}
	d.Define(frame)
	return nil
}

// maxDataBytes limits the size of a data set in memory, bytes.
const maxDataBytes = 4 << 30

// gunzip unpacks a file that starts with the magic number of gzip (RFC 1952).
func gunzip(text []byte) ([]byte, error) {
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxDataBytes+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(out) > maxDataBytes {
		return nil, fmt.Errorf("unpack: it holds more than %d GiB", maxDataBytes>>30)
	}
	return out, nil
}

func (in *powerInput) dataFromFrame(f *dataset.Frame) (powerfit.Data, error) {
	watts, err := powerColumn(f, in.power)
	if err != nil {
		return powerfit.Data{}, err
	}
	d := powerfit.Data{Watts: watts.Values, Time: make([]float64, f.Rows())}
	for i, t := range f.Time {
		d.Time[i] = float64(t) / 1000
	}
	label := f.Label(cmp.Or(in.workload, "workload"))
	if label == nil && in.workload != "" {
		return d, fmt.Errorf("--workload: there is no column of words called %q", in.workload)
	}
	if label != nil {
		d.Workload = label.Values
	}
	for _, name := range in.features {
		if f.Column(name) == nil {
			return d, fmt.Errorf("--feature: there is no column of numbers called %q; there are %s", name,
				strings.Join(listNumeric(f), ", "))
		}
	}
	for _, c := range f.Columns {
		if c.Name == watts.Name || (len(in.features) > 0 && !slices.Contains(in.features, c.Name)) {
			continue
		}
		d.Features = append(d.Features, powerfit.Column{Name: c.Name, Unit: c.Unit, Source: liveSource(&c), Values: c.Values})
	}
	if len(d.Features) == 0 {
		return d, fmt.Errorf("no numeric column other than %s to model the power with", watts.Name)
	}
	return d, nil
}

// liveSource returns the source from which an agent computes a column.
func liveSource(c *dataset.Column) string {
	if c.Rate && c.Source != "" {
		return dataset.LiveSource(c.Name, "sum(rate("+c.Source+"[1m]))")
	}
	return dataset.LiveSource(c.Name, c.Source)
}

func listNumeric(f *dataset.Frame) (names []string) {
	for _, c := range f.Columns {
		names = append(names, c.Name)
	}
	return names
}

// powerColumn returns the column with the measured watts.
func powerColumn(f *dataset.Frame, name string) (*dataset.Column, error) {
	if name != "" {
		if c := f.Column(name); c != nil {
			return c, nil
		}
		return nil, fmt.Errorf("--power: there is no column of numbers called %q; there are %s", name, strings.Join(listNumeric(f), ", "))
	}
	for _, n := range []string{"watts", "power_watts", "power"} {
		if c := f.Column(n); c != nil {
			return c, nil
		}
	}
	var found []string
	for _, c := range f.Columns {
		if c.Unit == "watts" || c.Unit == "W" || strings.HasSuffix(c.Name, "_watts") {
			found = append(found, c.Name)
		}
	}
	switch len(found) {
	case 1:
		return f.Column(found[0]), nil
	case 0:
		return nil, fmt.Errorf("which column holds the measured power? Name it with --power: %s", strings.Join(listNumeric(f), ", "))
	}
	return nil, fmt.Errorf("several columns hold watts; name one with --power: %s", strings.Join(found, ", "))
}

var errNoMeter = errors.New("no node has measured power in that time: `reckon nodes` shows the sensor states")

func checkDomain(domain string) error {
	if domain != "" && !slices.Contains(dataset.PowerDomains(), domain) {
		return &usageError{fmt.Errorf("unknown --domain %q; use one of %s", domain, strings.Join(dataset.PowerDomains(), ", "))}
	}
	return nil
}

// noMeterError returns a message about a domain without power in the store, and about the alternatives.
func noMeterError(domain, instead string) error {
	if domain != "" && domain != "node" {
		return fmt.Errorf("no node has measured power of the domain %s in that time; %s", domain, instead)
	}
	return fmt.Errorf("%w; %s", errNoMeter, instead)
}

const orSeries = "name a series with --power, or give a data set with a column of watts"

// parseTimes parses the flags --from, --to and --step.
func (in *powerInput) parseTimes(now time.Time) (from, to time.Time, step time.Duration, err error) {
	if from, err = parseTime("from", in.from, now); err != nil {
		return from, to, step, err
	}
	if to, err = parseTime("to", in.to, now); err != nil {
		return from, to, step, err
	}
	if step, err = parseSpan("step", in.step); err != nil {
		return from, to, step, err
	}
	if step < time.Second || !from.Before(to) || to.Sub(from)/step > 11_000 {
		err = &usageError{errors.New("--from, --to and --step: give a beginning before the end and 1 to 11000 steps of 1s or more")}
	}
	return from, to, step, err
}

func (in *powerInput) dataFromStore(ctx context.Context, g *globals) (d powerfit.Data, source string, err error) {
	from, to, step, err := in.parseTimes(g.now())
	if err != nil {
		return d, "", err
	}
	features, err := in.storeFeatures()
	if err != nil {
		return d, "", err
	}
	c, err := g.newClient()
	if err != nil {
		return d, "", err
	}
	node := in.node
	if node == "" && in.power == "" {
		if node, err = meteredNode(ctx, g, c, in.domain, from, to); err != nil {
			return d, "", suggestInstead(err, in.domain, orSeries)
		}
	}
	window := max(4*step, time.Minute)
	ask := func(expr string) (map[int64]float64, error) {
		return querySeries(ctx, c, dataset.OnNode(expr, node, window), from, to, step)
	}
	ways := dataset.PowerMeters(in.domain)
	if in.power != "" {
		ways = []string{in.power}
	}
	var watts map[int64]float64
	for _, w := range append(slices.Clip(ways), ways...) {
		if watts, err = ask(w); err != nil {
			return d, "", fmt.Errorf("power: %w", err)
		}
		if len(watts) > 0 {
			break
		}
		if w == ways[len(ways)-1] {
			window = max(window, 5*time.Minute) // for a node that exports once a minute
		}
	}
	if len(watts) == 0 {
		return d, "", noMeterError(in.domain, orSeries)
	}
	times := slices.Sorted(maps.Keys(watts))
	for _, t := range times {
		d.Time, d.Watts = append(d.Time, float64(t)/1000), append(d.Watts, watts[t])
	}
	for _, f := range features {
		values, err := ask(f.Expr)
		if err != nil {
			return d, "", fmt.Errorf("feature %s: %w", f.Name, err)
		}
		if len(values) == 0 {
			continue // not measured on this node
		}
		col := powerfit.Column{Name: f.Name, Unit: f.Unit, Source: dataset.LiveSource(f.Name, f.Expr), Values: make([]float64, len(times))}
		for i, t := range times {
			col.Values[i] = math.NaN()
			if v, ok := values[t]; ok {
				col.Values[i] = v
			}
		}
		d.Features = append(d.Features, col)
	}
	if len(d.Features) == 0 {
		return d, "", fmt.Errorf("there is power of node %s in that time, but nothing to explain it with", node)
	}
	return d, fmt.Sprintf("%s, %s to %s", cmp.Or(node, c.Server()), from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)), nil
}

func (in *powerInput) storeFeatures() ([]dataset.PowerFeature, error) {
	if len(in.features) == 0 {
		return dataset.PowerFeatures(), nil
	}
	var out []dataset.PowerFeature
	for _, f := range in.features {
		if known, ok := dataset.FindPowerFeature(f); ok {
			out = append(out, known)
			continue
		}
		name, expr, ok := strings.Cut(f, "=")
		if !ok || name == "" || expr == "" || strings.ContainsAny(name, "{( ") {
			return nil, &usageError{fmt.Errorf("--feature %q: give NAME=PROMQL, or one of %s", f, strings.Join(feature.Names(), ", "))}
		}
		out = append(out, dataset.PowerFeature{Name: name, Expr: expr})
	}
	return out, nil
}

// suggestInstead adds alternatives to the error for an unmetered domain.
func suggestInstead(err error, domain, instead string) error {
	if errors.Is(err, errNoMeter) {
		return noMeterError(domain, instead)
	}
	return err
}

// meteredNode returns the only node with a meter of the domain. It prints a note if the meter covers only GPUs.
func meteredNode(ctx context.Context, g *globals, c *client.Client, domain string, from, to time.Time) (string, error) {
	of := ""
	if domain != "" && domain != "node" {
		of = fmt.Sprintf(",domain=%q", domain)
	}
	r, err := c.Query(
		ctx, fmt.Sprintf(`group by (node, domain) (last_over_time(reckon_node_energy_joules_total{method="measured"%s}[%ds]))`,
			of, int(to.Sub(from).Seconds())), to)
	if err != nil {
		return "", err
	}
	var nodes []string
	only := true
	for _, s := range r.Series {
		nodes = append(nodes, s.Metric["node"])
		only = only && s.Metric["domain"] == "gpu"
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	switch len(nodes) {
	case 0:
		return "", errNoMeter
	case 1:
		if only && of == "" {
			printNotes(g, []string{"the only meters of " + nodes[0] + " are those of its GPUs: the power is theirs, as with --domain gpu"})
		}
		return nodes[0], nil
	}
	return "", &usageError{fmt.Errorf("several nodes have a meter; name one with --node: %s", strings.Join(nodes, ", "))}
}

// querySeries evaluates an expression that yields one series, by time in milliseconds.
func querySeries(ctx context.Context, c *client.Client, expr string, from, to time.Time, step time.Duration) (map[int64]float64, error) {
	r, err := c.QueryRange(ctx, expr, from, to, step)
	if err != nil {
		return nil, err
	}
	if len(r.Series) > 1 {
		return nil, fmt.Errorf("%s gives %d series; aggregate them to one, for example with sum()", expr, len(r.Series))
	}
	out := map[int64]float64{}
	for _, s := range r.Series {
		for _, p := range s.Samples {
			if v, err := p.Float(); err == nil && p.Histogram == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
				out[p.Time.UnixMilli()] = v
			}
		}
	}
	return out, nil
}
