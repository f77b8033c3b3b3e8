package stress

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// secondsColumn is the start time of a step of a trace, from any zero.
const secondsColumn = "seconds"

// maxTraceSize is the maximum size of a trace, in bytes.
const maxTraceSize = 256 << 20

// traceFile is a trace as JSON: the resources over time of a real workload.
type traceFile struct {
	Format   string       `json:"format"` // traceFormat
	Workload string       `json:"workload,omitempty"`
	Points   []tracePoint `json:"points"`
}

// tracePoint holds "seconds" and the resources by their names; null is unknown.
type tracePoint map[string]*float64

const traceFormat = "reckon-trace/1"

// WriteTrace writes a program in a format that [ReadTrace] reads: "csv" or "json". The last row has only the end time
// of the program.
func WriteTrace(w io.Writer, p Program, workload, format string) error {
	peak := p.Peak()
	var used []Resource
	for _, of := range All() {
		if peak[of] > 0 {
			used = append(used, of)
		}
	}
	begins := []float64{0}
	var sum time.Duration
	for _, s := range p.Steps {
		sum += s.Duration
		begins = append(begins, sum.Seconds())
	}
	switch format {
	case "json":
		f := traceFile{Format: traceFormat, Workload: workload}
		for i, begin := range begins {
			point := tracePoint{secondsColumn: &begin}
			for _, of := range used {
				if i < len(p.Steps) {
					point[of.String()] = &p.Steps[i].Level[of]
				}
			}
			f.Points = append(f.Points, point)
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("write trace: %w", err)
		}
		return nil
	case "csv":
		out := csv.NewWriter(w)
		row := []string{secondsColumn}
		for _, of := range used {
			row = append(row, of.String())
		}
		_ = out.Write(row) // the first error is kept and returned at the end
		for i, begin := range begins {
			row = append(row[:0], formatNumber(&begin))
			for _, of := range used {
				if i < len(p.Steps) {
					row = append(row, formatNumber(&p.Steps[i].Level[of]))
				} else {
					row = append(row, "")
				}
			}
			_ = out.Write(row)
		}
		out.Flush()
		if err := out.Error(); err != nil {
			return fmt.Errorf("write trace: %w", err)
		}
		return nil
	}
	return fmt.Errorf("write trace: %q is no form: give csv or json", format)
}

// ReadTrace reads a program as CSV with a header, or as JSON. The column seconds is the start of each step, which lasts
// until the start of the next one. A last row with only a time is the end of the program. Without such a row, the last
// step lasts as long as the step before it, or one second if there is no other. ignored lists columns that are not
// resources. An empty cell repeats the value above it and is 0 in the first row.
func ReadTrace(r io.Reader) (p Program, ignored []string, err error) {
	in := bufio.NewReader(io.LimitReader(r, maxTraceSize+1))
	first, err := peekWord(in)
	if err != nil {
		return Program{}, nil, fmt.Errorf("read trace: %w", err)
	}
	var rows traceRows
	if first == '{' || first == '[' {
		err = rows.readJSON(in, first)
	} else {
		err = rows.readCSV(in)
	}
	if err == nil {
		p, err = rows.toProgram()
	}
	if err != nil {
		return Program{}, nil, fmt.Errorf("read trace: %w", err)
	}
	return p, rows.ignored, nil
}

func peekWord(in *bufio.Reader) (byte, error) {
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = in.Discard(3) // a byte order mark; just seen, so it can be discarded
	}
	for {
		b, err := in.Peek(1)
		if errors.Is(err, io.EOF) {
			return 0, errors.New("the file is empty")
		}
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			return b[0], nil
		}
		_, _ = in.Discard(1) // just seen
	}
}

// traceRows is a trace during parsing.
type traceRows struct {
	begin   []float64
	level   []Level
	ignored []string
	last    Level
	closed  bool // the last row has only the time
}

