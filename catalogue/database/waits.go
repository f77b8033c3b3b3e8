package database

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"reckon/store"
)

const waitColumns = `site, partition_name, reason, nodes, submit_ms, start_ms, seen_ms, until_ms, request_cores, request_memory_bytes, ` +
	`request_gpus, request_nodes`

// Waits implements store.Waits.
func (c *Catalogue) Waits(ctx context.Context, q store.WaitQuery, f func(*store.Wait) error) error {
	w := &conditions{d: c.d}
	since, until := w.placeholder(q.Since.UnixMilli()), w.placeholder(q.Until.UnixMilli())
	wanted := ""
	for _, x := range []struct {
		column string
		within *store.Range
	}{{"request_cores", q.Cores}, {"request_memory_bytes", q.MemoryBytes}, {"request_gpus", q.GPUs}} {
		if x.within != nil {
			wanted += " AND " + x.column + " >= " + w.placeholder(x.within.Low) + " AND " + x.column + " <= " + w.placeholder(x.within.High)
		}
	}
	// The start of a pending workload is its submit time.
	text := "SELECT " + waitColumns + " FROM workloads" + c.d.indexed("workloads_waits") +
		" WHERE submit_ms IS NOT NULL AND start_ms >= " + since + " AND start_ms < " + until + wanted +
		fmt.Sprintf(" AND until_ms <> %d", int64(waiting))
	if !q.Begun {
		text += " UNION ALL SELECT " + waitColumns +
			fmt.Sprintf(" FROM workloads WHERE submit_ms IS NOT NULL AND until_ms = %d AND submit_ms < ", int64(waiting)) + until + wanted
	}
	err := c.eachRow(ctx, text, w.args, func(scan func(...any) error) error {
		var x store.Wait
		var nodes string
		var submit, start, seen, end int64
		if err := scan(&x.Site, &x.Partition, &x.Reason, &nodes, &submit, &start, &seen, &end, &x.RequestCores, &x.RequestMemoryBytes,
			&x.RequestGPUs, &x.RequestNodes); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(nodes), &x.Nodes); err != nil {
			return err
		}
		for i := range x.Nodes {
			x.Nodes[i] = c.d.get(x.Nodes[i])
		}
		x.Site, x.Partition, x.Reason = c.d.get(x.Site), c.d.get(x.Partition), c.d.get(x.Reason)
		x.Submit = time.UnixMilli(submit).UTC()
		if end != waiting {
			x.Start = time.UnixMilli(start).UTC()
		}
		if end >= waiting {
			end = seen
		}
		x.End = time.UnixMilli(end).UTC()
		return f(&x)
	})
	if err != nil {
		return fmt.Errorf("read the waits of workloads: %w", err)
	}
	return nil
}
