package efficiency

import (
	"strings"
	"testing"

	"reckon/figure"
)

// TestNetwork: the edges of sentences about the network of a job.
func TestNetwork(t *testing.T) {
	const (
		own    = "smaller or compressed data"
		others = "the rest that of others"
		resent = "had to be sent again"
	)
	job := func(edit ...func(*Usage)) Usage {
		return batch(8, 0.5, 1, append([]func(*Usage){func(u *Usage) {
			u.Congestion = &Congestion{Node: "n1", Device: "eth0", Direction: "transmit", Speed: 1.25e9, Observed: 3600, Seconds: 360, Rate: 1.2e9, Own: 0.6e9, Cores: 0.5}
		}}, edit...)...)
	}
	lossy := func(resent, sent, calls float64) Usage {
		return batch(8, 8, 8, func(u *Usage) { u.Resent, u.Sent, u.SentCalls = at(resent), at(sent), at(calls) })
	}
	for name, c := range map[string]struct {
		u    Usage
		want string
	}{
		"its own":               {job(), own},
		"of others":             {job(func(u *Usage) { u.Congestion.Own-- }), others},
		"for less time":         {job(func(u *Usage) { u.Congestion.Seconds-- }), ""},
		"too short":             {job(func(u *Usage) { u.WallSeconds, u.Congestion.Observed, u.Congestion.Seconds = 60, 60, 9.9 }), ""},
		"long enough":           {job(func(u *Usage) { u.WallSeconds, u.Congestion.Observed, u.Congestion.Seconds = 60, 60, 10 }), own},
		"half its cores":        {job(func(u *Usage) { u.Congestion.Cores = 4 }), ""},
		"almost half":           {job(func(u *Usage) { u.Congestion.Cores = 3.99 }), own},
		"cores of two nodes":    {job(func(u *Usage) { u.PerNode, u.Congestion.Cores = []Node{{Name: "n1"}, {Name: "n2"}}, 2 }), ""},
		"its one thread":        {job(func(u *Usage) { u.MostThreads, u.Congestion.Cores = at(1), 0.5 }), ""},
		"two threads":           {job(func(u *Usage) { u.MostThreads, u.Congestion.Cores = at(2), 0.99 }), own},
		"cores not known":       {job(func(u *Usage) { u.Cores = nil }), ""},
		"allocation changed":    {job(func(u *Usage) { u.Resized = true }), ""},
		"CPU time at least":     {job(func(u *Usage) { u.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast} }), ""},
		"no device was full":    {job(func(u *Usage) { u.Congestion = nil }), ""},
		"segments resent":       {lossy(100, 5940*1200, 3960), resent},
		"too few of them":       {lossy(99, 0, 0), ""},
		"of more segments":      {lossy(100, 5940*1200, 3961), ""},
		"of more bytes":         {lossy(100, 5941*1200, 3960), ""},
		"bytes were not read":   {batch(8, 8, 8, func(u *Usage) { u.Resent = at(1e6) }), ""},
		"nothing was resent":    {lossy(0, 1e9, 1e4), ""},
		"an idle one is not it": {job(func(u *Usage) { u.CPUSeconds, u.CoresP95, u.Congestion.Cores = at(60), at(0.01), 0.01 }), own},
	} {
		got := spoken(c.u)
		for _, sentence := range []string{own, others, resent} {
			if strings.Contains(got, sentence) != (sentence == c.want) {
				t.Errorf("%s: want %q, it says\n%s", name, c.want, got)
			}
		}
		if c.want == own && strings.Contains(got, "it was idle") {
			t.Errorf("%s: it was limited by the network, and not idle:\n%s", name, got)
		}
	}
	if got := spoken(job(func(u *Usage) { u.WallSeconds = 1e6 })); !strings.Contains(got, "(10 % of its last 1 h)") || !strings.Contains(got, "(sent 9.6 Gb/s of 10 Gb/s)") {
		t.Error(got)
	}
}
