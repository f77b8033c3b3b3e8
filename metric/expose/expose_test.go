package expose

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"reckon/metric"
)

var (
	cpuDesc = &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time of the workload,\nwith a \\ and \"quotes\".",
		Kind: metric.Counter, Unit: metric.Seconds, Labels: []string{"workload", "mode"}}
	memDesc = &metric.Desc{Name: "reckon_workload_memory_bytes", Help: "Resident memory.",
		Kind: metric.Gauge, Unit: metric.Bytes, Labels: []string{"workload", "type"}}
	coresDesc = &metric.Desc{Name: "reckon_workload_cores", Help: "Cores in use.",
		Kind: metric.NativeHistogram, Unit: metric.Cores, Labels: []string{"workload"}}
	energyDesc = &metric.Desc{Name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Help: "A counter of the world without _total.",
		Kind: metric.Counter, Labels: []string{"gpu"}}
)

const hostile = "a\"b\\c\nd\x00e\xfff\u00e9\u202e{},#"
const hostileShown = "a\"b\\c\nd\ufffde\ufffdf\u00e9\u202e{},#"

func sampleBatch() *metric.Batch {
	h := &metric.Histogram{}
	for _, v := range []float64{0, 0.5, 0.7, 1, 1, 2, 3.9, 64, -1} {
		h.Observe(v)
	}
	cpu := metric.NewSeries(cpuDesc, "slurm/1", "user")
	cpu.Created = 1_700_000_000_123
	cores := metric.NewSeries(coresDesc, "slurm/1")
	cores.Created = 1_700_000_000_456
	b := &metric.Batch{Time: time.Unix(1_700_000_100, 0)}
	b.Add(cpu, 12.25)
	b.Add(metric.NewSeries(memDesc, "slurm/1", "anon"), 1<<40)
	b.AddHistogram(cores, h)
	b.Add(metric.NewSeries(cpuDesc, hostile, "system"), math.Inf(1))
	b.Add(metric.NewSeries(memDesc, "slurm/2", ""), math.NaN())
	b.AddHistogram(metric.NewSeries(coresDesc, "slurm/2"), &metric.Histogram{})
	b.Add(metric.NewSeries(energyDesc, "0"), 1.5e300)
	return b
}

// parsed is a page read back: series text to value, and the other output of the parser.
type parsed struct {
	values  map[string]float64
	hists   map[string]*histogram.Histogram
	created map[string]int64
	types   map[string]model.MetricType
	units   map[string]string
	help    map[string]string
}

func parse(page []byte, f Format) (parsed, error) {
	out := parsed{map[string]float64{}, map[string]*histogram.Histogram{}, map[string]int64{}, map[string]model.MetricType{}, map[string]string{}, map[string]string{}}
	p, err := textparse.New(page, f.ContentType(), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return out, err
	}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		var l labels.Labels
		switch entry {
		case textparse.EntrySeries:
			_, _, v := p.Series()
			p.Labels(&l)
			out.values[l.String()] = v
			if f == Protobuf {
				out.created[l.String()] = p.StartTimestamp()
			}
		case textparse.EntryHistogram:
			_, _, h, _ := p.Histogram()
			if err := h.Validate(); err != nil {
				return out, fmt.Errorf("histogram: %w", err)
			}
			p.Labels(&l)
			out.hists[l.String()] = h.Copy()
			out.created[l.String()] = p.StartTimestamp()
		case textparse.EntryType:
			n, t := p.Type()
			out.types[string(n)] = t
		case textparse.EntryUnit:
			n, u := p.Unit()
			out.units[string(n)] = string(u)
		case textparse.EntryHelp:
			n, h := p.Help()
			out.help[string(n)] = string(h)
		}
	}
}

func series(name string, pairs ...string) string {
	return labels.FromStrings(append([]string{"__name__", name}, pairs...)...).String()
}

