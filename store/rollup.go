package store

import (
	"context"
	"time"

	"reckon/figure"
)

// Used are the figures of a roll-up.
type Used = figure.Used

// Use is what workloads of one group used in one stretch of time.
type Use struct {
	At time.Time // begin, UTC

	Site, Kind, Owner, Account, Partition, Command string

	Used
}

// NodeUse is what a node had and what was used of it in one stretch of time. What it
// had counts only while it was up, so that a node that is down is not idle.
type NodeUse struct {
	At         time.Time
	Site, Node string

	figure.Capacity

	Used // of the workloads on it; Started and the waiting are not told by node
}

// Span is the length of a stretch of time, in UTC. Weeks begin on Monday.
type Span string

// The spans. SpanWhole makes one stretch of all; SpanHourOfWeek adds up the same hours
// of all weeks, their times lying in the week from Monday 1970-01-05 on.
const (
	SpanHour       Span = "hour"
	SpanDay        Span = "day"
	SpanWeek       Span = "week"
	SpanMonth      Span = "month"
	SpanWhole      Span = "whole"
	SpanHourOfWeek Span = "hour-of-week"
)

// RollupQuery selects and groups. From and To are rounded to whole hours, outwards.
// Empty fields select everything.
type RollupQuery struct {
	From, To time.Time // To is not in it; both are needed
	Span     Span
	// By names what groups are told apart by: site, kind, owner, account, partition,
	// command; and site, node for nodes.
	By []string

	Sites, Kinds, Owners, Accounts, Partitions, Nodes []string
	Command                                           string // shell pattern
}

// Rollups keeps what was used, hour by hour. Like the catalogue it is a view of the
// series, and is emptied with it. It is safe for concurrent use.
type Rollups interface {
	// ReplaceHours puts rows in the place of all that was kept of the hours from from
	// to to, which are whole; the rows lie in them. Rows of one hour and group add up.
	ReplaceHours(ctx context.Context, from, to time.Time, use []Use, nodes []NodeUse) error
	// Use adds up by time and group, sorted by both.
	Use(ctx context.Context, q RollupQuery) ([]Use, error)
	// NodeUse adds up by time and node, sorted by both.
	NodeUse(ctx context.Context, q RollupQuery) ([]NodeUse, error)
}

// SpanStart is the begin of the stretch that a time lies in.
func SpanStart(s Span, t time.Time) time.Time {
	t = t.UTC()
	switch s {
	case SpanHour:
		return t.Truncate(time.Hour)
	case SpanDay:
		return t.Truncate(24 * time.Hour)
	case SpanWeek:
		return t.Add(-sinceMonday(t))
	case SpanMonth:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case SpanHourOfWeek:
		return monday.Add(sinceMonday(t).Truncate(time.Hour))
	}
	return time.Time{}
}

var monday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)

func sinceMonday(t time.Time) time.Duration {
	const week = 7 * 24 * time.Hour
	d := t.Sub(monday) % week
	if d < 0 {
		d += week
	}
	return d
}
