package database

import (
	"fmt"
	"net/url"
	"strings"
)

// dialect holds what differs between SQLite and PostgreSQL, apart from the schema file of each. All other SQL works in
// both, with numbered parameters ($1).
type dialect struct {
	name string
	// begin is run first in every transaction that writes; empty for nothing.
	begin string
	// readable tests whether a database exists. check returns "ok" if it is entirely intact, and is
	// empty if the database ensures that itself.
	readable, check string
	// analyse refreshes the statistics of the query planner in bounded time. emptyFile frees the
	// space of deleted rows. Either may be empty.
	analyse, emptyFile string
	// columns selects the names of the columns of a table.
	columns string
	// listed returns the condition that a column is in the JSON list of a parameter.
	listed func(column, param string) string
	// key returns the condition that the JSON object of a column has a key of a list.
	key func(column, list string) string
	// pattern returns the condition that a column matches a shell pattern (* ? [a-z]). glob
	// converts the pattern for the database.
	pattern func(column, param string) string
	glob    func(string) string
	// indexes means that the database answers lists by indexes, with separate tables for nodes,
	// names and counts. Otherwise lists are answered from columns in memory if there are many rows,
	// or by a scan if there are few.
	indexes bool
	// indexed returns the hint for the index to use.
	indexed func(index string) string
	// down and up are the keywords for an order in which unknown values are the smallest.
	down, up string
	// put and get convert text to a form that the database can store, and back.
	put, get func(string) string

	corrupt, full, unopened, gone, away func(error) bool
}

func unchangedText(s string) string { return s }

func neverRetry(error) bool { return false }

func sqliteDialect() *dialect {
	return &dialect{
		name:      "sqlite",
		readable:  `SELECT count(*) FROM sqlite_master`,
		check:     `PRAGMA quick_check(1)`,
		analyse:   `PRAGMA optimize`,
		emptyFile: `VACUUM`,
		columns:   `SELECT name FROM pragma_table_info($1)`,
		listed:    func(column, param string) string { return column + " IN (SELECT value FROM json_each(" + param + "))" },
		key: func(column, list string) string {
			return "EXISTS (SELECT 1 FROM json_each(" + column + ") AS k WHERE k.key IN " + list + ")"
		},
		pattern: func(column, param string) string { return column + " GLOB " + param },
		glob:    unchangedText,
		indexed: func(index string) string { return " INDEXED BY " + index },
		down:    " DESC",
		put:     unchangedText,
		get:     unchangedText,
		// SQLITE_CORRUPT, SQLITE_NOTADB
		corrupt:  func(err error) bool { code, ok := errorCode(err); return ok && (code == 11 || code == 26) },
		full:     func(err error) bool { code, ok := errorCode(err); return ok && code == 13 }, // SQLITE_FULL
		unopened: func(err error) bool { code, ok := errorCode(err); return ok && code == 14 }, // SQLITE_CANTOPEN
		gone:     neverRetry,
		away:     neverRetry,
	}
}

// sqliteDriver is the name of SQLite in package database/sql.
const sqliteDriver = "sqlite"

// dsn returns the SQLite data source name for a file. With it, writers wait for a lock instead of failing. A commit is
// in the write-ahead log, which [checkpointer] copies into the file, so that a killed process loses no commit.
func dsn(path string) string {
	q := url.Values{}
	for _, p := range []string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-1536)",
		"temp_store(MEMORY)", "wal_autocheckpoint(0)", "journal_size_limit(0)", "analysis_limit(1000)",
	} {
		q.Add("_pragma", p)
	}
	q.Set("_txlock", "immediate")
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// parameterList writes $first, $first+1, ...
func parameterList(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", first+i)
	}
	return b.String()
}
