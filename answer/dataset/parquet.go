package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// dictionaryKey is the key of the data dictionary in the metadata of a file.
const dictionaryKey = "reckon.dictionary"

// batchRows is the number of rows passed on at a time.
const batchRows = 1024

// WriteParquet writes f as Parquet: time as a millisecond timestamp, labels as dictionary-coded
// strings, values as optional doubles with null for a gap. The metadata contains the data
// dictionary with units and column order.
func (f *Frame) WriteParquet(w io.Writer) error {
	if err := f.checkShape(); err != nil {
		return err
	}
	group := parquet.Group{TimeColumn: parquet.Timestamp(parquet.Millisecond)}
	for _, l := range f.Labels {
		group[l.Name] = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	for _, c := range f.Columns {
		group[c.Name] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
	}
	schema := parquet.NewSchema("reckon", group)
	dict, err := json.Marshal(f.Dictionary())
	if err != nil {
		return fmt.Errorf("write data set: %w", err)
	}
	out := parquet.NewWriter(w, schema, parquet.Compression(&parquet.Zstd), parquet.KeyValueMetadata(dictionaryKey, string(dict)))
	at := func(name string) int {
		leaf, _ := schema.Lookup(name)
		return leaf.ColumnIndex
	}
	width := 1 + len(f.Labels) + len(f.Columns)
	timeAt := at(TimeColumn)
	labelAt, valueAt := make([]int, len(f.Labels)), make([]int, len(f.Columns))
	for i := range f.Labels {
		labelAt[i] = at(f.Labels[i].Name)
	}
	for i := range f.Columns {
		valueAt[i] = at(f.Columns[i].Name)
	}
	var rows []parquet.Row
	flush := func() error {
		if _, err := out.WriteRows(rows); err != nil {
			return fmt.Errorf("write data set: %w", err)
		}
		rows = rows[:0]
		return nil
	}
	for i, t := range f.Time {
		row := make(parquet.Row, width)
		row[timeAt] = parquet.Int64Value(t).Level(0, 0, timeAt)
		for k, l := range f.Labels {
			row[labelAt[k]] = parquet.ByteArrayValue([]byte(l.Values[i])).Level(0, 0, labelAt[k])
		}
		for k, c := range f.Columns {
			if v := c.Values[i]; math.IsNaN(v) {
				row[valueAt[k]] = parquet.NullValue().Level(0, 0, valueAt[k])
			} else {
				row[valueAt[k]] = parquet.DoubleValue(v).Level(0, 1, valueAt[k])
			}
		}
		if rows = append(rows, row); len(rows) == batchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write data set: %w", err)
	}
	return nil
}

// ReadParquet reads a flat Parquet file of size bytes from any program. It needs a time column,
// named as for [ReadCSV]. Numbers become values; strings and booleans become labels.
func ReadParquet(r io.ReaderAt, size int64) (f *Frame, err error) {
	// The library panics on some damaged files; we return an error.
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("read data set: damaged Parquet file (%v): %w", p, ErrData)
		}
	}()
	file, err := parquet.OpenFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("read data set: %w: %w", ErrData, err)
	}
	leaves, err := flatColumns(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range leaves {
		names = append(names, l.name)
	}
	at := findTime(names)
	if at < 0 {
		return nil, fmt.Errorf("read data set: no column of times (time, timestamp or ts): %w", ErrData)
	}
	f = &Frame{}
	for _, g := range file.RowGroups() {
		if err := readGroup(f, g, leaves, at); err != nil {
			return nil, err
		}
	}
	if len(f.Time) == 0 {
		return nil, fmt.Errorf("read data set: no rows: %w", ErrData)
	}
	for i, l := range leaves {
		switch {
		case i == at:
		case l.label:
			f.Labels = append(f.Labels, LabelColumn{Name: l.name, Values: l.words})
		default:
			f.Columns = append(f.Columns, Column{Name: l.name, Values: l.values})
		}
	}
	if s, ok := file.Lookup(dictionaryKey); ok {
		f.applyDictionary([]byte(s))
	}
	return f, f.checkShape()
}

// fileColumn is a column of a Parquet file while it is read.
type fileColumn struct {
	name   string
	label  bool
	perMs  float64 // units of the time column per millisecond, 0 if unspecified
	words  []string
	values []float64
}

