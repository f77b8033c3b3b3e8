package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/term"
	"reckon/web/client"
)

// usedWords returns short names of usage figures besides their keys.
func usedWords() map[string]string {
	return map[string]string{
		"cpu": "cpu_seconds", "cpu-wait": "cpu_wait_seconds", "memory": "memory_byte_seconds", "gpu": "gpu_seconds",
		"read": "io_read_bytes", "write": "io_write_bytes",
		"io-wait": "io_wait_seconds", "network": "network_bytes", "energy": "energy_joules", "processes": "processes",
		"held": "held_core_seconds", "memory-traffic": "memory_traffic_bytes",
		"started": "started", "wait": "wait_seconds",
	}
}

// usageFigure returns the index of a figure in client.UsageFigures, by short name or key.
func usageFigure(name string) (int, error) {
	key := cmp.Or(usedWords()[name], name)
	if i := figure.Index(figure.Hours, key); i >= 0 {
		return i, nil
	}
	words := slices.Sorted(maps.Keys(usedWords()))
	return 0, &usageError{fmt.Errorf("no figure of usage is called %q; give %s, or a key of the API", name, strings.Join(words, ", "))}
}

// figures formats a table of selected figures with their shares of the total, in descending order of the first one.
func (m marked) figures(list client.UsageList, places []int, limit int) *term.Table {
	columns := groupColumns(list)
	for _, at := range places {
		columns = append(columns, term.Column{Title: strings.ToUpper(figure.InScope(figure.Hours)[at].Heading), Right: true},
			term.Column{Title: "OF USED", Right: true})
	}
	t := term.NewTable(columns...)
	for r, cells := range usageRows(list, limit) {
		for _, at := range places {
			f := &figure.InScope(figure.Hours)[at]
			v, text := *r.UsageFigures.At(at), term.Unknown
			if v != nil {
				text = format.Figure(*v, f.Unit)
			}
			cells = append(cells, m.figure(r.Exactness, f.Key, text),
				m.figure(r.Exactness, f.Key, term.Percent(figure.Ratio(v, *list.Total.UsageFigures.At(at)))))
		}
		t.Add(cells...)
	}
	return t
}
