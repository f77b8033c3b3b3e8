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
