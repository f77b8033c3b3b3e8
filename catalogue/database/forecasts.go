package database

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"reckon/store"
)

const forecastKey = "subject, site, name, figure, made_ms"

const forecastColumns = forecastKey +
	", owner, step_ms, length, steps, models, flags, backtest, naive, judged_steps, judged_inside, judged_error, judged_naive_error, " +
	"judged_naive_steps, judged_error_there"

// listSeparator separates names of models and of flags, which never contain it.
const listSeparator = ";"

// PutForecasts implements store.Forecasts.
func (c *Catalogue) PutForecasts(ctx context.Context, list []store.Forecast) error {
	if len(list) == 0 {
		return nil
	}
	c.write.Lock()
	defer c.write.Unlock()
	names := strings.Split(forecastColumns, ", ")
	set := make([]string, 0, len(names))
	for _, n := range names[5:] {
		set = append(set, n+" = excluded."+n)
	}
	text := "INSERT INTO forecasts (" + forecastColumns + ") VALUES (" + parameterList(1, len(names)) + ") ON CONFLICT (" + forecastKey +
		") DO UPDATE SET " + strings.Join(set, ", ")
	err := c.inTx(ctx, func(tx *sql.Tx) error {
		put, err := tx.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		defer put.Close()
		for i := range list {
			if _, err := put.ExecContext(ctx, c.forecastValues(&list[i])...); err != nil {
				return fmt.Errorf("forecast of %s %s %s: %w", list[i].Subject, list[i].Name, list[i].Figure, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %d forecasts: %w", len(list), c.translateError(ctx, err))
	}
	return nil
}

func (c *Catalogue) forecastValues(f *store.Forecast) []any {
	text := c.d.put
	var judged sql.NullInt64
	var j store.Judged
	if f.Judged != nil {
		j = *f.Judged
		judged = sql.NullInt64{Int64: int64(j.Steps), Valid: true}
	}
	return []any{f.Subject, text(f.Site), text(f.Name), f.Figure, f.Made.UnixMilli(), text(f.Owner), f.Step.Milliseconds(), len(f.Point),
		packSteps(f),
		strings.Join(f.Models, listSeparator), strings.Join(f.Flags, listSeparator), f.Backtest, f.Naive,
		judged, j.Inside, j.Error, j.NaiveError, j.NaiveSteps, j.ErrorThere}
}

// packSteps encodes point, low and high of each step as 32-bit floats, and after them the mean of each step if there is one.
func packSteps(f *store.Forecast) []byte {
	out := make([]byte, 0, 16*len(f.Point))
	all := make([]float64, 0, 4*len(f.Point))
	for i := range f.Point {
		all = append(all, f.Point[i], f.Low[i], f.High[i])
	}
	for _, v := range append(all, f.Mean...) {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(max(-math.MaxFloat32, min(v, math.MaxFloat32)))))
	}
	return out
}

func unpackSteps(b []byte, steps int, f *store.Forecast) {
	for ; len(f.Point) < steps && len(b) >= 12; b = b[12:] {
		at := func(i int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))) }
		f.Point, f.Low, f.High = append(f.Point, at(0)), append(f.Low, at(4)), append(f.High, at(8))
	}
	for ; len(b) >= 4; b = b[4:] {
		f.Mean = append(f.Mean, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	}
}

