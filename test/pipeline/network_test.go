package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/test/pipeline"
)

const (
	limitedItself = "smaller or compressed data"
	limitedOthers = "the rest that of others"
	losing        = "had to be sent again"
	link          = 1.25e9 // bytes per second, 10 Gb/s
)

// reports holds that exactly one of the sentences about the network, or none, is stated about a job.
func says(t *testing.T, s *pipeline.Site, job, want string) {
	t.Helper()
	got := s.Said(job)
	for _, sentence := range []string{limitedItself, limitedOthers, losing} {
		if strings.Contains(got, sentence) != (sentence == want) {
			t.Errorf("%s: want %q, got\n%s", job, want, got)
		}
	}
}

// TestNetwork: whether the network limits a job that has its node to itself, on both sides of each threshold.
func TestNetwork(t *testing.T) {
	cases := map[string]struct {
		does simulate.Does
		want string
	}{
		"full":          {simulate.Does{Cores: 0.5, Receives: 0.91 * link}, limitedItself},
		"nearly-full":   {simulate.Does{Cores: 0.5, Receives: 0.89 * link}, ""},
		"sending":       {simulate.Does{Cores: 0.5, Sends: 0.95 * link}, limitedItself},
		"both-half":     {simulate.Does{Cores: 0.5, Receives: 0.6 * link, Sends: 0.6 * link}, ""},
		"fast":          {simulate.Does{Cores: 0.5, Receives: 1.04 * link}, limitedItself},
		"nominal-speed": {simulate.Does{Cores: 0.5, Receives: 1.06 * link}, ""},
		"computing":     {simulate.Does{Cores: 4.1, Receives: 0.95 * link}, ""},
		"half-asleep":   {simulate.Does{Cores: 3.9, Receives: 0.95 * link}, limitedItself},
		"losing":        {simulate.Does{Cores: 0.5, Sends: 1e6, Resends: 8.7}, losing},
		"losing-few":    {simulate.Does{Cores: 0.5, Sends: 1e6, Resends: 8.4}, ""},
		"no-traffic":    {simulate.Does{Cores: 0.5}, ""},
	}
	var plan []simulate.Planned
	for name, c := range cases {
		c.does.Needed = 100 * mib
		plan = append(plan, simulate.Planned{User: "alice", Name: name, Cores: 8, Length: 20 * time.Minute, Does: c.does})
	}
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 16, GPUNodes: -1, Cores: 8, LinkSpeed: link, Plan: plan}, 30*time.Minute, pipeline.Fine)
	for name, c := range cases {
		says(t, s, name, c.want)
	}
	if got := s.Said("full"); !strings.Contains(got, "(received 9.1 Gb/s of 10 Gb/s) while only 0.5 of the 8 cores") {
		t.Error(got)
	}
}

// TestSharedNetwork: a job that has a part of a link while another fills it, for a part of its time.
func TestSharedNetwork(t *testing.T) {
	run := func(own float64, filled time.Duration, speed float64) *pipeline.Site {
		return pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 1, Cores: 8, LinkSpeed: speed, Plan: []simulate.Planned{
			{User: "alice", Name: "reader", Cores: 4, Length: 20 * time.Minute, Does: simulate.Does{Cores: 0.2, Needed: 100 * mib, Receives: own * link}},
			{User: "bob", Name: "filler", Cores: 4, Length: filled, Does: simulate.Does{Cores: 3.9, Needed: 100 * mib, Receives: (0.95 - own) * link}},
		}}, 30*time.Minute, pipeline.Fine)
	}
	for name, c := range map[string]struct {
		own    float64
		filled time.Duration
		speed  float64
		want   string
	}{
		"others have most of it":    {0.3, 10 * time.Minute, link, limitedOthers},
		"its own traffic is most":   {0.49, 10 * time.Minute, link, limitedItself},
		"hardly any of it is its":   {0.09, 10 * time.Minute, link, ""},
		"a tenth of it is its":      {0.1, 10 * time.Minute, link, limitedOthers},
		"for a little time":         {0.3, time.Minute, link, ""},
		"for an eighth of the time": {0.3, 150 * time.Second, link, limitedOthers},
		"the speed is not known":    {0.3, 10 * time.Minute, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(c.own, c.filled, c.speed)
			says(t, s, "reader", c.want)
			says(t, s, "filler", "") // its cores work
		})
	}
}
