package database

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"reckon/store"
)

// PutMetricRun implements store.MetricRuns.
func (c *Catalogue) PutMetricRun(ctx context.Context, r store.MetricRun, pods []store.MetricRunPod, samples []store.MetricRunSample) error {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.inTx(ctx, func(tx *sql.Tx) error {
		var finished int64
		if !r.Finished.IsZero() {
			finished = r.Finished.UnixMilli()
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO metric_runs (namespace, name, site, set_name, outcome, started_ms, finished_ms, document) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (namespace, name) DO UPDATE SET site = excluded.site, set_name = excluded.set_name, outcome = excluded.outcome, started_ms = excluded.started_ms,
			finished_ms = excluded.finished_ms, document = excluded.document`,
			c.d.put(r.Namespace), c.d.put(r.Name), c.d.put(r.Site), c.d.put(r.Set), r.Outcome, r.Started.UnixMilli(), finished, r.Document)
		if err != nil {
			return err
		}
		for _, p := range pods {
			_, err := tx.ExecContext(ctx, `INSERT INTO metric_run_pods (namespace, name, uid, samples, document) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (namespace, name, uid) DO UPDATE SET samples = excluded.samples, document = excluded.document WHERE metric_run_pods.samples <= excluded.samples`,
				c.d.put(r.Namespace), c.d.put(r.Name), c.d.put(p.UID), p.Samples, p.Document)
			if err != nil {
				return err
			}
		}
		for _, s := range samples {
			_, err := tx.ExecContext(ctx, `INSERT INTO metric_run_samples (namespace, name, uid, seq, from_us, to_us, document) VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (namespace, name, uid, seq) DO NOTHING`,
				c.d.put(r.Namespace), c.d.put(r.Name), c.d.put(s.Pod), s.Seq, s.From.UnixMicro(), s.To.UnixMicro(), s.Document)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the run %s/%s: %w", r.Namespace, r.Name, c.translateError(ctx, err))
	}
	return nil
}

// MetricRuns implements store.MetricRuns.
func (c *Catalogue) MetricRuns(ctx context.Context, f store.MetricRunFilter) (out []store.MetricRun, total int, err error) {
	w := &conditions{d: c.d}
	for _, by := range []struct {
		column string
		list   []string
	}{{"namespace", f.Namespaces}, {"name", f.Names}, {"set_name", f.Sets}, {"site", f.Sites}} {
		w.addIn(by.column, by.list)
	}
	if !f.Since.IsZero() {
		w.addCondition("started_ms >= " + w.placeholder(f.Since.UnixMilli()))
	}
	if !f.Until.IsZero() {
		w.addCondition("started_ms < " + w.placeholder(f.Until.UnixMilli()))
	}
	if err := c.db.QueryRowContext(ctx, "SELECT count(*) FROM metric_runs"+w.whereClause(), w.args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("list runs of MetricSets: %w", c.translateError(ctx, err))
	}
	text := `SELECT namespace, name, site, set_name, outcome, started_ms, finished_ms, document,
		(SELECT coalesce(sum(samples), 0) FROM metric_run_pods AS p WHERE p.namespace = metric_runs.namespace AND p.name = metric_runs.name)
		FROM metric_runs` + w.whereClause() + " ORDER BY started_ms DESC, namespace, name"
	if f.Limit > 0 {
		text += fmt.Sprintf(" LIMIT %d OFFSET %d", f.Limit, f.Offset)
	}
	rows, err := c.db.QueryContext(ctx, text, w.args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list runs of MetricSets: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	for rows.Next() {
		var r store.MetricRun
		var started, finished int64
		if err := rows.Scan(&r.Namespace, &r.Name, &r.Site, &r.Set, &r.Outcome, &started, &finished, &r.Document, &r.Samples); err != nil {
			return nil, 0, fmt.Errorf("list runs of MetricSets: %w", err)
		}
		for _, s := range []*string{&r.Namespace, &r.Name, &r.Site, &r.Set} {
			*s = c.d.get(*s)
		}
		r.Started = time.UnixMilli(started).UTC()
		if finished != 0 {
			r.Finished = time.UnixMilli(finished).UTC()
		}
		out = append(out, r)
	}
	return out, total, rows.Err()
}

// MetricRunPods implements store.MetricRuns.
func (c *Catalogue) MetricRunPods(ctx context.Context, namespace, name string) (out []store.MetricRunPod, err error) {
	rows, err := c.db.QueryContext(ctx,
		`SELECT uid, samples, document FROM metric_run_pods WHERE namespace = $1 AND name = $2 ORDER BY uid`, c.d.put(namespace),
		c.d.put(name))
	if err != nil {
		return nil, fmt.Errorf("read the run %s/%s: %w", namespace, name, c.translateError(ctx, err))
	}
	defer rows.Close()
	for rows.Next() {
		var p store.MetricRunPod
		if err := rows.Scan(&p.UID, &p.Samples, &p.Document); err != nil {
			return nil, fmt.Errorf("read the run %s/%s: %w", namespace, name, err)
		}
		p.UID = c.d.get(p.UID)
		out = append(out, p)
	}
	return out, rows.Err()
}

// MetricRunSamples implements store.MetricRuns.
func (c *Catalogue) MetricRunSamples(ctx context.Context, namespace, name string) (out []store.MetricRunSample, err error) {
	rows, err := c.db.QueryContext(ctx,
		`SELECT uid, seq, from_us, to_us, document FROM metric_run_samples WHERE namespace = $1 AND name = $2 ORDER BY uid, seq`,
		c.d.put(namespace), c.d.put(name))
	if err != nil {
		return nil, fmt.Errorf("read the samples of %s/%s: %w", namespace, name, c.translateError(ctx, err))
	}
	defer rows.Close()
	for rows.Next() {
		var s store.MetricRunSample
		var from, to int64
		if err := rows.Scan(&s.Pod, &s.Seq, &from, &to, &s.Document); err != nil {
			return nil, fmt.Errorf("read the samples of %s/%s: %w", namespace, name, err)
		}
		s.Pod, s.From, s.To = c.d.get(s.Pod), time.UnixMicro(from).UTC(), time.UnixMicro(to).UTC()
		out = append(out, s)
	}
	return out, rows.Err()
}

// TrimMetricRuns implements store.MetricRuns.
func (c *Catalogue) TrimMetricRuns(ctx context.Context, before time.Time) (n int, err error) {
	c.write.Lock()
	defer c.write.Unlock()
	err = c.inTx(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"metric_run_samples", "metric_run_pods"} {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE EXISTS (SELECT 1 FROM metric_runs AS r WHERE r.namespace = "+table+
				".namespace AND r.name = "+table+".name AND r.started_ms < $1)", before.UnixMilli())
			if err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, `DELETE FROM metric_runs WHERE started_ms < $1`, before.UnixMilli())
		if err != nil {
			return err
		}
		gone, err := result.RowsAffected()
		n = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget runs of MetricSets before %s: %w", before.UTC().Format(time.RFC3339), c.translateError(ctx, err))
	}
	return n, nil
}

// copyMetricRuns copies run by run, since each may have many samples.
func (c *Catalogue) copyMetricRuns(ctx context.Context, to *Catalogue) error {
	runs, _, err := c.MetricRuns(ctx, store.MetricRunFilter{})
	if err != nil {
		return err
	}
	for _, r := range runs {
		pods, err := c.MetricRunPods(ctx, r.Namespace, r.Name)
		if err != nil {
			return err
		}
		samples, err := c.MetricRunSamples(ctx, r.Namespace, r.Name)
		if err != nil {
			return err
		}
		if err := to.PutMetricRun(ctx, r, pods, samples); err != nil {
			return err
		}
	}
	return nil
}
