package kubelet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// node is a kubelet in memory.
type node struct {
	text  string
	err   error
	takes time.Duration // to answer
	asked []time.Time
}

func (n *node) RoundTrip(*http.Request) (*http.Response, error) {
	n.asked = append(n.asked, time.Now())
	<-time.After(n.takes)
	if n.err != nil {
		return nil, n.err
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(n.text))}, nil
}

func listOf(uids ...string) string {
	var items []string
	for _, u := range uids {
		items = append(items, `{"metadata":{"uid":"`+u+`","name":"`+u+`","namespace":"n"}}`)
	}
	return `{"items":[` + strings.Join(items, ",") + `]}`
}

// bubble runs f with a cache that has a fake clock.
func bubble(t *testing.T, f func(n *node, s *Cache, pass func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{text: listOf("a")}
		client, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		client.http.Transport = n
		s := NewCache(client, nil, t.TempDir())
		defer s.Close()
		synctest.Wait()
		f(n, s, func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		})
	})
}

func TestCacheAsks(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		if s.Err() != nil || s.Pod("a") == nil || len(n.asked) != 1 {
			t.Fatal(s.Err(), n.asked)
		}
		pass(Interval - 1)
		if len(n.asked) != 1 {
			t.Error("asked before its time")
		}
		pass(1)
		if len(n.asked) != 2 {
			t.Error("not asked after an interval")
		}
		// A pod that is new: asked at once, but not twice a second.
		pass(10 * time.Second)
		n.text = listOf("a", "b")
		if s.Pod("b") != nil {
			t.Error("a pod that nobody told of")
		}
		pass(time.Millisecond)
		if s.Pod("b") == nil || len(n.asked) != 3 {
			t.Errorf("asked %d times", len(n.asked))
		}
		s.Pod("c")
		pass(990 * time.Millisecond)
		if len(n.asked) != 3 {
			t.Error("asked twice within a second")
		}
		pass(20 * time.Millisecond)
		if len(n.asked) != 4 {
			t.Error("not asked after a second")
		}
		// A pod that never comes is not asked for for ever, and another is.
		for range 20 {
			s.Pod("c")
			pass(time.Second)
		}
		if got := len(n.asked); got > 4+maxTries {
			t.Errorf("asked %d times for a pod that is gone", got)
		}
		was := len(n.asked)
		s.Refresh("an end")
		pass(time.Second)
		if len(n.asked) != was+1 {
			t.Errorf("asked %d times for another reason", len(n.asked)-was)
		}
	})
}

// TestAwait: a pod that is new is waited for until the first answer, or for the limit where the kubelet may not be asked yet, and a pod
// that no answer has, or a kubelet that does not answer, is not waited for again.
func TestAwait(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		await := func(what string, least, most time.Duration, answered bool) {
			t.Helper()
			began := time.Now()
			if got := s.Await(context.Background(), 250*time.Millisecond); got != answered || time.Since(began) < least || time.Since(began) > most {
				t.Errorf("%s: waited for %s, %v", what, time.Since(began), got)
			}
		}
		pass(10 * time.Second)
		await("nothing is wanted", 0, 0, false)
		s.Refresh("n/an end")
		await("no pod is wanted", 0, 0, false)
		pass(10 * time.Second)
		n.text, n.takes = listOf("a", "b"), 249*time.Millisecond
		s.Pod("b")
		await("a pod that is listed", n.takes, n.takes, true)
		if s.Pod("b") == nil {
			t.Error("it is not known")
		}
		s.Pod("c")
		await("too soon to ask", 250*time.Millisecond, 250*time.Millisecond, false)
		pass(time.Second)
		await("a pod that was not in the answer", 0, 0, false)
		pass(10 * time.Second)
		n.takes = 251 * time.Millisecond
		s.Pod("d")
		await("a slow answer", 250*time.Millisecond, 250*time.Millisecond, false)
		pass(10 * time.Second)
		n.err = errors.New("no route")
		s.Pod("e")
		pass(time.Second)
		s.Pod("f")
		await("a kubelet that is away", 0, 0, false)
	})
}

