package answer

import (
	"context"
	"errors"
	"testing"
	"time"

	"reckon/figure/wire"
	"reckon/store"
)

// TestNodesSayHowOld: a list that was read before the question reports when, and one of now does not.
func TestNodesSayHowOld(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, age := range []time.Duration{0, time.Minute} {
		n := &Nodes{Views: readBefore(age), Clock: func() time.Time { return now }}
		list, err := n.Nodes(t.Context())
		if err != nil || len(list.Nodes) != 1 {
			t.Fatal(list, err)
		}
		if at := list.AsOf; (at != nil) != (age > 0) || at != nil && now.Sub(*at) != age {
			t.Errorf("a list of %v ago says %v", age, at)
		}
	}
}

// readBefore is a list that was read so long ago.
type readBefore time.Duration

func (r readBefore) NodesAsOf(_ context.Context, now time.Time) ([]wire.Node, time.Time, error) {
	return []wire.Node{{Node: "n1"}}, now.Add(-time.Duration(r)), nil
}

// TestFitSaysItsAge: an answer from a list of nodes that is 40 s old reports it, and states that nothing newer is available.
func TestFitSaysItsAge(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]bool{0: false, 40 * time.Second: true} {
		f := &Fit{Views: readBefore(age), Waits: noFacts{}, Clock: func() time.Time { return now },
			Outage: &Outage{Catalogue: noFacts{}, Behind: func() error { return errors.New("the store is not available") }}}
		list, err := f.Fit(t.Context(), wire.FitQuery{Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		if told := list.AsOf != nil && now.Sub(*list.AsOf) == age && len(list.Missing) == 1; told != want {
			t.Errorf("a list of %v ago: as of %v, missing %q", age, list.AsOf, list.Missing)
		}
	}
}

// noFacts is an empty catalogue.
type noFacts struct{}

func (noFacts) Watermark(context.Context) (time.Time, error) { return time.Time{}, nil }

func (noFacts) Waits(context.Context, store.WaitQuery, func(*store.Wait) error) error { return nil }
