package foresight

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// open reads a gzipped CSV file with rows of any length.
func open(parts ...string) ([][]string, error) {
	f, err := os.Open(filepath.Join(parts...))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	r := csv.NewReader(z)
	r.FieldsPerRecord = -1
	return r.ReadAll()
}

// number parses a cell. An empty cell was not recorded.
func number(cell string) float64 {
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func numbers(cells []string) []float64 {
	out := make([]float64, len(cells))
	for i, c := range cells {
		out[i] = number(c)
	}
	return out
}

// columns reads the named columns of a table with a header; the first column is left out.
func columns(rows [][]string) (names []string, values [][]float64) {
	names = rows[0][1:]
	values = make([][]float64, len(names))
	for _, row := range rows[1:] {
		for i := range names {
			values[i] = append(values[i], number(row[i+1]))
		}
	}
	return names, values
}

// hourly returns the mean of each 12 samples of 5 min.
func hourly(y []float64) []float64 {
	out := make([]float64, 0, len(y)/12)
	for ; len(y) >= 12; y = y[12:] {
		sum, n := 0.0, 0.0
		for _, v := range y[:12] {
			if !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		out = append(out, sum/n)
	}
	return out
}
