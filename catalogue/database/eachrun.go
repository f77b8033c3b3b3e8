package database

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"reckon/catalogue/database/columns"
	"reckon/figure"
	"reckon/store"
)

// EachRun implements [store.Facts]: where there are many rows, from the columns in memory.
func (c *Catalogue) EachRun(ctx context.Context, q store.RunQuery, next func(*store.Workload)) error {
	places := make([]int, len(q.Figures))
	for i, key := range q.Figures {
		if places[i] = figure.Index(figure.Runs, key); places[i] < 0 {
			return fmt.Errorf("read runs: no figure is called %q", key)
		}
	}
	f := q.Filter
	f.IDs, f.Family = nil, ""
	if !c.d.indexes {
		table, err := c.eachTable(ctx, q.Held)
		if err != nil {
			return fmt.Errorf("read runs: %w", c.explain(ctx, err))
		}
		if table != nil {
			eachOfColumns(table, f, places, next)
			return ctx.Err()
		}
	}
	w := &conditions{d: c.d}
	w.filter(f)
	if q.Held {
		w.and("(allocated_cores IS NOT NULL OR request_cores IS NOT NULL)")
	}
	return c.eachOfRows(ctx, w, places, next)
}

// eachTable returns the columns in memory; nil if there are few rows or, for few of the runs, if they are not in memory yet.
func (c *Catalogue) eachTable(ctx context.Context, few bool) (*columns.Table, error) {
	if rows, _ := c.Held(); few && rows == 0 {
		return nil, nil
	}
	return c.lists.table(ctx)
}

// eachOfRows passes the rows of the database.
func (c *Catalogue) eachOfRows(ctx context.Context, w *conditions, figures []int, next func(*store.Workload)) error {
	read := []string{"site", "kind", "name", "owner", "account", "partition_name", "command", "state", "qos", "nodes", "exactness",
		"start_ms", "seen_ms", "until_ms", "submit_ms"}
	for _, at := range figures {
		read = append(read, runColumns[at])
	}
	rows, err := c.db.QueryContext(ctx, "SELECT "+strings.Join(read, ", ")+" FROM workloads"+w.sql(), w.args...)
	if err != nil {
		return fmt.Errorf("read runs: %w", c.explain(ctx, err))
	}
	defer rows.Close()
	for rows.Next() {
		var run store.Workload
		var nodes, exactness string
		var start, seen, until int64
		var submit *int64
		dest := []any{&run.Site, &run.Kind, &run.Name, &run.Owner, &run.Account, &run.Partition, &run.Command, &run.State, &run.QOS, &nodes,
			&exactness, &start, &seen, &until, &submit}
		for _, at := range figures {
			dest = append(dest, run.Row.At(at))
		}
		err := rows.Scan(dest...)
		if err == nil {
			err = json.Unmarshal([]byte(nodes), &run.Nodes)
		}
		if err == nil && exactness != "" {
			err = json.Unmarshal([]byte(exactness), &run.Exactness)
		}
		if err != nil {
			return fmt.Errorf("read runs: %w", c.explain(ctx, err))
		}
		run.Start, run.Seen = timeOf(start), timeOf(seen)
		if until < waiting {
			run.End = timeOf(until)
		}
		if submit != nil {
			run.Submit = timeOf(*submit)
		}
		c.d.each(&run, c.d.get)
		next(&run)
	}
	return c.explain(ctx, rows.Err())
}

// eachOfColumns passes the rows of a table.
func eachOfColumns(table *columns.Table, f store.Filter, figures []int, next func(*store.Workload)) {
	words := []int{wordSite, wordKind, wordName, wordOwner, wordAccount, wordPartition, wordCommand, wordState, wordQOS, wordExactness}
	numbers := []int{numberStart, numberSeen, numberUntil, numberSubmit}
	const fixed = 4
	for _, at := range figures {
		numbers = append(numbers, len(heldTimes)+at)
	}
	var w store.Workload
	into := []*string{&w.Site, &w.Kind, &w.Name, &w.Owner, &w.Account, &w.Partition, &w.Command, &w.State, &w.QOS}
	values, slots := make([]float64, len(figures)), make([]**float64, len(figures))
	for i, at := range figures {
		slots[i] = w.Row.At(at)
	}
	at := func(ms float64) time.Time { return time.UnixMilli(int64(ms)).UTC() }
	degrees, lists := map[int]figure.Degrees{}, map[int][]string{} // by their numbers
	table.Scan(question(f, "start_ms", false), words, numbers, func(b *columns.Batch, x columns.Texts) {
		for _, i := range b.Rows {
			for k, p := range into {
				*p = x.Word(k, int(b.Words[k][i]))
			}
			if cut := strings.IndexByte(w.Owner, '\n'); cut >= 0 {
				w.Owner = w.Owner[:cut]
			}
			w.Exactness = exactOf(degrees, int(b.Words[wordExactness][i]), x)
			w.Nodes = nodesOf(lists, int(b.Names[i]), x)
			w.Start, w.Seen, w.End, w.Submit = at(b.Numbers[0][i]), at(b.Numbers[1][i]), time.Time{}, time.Time{}
			if until := b.Numbers[2][i]; until < waiting {
				w.End = at(until)
			}
			if submit := b.Numbers[3][i]; submit == submit {
				w.Submit = at(submit)
			}
			for k, p := range slots {
				values[k] = b.Numbers[fixed+k][i]
				if *p = nil; values[k] == values[k] {
					*p = &values[k]
				}
			}
			next(&w)
		}
	})
}

// exactOf returns the exactness under its number among the texts.
func exactOf(known map[int]figure.Degrees, code int, x columns.Texts) figure.Degrees {
	d, ok := known[code]
	if !ok {
		if err := json.Unmarshal([]byte(x.Word(wordExactness, code)), &d); err != nil {
			d = nil // an empty text: all are exact
		}
		known[code] = d
	}
	return d
}

// nodesOf returns the list of nodes under its number.
func nodesOf(known map[int][]string, code int, x columns.Texts) []string {
	list, ok := known[code]
	if !ok {
		list = []string{}
		for _, n := range x.Names(code) {
			list = append(list, x.Name(n))
		}
		known[code] = list
	}
	return list
}
