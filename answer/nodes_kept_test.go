package answer

import (
	"context"
	"testing"
	"time"

	"reckon/client"
)

// TestNodesSayHowOld: a list that was read before the question says when, and one of now does not.
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

func (r readBefore) NodesAsOf(_ context.Context, now time.Time) ([]client.Node, time.Time, error) {
	return []client.Node{{Node: "n1"}}, now.Add(-time.Duration(r)), nil
}
