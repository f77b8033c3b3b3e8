// Package metricsetlog parses the pod logs of the metrics-operator (https://github.com/converged-computing/metrics-operator, MIT):
// markers around a line of metadata and around the output of a benchmark, in the formats of the eight parsers of its Python package.
// Figures are in SI units. Unparsed text is kept unchanged, a truncated log is parsed as far as it goes, and an unreadable line does not
// affect the lines after it.
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

// Figure is a figure reported by a benchmark, with one value per report.
type Figure struct {
	Name   string
	Unit   string // seconds, bytes, bytes_per_second, per_second, ratio, flops or count
	Values []float64
	Times  []time.Time // of the values, if the log has timestamps; otherwise nil
}

// Log is the content of a log.
type Log struct {
	Metric  string            // such as io-fio
	Options map[string]string // as text
	Command string
	Figures []Figure
	// Text is the printed output of metrics that do not print JSON.
	Text string
	// Start and End are the times of the first and last line if the log has timestamps (kubectl
	// logs --timestamps), or the time of fio's result.
	Start, End time.Time
	// Notes name missing or misleading parts.
	Notes []string
}

// ErrNoLog means that an input has none of the markers.
var ErrNoLog = errors.New("no log of the metrics-operator")

// maxLine and maxText limit the length of a parsed line and of the stored text, in bytes.
const (
	maxLine = 64 << 20
	maxText = 1 << 20
)

// timedOutput is the output at one time.
type timedOutput struct {
	lines []string
	at    time.Time
}

// Read reads one log.
func Read(r io.Reader) (*Log, error) {
	s := scanner{log: &Log{Options: map[string]string{}}}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() {
		s.scanLine(string(bytes.TrimRight(in.Bytes(), "\r\n")))
	}
	if err := in.Err(); err != nil {
		s.addNote("cannot read the log to its end: " + err.Error())
	}
	if !s.marked {
		return nil, fmt.Errorf("%w: it has neither METADATA START nor METRICS OPERATOR COLLECTION START", ErrNoLog)
	}
	s.convertOutput()
	return s.log, nil
}

// scanner tracks the markers.
type scanner struct {
	log     *Log
	marked  bool
	within  bool // inside a collection
	ended   bool
	command bool
	points  []timedOutput
}

func (s *scanner) addNote(text string) {
	if !slices.Contains(s.log.Notes, text) {
		s.log.Notes = append(s.log.Notes, text)
	}
}

// scanLine processes one line.
func (s *scanner) scanLine(text string) {
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
		s.parseMetadata(doc)
	case mark == "METADATA END" || mark == "ADDON METADATA END":
	case strings.Contains(mark, "ADDON METADATA START"):
	case strings.HasSuffix(mark, "METRICS OPERATOR COLLECTION START"):
		// A log that was pasted together from two starts contains two collections: the later one counts.
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
		s.points = append(s.points, timedOutput{at: at})
	case s.within:
		if len(s.points) == 0 {
			if mark == "" {
				return
			}
			s.points = append(s.points, timedOutput{at: at})
		}
		p := &s.points[len(s.points)-1]
		p.lines = append(p.lines, text)
	}
}

// parseMetadata parses the line of metadata.
func (s *scanner) parseMetadata(text string) {
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		s.addNote("cannot parse the metadata: " + err.Error())
		return
	}
	s.log.Metric, _ = doc["metricName"].(string)
	s.log.Options = map[string]string{}
	flatten := func(prefix string, value any) {
		for name, v := range asObject(value) {
			s.log.Options[prefix+name] = asText(v)
		}
	}
	for name, v := range doc {
		switch name {
		case "metricName", "metricDescription", "metricType":
		case "metricOptions", "metricListOptions":
			flatten("", v)
		default:
			s.log.Options[name] = asText(v)
		}
	}
	if c := s.log.Options["applicationCommand"]; c != "" {
		s.log.Command = c
	}
}

func asObject(v any) map[string]any { m, _ := v.(map[string]any); return m }

// asText returns a JSON value as text.
func asText(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case []any:
		words := make([]string, len(x))
		for i := range x {
			words[i] = asText(x[i])
		}
		return strings.Join(words, ", ")
	}
	text, err := json.Marshal(v)
	if err != nil { // it was JSON
		return fmt.Sprint(v)
	}
	return string(text)
}

// convertOutput converts the output to figures.
func (s *scanner) convertOutput() {
	if !s.ended {
		s.addNote("the log ends before its collection does: more may have been measured")
	}
	f := &figures{at: map[string]int{}}
	read := metricParsers()[s.log.Metric]
	json := s.log.Metric == "io-fio" || s.log.Metric == "io-sysstat" || s.log.Metric == "perf-sysstat"
	var text strings.Builder
	for _, p := range s.points {
		f.time = p.at
		if read != nil {
			for _, bad := range read(p.lines, f) {
				s.addNote(bad)
			}
		}
		if !json {
			text.WriteString(strings.Join(p.lines, "\n") + "\n")
		}
	}
	s.log.Figures = f.list
	if s.log.Text = strings.Trim(text.String(), "\n"); len(s.log.Text) > maxText {
		s.log.Text = strings.ToValidUTF8(s.log.Text[:maxText], "")
		s.addNote("the output was truncated")
	}
	if s.log.Metric == "perf-sysstat" {
		s.addNote("pidstat was run without an interval: every value is the mean since process start or boot")
	}
	if s.log.Start.IsZero() {
		s.log.Start, s.log.End = f.when, f.when
	}
	s.log.Metric = cmp.Or(s.log.Metric, "unknown")
}

// metricParsers returns the parser for the output of each metric at one time; it returns the lines it could not parse.
func metricParsers() map[string]func([]string, *figures) []string {
	return map[string]func([]string, *figures) []string{
		"io-fio": parseFio, "io-sysstat": parseIostat, "perf-sysstat": parsePidstat, "network-osu-benchmark": parseOSU,
		"network-netmark": parseNetmark,
		"app-lammps":      parseLAMMPS, "app-amg": parseAMG, "addon-mpitrace": parseMPITrace, "perf-mpitrace": parseMPITrace,
	}
}

// figures are collected by name, in order of appearance.
type figures struct {
	list []Figure
	at   map[string]int
	time time.Time // of the point being parsed
	when time.Time // reported by the program itself
}

func (f *figures) addValue(name, unit string, v float64) {
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
