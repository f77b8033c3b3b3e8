package dataset

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// WriteCSV writes f as CSV: a header, then time (RFC 3339, UTC), labels and values. A gap is an empty field.
func (f *Frame) WriteCSV(w io.Writer) error {
	if err := f.checkShape(); err != nil {
		return err
	}
	out := csv.NewWriter(w)
	rec := []string{TimeColumn}
	for _, l := range f.Labels {
		rec = append(rec, l.Name)
	}
	for _, c := range f.Columns {
		rec = append(rec, c.Name)
	}
	if err := out.Write(rec); err != nil {
		return fmt.Errorf("write data set: %w", err)
	}
	for i, t := range f.Time {
		rec = append(rec[:0], time.UnixMilli(t).UTC().Format(timeLayout))
		for _, l := range f.Labels {
			rec = append(rec, l.Values[i])
		}
		for _, c := range f.Columns {
			rec = append(rec, formatValue(c.Values[i]))
		}
		if err := out.Write(rec); err != nil {
			return fmt.Errorf("write data set: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write data set: %w", err)
	}
	return nil
}

func formatValue(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// ReadCSV reads a data set. It needs a header and one time column, named time, timestamp or ts, in
// RFC 3339 or in seconds or milliseconds since the epoch. A column becomes a label if labels names
// it, or if it has a field that is neither a number nor a gap (empty, NaN, null). Without a time
// column, rows are numbered in seconds and a warning is returned.
func ReadCSV(r io.Reader, labels ...string) (*Frame, []string, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = false
	head, err := in.Read()
	if err == io.EOF {
		return nil, nil, fmt.Errorf("read data set: the file is empty: %w", ErrData)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read data set: %w: %w", ErrData, err)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	cols := make([][]string, len(head))
	for {
		rec, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read data set: %w: %w", ErrData, err)
		}
		for i, v := range rec {
			cols[i] = append(cols[i], v)
		}
	}
	if len(cols[0]) == 0 {
		return nil, nil, fmt.Errorf("read data set: no rows below the header: %w", ErrData)
	}
	f := &Frame{}
	var warnings []string
	at := findTime(head)
	if at < 0 {
		warnings = append(warnings, "no column of times (time, timestamp or ts): rows are taken to be one second apart")
		for i := range cols[0] {
			f.Time = append(f.Time, int64(i)*1000)
		}
	}
	force := make(map[string]bool)
	for _, l := range labels {
		force[l] = true
	}
	for i, name := range head {
		name = strings.TrimSpace(name)
		if i == at {
			if f.Time, err = parseTimes(cols[i]); err != nil {
				return nil, nil, fmt.Errorf("read data set: column %s: %w", name, err)
			}
			continue
		}
		if values, ok := parseValues(cols[i]); ok && !force[name] {
			f.Columns = append(f.Columns, Column{Name: name, Values: values})
		} else {
			f.Labels = append(f.Labels, LabelColumn{Name: name, Values: cols[i]})
		}
	}
	if err := f.checkShape(); err != nil {
		return nil, nil, fmt.Errorf("read data set: %w", err)
	}
	return f, warnings, nil
}

func findTime(head []string) int {
	for _, want := range []string{TimeColumn, "timestamp", "ts"} {
		for i, h := range head {
			if strings.EqualFold(strings.TrimSpace(h), want) {
				return i
			}
		}
	}
	return -1
}

// maxSeconds is in the year 5138; greater numbers are milliseconds.
const maxSeconds = 1e11

func parseTimes(vs []string) ([]int64, error) {
	out := make([]int64, len(vs))
	for i, v := range vs {
		v = strings.TrimSpace(v)
		if n, err := strconv.ParseFloat(v, 64); err == nil && math.Abs(n) < 1e15 {
			if math.Abs(n) < maxSeconds {
				n *= 1000
			}
			out[i] = int64(math.Round(n))
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return nil, fmt.Errorf("row %d: %q is no time (want RFC 3339 or seconds since 1970): %w", i+2, v, ErrData)
		}
		out[i] = t.UnixMilli()
	}
	return out, nil
}

// parseValues returns the numbers of a column; ok is false if it contains text.
func parseValues(vs []string) (out []float64, ok bool) {
	out = make([]float64, len(vs))
	for i, v := range vs {
		v = strings.TrimSpace(v)
		switch strings.ToLower(v) {
		case "", "nan", "null", "na", "-":
			out[i] = math.NaN()
			continue
		}
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return nil, false
		}
		if math.IsInf(n, 0) {
			n = math.NaN()
		}
		out[i] = n
	}
	return out, true
}
