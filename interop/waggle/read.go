package waggle

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// maxLine is the maximum length of a line of the data API, in bytes.
const maxLine = 1 << 20

// record is a line of the archive.
type record struct {
	Time  *time.Time        `json:"timestamp"`
	Name  string            `json:"name"`
	Value json.RawMessage   `json:"value"`
	Meta  map[string]string `json:"meta"`
}

// errText means that a value is not a number, such as the name of a file, and cannot be a sample.
var errText = errors.New("the value is no number")

// parseRecord parses a line. The labels do not include the site yet.
func parseRecord(line []byte) (l labels.Labels, t int64, v float64, err error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return l, 0, 0, fmt.Errorf("no measurement of Waggle's data API: %w", err)
	}
	switch {
	case r.Name == "" || len(r.Name) > 256:
		return l, 0, 0, errors.New("a measurement without a name")
	case r.Time == nil:
		return l, 0, 0, fmt.Errorf("%s has no timestamp", r.Name)
	case r.Time.Before(earliest):
		return l, 0, 0, fmt.Errorf("%s is of %s, before the year 2000", r.Name, r.Time.UTC().Format(time.RFC3339))
	}
	switch value := bytes.TrimSpace(r.Value); {
	case len(value) == 0 || string(value) == "null":
		return l, 0, 0, fmt.Errorf("%s has no value", r.Name)
	case value[0] == '"' || value[0] == '{' || value[0] == '[':
		return l, 0, 0, errText
	case string(value) == "true":
		v = 1
	case string(value) == "false":
	default:
		if err := json.Unmarshal(value, &v); err != nil || math.IsInf(v, 0) {
			return l, 0, 0, fmt.Errorf("%s has the value %s, which is no number", r.Name, value)
		}
	}
	return recordLabels(&r), r.Time.UnixMilli(), v, nil
}

// recordLabels returns the labels of a record's series. Dots in names become underscores, and each meta field becomes a
// label. The label node is the virtual site number (vsn), because people identify nodes by it.
func recordLabels(r *record) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for key, value := range r.Meta {
		key = metricName(key)
		switch key {
		case "node":
			key = "node_id"
		case "site", "source", "__name__", "instance", "job":
			key = "meta_" + key
		}
		b.Set(key, strings.ToValidUTF8(value, "?"))
	}
	node := r.Meta["vsn"]
	node = cmp.Or(node, r.Meta["node"])
	b.Set("node", strings.ToValidUTF8(node, "?"))
	b.Set("source", "waggle")
	b.Set(model.MetricNameLabel, metricName(r.Name))
	return b.Labels()
}

// metricName returns a name that Prometheus accepts without quotes.
func metricName(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			out[i] = '_'
		}
	}
	if len(out) == 0 || out[0] >= '0' && out[0] <= '9' {
		return "_" + string(out)
	}
	return string(out)
}

// eachLine calls take with each line and its number. Lines that are too long go to bad.
func eachLine(in io.Reader, take func(n int, line []byte), bad func(n int, err error)) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var long []byte
	for n := 1; ; n++ {
		long = long[:0]
		tooLong := false
		for {
			part, err := r.ReadSlice('\n')
			if len(long)+len(part) > maxLine {
				tooLong = true
			} else {
				long = append(long, part...)
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if tooLong {
				bad(n, fmt.Errorf("the line has more than %d bytes", maxLine))
			} else if line := bytes.TrimSpace(long); len(line) > 0 {
				take(n, line)
			}
			if err != nil {
				return nil
			}
			break
		}
	}
}