func TestEveryFormatReadsBack(t *testing.T) {
	b := sampleBatch()
	for _, f := range []Format{Text, OpenMetrics, Protobuf} {
		e := NewEncoder(Options{Labels: map[string]string{"node": "n1", "site": "s\"1", "mode": "ignored"}})
		got, err := parse(e.Append(nil, f, b), f)
		if err != nil {
			t.Fatalf("format %d: %v\n%s", f, err, e.Append(nil, f, b))
		}
		for key, want := range map[string]float64{
			series("reckon_workload_cpu_seconds_total", "workload", "slurm/1", "mode", "user", "node", "n1", "site", "s\"1"):               12.25,
			series("reckon_workload_cpu_seconds_total", "workload", hostileShown, "mode", "system", "node", "n1", "site", "s\"1"):          math.Inf(1),
			series("reckon_workload_memory_bytes", "workload", "slurm/1", "type", "anon", "node", "n1", "site", "s\"1", "mode", "ignored"): 1 << 40,
			series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gpu", "0", "node", "n1", "site", "s\"1", "mode", "ignored"):                    1.5e300,
		} {
			if v, ok := got.values[key]; !ok || v != want {
				t.Errorf("format %d: %s = %v, %v; want %v\nhave %v", f, key, v, ok, want, got.values)
			}
		}
		nan := series("reckon_workload_memory_bytes", "workload", "slurm/2", "node", "n1", "site", "s\"1", "mode", "ignored")
		if v, ok := got.values[nan]; !ok || !math.IsNaN(v) {
			t.Errorf("format %d: %s = %v, %v; want NaN", f, nan, v, ok)
		}
	}
}

func TestNativeHistogramInProtobuf(t *testing.T) {
	b := sampleBatch()
	got, err := parse(NewEncoder(Options{}).Append(nil, Protobuf, b), Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	key := series("reckon_workload_cores", "workload", "slurm/1")
	h := got.hists[key]
	if h == nil {
		t.Fatalf("no native histogram for %s in %v", key, got.hists)
	}
	src := b.Samples[2].Histogram
	if h.Schema != metric.HistogramSchema || h.Count != src.Count || h.ZeroCount != src.ZeroCount || h.Sum != src.Sum || h.ZeroThreshold != src.ZeroThreshold() {
		t.Errorf("got %+v, want the figures of %+v", h, src)
	}
	seen := map[int32]uint64{}
	for it := h.PositiveBucketIterator(); it.Next(); {
		if bu := it.At(); bu.Count > 0 {
			seen[bu.Index] = bu.Count
		}
	}
	for k, n := range src.Buckets {
		if i := src.Offset + int32(k); seen[i] != n {
			t.Errorf("bucket %d: %d, want %d", i, seen[i], n)
		}
	}
	if got.created[key] != 1_700_000_000_456 {
		t.Errorf("created %d", got.created[key])
	}
	if c := got.created[series("reckon_workload_cpu_seconds_total", "workload", "slurm/1", "mode", "user")]; c != 1_700_000_000_123 {
		t.Errorf("created of the counter %d", c)
	}
	if e := got.hists[series("reckon_workload_cores", "workload", "slurm/2")]; e == nil || e.Count != 0 {
		t.Errorf("empty histogram came back as %+v", e)
	}
}

func TestHistogramAsClassicBuckets(t *testing.T) {
	for _, f := range []Format{Text, OpenMetrics} {
		got, err := parse(NewEncoder(Options{}).Append(nil, f, sampleBatch()), f)
		if err != nil {
			t.Fatal(err)
		}
		// 0, -1 | 0.5 | 0.7, 1, 1 | 2 | 3.9 | ... | 64
		for le, want := range map[string]float64{"0.25": 2, "0.5": 3, "1.0": 6, "2.0": 7, "4.0": 8, "32.0": 8, "64.0": 9, "+Inf": 9} {
			v, ok := got.values[series("reckon_workload_cores_bucket", "workload", "slurm/1", "le", le)]
			if !ok || v != want {
				t.Errorf("format %d le=%s: %v, %v; want %v", f, le, v, ok, want)
			}
		}
		if v := got.values[series("reckon_workload_cores_count", "workload", "slurm/1")]; v != 9 {
			t.Errorf("count %v", v)
		}
		if v := got.values[series("reckon_workload_cores_sum", "workload", "slurm/1")]; math.Abs(v-73.1) > 1e-9 {
			t.Errorf("sum %v", v)
		}
	}
}

func TestTextPassesExpfmt(t *testing.T) {
	page := NewEncoder(Options{}).Append(nil, Text, sampleBatch())
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	if n := len(families); n != 4 {
		t.Fatalf("%d families, want 4", n)
	}
	if h := families["reckon_workload_cpu_seconds_total"].GetHelp(); h != cpuDesc.Help {
		t.Errorf("help %q", h)
	}
}

func TestProtobufPassesExpfmt(t *testing.T) {
	page := NewEncoder(Options{}).Append(nil, Protobuf, sampleBatch())
	d := expfmt.NewDecoder(bytes.NewReader(page), expfmt.NewFormat(expfmt.TypeProtoDelim))
	names, err := decodeNames(d)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "reckon_workload_cores", "reckon_workload_cpu_seconds_total", "reckon_workload_memory_bytes"}
	if !slices.Equal(names, want) {
		t.Errorf("families %v, want %v", names, want)
	}
}

