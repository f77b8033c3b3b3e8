package client

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/figure/wire"
)

// WriteCSV writes rows as CSV with a header line (RFC 4180 with LF line ends). Rows are structs of this package.
// Columns have the names of the JSON fields, and embedded structs are flattened. Numbers have full precision, unknown
// numbers are empty, lists of strings are joined with ";", and nested objects are JSON. If columns are given, only
// those are written, in that order. Unknown columns are empty.
func WriteCSV[T any](w io.Writer, rows []T, columns ...string) error {
	out := csv.NewWriter(w)
	header := columns
	if len(columns) == 0 {
		header = Columns[T]()
	}
	if err := out.Write(header); err != nil {
		return err
	}
	record := make([]string, len(header))
	for i := range rows {
		clear(record)
		for name, text := range Cells(&rows[i]) {
			if at := slices.Index(header, name); at >= 0 {
				record[at] = text
			}
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Columns returns the columns of rows of a type, by their JSON names.
func Columns[T any]() (names []string) {
	eachField(reflect.ValueOf(*new(T)), func(name string, _ reflect.Value) { names = append(names, name) })
	return names
}

// Cells yields the columns of a row with their CSV texts.
func Cells[T any](row *T) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		more := true
		eachField(reflect.ValueOf(row).Elem(), func(name string, v reflect.Value) { more = more && yield(name, formatCell(v)) })
	}
}

// CSVText makes untrusted text safe for spreadsheets and terminals. It puts a ' in front of text that looks like a
// formula, which starts with =, +, - or @ (CWE-1236). It escapes control characters as \u001b. Numbers are unchanged.
func CSVText(s string) string {
	if strings.ContainsFunc(s, isControl) {
		var b strings.Builder
		for _, r := range s {
			if isControl(r) {
				fmt.Fprintf(&b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	if s == "" || !strings.ContainsRune("=+-@", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

func isControl(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }

func eachField(v reflect.Value, f func(name string, v reflect.Value)) {
	t := v.Type()
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			eachField(v.Field(i), f)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		f(name, v.Field(i))
	}
}

func formatCell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return wire.FormatTime(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case []string:
		return CSVText(strings.Join(x, ";"))
	case string:
		return CSVText(x)
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Struct, reflect.Map:
		if v.Kind() != reflect.Struct && v.Len() == 0 {
			return ""
		}
		body, err := json.Marshal(v.Interface())
		if err != nil {
			return ""
		}
		return CSVText(string(body))
	default:
		return fmt.Sprint(v.Interface())
	}
}
