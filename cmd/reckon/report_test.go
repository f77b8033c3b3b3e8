package main

import (
	"testing"

	"reckon/web/client"
)

// TestReportTables: every selectable table is one of the report.
func TestReportTables(t *testing.T) {
	one := func(word string) []client.Usage { return []client.Usage{{Command: word}} }
	r := &client.Report{Owners: one("owners"), Accounts: one("accounts"), Commands: one("software"), Kinds: one("kinds"), Nodes: one("nodes"), Steps: one("time"), Week: one("week"), Total: client.Usage{Command: "total"}}
	for _, table := range reportTables {
		if rows := reportTable(r, table); len(rows) != 1 || rows[0].Command != table {
			t.Errorf("%s: %+v", table, rows)
		}
	}
}
