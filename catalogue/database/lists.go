package database

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"reckon/catalogue/database/columns"
	"reckon/store"
)

const (
	// manyRows is the number of rows from which lists are answered from columns in memory. For fewer rows, a scan of
	// the table takes a few milliseconds and no memory.
	manyRows = 5000
	// mostRows limits the memory of the columns: about 2 GB.
	mostRows = 8_000_000
	// mostLate limits the rows that are written while the columns are read.
	mostLate = 200_000
)

var errTooMany = fmt.Errorf("there are more than %d workloads; keep less history", mostRows)

// listCache keeps columns of the table in memory. It reads them at the first list and then applies this program's writes. A
// counter of writes in the database shows whether other programs wrote; after that, it reads the columns again.
type listCache struct {
	db    *sql.DB
	log   *slog.Logger
	many  int
	write *sync.Mutex // of the catalogue: its holder is the only writer

	mu        sync.Mutex
	columns   *columns.Table // nil until they are read
	at        int64          // the write up to which they are current
	announced int64          // the write about to be applied to the columns
	reading   *columnReading // under way
	counted   int64          // the write at which there were few rows; -1 for not counted
	not       time.Time      // not read again before this time
	stop      context.CancelFunc
	done      sync.WaitGroup
	ctx       context.Context // of the readings: ends with the catalogue
}

// columnReading is a pass over all rows.
type columnReading struct {
	ready   chan struct{}
	late    []pendingWrite
	rows    int
	spoiled bool
}

// pendingWrite holds the changes of one transaction.
type pendingWrite struct {
	at      int64
	changes []columns.Change
}

func newListCache(db *sql.DB, write *sync.Mutex, log *slog.Logger) *listCache {
	l := &listCache{db: db, write: write, log: log, many: manyRows, counted: -1}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

func (l *listCache) close() {
	if l != nil {
		l.stop()
		l.done.Wait()
	}
}

const generationSQL = `SELECT n FROM generation`

// loadedTable returns the current columns, and reads them first if the table has many rows. It returns nil if there are few
// rows or the columns cannot be read.
func (l *listCache) loadedTable(ctx context.Context) (*columns.Table, error) {
	for {
		now, err := l.lastWrite(ctx)
		if err != nil {
			return nil, err
		}
		table, r, err := l.currentColumns(ctx, now)
		if err != nil || r == nil {
			return table, err
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// lastWrite returns the number of the newest write.
func (l *listCache) lastWrite(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, generationSQL).Scan(&n)
	return n, err
}

// currentColumns returns the columns, or the running reading that builds them.
func (l *listCache) currentColumns(ctx context.Context, now int64) (*columns.Table, *columnReading, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.columns != nil {
		if now <= l.at || now == l.announced {
			return l.columns, nil, nil
		}
		l.log.Info("another program wrote to the catalogue: the columns of lists are read again")
		l.columns = nil
	}
	if l.reading != nil {
		return nil, l.reading, nil
	}
	if l.counted == now || time.Now().Before(l.not) {
		return nil, nil, nil
	}
	var rows int
	if err := l.db.QueryRowContext(ctx,
		fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM workloads LIMIT %d)", l.many)).Scan(&rows); err != nil {
		return nil, nil, err
	}
	if rows < l.many {
		l.counted = now
		return nil, nil, nil
	}
	l.reading = &columnReading{ready: make(chan struct{})}
	l.done.Go(func() { l.buildColumns(l.reading) })
	return nil, l.reading, nil
}

// buildColumns builds the columns.
func (l *listCache) buildColumns(r *columnReading) {
	begin := time.Now()
	l.write.Lock()
	l.mu.Lock()
	r.late, r.rows, r.spoiled = nil, 0, false // everything written up to here is in the file
	l.mu.Unlock()
	l.write.Unlock()
	table, at, err := readColumns(l.ctx, l.db)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(r.ready)
	l.reading = nil
	for i := 0; err == nil && i < len(r.late); i++ {
		if r.late[i].at <= at {
			continue
		}
		if r.late[i].at != at+1 {
			err = errors.New("another program wrote to it meanwhile")
			break
		}
		at, err = r.late[i].at, table.Apply(r.late[i].changes)
	}
	if err == nil && r.spoiled {
		err = errors.New("too many writes during the reading")
	}
	took := time.Since(begin)
	l.not = time.Now().Add(10 * took) // limits the share of time if others write constantly
	if err != nil {
		if l.ctx.Err() == nil {
			l.log.Warn("the catalogue answers lists slowly: its columns are not in memory", "err", err)
		}
		return
	}
	l.columns, l.at = table, at
	l.log.Info("lists are answered from memory", "workloads", table.Len(), "bytes", table.Bytes(), "took", took.Round(time.Millisecond))
}

// tracksWrites reports whether writes must be applied to the columns; the caller holds the lock of writers.
func (l *listCache) tracksWrites() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.columns != nil || l.reading != nil
}

// countWrite counts a write in its transaction.
func (l *listCache) countWrite(ctx context.Context, tx *sql.Tx) (at int64, err error) {
	if l == nil {
		return 0, nil
	}
	if err := tx.QueryRowContext(ctx, `UPDATE generation SET n = n + 1 RETURNING n`).Scan(&at); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.announced = at
	return at, nil
}

// applyWrite applies a write, if err is nil. Nil changes mean all rows.
func (l *listCache) applyWrite(at int64, changes []columns.Change, err error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.announced = 0
	if err != nil {
		return // the database rolled it back
	}
	if r := l.reading; r != nil {
		r.rows += len(changes)
		if r.late = append(r.late, pendingWrite{at, changes}); changes == nil || r.rows > mostLate {
			r.spoiled, r.late = true, nil
		}
		return
	}
	if l.columns == nil {
		return
	}
	if changes == nil || at != l.at+1 {
		l.columns, l.not = nil, time.Time{}
		return
	}
	err = l.columns.Apply(changes)
	if err == nil && l.columns.Len() > mostRows {
		err = errTooMany
	}
	if err != nil {
		l.log.Warn("the columns of lists are read again", "err", err)
		l.columns = nil
		return
	}
	l.at = at
}

// readColumns reads all rows as of one write.
func readColumns(ctx context.Context, db *sql.DB) (table *columns.Table, at int64, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	table = columns.New(len(heldWords), len(heldNumbers))
	err = conn.Raw(func(c any) error {
		at, err = readAll(ctx, c.(sqldriver.QueryerContext), table)
		return err
	})
	return table, at, err
}

// readAll bypasses package database/sql, which would take twice the time.
func readAll(ctx context.Context, c sqldriver.QueryerContext, table *columns.Table) (at int64, err error) {
	query := "SELECT (" + generationSQL + "), key, id, nodes, " + strings.Join(heldWords, ", ") + ", " + strings.Join(heldNumbers, ", ") +
		" FROM workloads ORDER BY key"
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	const fixed = 4
	values := make([]sqldriver.Value, fixed+len(heldWords)+len(heldNumbers))
	nodes := map[string][]string{}
	batch := make([]columns.Change, 0, 4096)
	for n := 0; ; n++ {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return at, table.Apply(batch)
		case err != nil:
			return 0, err
		}
		if len(batch) == cap(batch) {
			if err := errors.Join(ctx.Err(), table.Apply(batch)); err != nil {
				return 0, err
			}
			if batch = batch[:0]; n > mostRows {
				return 0, errTooMany
			}
		}
		batch = batch[:len(batch)+1]
		r := &batch[len(batch)-1].Row
		if r.Words == nil {
			r.Words, r.Numbers = make([]string, len(heldWords)), make([]float64, len(heldNumbers))
		}
		at, r.Key, r.ID = int64(toNumber(values[0])), int64(toNumber(values[1])), toText(values[2])
		list := toText(values[3])
		have, known := nodes[list]
		if !known {
			if err := json.Unmarshal([]byte(list), &have); err != nil {
				return 0, fmt.Errorf("nodes of %s: %w", r.ID, err)
			}
			if len(nodes) > 10_000 {
				clear(nodes)
			}
			nodes[list] = have
		}
		r.Names = have
		for i := range r.Words {
			r.Words[i] = toText(values[fixed+i])
		}
		for i := range r.Numbers {
			r.Numbers[i] = toNumber(values[fixed+len(r.Words)+i])
		}
	}
}

