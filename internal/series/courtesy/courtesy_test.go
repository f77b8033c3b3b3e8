package courtesy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"reckon/internal/series/courtesy"
)

// part does a part of 256 steps that takes 10 ms, and returns how long it took with the rest after it.
func part(t *courtesy.Turn) time.Duration {
	began := time.Now()
	<-time.After(10 * time.Millisecond)
	for range 256 {
		t.Step()
	}
	return time.Since(began)
}

func TestBackgroundGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g courtesy.Gate
		back := courtesy.Enter(g.Background(t.Context()))
		defer back.Leave()
		if d := part(back); d != 10*time.Millisecond {
			t.Errorf("a part without questions took %v", d)
		}
		one, two := courtesy.Enter(g.Question(t.Context())), courtesy.Enter(g.Question(t.Context()))
		for range 3 {
			if d := part(back); d != 40*time.Millisecond {
				t.Errorf("a part beside questions took %v, want three times as long a rest", d)
			}
		}
		if d := part(one); d != 10*time.Millisecond {
			t.Errorf("a part of a question took %v", d)
		}
		one.Leave()
		one.Leave() // the other one still reads
		time.AfterFunc(15*time.Millisecond, two.Leave)
		if d := part(back); d != 15*time.Millisecond {
			t.Errorf("a part took %v after which the last question ended, after 15 ms", d)
		}
		if d := part(back); d != 10*time.Millisecond {
			t.Errorf("a part after all questions took %v", d)
		}
	})
}

func TestBackgroundEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g courtesy.Gate
		ctx, cancel := context.WithCancel(t.Context())
		back := courtesy.Enter(g.Background(ctx))
		defer courtesy.Enter(g.Question(t.Context())).Leave()
		cancel()
		if d := part(back); d != 10*time.Millisecond {
			t.Errorf("a part of cancelled work took %v", d)
		}
	})
}

func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g courtesy.Gate
		ask := g.Question(t.Context())
		defer courtesy.Enter(ask).Leave()
		if d := part(courtesy.Enter(courtesy.Aside(ask))); d != 40*time.Millisecond {
			t.Errorf("a part beside the question took %v", d)
		}
		if turn := courtesy.Enter(courtesy.Aside(t.Context())); turn != nil {
			t.Error("a context that says nothing has a turn")
		}
	})
}
