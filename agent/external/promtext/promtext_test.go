package promtext

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"reckon/metric"
)

func key(f Figure) string {
	var b strings.Builder
	b.WriteString(f.Series.Desc.Name)
	for i, l := range f.Series.Desc.Labels {
		fmt.Fprintf(&b, " %s=%q", l, f.Series.Values[i])
	}
	if f.Claim != "" {
		b.WriteString(" of " + f.Claim)
	}
	fmt.Fprintf(&b, " %v %v", f.Series.Desc.Kind, f.Value)
	return b.String()
}

func TestPage(t *testing.T) {
	const text = `# a comment
# HELP jobs_total How many\njobs.
# TYPE jobs_total counter
jobs_total{queue="a",state="done"} 12
jobs_total { state = "failed" , queue="a \"b\" \\ \n", } 3
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.5"} 1
wait_seconds_bucket{le="+Inf"} 2
wait_seconds_sum 0.75
wait_seconds_count 2
untyped_things 0x
`
	p := NewPage(Rules{})
	if _, err := p.Read([]byte(text)); err == nil || err.Error() != "line 11: the value is not a number" {
		t.Errorf("error %v", err)
	}
	figures, err := p.Read([]byte(strings.Replace(text, "0x", "-4e3\t \r", 1) + "nothing NaN\nempty{a=\"\"} +Inf\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`jobs_total queue="a" state="done" counter 12`,
		`jobs_total queue="a \"b\" \\ \n" state="failed" counter 3`,
		`wait_seconds_bucket le="0.5" counter 1`,
		`wait_seconds_bucket le="+Inf" counter 2`,
		`wait_seconds_sum counter 0.75`,
		`wait_seconds_count counter 2`,
		`untyped_things gauge -4000`,
		`empty gauge +Inf`,
	}
	for i, f := range figures {
		if i < len(want) && key(f) != want[i] {
			t.Errorf("got %s, want %s", key(f), want[i])
		}
	}
	if len(figures) != len(want) {
		t.Errorf("%d figures", len(figures))
	}
	if h := figures[0].Series.Desc.Help; h != "How many jobs." {
		t.Errorf("help %q", h)
	}
}

func TestPageRules(t *testing.T) {
	text := []byte("m{node=\"n\",owner=\"o\",workload=\"slurm/1\",app=\"x\"} 1\nother 2\n")
	rules := Rules{Labels: []Label{{"app", "mine"}}, Wanted: func(n string) bool { return n == "m" }}
	figures, err := NewPage(rules).Read(text)
	if err != nil || len(figures) != 1 ||
		key(figures[0]) != `m app="mine" exported_app="x" exported_node="n" exported_owner="o" exported_workload="slurm/1" gauge 1` {
		t.Errorf("%v %v", figures, err)
	}
	rules.Claims = true
	if figures, err = NewPage(rules).Read(text); err != nil || figures[0].Claim != "slurm/1" || len(figures[0].Series.Values) != 4 {
		t.Errorf("%v %v", figures, err)
	}
	if _, err = NewPage(Rules{Strict: true}).Read(text); err == nil ||
		!strings.Contains(err.Error(), "line 1: the label node is set by the agent") {
		t.Errorf("%v", err)
	}
}

func TestPageErrors(t *testing.T) {
	for text, want := range map[string]string{
		"m 1\nm 2":      "line 2: the series stands there twice",
		"a 1\nb 1\nc 1": "it has more than 2 series; leave some out, or allow more",
		"m":             "line 1: there is no value behind the name",
		"m 1 1700000000000": "line 1: there is more than a value behind the name; time stamps are not taken, and label " +
			"values stand in double quotes",
		"m{a=\"1\" 2":                   "line 1: the labels are not closed; they are written as {label=\"value\"}",
		"m{a=1} 2":                      "line 1: the value of the label a does not stand in double quotes",
		"m{a=\"1\",a=\"2\"} 2":          "line 1: the label a stands twice",
		"m{__name__=\"x\"} 2":           "line 1: the label __name__ begins with two underscores, which is kept for the database",
		"m{a=\"\xff\"} 2":               "line 1: the value of the label a is not UTF-8",
		"m{a=\"1\"b=\"2\"} 2":           "line 1: there is no comma behind the label a",
		"3m 1":                          "line 1: it does not begin with the name of a metric (letters, digits, _ and :)",
		"a-b 1":                         "line 1: the name of the metric holds a character that is no letter, digit, underscore or colon",
		"# TYPE m meter":                "line 1: the type is none of counter, gauge, histogram, summary, untyped",
		"# TYPE 0 counter":              "line 1: TYPE is followed by no name of a metric",
		strings.Repeat("m", 201) + " 1": "line 1: the name of the metric is longer than 200 bytes",
	} {
		if _, err := NewPage(Rules{MaxSeries: 2}).Read([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v, want\n%s", text, err, want)
		}
	}
}

func page(n int) []byte {
	var b bytes.Buffer
	b.WriteString("# HELP m Things.\n# TYPE m gauge\n")
	for i := range n {
		fmt.Fprintf(&b, "m{device=\"sd%d\",place=\"a b\"} %d\n", i, i*1000)
	}
	return b.Bytes()
}

func TestPageDoesNotAllocate(t *testing.T) {
	p, text := NewPage(Rules{}), page(100)
	first, err := p.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	was := first[7].Series
	if n := testing.AllocsPerRun(20, func() { _, _ = p.Read(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	again, _ := p.Read(text)
	if again[7].Series != was {
		t.Error("a new pointer for the same series")
	}
	if _, err := p.Read(page(3)); err != nil || len(p.known) != 3 {
		t.Errorf("%d series are remembered of 3 (%v)", len(p.known), err)
	}
}

func BenchmarkPage(b *testing.B) {
	p, text := NewPage(Rules{}), page(1000)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := p.Read(text); err != nil {
			b.Fatal(err)
		}
	}
}

// Accepted input must mean the same to Prometheus's own parser.
func FuzzPage(f *testing.F) {
	f.Add([]byte("# TYPE m counter\nm{a=\"b\"} 1\nn 2\n"))
	f.Add([]byte("m{a=\"\\\\\\\"\\n\",} -0.5e-3\n# HELP m x\\ny\nm +Inf\r\n"))
	f.Add([]byte("a_bucket{le=\"1\"} 1\n a \t 3 \n{} 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		figures, err := NewPage(Rules{MaxSeries: 100}).Read(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("the error is no line: %q", err)
			}
			return
		}
		var got []string
		for _, fig := range figures {
			got = append(got, key(fig))
			for i, l := range fig.Series.Desc.Labels {
				if !ValidLabel(l) || fig.Series.Values[i] == "" {
					t.Errorf("label %q=%q", l, fig.Series.Values[i])
				}
			}
			if math.IsNaN(fig.Value) || !ValidName(fig.Series.Desc.Name) {
				t.Errorf("%s", key(fig))
			}
		}
		compare(t, text, got)
	})
}

// compare reads the samples with expfmt, one line at a time: it has rules of its own on
// the order of lines.
func compare(t *testing.T, text []byte, got []string) {
	want := map[string]bool{}
	lines := Parse(text)
	for {
		l, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil || l.Kind != Sample || math.IsNaN(l.Value) || bytes.Contains(l.Series, []byte("__")) {
			continue
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(fmt.Sprintf("%s %v\n", l.Series, l.Value))))
		if err != nil {
			if strings.Contains(err.Error(), "invalid escape sequence") {
				return
			}
			t.Fatalf("expfmt refuses %q: %v", l.Series, err)
		}
		for name, mf := range families {
			m := mf.Metric[0]
			var labels []string
			for _, p := range m.Label {
				n := strings.ReplaceAll(model.EscapeName(p.GetName(), model.UnderscoreEscaping), ":", "_")
				for _, r := range Reserved() {
					if n == r {
						n = "exported_" + n
					}
				}
				if p.GetValue() != "" {
					labels = append(labels, fmt.Sprintf(" %s=%q", n, p.GetValue()))
				}
			}
			sort.Strings(labels)
			want[model.EscapeName(name, model.UnderscoreEscaping)+strings.Join(labels, "")] = true
		}
	}
	for _, g := range got {
		g = strings.TrimSuffix(g[:strings.LastIndexByte(g, ' ')], " "+metric.Gauge.String())
		g = strings.TrimSuffix(g, " "+metric.Counter.String())
		if !want[g] && !strings.Contains(g, "__") {
			t.Errorf("expfmt does not find %s", g)
		}
	}
}

// TestNamesInUTF8: names in quotes (Prometheus 3) are taken as Prometheus escapes them for those that know the older names only.
func TestNamesInUTF8(t *testing.T) {
	p := NewPage(Rules{})
	figures, err := p.Read(
		[]byte(
			"# TYPE \"my.metric\" counter\n# HELP \"my.metric\" Words.\n{\"my.metric\", \"label.x\"=\"a} \\\"b\", y=\"2\"} " +
				"3\n{\"9ä:z\"} 4\nplain{\"a-b\"=\"c\"} 5\n"))
	if err != nil || len(figures) != 3 {
		t.Fatalf("%v, %v", figures, err)
	}
	for i, want := range []string{`my_metric label_x=a} "b y=2 3`, `__:z 4`, `plain a_b=c 5`} {
		s := figures[i].Series
		got := s.Desc.Name
		for j, l := range s.Desc.Labels {
			got += " " + l + "=" + s.Values[j]
		}
		if got = fmt.Sprint(got, " ", figures[i].Value); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if d := figures[0].Series.Desc; d.Kind != metric.Counter || d.Help != "Words." {
		t.Errorf("%+v", d)
	}
	for _, text := range []string{`{} 1`, `{a="b"} 1`, `{"x", "y"} 1`, `{"x} 1`, `{"x" "y"="z"} 1`, `{"a.b", "c.d"="1", "c_d"="2"} 1`} {
		if f, err := NewPage(Rules{}).Read([]byte(text + "\n")); err == nil {
			t.Errorf("%s: %v", text, f)
		}
	}
}
