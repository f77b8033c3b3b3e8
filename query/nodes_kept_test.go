package query

import (
	"errors"
	"testing"
	"time"

	"reckon/client"
)

// TestKeptNodes: a list that was cheap to read is read again each time. An expensive one is reused for ten times the reading time,
// and while one caller reads the next, but for no longer than a minute.
func TestKeptNodes(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		took, later time.Duration
		given       bool
		again       bool
	}{
		{cheapNodes - 1, 0, false, false},
		{cheapNodes, 0, true, false},
		{cheapNodes, time.Second - 1, true, false},
		{cheapNodes, time.Second, true, true},
		{3 * time.Second, mostFresh - 1, true, false},
		{3 * time.Second, mostFresh, true, true},
		{3 * time.Second, mostStale - 1, true, true},
		{3 * time.Second, mostStale, false, false},
		{3 * time.Second, -1, false, false}, // the clock was set back, or the query is about the past
	} {
		var k keptNodes
		if _, _, ok := k.get(begin); ok {
			t.Fatal("a list that was never read")
		}
		k.put([]client.Node{{Node: "n1"}}, begin, c.took, nil)
		list, again, ok := k.get(begin.Add(c.later))
		if ok != c.given || again != c.again || ok && len(list) != 1 {
			t.Errorf("%v after a list that took %v: given %t, to be read again %t; want %t, %t", c.later, c.took, ok, again, c.given, c.again)
		}
		if !again {
			continue
		}
		if _, twice, _ := k.get(begin.Add(c.later)); twice {
			t.Error("two read the next one")
		}
		k.put(nil, begin.Add(c.later), time.Second, errors.New("away"))
		list, again, ok = k.get(begin.Add(c.later))
		if !ok || !again || list[0].Node != "n1" {
			t.Errorf("after an error: %v, %t", list, again)
		}
		list[0].Node = "changed"
		if list, _, _ = k.get(begin.Add(c.later)); list[0].Node != "n1" {
			t.Error("a caller changed the list")
		}
	}
}
