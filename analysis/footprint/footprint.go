// Package footprint converts energy to grams of CO2 and to money. It multiplies the joules of an
// interval by a rate per kilowatt-hour, which is constant or varies over time.
//
// Input is joules and times; a [Rate] is per kilowatt-hour (3.6 MJ), as published by grids and
// tariffs. The package is pure; a Rate is safe for concurrent use once read.
package footprint

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// joulesPerKWh is a kilowatt-hour.
const joulesPerKWh = 3.6e6

// Rate is an amount per kilowatt-hour, constant or in steps.
type Rate struct {
	// Unit is g for carbon, and the currency for a tariff, such as EUR.
	Unit  string
	steps []rateStep // by time; a constant rate has one, at the zero time
}

type rateStep struct {
	at    time.Time
	value float64
}

// Constant returns a rate that does not change.
func Constant(value float64, unit string) *Rate {
	return &Rate{Unit: unit, steps: []rateStep{{value: value}}}
}

// ParseConstant parses a number with an optional unit, such as "385", "385 g/kWh", "0.28 EUR" or
// "0.28 EUR/kWh". unit is the default.
func ParseConstant(text, unit string) (*Rate, error) {
	s := strings.TrimSpace(text)
	end := strings.LastIndexAny(s, "0123456789.") + 1
	v, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return nil, fmt.Errorf("%q is not an amount for each kWh; give a number and a unit, such as 385 or \"0.28 EUR\"", text)
	}
	if u := parseUnit(s[end:]); u != "" {
		unit = u
	}
	if unit == "" {
		return nil, fmt.Errorf("%q has no unit; give its currency, such as \"%s EUR\"", text, s)
	}
	return Constant(v, unit), nil
}

// parseUnit returns the unit after a number: " EUR/kWh" is EUR.
func parseUnit(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "/")
	return strings.TrimSpace(s)
}

// maxRows limits a file: ten years of quarter-hours.
const maxRows = 400_000

// ReadSteps reads a rate that changes over time from a CSV file. The first column is the time from which a value
// applies until the next row. It is RFC 3339, "2026-11-21 14:00" or a date, in UTC, or Unix seconds. The value is in
// the first other column with a heading that contains "kwh", "intensity", "price" or "value", else in the second
// column. A heading may have the unit, such as "EUR_per_kWh" or "price (EUR/kWh)"; unit is the default.
func ReadSteps(r io.Reader, unit string) (*Rate, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	in.TrimLeadingSpace = true
	in.Comment = '#'
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; give lines of time,value")
	}
	if err != nil {
		return nil, err
	}
	out := &Rate{Unit: unit}
	column := 1
	if len(head) < 2 {
		return nil, errors.New("line 1 has one column; give lines of time,value")
	}
	if _, err := parseTime(head[0]); err == nil { // no heading
		if err := out.addRow(head, column, 1); err != nil {
			return nil, err
		}
	} else {
		for i, h := range head[1:] {
			if l := strings.ToLower(h); strings.Contains(l, "kwh") || strings.Contains(l, "intensity") || strings.Contains(l, "price") ||
				strings.Contains(l, "value") {
				column = i + 1
				break
			}
		}
		if u := headingUnit(head[column]); u != "" && unit != "g" {
			out.Unit = u
		}
	}
	for {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		if err := out.addRow(rec, column, line); err != nil {
			return nil, err
		}
		if len(out.steps) > maxRows {
			return nil, fmt.Errorf("more than %d lines; give fewer", maxRows)
		}
	}
	if len(out.steps) == 0 {
		return nil, errors.New("no line has a value; give lines of time,value")
	}
	if out.Unit == "" {
		return nil, fmt.Errorf("the heading %q names no currency; call the column EUR_per_kWh or the like", head[column])
	}
	sort.SliceStable(out.steps, func(i, j int) bool { return out.steps[i].at.Before(out.steps[j].at) })
	for i := 1; i < len(out.steps); i++ {
		if out.steps[i].at.Equal(out.steps[i-1].at) && out.steps[i].value != out.steps[i-1].value {
			return nil, fmt.Errorf("two values for %s: %g and %g", out.steps[i].at.Format(time.RFC3339), out.steps[i-1].value,
				out.steps[i].value)
		}
	}
	return out, nil
}

// headingUnit returns the currency in a heading such as EUR_per_kWh or price (EUR/kWh).
func headingUnit(h string) string {
	for _, w := range strings.FieldsFunc(h, func(r rune) bool { return strings.ContainsRune(" _()/[]-", r) }) {
		if len(w) == 3 && strings.ToUpper(w) == w && w != "KWH" && w != "CO2" {
			return w
		}
	}
	return ""
}

func (r *Rate) addRow(rec []string, column, line int) error {
	if len(rec) == 1 && rec[0] == "" {
		return nil
	}
	if len(rec) <= column {
		return fmt.Errorf("line %d has %d columns, the value is in column %d", line, len(rec), column+1)
	}
	at, err := parseTime(rec[0])
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	text := strings.TrimSpace(rec[column])
	if text == "" {
		return nil // a gap: the value before it continues to hold
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("line %d: %q is not a number", line, text)
	}
	r.steps = append(r.steps, rateStep{at, v}) // prices may be negative
	return nil
}

func parseTime(s string) (time.Time, error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "\ufeff")
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04",
		time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 1e8 && n < 1e11 {
		return time.UnixMilli(int64(n * 1000)).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; give 2026-11-21T14:00:00Z, 2026-11-21 14:00 or Unix seconds", s)
}

// At returns the rate at a time, and false before the first value.
func (r *Rate) At(t time.Time) (float64, bool) {
	i, exact := slices.BinarySearchFunc(r.steps, t, func(s rateStep, t time.Time) int { return s.at.Compare(t) })
	if !exact {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return r.steps[i].value, true
}

// Mean returns the mean of the rate over an interval, or false if the interval starts before the first value.
func (r *Rate) Mean(from, to time.Time) (float64, bool) {
	v, ok := r.At(from)
	if !ok || !to.After(from) || len(r.steps) == 1 {
		return v, ok
	}
	sum, at := 0.0, from
	i, _ := slices.BinarySearchFunc(r.steps, from, func(s rateStep, t time.Time) int { return s.at.Compare(t) })
	for ; i < len(r.steps) && r.steps[i].at.Before(to); i++ {
		sum += v * r.steps[i].at.Sub(at).Seconds()
		at, v = r.steps[i].at, r.steps[i].value
	}
	sum += v * to.Sub(at).Seconds()
	return sum / to.Sub(from).Seconds(), true
}

// Of returns the amount for energy that was drawn evenly over an interval.
func (r *Rate) Of(joules float64, from, to time.Time) (float64, bool) {
	v, ok := r.Mean(from, to)
	return joules / joulesPerKWh * v, ok
}

// Constant reports whether the rate never changes, so that only the energy matters.
func (r *Rate) Constant() bool { return len(r.steps) == 1 && r.steps[0].at.IsZero() }
