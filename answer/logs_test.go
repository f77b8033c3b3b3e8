package answer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/figure/wire"
)

func TestLogPlace(t *testing.T) {
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	end := start.Add(time.Minute)
	detail := func(id, owner string, parts ...string) *wire.WorkloadDetail {
		d := &wire.WorkloadDetail{Workload: wire.Workload{ID: id, Owner: owner, Start: start, End: &end}}
		for _, p := range parts {
			d.Parts = append(d.Parts, wire.Part{Node: "n1", Part: p})
		}
		return d
	}
	for what, x := range map[string]struct {
		d    *wire.WorkloadDetail
		want string // pods and their containers, or the unit
	}{
		"pods of a Deployment":     {detail("deployment/shop/cart", "shop", "cart-b/app", "cart.1-a/app", "cart.1-a", "cart.1-a/proxy"), "shop: cart-b [app] cart.1-a [app proxy] cart-b|cart\\.1-a"},
		"a bare pod":               {detail("pod/shop/bare", "shop", "main", ""), "shop: bare [main] bare"},
		"a bare pod without parts": {detail("pod/shop/bare", "shop"), "shop: bare [] bare"},
		"a unit":                   {detail("unit/nginx.service", "root", ""), "nginx.service"},
		"no pods":                  {detail("job/shop/x", "shop"), ""},
		"a batch job":              {detail("slurm/4711", "alice", "0"), ""},
		"a pod without a name":     {detail("pod/0b7c2a55", "kubernetes", "0123"), ""},
		"another's namespace":      {detail("deployment/shop/cart", "other", "a/b"), ""},
	} {
		p, err := answer.FindLogPlace(x.d, end.Add(time.Hour))
		got := p.Unit
		if p.Namespace != "" && err == nil {
			got = p.Namespace + ":"
			for _, pod := range p.Pods {
				got += fmt.Sprint(" ", pod, " ", p.Containers[pod])
			}
			got += " " + p.PodPattern()
		}
		if got != x.want || (err != nil) != (x.want == "") || err != nil && !errors.Is(err, answer.ErrNotFound) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		if err == nil && (!p.From.Equal(start.Add(-2*time.Second)) || !p.To.Equal(end.Add(2*time.Second)) || p.Running) {
			t.Errorf("%s: from %v to %v", what, p.From, p.To)
		}
	}
}

// logSource returns lines or an error.
type logSource struct {
	name  string
	lines int
	err   error
	asked *[]string
}

func (s logSource) Logs(_ context.Context, p *answer.LogPlace, _ bool, _ int) (wire.Logs, error) {
	*s.asked = append(*s.asked, fmt.Sprint(s.name, " ", p.From.Format("05"), " ", p.To.Format("05")))
	return wire.Logs{Source: s.name, Lines: make([]wire.LogLine, s.lines)}, s.err
}

// TestLogSources: the first source with lines is used, failures are named, and no lines from outside the run are returned.
func TestLogSources(t *testing.T) {
	start := time.Date(2026, 11, 22, 9, 0, 10, 0, time.UTC)
	end := start.Add(20 * time.Second)
	d := &wire.WorkloadDetail{Workload: wire.Workload{ID: "pod/shop/bare", Owner: "shop", Start: start, End: &end}}
	away := errors.New("it is away")
	for what, x := range map[string]struct {
		loki, pods logSource
		from, to   time.Time
		source     string
		missing    string
		asked      string
		fails      error
	}{
		"Loki has lines":       {loki: logSource{lines: 2}, pods: logSource{lines: 1}, source: "loki", asked: "loki 08 32"},
		"Loki has none":        {pods: logSource{lines: 1}, source: "pods", asked: "loki 08 32,pods 08 32"},
		"nobody has any":       {source: "loki", asked: "loki 08 32,pods 08 32"},
		"Loki is away":         {loki: logSource{err: away}, pods: logSource{lines: 1}, source: "pods", missing: "it is away", asked: "loki 08 32,pods 08 32"},
		"both are":             {loki: logSource{err: away}, pods: logSource{err: away}, asked: "loki 08 32,pods 08 32", fails: answer.ErrBusy},
		"a part of the time":   {loki: logSource{lines: 1}, from: start, to: start.Add(5 * time.Second), source: "loki", asked: "loki 10 15"},
		"more than it ran":     {loki: logSource{lines: 1}, from: start.Add(-time.Hour), to: end.Add(time.Hour), source: "loki", asked: "loki 08 32"},
		"when it did not run":  {loki: logSource{lines: 1}, to: start.Add(-time.Hour), fails: answer.ErrInvalid},
		"at the edge of it":    {loki: logSource{lines: 1}, to: start.Add(-2 * time.Second), fails: answer.ErrInvalid},
		"just within the edge": {loki: logSource{lines: 1}, to: start.Add(-time.Second), source: "loki", asked: "loki 08 09"},
	} {
		var asked []string
		x.loki.name, x.loki.asked, x.pods.name, x.pods.asked = "loki", &asked, "pods", &asked
		l := &answer.Logs{Sources: []answer.LogSource{x.loki, x.pods}, Clock: func() time.Time { return end.Add(time.Hour) }}
		logs, err := l.Logs(t.Context(), d, wire.LogRange{Start: x.from, End: x.to, Limit: 5})
		if !errors.Is(err, x.fails) || logs.Source != x.source || strings.Join(logs.Missing, ",") != x.missing || strings.Join(asked, ",") != x.asked {
			t.Errorf("%s: %+v, %v, asked %v", what, logs, err, asked)
		}
	}
}

func TestSortLogs(t *testing.T) {
	at := func(s int, pod string) wire.LogLine { return wire.LogLine{Time: time.Unix(int64(s), 0), Pod: pod} }
	lines := []wire.LogLine{at(3, "b"), at(1, "b"), at(2, "a"), at(3, "a")}
	got, more := answer.SortLogs(slices.Clone(lines), false, 2)
	if !more || !slices.Equal(got, []wire.LogLine{at(3, "a"), at(3, "b")}) {
		t.Errorf("%v %v", got, more)
	}
	if got, more = answer.SortLogs(slices.Clone(lines), true, 4); more || len(got) != 4 || got[0] != at(1, "b") {
		t.Errorf("%v %v", got, more)
	}
}
