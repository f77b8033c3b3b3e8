package catalogue

import (
	"fmt"
	"net/url"
	"strings"
)

// What differs between databases stands in this file and in the folder of migrations
// named after each. Everything else is SQL that SQLite and PostgreSQL both run, with
// numbered parameters ($1).

const (
	driver     = "sqlite"
	migrations = "migrations/sqlite"
	// createMigrations makes the table that says which migrations were applied.
	createMigrations = `CREATE TABLE IF NOT EXISTS migrations (version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_ms BIGINT NOT NULL)`
	// readable finds out whether the file is a database at all.
	readable = `SELECT count(*) FROM sqlite_master`
	// check returns "ok" when every page is sound.
	check = `PRAGMA quick_check(1)`
	// analyse refreshes what the query planner knows, in bounded time.
	analyse = `PRAGMA optimize`
	// emptyFile gives the space of deleted rows back.
	emptyFile = `VACUUM`
)

// dsn names the database. Writers queue for a lock instead of failing; a commit is
// in the write-ahead log of SQLite, so killing the process loses none.
func dsn(path string) string {
	q := url.Values{}
	for _, p := range []string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-4096)",
		"temp_store(MEMORY)", "journal_size_limit(16777216)", "analysis_limit(1000)",
	} {
		q.Add("_pragma", p)
	}
	q.Set("_txlock", "immediate")
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// pattern returns a condition that a column matches a shell pattern (* ? [a-z]).
func pattern(column, param string) string { return column + " GLOB " + param }

// aside uses a column without walking its index. Our counts tell better than the
// planner's statistics which index leads to few rows.
func aside(column string) string { return "+" + column }

// corrupt reports whether the database says that its file is damaged (SQLITE_CORRUPT,
// SQLITE_NOTADB).
func corrupt(err error) bool {
	code, ok := errorCode(err)
	return ok && (code == 11 || code == 26)
}

// full reports whether there was no room on the disk (SQLITE_FULL).
func full(err error) bool {
	code, ok := errorCode(err)
	return ok && code == 13
}

// params writes $first, $first+1, ...
func params(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", first+i)
	}
	return b.String()
}
