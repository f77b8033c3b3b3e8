package power

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// csvFile is a data file by column name.
type csvFile struct {
	name string
	head map[string]int
	rows [][]string
}

func readCSV(dir, name string) (*csvFile, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		defer z.Close()
		r = z
	}
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("read %s: no rows", name)
	}
	c := &csvFile{name: name, head: make(map[string]int), rows: rows[1:]}
	for i, h := range rows[0] {
		c.head[h] = i
	}
	return c, nil
}

func (c *csvFile) textColumn(column string) ([]string, error) {
	i, ok := c.head[column]
	if !ok {
		return nil, fmt.Errorf("%s has no column %s", c.name, column)
	}
	out := make([]string, len(c.rows))
	for k, r := range c.rows {
		out[k] = r[i]
	}
	return out, nil
}

func (c *csvFile) numberColumn(column string) ([]float64, error) {
	s, err := c.textColumn(column)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(s))
	for k, v := range s {
		if out[k], err = strconv.ParseFloat(v, 64); err != nil {
			return nil, fmt.Errorf("%s row %d, column %s: %w", c.name, k+2, column, err)
		}
	}
	return out, nil
}

// sumColumns adds columns, times factor.
func (c *csvFile) sumColumns(factor float64, columns ...string) ([]float64, error) {
	out := make([]float64, len(c.rows))
	for _, name := range columns {
		v, err := c.numberColumn(name)
		if err != nil {
			return nil, err
		}
		for i := range v {
			out[i] += v[i] * factor
		}
	}
	return out, nil
}
