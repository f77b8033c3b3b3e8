package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Dictionary describes a data set. It is written beside the file, as JSON for programs and as Markdown for people.
type Dictionary struct {
	Format      string       `json:"format"` // "reckon-dataset"
	Version     int          `json:"version"`
	Rows        int          `json:"rows"`
	Start       string       `json:"start,omitempty"`
	End         string       `json:"end,omitempty"`
	StepSeconds float64      `json:"step_seconds,omitempty"`
	Columns     []Definition `json:"columns"`
}

// Definition describes one column.
type Definition struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // time, label or number
	Unit   string `json:"unit,omitempty"`
	Help   string `json:"help,omitempty"`
	Source string `json:"source,omitempty"`
	Rate   bool   `json:"rate,omitempty"`
	// Points is the number of rows with a value, Gaps the number without.
	Points   int      `json:"points"`
	Gaps     int      `json:"gaps"`
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Distinct int      `json:"distinct,omitempty"`
}

// Dictionary returns the dictionary of f.
func (f *Frame) Dictionary() *Dictionary {
	d := &Dictionary{Format: "reckon-dataset", Version: 1, Rows: f.Rows(), StepSeconds: f.StepSeconds}
	if f.Rows() > 0 {
		lo, hi := f.Time[0], f.Time[0]
		for _, t := range f.Time {
			lo, hi = min(lo, t), max(hi, t)
		}
		d.Start, d.End = time.UnixMilli(lo).UTC().Format(timeLayout), time.UnixMilli(hi).UTC().Format(timeLayout)
	}
	d.Columns = append(d.Columns, Definition{Name: TimeColumn, Type: "time",
		Unit: "milliseconds since 1970-01-01 UTC in Parquet, RFC 3339 in CSV",
		Help: "end of the step of the row", Points: f.Rows()})
	for _, l := range f.Labels {
		distinct := make(map[string]bool)
		for _, v := range l.Values {
			distinct[v] = true
		}
		d.Columns = append(d.Columns, Definition{Name: l.Name, Type: "label", Points: len(l.Values), Distinct: len(distinct)})
	}
	for _, c := range f.Columns {
		n, lo, hi := c.valueRange()
		def := Definition{Name: c.Name, Type: "number", Unit: c.Unit, Help: c.Help, Source: c.Source, Rate: c.Rate,
			Points: n, Gaps: len(c.Values) - n}
		if n > 0 {
			def.Min, def.Max = &lo, &hi
		}
		d.Columns = append(d.Columns, def)
	}
	return d
}

// ReadDictionary reads the output of [Dictionary.WriteJSON].
func ReadDictionary(r io.Reader) (*Dictionary, error) {
	d := new(Dictionary)
	if err := json.NewDecoder(r).Decode(d); err != nil {
		return nil, fmt.Errorf("data dictionary: %w: %w", ErrData, err)
	}
	if d.Format != "reckon-dataset" {
		return nil, fmt.Errorf("data dictionary: format is %q: %w", d.Format, ErrData)
	}
	return d, nil
}

// Define copies unit, help and source from d to the columns of f that lack them, because data files
// contain only names.
func (d *Dictionary) Define(f *Frame) {
	for _, def := range d.Columns {
		if c := f.Column(def.Name); c != nil {
			c.Unit, c.Help, c.Source = cmp.Or(c.Unit, def.Unit), cmp.Or(c.Help, def.Help), cmp.Or(c.Source, def.Source)
		}
	}
}

// WriteJSON writes the dictionary for programs.
func (d *Dictionary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return fmt.Errorf("write data dictionary: %w", err)
	}
	return nil
}

// WriteMarkdown writes the dictionary as Markdown.
func (d *Dictionary) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Data dictionary\n\n%d rows", d.Rows)
	if d.Start != "" {
		fmt.Fprintf(&b, " from %s to %s", d.Start, d.End)
	}
	if d.StepSeconds > 0 {
		fmt.Fprintf(&b, ", one each %g s", d.StepSeconds)
	}
	b.WriteString(". A gap is an empty field (CSV) or a null (Parquet), never zero.\n\n")
	b.WriteString(
		"| column | type | unit | points | gaps | least | greatest | made from | meaning |\n|---|---|---|---|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ")
	num := func(v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf("%.6g", *v)
	}
	for _, c := range d.Columns {
		source := c.Source
		if c.Rate {
			source = "rate of " + source
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %d | %s | %s | %s | %s |\n", cell.Replace(c.Name), c.Type, cell.Replace(c.Unit),
			c.Points, c.Gaps, num(c.Min), num(c.Max), cell.Replace(source), cell.Replace(c.Help))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write data dictionary: %w", err)
	}
	return nil
}