func flatColumns(file *parquet.File) ([]*fileColumn, error) {
	var out []*fileColumn
	for _, field := range file.Schema().Fields() {
		if !field.Leaf() || field.Repeated() {
			return nil, fmt.Errorf("read data set: column %s is nested; want a flat table: %w", field.Name(), ErrData)
		}
		l := &fileColumn{name: field.Name()}
		switch kind := field.Type().Kind(); kind {
		case parquet.ByteArray, parquet.FixedLenByteArray, parquet.Boolean:
			l.label = true
		case parquet.Int32, parquet.Int64, parquet.Float, parquet.Double:
		default:
			return nil, fmt.Errorf("read data set: column %s has the type %s: %w", field.Name(), kind, ErrData)
		}
		if t := field.Type().LogicalType(); t != nil {
			if stamp, ok := t.Value.(*format.TimestampType); ok {
				l.perMs = perMillisecond(stamp.Unit)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

func perMillisecond(u format.TimeUnit) float64 {
	switch u.Value.(type) {
	case *format.MicroSeconds:
		return 1e3
	case *format.NanoSeconds:
		return 1e6
	}
	return 1
}

func readGroup(f *Frame, g parquet.RowGroup, leaves []*fileColumn, at int) error {
	rows := g.Rows()
	defer rows.Close()
	buf := make([]parquet.Row, batchRows)
	for {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			if len(row) != len(leaves) {
				return fmt.Errorf("read data set: row %d has %d of %d values: %w", len(f.Time)+1, len(row), len(leaves), ErrData)
			}
			for i, l := range leaves {
				v := row[i]
				switch {
				case i == at:
					t, err := l.parseTime(v, len(f.Time)+1)
					if err != nil {
						return err
					}
					f.Time = append(f.Time, t)
				case l.label:
					l.words = append(l.words, toText(v))
				default:
					l.values = append(l.values, toNumber(v))
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read data set: %w: %w", ErrData, err)
		}
		if n == 0 {
			return nil
		}
	}
}

func (l *fileColumn) parseTime(v parquet.Value, row int) (int64, error) {
	if l.label {
		t, err := parseTimes([]string{toText(v)})
		if err != nil {
			return 0, fmt.Errorf("read data set: row %d: %w", row, err)
		}
		return t[0], nil
	}
	n := toNumber(v)
	if math.IsNaN(n) {
		return 0, fmt.Errorf("read data set: row %d has no time: %w", row, ErrData)
	}
	switch {
	case l.perMs == 1:
		return v.Int64(), nil
	case l.perMs > 0:
		n /= l.perMs
	case math.Abs(n) < maxSeconds:
		n *= 1000
	}
	return int64(math.Round(n)), nil
}

func toText(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Boolean:
		return fmt.Sprint(v.Boolean())
	}
	return string(bytes.Clone(v.ByteArray()))
}

func toNumber(v parquet.Value) float64 {
	n := math.NaN()
	if v.IsNull() {
		return n
	}
	switch v.Kind() {
	case parquet.Int32:
		n = float64(v.Int32())
	case parquet.Int64:
		n = float64(v.Int64())
	case parquet.Float:
		n = float64(v.Float())
	case parquet.Double:
		n = v.Double()
	}
	if math.IsInf(n, 0) {
		return math.NaN()
	}
	return n
}

// applyDictionary sets units, help and column order from a dictionary. It ignores a dictionary that does
// not match, because the numbers are usable without it.
func (f *Frame) applyDictionary(dict []byte) {
	var d Dictionary
	if json.Unmarshal(dict, &d) != nil {
		return
	}
	f.StepSeconds = d.StepSeconds
	place := make(map[string]int)
	for i, def := range d.Columns {
		place[def.Name] = i
		if c := f.Column(def.Name); c != nil {
			c.Unit, c.Help, c.Source, c.Rate = def.Unit, def.Help, def.Source, def.Rate
		}
	}
	slices.SortStableFunc(f.Columns, func(a, b Column) int { return place[a.Name] - place[b.Name] })
	slices.SortStableFunc(f.Labels, func(a, b LabelColumn) int { return place[a.Name] - place[b.Name] })
}
