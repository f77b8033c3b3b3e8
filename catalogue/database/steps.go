package database

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/store"
)

// stepColumns are the columns of a step after the key of its run.
var stepColumns = []string{"step", "name", "state", "nodes", "start_ms", "end_ms", "exit_code", "cpu_seconds", "memory_peak_bytes", "cores"}

var (
	insertStepSQL = "INSERT INTO steps (key, " + strings.Join(stepColumns, ", ") + ") VALUES (" + parameterList(1, len(stepColumns)+1) + ")"
	stepsSQL      = "SELECT steps.key, steps." + strings.Join(stepColumns, ", steps.") + " FROM steps"
	stepOrder     = " ORDER BY steps.key, coalesce(steps.start_ms, 0), step"
)

// writeSteps replaces the stored steps of the runs that were written.
func (u *upsert) writeSteps(ctx context.Context) error {
	if len(u.steps) == 0 {
		return nil
	}
	remove, err := u.tx.PrepareContext(ctx, `DELETE FROM steps WHERE key = $1`)
	if err != nil {
		return err
	}
	defer remove.Close()
	insert, err := u.tx.PrepareContext(ctx, insertStepSQL)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, key := range slices.Sorted(maps.Keys(u.steps)) {
		if _, err := remove.ExecContext(ctx, key); err != nil {
			return err
		}
		for i := range u.steps[key] {
			s := &u.steps[key][i]
			if _, err := insert.ExecContext(ctx, key, u.d.put(s.ID), u.d.put(s.Name), u.d.put(s.State), u.d.put(s.Nodes),
				optionalMS(s.Start), optionalMS(s.End), s.ExitCode, s.CPUSeconds, s.MemoryPeakBytes, s.Cores); err != nil {
				return fmt.Errorf("step %s: %w", s.ID, err)
			}
		}
	}
	return nil
}

// optionalMS returns a time in milliseconds since the Unix epoch, or nil.
func optionalMS(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

func timeOrZero(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

// Steps returns the steps of one run, by start and id.
func (c *Catalogue) Steps(ctx context.Context, r store.Run) ([]store.Step, error) {
	var out []store.Step
	err := c.eachStep(ctx, func(_ int64, s store.Step) { out = append(out, s) },
		" JOIN workloads ON workloads.key = steps.key WHERE workloads.id = $1 AND workloads.start_ms = $2 AND workloads.site = $3",
		c.d.put(r.ID), r.Start.UnixMilli(), c.d.put(r.Site))
	if err != nil {
		return nil, fmt.Errorf("list the steps of %s: %w", r.ID, c.translateError(ctx, err))
	}
	return out, nil
}

// eachStep calls each with the key of the run and the step, for each step that a condition selects.
func (c *Catalogue) eachStep(ctx context.Context, each func(int64, store.Step), where string, args ...any) error {
	rows, err := c.db.QueryContext(ctx, stepsSQL+where+stepOrder, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key int64
		var s store.Step
		var start, end *int64
		if err := rows.Scan(&key, &s.ID, &s.Name, &s.State, &s.Nodes, &start, &end, &s.ExitCode, &s.CPUSeconds, &s.MemoryPeakBytes,
			&s.Cores); err != nil {
			return err
		}
		s.Start, s.End = timeOrZero(start), timeOrZero(end)
		for _, p := range []*string{&s.ID, &s.Name, &s.State, &s.Nodes} {
			*p = c.d.get(*p)
		}
		each(key, s)
	}
	return rows.Err()
}
