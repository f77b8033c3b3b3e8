package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/term"
	"reckon/metric"
	"reckon/web/client"
)

// columnAliases returns aliases for workload columns: short names, and sacct's names of the same fields. It has none for
// CPUTime and AveRSS, because no column has allocated core time or a mean over tasks.
func columnAliases() map[string]string {
	words := map[string]string{
		"jobid": "id", "jobidraw": "id", "jobname": "name", "user": "owner", "nodelist": "nodes", "elapsed": "wall_seconds",
		"elapsedraw": "wall_seconds", "exitcode": "exit_code",
		"totalcpu": "cpu_seconds", "usercpu": "cpu_user_seconds", "systemcpu": "cpu_system_seconds", "maxrss": "memory_needed_peak_bytes",
		"alloccpus": "allocated_cores", "ncpus": "allocated_cores", "reqcpus": "request_cores", "reqmem": "request_memory_bytes",
		"allocnodes": "allocated_nodes", "reqnodes": "request_nodes",
		"nnodes": "allocated_nodes", "timelimit": "request_seconds", "timelimitraw": "request_seconds", "suspended": "suspended_seconds",
		"consumedenergy":    "energy_joules",
		"consumedenergyraw": "energy_joules", "maxdiskread": "io_read_bytes", "maxdiskwrite": "io_write_bytes", "cluster": "site",
		"wall": "wall_seconds", "p95": "cores_p95",
	}
	for word, key := range sortAliases() {
		words[word] = strings.TrimPrefix(key, "-")
	}
	return words
}

// usageAliases returns aliases for usage columns: the words of --sort and of sreport.
func usageAliases() map[string]string {
	words := usedWords()
	maps.Copy(words, map[string]string{
		"login": "owner", "user": "owner", "cluster": "site", "used": "cpu_seconds", "allocated": "held_core_seconds",
		"share": "capacity_share",
	})
	return words
}

// nodeAliases returns aliases for node columns: the words of sinfo.
func nodeAliases() map[string]string {
	return map[string]string{
		"nodelist": "node", "nodename": "node", "nodehost": "node", "cpus": "cores", "cpusload": "load1", "cpuload": "load1",
		"memory": "memory_bytes", "allocmem": "memory_used_bytes",
		"power": "power_watts", "disk": "disk_bytes_per_second", "network": "network_bytes_per_second",
	}
}

// findingAliases returns aliases for finding columns.
func findingAliases() map[string]string {
	return map[string]string{"user": "owner", "jobid": "workload", "nodelist": "node", "since": "first", "what": "text", "start": "first",
		"end": "last"}
}

// resolveColumns resolves the words of --columns to columns of rows.
func resolveColumns[R any](given []string, words map[string]string) ([]string, error) {
	keys := client.Columns[R]()
	var out []string
	for _, word := range given {
		name := strings.ToLower(strings.TrimSpace(word))
		name, _, _ = strings.Cut(name, "%") // a width, as in sacct
		if key, ok := words[name]; ok && !slices.Contains(keys, name) {
			name = key
		}
		if !slices.Contains(keys, name) {
			all := slices.AppendSeq(slices.Clone(keys), maps.Keys(words))
			slices.Sort(all)
			return nil, &usageError{fmt.Errorf("there is no column %q%s", word, suggestWord(word, all))}
		}
		out = append(out, name)
	}
	return out, nil
}

// suggestWord suggests the most similar word or, without one, lists all words.
func suggestWord(word string, all []string) string {
	if near := client.Nearest(word, all, 3); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return "; there are " + strings.Join(slices.Compact(all), ", ")
}

// newColumnTable returns a table of the chosen columns.
func newColumnTable[R any](m marked, rows []R, columns []string, degrees func(*R) figure.Degrees, now time.Time) *term.Table {
	heads := make([]term.Column, len(columns))
	figures := make([]*figure.Figure, len(columns))
	for i, name := range columns {
		heads[i].Title = strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(name, "_seconds"), "_", " "))
		if f := findFigure(name); f != nil {
			figures[i], heads[i].Title, heads[i].Right = f, strings.ToUpper(f.Heading), true
		}
	}
	_, hours := any(rows).([]client.Usage) // sums over people and days are shown in core-hours
	t := term.NewTable(heads...)
	for r := range rows {
		texts := map[string]string{}
		for name, text := range client.Cells(&rows[r]) {
			texts[name] = text
		}
		cells := make([]string, len(columns))
		for i, name := range columns {
			if v, err := strconv.ParseFloat(texts[name], 64); err == nil && hours && hourFigures[name] != nil {
				cells[i] = hourFigures[name](v)
			} else {
				cells[i] = formatCell(name, texts[name], figures[i], now)
			}
			if figures[i] != nil && degrees != nil {
				cells[i] = m.figure(degrees(&rows[r]), name, cells[i])
			}
		}
		t.Add(cells...)
	}
	return t
}

// hourFigures are figures of usage that are displayed in hours.
var hourFigures = map[string]func(float64) string{
	"cpu_seconds": format.CoreHours, "cpu_wait_seconds": format.CoreHours, "held_core_seconds": format.CoreHours,
	"gpu_seconds": format.GPUHours, "held_gpu_seconds": format.GPUHours,
}

// findFigure returns the figure of a column; nil if it is not a figure.
func findFigure(key string) (found *figure.Figure) {
	for _, scope := range []figure.Scope{figure.Runs, figure.Hours, figure.Nodes} {
		if at := figure.Index(scope, key); at >= 0 {
			return &figure.InScope(scope)[at]
		}
	}
	return nil
}

// formatCell formats a CSV cell for people: figures with units, times as local times, lists with commas.
func formatCell(name, text string, fig *figure.Figure, now time.Time) string {
	if text == "" {
		return term.Unknown
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case name == "core_seconds", name == "core_used_seconds":
			return format.CoreHours(v)
		case fig != nil:
			return format.Figure(v, fig.Unit)
		case strings.HasSuffix(name, "_bytes_per_second"):
			return format.Rate(v)
		case strings.HasSuffix(name, "_bytes"):
			return format.Figure(v, metric.Bytes)
		case strings.HasSuffix(name, "_watts"):
			return format.Figure(v, metric.Watts)
		case strings.HasSuffix(name, "_share"), strings.HasSuffix(name, "_pressure"):
			return format.Figure(v, metric.Ratio)
		case strings.HasSuffix(name, "_seconds"):
			return format.Duration(v)
		}
		return format.Number(v)
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return term.Clock(at, now)
	}
	return strings.ReplaceAll(text, ";", ",")
}

// printColumns prints a table of chosen columns and explains its marks.
func printColumns[R any](g *globals, s term.Screen, rows []R, columns []string, degrees func(*R) figure.Degrees) error {
	m := marked{}
	if err := newColumnTable(m, rows, columns, degrees, g.now()).Print(s); err != nil {
		return err
	}
	if text := m.legend(); text != "" {
		fmt.Fprintln(g.stderr, text)
	}
	return nil
}
