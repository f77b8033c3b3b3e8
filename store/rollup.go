package store

import (
	"context"
	"time"

	"reckon/figure"
)

// Used are the figures of a roll-up.
type Used = figure.Used

// Use is the use by the workloads of one group in one span of time.
type Use struct {
	At time.Time // beginning, UTC

	Site, Kind, Owner, Account, Partition, Command string

	Used
}

// NodeUse is the capacity and the use of a node in one span of time. The capacity counts only while the node is up,
// because a node that is down is not idle.
type NodeUse struct {
	At         time.Time
	Site, Node string

	figure.Capacity

	Used // of its workloads; Started and the waiting times are not available by node
}

// Span is the length of a time span, in UTC. Weeks begin on Monday.
type Span string

// Spans of time for roll-ups. SpanWhole is the whole queried range. SpanHourOfWeek sums the same hour of all weeks, and
// its times are in the week from Monday 1970-01-05.
const (
	SpanHour       Span = "hour"
	SpanDay        Span = "day"
	SpanWeek       Span = "week"
	SpanMonth      Span = "month"
	SpanWhole      Span = "whole"
	SpanHourOfWeek Span = "hour-of-week"
)

// RollupQuery selects roll-ups and groups them. From and To are rounded outwards to whole hours. An empty field selects
// all values.
type RollupQuery struct {
	From, To time.Time // To is exclusive; both are required
	Span     Span
	// By names the dimensions of the groups: site, kind, owner, account, partition and command; for
	// nodes, site and node.
	By []string

	Sites, Kinds, Owners, Accounts, Partitions, Nodes []string
	Command                                           string // shell pattern
}

// Rollups stores the use of each hour. It is derived from the series, like the catalogue, and is emptied together with
// the catalogue. It is safe for concurrent use.
type Rollups interface {
	// ReplaceHours replaces all rows of the whole hours in [from, to). The new rows must lie within
	// them. Rows of the same hour and group are summed.
	ReplaceHours(ctx context.Context, from, to time.Time, use []Use, nodes []NodeUse) error
	// AddHours is ReplaceHours that keeps the rows of the hours and adds the new ones to them.
	AddHours(ctx context.Context, from, to time.Time, use []Use, nodes []NodeUse) error
	// Use sums by time and group, sorted by both.
	Use(ctx context.Context, q RollupQuery) ([]Use, error)
	// NodeUse sums by time and node, sorted by both.
	NodeUse(ctx context.Context, q RollupQuery) ([]NodeUse, error)
	// Began calls f, in order of start, for the workloads that roll-ups are derived from: those started in [from, to),
	// and running ones of the given kinds. Only these fields are set: site, id, kind, owner, account, partition,
	// command, state, times, CPU time and requested cores. The workload is reused after f returns.
	Began(ctx context.Context, from, to time.Time, kinds []string, f func(*Workload)) error
}

// Earlier returns the first of two times, Later the last.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Later: see [Earlier].
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// SpanStart returns the beginning of the span that contains a time.
func SpanStart(s Span, t time.Time) time.Time {
	t = t.UTC()
	switch s {
	case SpanHour:
		return t.Truncate(time.Hour)
	case SpanDay:
		return t.Truncate(24 * time.Hour)
	case SpanWeek:
		return t.Add(-timeSinceMonday(t))
	case SpanMonth:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case SpanHourOfWeek:
		return firstMonday.Add(timeSinceMonday(t).Truncate(time.Hour))
	}
	return time.Time{}
}

var firstMonday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)

func timeSinceMonday(t time.Time) time.Duration {
	const week = 7 * 24 * time.Hour
	d := t.Sub(firstMonday) % week
	if d < 0 {
		d += week
	}
	return d
}
