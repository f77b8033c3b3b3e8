package database

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"reckon/catalogue/database/columns"
	"reckon/figure"
	"reckon/store"
)

// EachRun implements [store.Facts]. For many rows it uses the columns in memory.
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
		table, err := c.tableForRuns(ctx, q.Held)
		if err != nil {
			return fmt.Errorf("read runs: %w", c.translateError(ctx, err))
		}
		if table != nil {
			eachColumnRow(table, f, places, next)
			return ctx.Err()
		}
	}
	w := &conditions{d: c.d}
	w.addFilter(f)
	if q.Held {
		w.addCondition("(allocated_cores IS NOT NULL OR request_cores IS NOT NULL)")
	}
	return c.eachStoredRow(ctx, w, places, next)
}

// tableForRuns returns the columns in memory. It returns nil if the table has few rows, or if few runs are requested and the
// columns are not in memory yet.
func (c *Catalogue) tableForRuns(ctx context.Context, few bool) (*columns.Table, error) {
	if rows, _ := c.Held(); few && rows == 0 {
		return nil, nil
	}
	return c.lists.loadedTable(ctx)
}

// eachStoredRow passes the rows of the database.
func (c *Catalogue) eachStoredRow(ctx context.Context, w *conditions, figures []int, next func(*store.Workload)) error {
	read := []string{"site", "kind", "name", "owner", "account", "partition_name", "command", "state", "qos", "nodes", "exactness",
		"start_ms", "seen_ms", "until_ms", "submit_ms"}
	for _, at := range figures {
		read = append(read, runColumns[at])
	}
	rows, err := c.db.QueryContext(ctx, "SELECT "+strings.Join(read, ", ")+" FROM workloads"+w.whereClause(), w.args...)
	if err != nil {
		return fmt.Errorf("read runs: %w", c.translateError(ctx, err))
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
			return fmt.Errorf("read runs: %w", c.translateError(ctx, err))
		}
		run.Start, run.Seen = fromMillis(start), fromMillis(seen)
		if until < waiting {
			run.End = fromMillis(until)
		}
		if submit != nil {
			run.Submit = fromMillis(*submit)
		}
		c.d.mapTexts(&run, c.d.get)
		next(&run)
	}
	return c.translateError(ctx, rows.Err())
}

// eachColumnRow passes the rows of a table.
func eachColumnRow(table *columns.Table, f store.Filter, figures []int, next func(*store.Workload)) {
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
	degrees, lists, exact := map[int]figure.Degrees{}, map[int][]string{}, math.NaN() // by their numbers
	at := func(v []float64, i uint16) float64 { return v[min(int(i), len(v)-1)] }
	table.Scan(toColumnsQuery(f, "start_ms", false), words, numbers, func(b *columns.Batch, x columns.Texts) {
		texts, known := make([]int, 0, len(into)), make([]int, 0, len(slots)) // columns to read of each row
		for k, p := range into {
			if texts = append(texts, k); len(b.Words[k]) == 1 {
				*p, texts = x.Word(k, int(b.Words[k][0])), texts[:len(texts)-1]
			}
		}
		for k, v := range b.Numbers[fixed:] {
			if known = append(known, k); len(v) == 1 && v[0] != v[0] {
				*slots[k], known = nil, known[:len(known)-1]
			}
		}
		for _, i := range b.Rows {
			for _, k := range texts {
				*into[k] = x.Word(k, int(b.Words[k][i]))
			}
			if cut := strings.IndexByte(w.Owner, '\n'); cut >= 0 {
				w.Owner = w.Owner[:cut]
			}
			if code := at(b.Words[wordExactness], i); code != exact {
				w.Exactness, exact = decodeExactness(degrees, int(code), x), code
			}
			w.Nodes = decodeNodes(lists, int(at(b.Names, i)), x)
			until, submit := at(b.Numbers[2], i), at(b.Numbers[3], i)
			w.Start, w.Seen = fromMillis(int64(at(b.Numbers[0], i))), fromMillis(int64(at(b.Numbers[1], i)))
			if w.End, w.Submit = (time.Time{}), (time.Time{}); until < waiting {
				w.End = fromMillis(int64(until))
			}
			if submit == submit {
				w.Submit = fromMillis(int64(submit))
			}
			for _, k := range known {
				values[k] = at(b.Numbers[fixed+k], i)
				if *slots[k] = nil; values[k] == values[k] {
					*slots[k] = &values[k]
				}
			}
			next(&w)
		}
	})
}

// decodeExactness returns the exactness with the number code. known caches decoded texts.
func decodeExactness(known map[int]figure.Degrees, code int, x columns.Texts) figure.Degrees {
	d, ok := known[code]
	if !ok {
		if err := json.Unmarshal([]byte(x.Word(wordExactness, code)), &d); err != nil {
			d = nil // an empty text: all are exact
		}
		known[code] = d
	}
	return d
}

// decodeNodes returns the list of nodes with the number code. known caches decoded lists.
func decodeNodes(known map[int][]string, code int, x columns.Texts) []string {
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