// Forecasts implements store.Forecasts.
func (c *Catalogue) Forecasts(ctx context.Context, f store.ForecastFilter) ([]store.Forecast, error) {
	w := &conditions{d: c.d}
	for _, by := range [][2]string{{"subject", f.Subject}, {"site", f.Site}, {"name", f.Name}} {
		if by[1] != "" {
			w.addCondition(by[0] + " = " + w.placeholder(c.d.put(by[1])))
		}
	}
	w.addIn("figure", f.Figures)
	if !f.Since.IsZero() {
		w.addCondition("made_ms >= " + w.placeholder(f.Since.UnixMilli()))
	}
	if !f.Until.IsZero() {
		w.addCondition("made_ms < " + w.placeholder(f.Until.UnixMilli()))
	}
	if f.Unjudged {
		w.addCondition("judged_steps IS NULL")
	}
	text := "SELECT " + forecastColumns + " FROM forecasts" + w.whereClause()
	if f.Newest {
		text = "SELECT " + prefixColumns("f.", forecastColumns) +
			" FROM forecasts AS f JOIN (SELECT subject, site, name, figure, max(made_ms) AS made_ms FROM forecasts" + w.whereClause() +
			" GROUP BY subject, site, name, figure) AS n ON f.subject = n.subject AND f.site = n.site AND f.name = n.name AND f.figure " +
			"= n.figure AND f.made_ms = n.made_ms"
		text += " ORDER BY " + prefixColumns("f.", forecastKey)
	} else {
		text += " ORDER BY " + forecastKey
	}
	rows, err := c.db.QueryContext(ctx, text, w.args...)
	if err != nil {
		return nil, fmt.Errorf("list forecasts: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	var out []store.Forecast
	for rows.Next() {
		one, err := c.scanForecast(rows)
		if err != nil {
			return nil, fmt.Errorf("list forecasts: %w", err)
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// prefixColumns prefixes each column with a table's name.
func prefixColumns(table, columns string) string {
	return table + strings.ReplaceAll(columns, ", ", ", "+table)
}

func (c *Catalogue) scanForecast(rows *sql.Rows) (store.Forecast, error) {
	var f store.Forecast
	var made, step, length int64
	var steps []byte
	var models, flags string
	var judged sql.NullInt64
	var j store.Judged
	err := rows.Scan(&f.Subject, &f.Site, &f.Name, &f.Figure, &made, &f.Owner, &step, &length, &steps, &models, &flags, &f.Backtest,
		&f.Naive,
		&judged, &j.Inside, &j.Error, &j.NaiveError, &j.NaiveSteps, &j.ErrorThere)
	if err != nil {
		return f, err
	}
	f.Site, f.Name, f.Owner = c.d.get(f.Site), c.d.get(f.Name), c.d.get(f.Owner)
	f.Made, f.Step = time.UnixMilli(made).UTC(), time.Duration(step)*time.Millisecond
	unpackSteps(steps, int(length), &f)
	f.Models, f.Flags = splitList(models), splitList(flags)
	if judged.Valid {
		j.Steps = int(judged.Int64)
		f.Judged = &j
	}
	return f, nil
}

func splitList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, listSeparator)
}

// TrimForecasts implements store.Forecasts.
func (c *Catalogue) TrimForecasts(ctx context.Context, before time.Time, short int, shortBefore time.Time) error {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM forecasts WHERE made_ms < $1 OR (made_ms < $2 AND length < $3)`, before.UnixMilli(),
			shortBefore.UnixMilli(), short)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget forecasts made before %s: %w", before.UTC().Format(time.RFC3339), c.translateError(ctx, err))
	}
	return nil
}

// copyForecasts copies forecasts day by day, by the time they were made, since there may be many.
func (c *Catalogue) copyForecasts(ctx context.Context, to *Catalogue) error {
	var first, last sql.NullInt64
	if err := c.db.QueryRowContext(ctx, `SELECT min(made_ms), max(made_ms) FROM forecasts`).Scan(&first, &last); err != nil ||
		!first.Valid {
		return c.translateError(ctx, err)
	}
	end := time.UnixMilli(last.Int64)
	for at := time.UnixMilli(first.Int64); !at.After(end); at = at.Add(24 * time.Hour) {
		list, err := c.Forecasts(ctx, store.ForecastFilter{Since: at, Until: at.Add(24 * time.Hour)})
		if err != nil {
			return err
		}
		if err := to.PutForecasts(ctx, list); err != nil {
			return err
		}
	}
	return nil
}