func TestOpenMetricsMetadata(t *testing.T) {
	page := NewEncoder(Options{Created: true}).Append(nil, OpenMetrics, sampleBatch())
	got, err := parse(page, OpenMetrics)
	if err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	for name, want := range map[string]model.MetricType{
		"reckon_workload_cpu_seconds": model.MetricTypeCounter, "reckon_workload_memory_bytes": model.MetricTypeGauge,
		"reckon_workload_cores": model.MetricTypeHistogram, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": model.MetricTypeUnknown,
	} {
		if got.types[name] != want {
			t.Errorf("type of %s: %q, want %q", name, got.types[name], want)
		}
	}
	if got.units["reckon_workload_cpu_seconds"] != "seconds" || got.units["reckon_workload_memory_bytes"] != "bytes" || got.units["reckon_workload_cores"] != "cores" {
		t.Errorf("units %v", got.units)
	}
	if got.help["reckon_workload_cpu_seconds"] != cpuDesc.Help {
		t.Errorf("help %q", got.help["reckon_workload_cpu_seconds"])
	}
	if !bytes.Contains(page, []byte("\nreckon_workload_cpu_seconds_created{workload=\"slurm/1\",mode=\"user\"} 1700000000.123\n")) ||
		!bytes.HasSuffix(page, []byte("# EOF\n")) {
		t.Errorf("no created line or no end in\n%s", page)
	}
}

// TestSameNameTwice: two descriptions with one name, as from a compatibility view and a text file,
// stay one family; a different kind is left out.
func TestSameNameTwice(t *testing.T) {
	a := &metric.Desc{Name: "x", Help: "first", Kind: metric.Gauge, Labels: []string{"a"}}
	c := &metric.Desc{Name: "x", Help: "second", Kind: metric.Gauge, Labels: []string{"c"}}
	h := &metric.Desc{Name: "x", Kind: metric.NativeHistogram}
	b := &metric.Batch{}
	b.Add(metric.NewSeries(a, "1"), 1)
	b.Add(metric.NewSeries(c, "2"), 2)
	b.AddHistogram(metric.NewSeries(h), &metric.Histogram{})
	b.Add(metric.NewSeries(a, "3"), 3)
	got := string(NewEncoder(Options{}).Append(nil, Text, b))
	want := "# HELP x first\n# TYPE x gauge\nx{a=\"1\"} 1\nx{a=\"3\"} 3\nx{c=\"2\"} 2\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNamesAreCleaned(t *testing.T) {
	d := &metric.Desc{Name: "9 bad-name\n", Kind: metric.NativeHistogram, Labels: []string{"le", "b:c", ""}}
	b := &metric.Batch{}
	b.AddHistogram(metric.NewSeries(d, "x", "y", "z"), &metric.Histogram{})
	got := string(NewEncoder(Options{}).Append(nil, Text, b))
	if !strings.Contains(got, `__bad_name__count{exported_le="x",b_c="y",_="z"} 0`) {
		t.Errorf("got\n%s", got)
	}
	if d.Labels[0] != "le" {
		t.Error("the description was changed")
	}
}

func decodeNames(d expfmt.Decoder) (names []string, err error) {
	for {
		f := newFamily()
		if err := d.Decode(f); errors.Is(err, io.EOF) {
			return names, nil
		} else if err != nil {
			return nil, err
		}
		names = append(names, f.GetName())
	}
}
