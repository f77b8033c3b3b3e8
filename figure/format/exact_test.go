package format

import (
	"testing"

	"reckon/figure"
)

func TestExactness(t *testing.T) {
	for e, want := range map[figure.Exactness][2]string{
		figure.Exact: {"", ""}, figure.AtLeast: {"at least ", ">="}, figure.AtMost: {"at most ", "<="}, figure.Estimated: {"about ", "~"},
		figure.Modelled: {"by a model ", "~"},
	} {
		if Qualifier(e) != want[0] || Mark(e) != want[1] {
			t.Errorf("%s: %q and %q, want %q", e, Qualifier(e), Mark(e), want)
		}
	}
	if got := Marks(map[figure.Exactness]bool{figure.Estimated: true, figure.Modelled: true,
		figure.AtLeast: true}); got != ">= at least: something of it could not be seen; ~ estimated or modelled" {
		t.Errorf("%q", got)
	}
}

// A text that is already a bound gets no second mark.
func TestMarked(t *testing.T) {
	for _, c := range []struct {
		of         figure.Exactness
		text, want string
	}{
		{figure.Exact, "0.3", "0.3"}, {figure.AtLeast, "0.3", ">=0.3"}, {figure.AtLeast, "0", "-"}, {figure.AtLeast, "0 B", "-"},
		{figure.AtLeast, "0.01", ">=0.01"},
		{figure.AtMost, "1 GiB", "<=1 GiB"}, {figure.Estimated, "7 %", "~7 %"},
		{figure.Exact, "< 0.001", "< 0.001"}, {figure.AtLeast, "< 0.001", "-"}, {figure.AtMost, "< 0.001", "< 0.001"},
		{figure.Modelled, "< 0.1 %", "< 0.1 %"}, {figure.AtMost, "0 B/s", "0 B/s"}, {figure.AtMost, "0", "0"}, {figure.Estimated, "0 B", "~0 B"},
	} {
		if got := Marked(c.of, c.text); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.of, c.text, got, c.want)
		}
	}
}