func toNumber(v sqldriver.Value) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

func toText(v sqldriver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// listFromColumns selects and orders in memory, and reads the rows of the page.
func (c *Catalogue) listFromColumns(ctx context.Context, table *columns.Table, f store.Filter, order string, down bool) ([]store.Workload,
	int, error) {
	q := toColumnsQuery(f, order, down)
	keys, total := table.Select(q)
	out := make([]store.Workload, 0, len(keys))
	const page = 500
	for len(keys) > 0 {
		n := min(page, len(keys))
		rows, err := c.fetchRows(ctx, keys[:n])
		if err != nil {
			return nil, 0, fmt.Errorf("list workloads: %w", c.translateError(ctx, err))
		}
		for _, key := range keys[:n] {
			w, there := rows[key]
			if !there { // deleted since
				continue
			}
			if r := toColumnRow(key, &w.Workload, w.until); stillSelects(q, &r) {
				out = append(out, w.Workload)
			}
		}
		keys = keys[n:]
	}
	return out, total, nil
}

// foundRow is a row, and its stored end.
type foundRow struct {
	store.Workload
	until int64
}

// fetchRows reads the rows with the given keys.
func (c *Catalogue) fetchRows(ctx context.Context, keys []int64) (map[int64]*foundRow, error) {
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	rows, err := c.byKey.QueryContext(ctx, string(list))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[int64]*foundRow, len(keys))
	for rows.Next() {
		var key int64
		w, until, err := c.d.scan(rows, &key)
		if err != nil {
			return nil, err
		}
		out[key] = &foundRow{w, until}
	}
	return out, rows.Err()
}

// Warm starts to read the columns if there are many workloads, so that the first list does not have to wait.
func (c *Catalogue) Warm(ctx context.Context) error {
	if c.lists == nil {
		return nil
	}
	now, err := c.lists.lastWrite(ctx)
	if err == nil {
		_, _, err = c.lists.currentColumns(ctx, now)
	}
	if err != nil {
		return fmt.Errorf("read the columns of lists: %w", c.translateError(ctx, err))
	}
	return nil
}

// Held returns the number of workloads in memory for lists, and its approximate size in bytes.
func (c *Catalogue) Held() (rows, bytes int) {
	if c.lists == nil {
		return 0, 0
	}
	c.lists.mu.Lock()
	defer c.lists.mu.Unlock()
	if c.lists.columns == nil {
		return 0, 0
	}
	return c.lists.columns.Len(), c.lists.columns.Bytes()
}
