package client

import (
	"reckon/figure"
)

// SortKeys returns the fields that workloads can be sorted by.
func SortKeys() []string {
	return append([]string{
		"id", "kind", "name", "owner", "account", "partition", "site", "command", "nodes", "state", "exit_code",
		"submit", "start", "end", "seen", "wall_seconds", "memory_byte_seconds",
	}, figure.Keys(figure.Runs)...)
}

// Splits returns the values of [Range.By]: the whole workload, per node, per part and node, or per program.
func Splits() []string { return []string{"total", "node", "part", "command"} }