func TestCacheAway(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		n.err = errors.New("no route")
		from := len(n.asked)
		for range 300 {
			s.Pod("new")
			pass(time.Second)
		}
		if got := len(n.asked) - from; got < 10 || got > 16 { // after 1, 2, 4 ... 30 s
			t.Errorf("asked %d times in five minutes", got)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "no route") || s.Pod("a") == nil {
			t.Errorf("%v; what is known stays", err)
		}
		n.err, n.text = nil, listOf("new")[:20]
		pass(Interval)
		if s.Err() == nil || s.Pod("a") == nil {
			t.Error("a broken answer takes pods away")
		}
		n.text = `{"items":[{"metadata":{"uid":"new","name":"x","namespace":"n"}},{"metadata":{"ui`
		pass(Interval)
		if s.Err() == nil || s.Pod("a") == nil || s.Pod("new") == nil {
			t.Error("half an answer: what is in it is known, and what was known too")
		}
		n.text = listOf("new")
		pass(Interval)
		if p := s.Pod("a"); s.Err() != nil || p != nil && !p.Unlisted || len(s.List()) != 1 || s.Pod("new") == nil {
			t.Error("it is back: what is gone is gone")
		}
	})
}

// TestCacheNext: who follows the list sees each answer once.
func TestCacheNext(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		pods, version, err := s.Next(context.Background(), 0)
		if len(pods) != 1 || version != 1 || err != nil {
			t.Fatal(pods, version, err)
		}
		began := time.Now()
		n.text = listOf("a", "b")
		if pods, version, err = s.Next(context.Background(), version); len(pods) != 2 || version != 2 || err != nil || time.Since(began) > Interval {
			t.Error(pods, version, err)
		}
	})
}

// TestCacheOfRestarts: between the end of a container and its wait for the restart the list is asked for more often, and not when
// it stays as it is.
func TestCacheOfRestarts(t *testing.T) {
	list := func(policy, kind, state string) string {
		container := `"` + kind + `s":[{"name":"app"}]`
		return `{"items":[{"metadata":{"uid":"a","name":"a","namespace":"n"},"spec":{"restartPolicy":"` + policy + `",` + container + `},
			"status":{"phase":"Running","` + kind + `Statuses":[{"name":"app","state":{` + state + `}}]}}]}`
	}
	const ended, waiting, again = `"terminated":{"exitCode":3}`, `"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":3}`, `"running":{}},"lastState":{"terminated":{"exitCode":3}`
	for what, tt := range map[string]struct {
		text string
		want time.Duration
	}{
		"it ended":            {list("Always", "container", ended), transientInterval},
		"it waits":            {list("Always", "container", waiting), Interval},
		"it runs again":       {list("Always", "container", again), Interval},
		"it is not restarted": {list("Never", "container", ended), Interval},
		"an init container":   {list("Always", "initContainer", ended), Interval},
		"an ephemeral one":    {list("Always", "ephemeralContainer", ended), Interval},
	} {
		bubble(t, func(n *node, _ *Cache, pass func(time.Duration)) {
			n.text = tt.text
			pass(Interval)
			was := len(n.asked)
			pass(tt.want - 1)
			before := len(n.asked) - was
			pass(1)
			if after := len(n.asked) - was; before != 0 || after != 1 {
				t.Errorf("%s: asked %d times before %v, %d then", what, before, tt.want, after)
			}
		})
	}
}

// TestRemember: the end before the latest stays while the container is not begun again, though the kubelet reports it no more.
func TestRemember(t *testing.T) {
	ended := func(id string, code int) *End { return &End{ID: id, ExitCode: code} }
	pod := func(c Container) *Pod {
		c.Name = "c"
		return &Pod{Containers: []Container{{Name: "other", Ended: ended("x", 9)}, c}}
	}
	first, second := ended("1", 1), ended("2", 2)
	for what, x := range map[string]struct {
		old  *Pod
		now  Container
		want *End
	}{
		"it ended again":              {pod(Container{Ended: first, Running: true}), Container{Ended: second}, first},
		"it has not changed":          {pod(Container{Ended: second, Before: first}), Container{Ended: second}, first},
		"the kubelet knows":           {pod(Container{Ended: ended("0", 0)}), Container{Ended: second, Before: first}, first},
		"its first end":               {pod(Container{Running: true}), Container{Ended: first}, nil},
		"it waits":                    {pod(Container{Ended: first}), Container{Ended: second, Waiting: "CrashLoopBackOff"}, nil},
		"it runs":                     {pod(Container{Ended: first}), Container{Ended: second, Running: true}, nil},
		"it has not ended":            {pod(Container{Ended: first}), Container{}, nil},
		"the pod was not there":       {nil, Container{Ended: second}, nil},
		"the container was not there": {&Pod{}, Container{Ended: second}, nil},
	} {
		p := pod(x.now)
		p.copyPreviousEnds(x.old)
		if got := p.Containers[1].Before; got != x.want {
			t.Errorf("%s: %+v, want %+v", what, got, x.want)
		}
	}
}
