// Package metricsetlog reads the logs that the metrics-operator (https://github.com/converged-computing/metrics-operator, MIT)
// leaves in its pods: markers around a line of metadata and around what a benchmark printed, in the formats that the eight
// parsers of its Python package know. Figures come in SI units. Text that no parser reads is kept as it is, a log
// that was cut off is read as far as it goes, and nothing is dropped because a line before it can not be read.
package metricsetlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Figure is what a benchmark reported: one value for each time it did.
type Figure struct {
	Name   string
	Unit   string // seconds, bytes, bytes_per_second, per_second, ratio, flops or count
	Values []float64
	Times  []time.Time // of the values, where the log has times of its lines; else nil
}

// Log is what a log says.
type Log struct {
	Metric  string            // such as io-fio
	Options map[string]string // as text
	Command string
	Figures []Figure
	// Text is what was printed, of metrics that print no JSON.
	Text string
	// Start and End are the times of the first and the last line, where the log has any (kubectl logs --timestamps), or that of
	// fio's result.
	Start, End time.Time
	// Notes say what is missing or is not what it seems.
	Notes []string
}

// ErrNoLog is what errors.Is finds when an input has none of the markers.
var ErrNoLog = errors.New("no log of the metrics-operator")

// maxLine and maxText bound a line that is read and the text that is kept, in bytes.
const (
	maxLine = 64 << 20
	maxText = 1 << 20
)

// point is what was printed at one time.
type point struct {
	lines []string
	at    time.Time
}

// Read reads one log.
func Read(r io.Reader) (*Log, error) {
	s := scanner{log: &Log{Options: map[string]string{}}}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() {
		s.line(string(bytes.TrimRight(in.Bytes(), "\r\n")))
	}
	if err := in.Err(); err != nil {
		s.note("the log can not be read to its end: " + err.Error())
	}
	if !s.marked {
		return nil, fmt.Errorf("%w: it has neither METADATA START nor METRICS OPERATOR COLLECTION START", ErrNoLog)
	}
	s.finish()
	return s.log, nil
}

// scanner follows the markers.
type scanner struct {
	log     *Log
	marked  bool
	within  bool // a collection
	ended   bool
	command bool
	points  []point
}

func (s *scanner) note(text string) {
	if !slices.Contains(s.log.Notes, text) {
		s.log.Notes = append(s.log.Notes, text)
	}
}

// line takes one line.
func (s *scanner) line(text string) {
	at := time.Time{}
	if word, rest, ok := strings.Cut(text, " "); ok && len(word) >= len("2026-11-22T10:00:00Z") && word[4] == '-' {
		if t, err := time.Parse(time.RFC3339Nano, word); err == nil {
			text, at = rest, t.UTC()
			if s.log.Start.IsZero() {
				s.log.Start = at
			}
			s.log.End = at
		}
	}
	mark := strings.TrimSpace(text)
	switch {
	case strings.Contains(mark, "METADATA START") && !strings.Contains(mark, "ADDON METADATA START"):
		s.marked = true
		_, doc, _ := strings.Cut(mark, "METADATA START")
		s.metadata(doc)
	case mark == "METADATA END" || mark == "ADDON METADATA END":
	case strings.Contains(mark, "ADDON METADATA START"):
	case strings.HasSuffix(mark, "METRICS OPERATOR COLLECTION START"):
		// Somebody who pasted a log that was started twice has two of them: the later one counts.
		s.marked, s.within, s.ended, s.points = true, true, false, nil
	case strings.HasSuffix(mark, "METRICS OPERATOR COLLECTION END"):
		s.within, s.ended = false, true
	case strings.HasSuffix(mark, " COMMAND START"):
		s.command = true
	case strings.HasSuffix(mark, " COMMAND END"):
		s.command = false
	case s.command:
		s.log.Command = strings.TrimSpace(s.log.Command + "\n" + mark)
	case s.within && strings.HasSuffix(mark, "METRICS OPERATOR TIMEPOINT"):
		s.points = append(s.points, point{at: at})
	case s.within:
		if len(s.points) == 0 {
			if mark == "" {
				return
			}
			s.points = append(s.points, point{at: at})
		}
		p := &s.points[len(s.points)-1]
		p.lines = append(p.lines, text)
	}
}

// metadata reads the line of metadata.
func (s *scanner) metadata(text string) {
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		s.note("the metadata can not be read: " + err.Error())
		return
	}
	s.log.Metric, _ = doc["metricName"].(string)
	s.log.Options = map[string]string{}
	flatten := func(prefix string, value any) {
		for name, v := range object(value) {
			s.log.Options[prefix+name] = plain(v)
		}
	}
	for name, v := range doc {
		switch name {
		case "metricName", "metricDescription", "metricType":
		case "metricOptions", "metricListOptions":
			flatten("", v)
		default:
			s.log.Options[name] = plain(v)
		}
	}
	if c := s.log.Options["applicationCommand"]; c != "" {
		s.log.Command = c
	}
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

// plain is a value of JSON as text.
func plain(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case []any:
		words := make([]string, len(x))
		for i := range x {
			words[i] = plain(x[i])
		}
		return strings.Join(words, ", ")
	}
	text, err := json.Marshal(v)
	if err != nil { // it came as JSON
		return fmt.Sprint(v)
	}
	return string(text)
}

// finish makes figures of what was printed.
func (s *scanner) finish() {
	if !s.ended {
		s.note("the log ends before its collection does: more may have been measured")
	}
	f := &figures{at: map[string]int{}}
	read := parsers()[s.log.Metric]
	json := s.log.Metric == "io-fio" || s.log.Metric == "io-sysstat" || s.log.Metric == "perf-sysstat"
	var text strings.Builder
	for _, p := range s.points {
		f.time = p.at
		if read != nil {
			for _, bad := range read(p.lines, f) {
				s.note(bad)
			}
		}
		if !json {
			text.WriteString(strings.Join(p.lines, "\n") + "\n")
		}
	}
	s.log.Figures = f.list
	if s.log.Text = strings.Trim(text.String(), "\n"); len(s.log.Text) > maxText {
		s.log.Text = strings.ToValidUTF8(s.log.Text[:maxText], "")
		s.note("what was printed is longer than what is kept of it")
	}
	if s.log.Metric == "perf-sysstat" {
		s.note("pidstat was run without an interval: every value is the mean since the process began, or since boot")
	}
	if s.log.Start.IsZero() {
		s.log.Start, s.log.End = f.when, f.when
	}
	s.log.Metric = cmp.Or(s.log.Metric, "unknown")
}

// parsers reads what a metric prints at one time, and returns what it could not read.
func parsers() map[string]func([]string, *figures) []string {
	return map[string]func([]string, *figures) []string{
		"io-fio": fio, "io-sysstat": iostat, "perf-sysstat": pidstat, "network-osu-benchmark": osu, "network-netmark": netmark,
		"app-lammps": lammps, "app-amg": amg, "addon-mpitrace": mpitrace, "perf-mpitrace": mpitrace,
	}
}

// figures are collected by name, in the order in which they come.
type figures struct {
	list []Figure
	at   map[string]int
	time time.Time // of the point that is read
	when time.Time // that a program says of itself
}

func (f *figures) add(name, unit string, v float64) {
	i, ok := f.at[name]
	if !ok {
		i = len(f.list)
		f.at[name], f.list = i, append(f.list, Figure{Name: name, Unit: unit})
	}
	x := &f.list[i]
	x.Values = append(x.Values, v)
	if !f.time.IsZero() {
		x.Times = append(x.Times, f.time)
	}
}
