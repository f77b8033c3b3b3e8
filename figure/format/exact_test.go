package format

import (
	"testing"

	"reckon/figure"
)

func TestExactness(t *testing.T) {
	for e, want := range map[figure.Exactness][2]string{
		figure.Exact: {"", ""}, figure.AtLeast: {"at least ", ">="}, figure.AtMost: {"at most ", "<="}, figure.Estimated: {"about ", "~"}, figure.Modelled: {"by a model ", "~"},
	} {
		if Qualifier(e) != want[0] || Mark(e) != want[1] {
			t.Errorf("%s: %q and %q, want %q", e, Qualifier(e), Mark(e), want)
		}
	}
	if got := Marks(map[figure.Exactness]bool{figure.Estimated: true, figure.Modelled: true, figure.AtLeast: true}); got != ">= at least: something of it could not be seen; ~ estimated or modelled" {
		t.Errorf("%q", got)
	}
}
