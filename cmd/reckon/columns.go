package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/client"
	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/term"
)

// columnWords are other words for columns of workloads: short ones, and those of sacct.
func columnWords() map[string]string {
	words := map[string]string{
		"jobid": "id", "jobname": "name", "user": "owner", "nodelist": "nodes", "elapsed": "wall_seconds", "exitcode": "exit_code",
		"totalcpu": "cpu_seconds", "usercpu": "cpu_user_seconds", "systemcpu": "cpu_system_seconds", "maxrss": "memory_needed_peak_bytes",
		"alloccpus": "allocated_cores", "ncpus": "allocated_cores", "reqcpus": "request_cores", "reqmem": "request_memory_bytes", "allocnodes": "allocated_nodes",
		"nnodes": "allocated_nodes", "timelimit": "request_seconds", "suspended": "suspended_seconds", "consumedenergy": "energy_joules", "cluster": "site",
		"wall": "wall_seconds", "p95": "cores_p95",
	}
	for word, key := range sortWords() {
		words[word] = strings.TrimPrefix(key, "-")
	}
	return words
}

// readColumns turns the words of --columns into columns of workloads.
func readColumns(words []string) ([]string, error) {
	known, other := client.Columns[client.Workload](), columnWords()
	var out []string
	for _, word := range words {
		name := strings.ToLower(strings.TrimSpace(word))
		if key, ok := other[name]; ok && !slices.Contains(known, name) {
			name = key
		}
		if !slices.Contains(known, name) {
			return nil, &usageError{fmt.Errorf("there is no column %q; give keys of --format json, such as %s", word, strings.Join(append(known[:4:4], "cpu_seconds", "memory_needed_peak_bytes"), ", "))}
		}
		out = append(out, name)
	}
	return out, nil
}

// columns is a table of the columns that were chosen.
func (m marked) columns(list []client.Workload, columns []string, now time.Time) *term.Table {
	heads := make([]term.Column, len(columns))
	figures := make([]*figure.Figure, len(columns))
	for i, name := range columns {
		heads[i].Title = strings.ToUpper(strings.ReplaceAll(name, "_", " "))
		if at := figure.Index(figure.Run, name); at >= 0 {
			figures[i] = &figure.Of(figure.Run)[at]
			heads[i].Title, heads[i].Right = strings.ToUpper(figures[i].Heading), true
		}
	}
	t := term.NewTable(heads...)
	for r := range list {
		w := &list[r]
		texts := map[string]string{}
		for name, text := range client.Cells(w) {
			texts[name] = text
		}
		cells := make([]string, len(columns))
		for i, name := range columns {
			switch f := figures[i]; {
			case f != nil:
				cells[i] = term.Unknown
				if v := *w.At(figure.Index(figure.Run, name)); v != nil {
					cells[i] = m.figure(w.Exactness, name, format.Figure(*v, f.Unit))
				}
			case name == "wall_seconds":
				cells[i] = term.Seconds(&w.WallSeconds)
			default:
				cells[i] = columnText(texts[name], now)
			}
		}
		t.Add(cells...)
	}
	return t
}

// columnText is the text of a cell that is no figure: times as clocks, lists with commas.
func columnText(text string, now time.Time) string {
	if text == "" {
		return term.Unknown
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return term.Clock(at, now)
	}
	return strings.ReplaceAll(text, ";", ",")
}