func (t *traceRows) addRow(where string, seconds float64, get func(Resource) (float64, bool)) error {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || math.Abs(seconds) > 1e12 {
		return fmt.Errorf("%s: seconds is %g", where, seconds)
	}
	if n := len(t.begin); n > 0 && seconds <= t.begin[n-1] {
		return fmt.Errorf("%s: seconds is %g after %g; it must rise", where, seconds, t.begin[n-1])
	}
	if len(t.begin) > maxSteps {
		return fmt.Errorf("more than %d rows", maxSteps)
	}
	t.closed = true
	for _, of := range All() {
		v, ok := get(of)
		if !ok || math.IsNaN(v) {
			continue // a gap
		}
		t.closed = false
		if v < 0 || v > 1e15 {
			return fmt.Errorf("%s: %s is %g", where, of, v)
		}
		t.last[of] = v
	}
	t.begin, t.level = append(t.begin, seconds), append(t.level, t.last)
	return nil
}

func (t *traceRows) readCSV(in io.Reader) error {
	rows := csv.NewReader(in)
	rows.Comment = '#'
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return err
	}
	at, columns := -1, map[Resource]int{}
	for i, name := range head {
		name = strings.TrimSpace(name)
		if of, ok := resourceNamed(name); ok {
			if _, twice := columns[of]; twice {
				return fmt.Errorf("column %s occurs twice", name)
			}
			columns[of] = i
		} else if strings.EqualFold(name, secondsColumn) && at < 0 {
			at = i
		} else {
			t.ignored = append(t.ignored, name)
		}
	}
	if at < 0 || len(columns) == 0 {
		return fmt.Errorf("the header needs a column %q and one or more of %s", secondsColumn, strings.Join(resourceNames[:], ", "))
	}
	for line := 2; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		where := fmt.Sprintf("row %d", line)
		seconds, err := strconv.ParseFloat(strings.TrimSpace(row[at]), 64)
		if err != nil {
			return fmt.Errorf("%s: %q is no number of seconds", where, row[at])
		}
		var wrong error
		err = t.addRow(where, seconds, func(of Resource) (float64, bool) {
			i, ok := columns[of]
			if !ok || strings.TrimSpace(row[i]) == "" {
				return 0, false
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
			if err != nil {
				wrong = fmt.Errorf("%s: %s: %q is no number", where, of, row[i])
			}
			return v, true
		})
		if err := errors.Join(wrong, err); err != nil {
			return err
		}
	}
}

func (t *traceRows) readJSON(in io.Reader, first byte) error {
	var f traceFile
	dec := json.NewDecoder(in)
	var err error
	if first == '[' {
		err = dec.Decode(&f.Points)
	} else {
		err = dec.Decode(&f)
	}
	if err != nil {
		return err
	}
	if f.Format != "" && f.Format != traceFormat {
		return fmt.Errorf("the format is %q; this program reads %q", f.Format, traceFormat)
	}
	seen := map[string]bool{}
	for i, point := range f.Points {
		where := fmt.Sprintf("point %d", i+1)
		seconds := point[secondsColumn]
		if seconds == nil {
			return fmt.Errorf("%s has no %q", where, secondsColumn)
		}
		for name := range point {
			if _, ok := resourceNamed(name); !ok && name != secondsColumn && !seen[name] {
				seen[name] = true
				t.ignored = append(t.ignored, name)
			}
		}
		if err := t.addRow(where, *seconds, func(of Resource) (float64, bool) {
			if v := point[of.String()]; v != nil {
				return *v, true
			}
			return 0, false
		}); err != nil {
			return err
		}
	}
	return nil
}

func (t *traceRows) toProgram() (Program, error) {
	n := len(t.begin)
	if n == 0 {
		return Program{}, errors.New("no rows")
	}
	length := 1.0 // of the last row
	if n > 1 {
		length = t.begin[n-1] - t.begin[n-2]
	}
	var p Program
	for i, begin := range t.begin {
		end := begin + length
		if i+1 < n {
			end = t.begin[i+1]
		} else if n > 1 && t.closed {
			break
		}
		// Rounded as times, so that the errors of the steps do not add up.
		d := toNanos(end-t.begin[0]) - toNanos(begin-t.begin[0])
		if d <= 0 {
			return Program{}, fmt.Errorf("step %d lasts %g s: give a nanosecond or more", i+1, end-begin)
		}
		p.Steps = append(p.Steps, Step{t.level[i], d})
	}
	return p, p.Check()
}

func toNanos(seconds float64) time.Duration {
	return time.Duration(math.Round(min(seconds, 1e9) * 1e9))
}
