package metricdoc

import (
	"strings"
	"testing"

	"reckon/metric"
)

func TestMarkdown(t *testing.T) {
	b := &metric.Desc{Name: "reckon_b_total", Kind: metric.Counter, Help: "Second | with <a> bar."}
	a := &metric.Desc{Name: "reckon_a_seconds", Kind: metric.NativeHistogram, Unit: metric.Seconds, Labels: []string{"x", "y"}, Help: "First."}
	got := string(Markdown(Section{"One", "Text.", []*metric.Desc{b, a, b}}, Section{"None", "", nil}))
	_, table, _ := strings.Cut(got, "\n## ")
	want := "One\n\nText.\n\n| name | kind | unit | labels | meaning |\n|---|---|---|---|---|\n" +
		"| `reckon_a_seconds` | native histogram | seconds | `x`, `y` | First. |\n" +
		"| `reckon_b_total` | counter |  |  | Second \\| with &lt;a> bar. |\n"
	if table != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
}

func TestLint(t *testing.T) {
	good := []*metric.Desc{
		{Name: "reckon_x_seconds_total", Kind: metric.Counter, Unit: metric.Seconds, Help: "A good one, really.", Labels: []string{"a", "b"}},
		{Name: "DCGM_FI_X", Kind: metric.Counter, Help: "A name that the world has given."},
	}
	if p := Lint(append(good, good[0])); len(p) != 0 {
		t.Errorf("%q", p)
	}
	for want, d := range map[string]*metric.Desc{
		"_total":          {Name: "reckon_x", Kind: metric.Counter, Help: "A good sentence."},
		"nothing else":    {Name: "reckon_x_total", Kind: metric.Gauge, Help: "A good sentence."},
		"its unit bytes":  {Name: "reckon_x_seconds", Kind: metric.Gauge, Unit: metric.Bytes, Help: "A good sentence."},
		"no sentence":     {Name: "reckon_x", Kind: metric.Gauge, Help: "x"},
		"no kind":         {Name: "reckon_x", Help: "A good sentence."},
		"lower case":      {Name: "reckon_X", Kind: metric.Gauge, Help: "A good sentence."},
		`"pid"`:           {Name: "reckon_x", Kind: metric.Gauge, Help: "A good sentence.", Labels: []string{"pid"}},
		"there twice":     {Name: "reckon_x", Kind: metric.Gauge, Help: "A good sentence.", Labels: []string{"a", "a"}},
		"described twice": {Name: "DCGM_FI_X", Kind: metric.Gauge, Help: "A good sentence."},
	} {
		if p := strings.Join(Lint([]*metric.Desc{good[1], d}), "\n"); !strings.Contains(p, want) {
			t.Errorf("want %q in %q", want, p)
		}
	}
}
