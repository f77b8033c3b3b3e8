package database

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

func postgresDialect() *dialect {
	return &dialect{
		name: "postgres",
		// One writer at a time, across all servers: others wait at most ten seconds.
		begin:   `SET LOCAL lock_timeout = '10s'; SELECT pg_advisory_xact_lock(7231406)`,
		columns: `SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`,
		listed: func(column, param string) string {
			return column + " IN (SELECT json_array_elements_text(CAST(" + param + " AS JSON)))"
		},
		key: func(column, list string) string {
			return "EXISTS (SELECT 1 FROM json_object_keys(CAST(CASE " + column + " WHEN '' THEN '{}' ELSE " + column +
				" END AS JSON)) AS k WHERE k IN " + list + ")"
		},
		pattern: func(column, param string) string { return column + " ~ " + param },
		glob:    globRegex,
		indexes: true,
		indexed: func(string) string { return "" }, // its planner chooses
		down:    " DESC NULLS LAST",
		up:      " ASC NULLS FIRST",
		// PostgreSQL stores neither text with a zero byte nor invalid UTF-8.
		put: func(s string) string {
			return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\U000f0000")
		},
		get:      func(s string) string { return strings.ReplaceAll(s, "\U000f0000", "\x00") },
		corrupt:  neverRetry,
		full:     func(err error) bool { return sqlState(err) == "53100" },
		unopened: neverRetry,
		gone:     func(err error) bool { return sqlState(err) == "42P01" },
		away:     isPostgresAway,
	}
}

// sqlState returns the SQLSTATE of a PostgreSQL error (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func isPostgresAway(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	switch s := sqlState(err); {
	case strings.HasPrefix(s, "57P"), strings.HasPrefix(s, "08"), strings.HasPrefix(s, "53"), strings.HasPrefix(s, "28"), s == "3D000",
		s == "55P03":
		return true
	case s != "":
		return false
	}
	return errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// OpenURL opens a catalogue in PostgreSQL, at an address such as postgres://USER@HOST/DATABASE?password_file=FILE. The address may
// contain other settings of libpq (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS). The database
// must exist; OpenURL creates the tables. It logs repairs to log, unless that is nil.
func OpenURL(ctx context.Context, address string, log *slog.Logger) (*Catalogue, error) {
	c, err := newConnections(address, log, "")
	if err != nil {
		return nil, err
	}
	if err := c.prepareTables(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// memberSettings sets connection parameters for a server that shares the database with others. With them, PostgreSQL releases
// the locks of a stopped or disconnected server within seconds.
const memberSettings = `SET idle_in_transaction_session_timeout = '5s'; SET tcp_user_timeout = '5s'; SET tcp_keepalives_idle = 5; SET ` +
	`tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3`

// DialMember returns a connection pool for a server that shares the database with others; see [OpenURL] for the
// address. It does not connect yet.
func DialMember(address string) (*sql.DB, error) {
	c, err := newConnections(address, nil, memberSettings)
	if err != nil {
		return nil, err
	}
	return c.db, nil
}

// OpenMember is like [OpenURL] for a catalogue that several servers write to. Every write transaction calls fence first
// and fails if fence returns an error.
func OpenMember(ctx context.Context, address string, log *slog.Logger, fence func(context.Context, *sql.Tx) error) (*Catalogue, error) {
	c, err := newConnections(address, log, memberSettings)
	if err != nil {
		return nil, err
	}
	if err := c.prepareTables(ctx); err != nil {
		return nil, err
	}
	c.fence = fence
	return c, nil
}

// newConnections creates the connections of a catalogue. It runs setting on each of them.
func newConnections(address string, log *slog.Logger, setting string) (*Catalogue, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	conf, shown, file, err := parsePostgres(address)
	if err != nil {
		return nil, err
	}
	before := stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		if file == "" {
			return nil
		}
		raw, err := os.ReadFile(file) // read each time, so that it can be replaced
		c.Password = strings.TrimSpace(string(raw))
		return err
	})
	after := stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		if setting == "" {
			return nil
		}
		_, err := c.Exec(ctx, setting, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	db := stdlib.OpenDB(*conf, before, after)
	db.SetMaxOpenConns(8)
	db.SetConnMaxIdleTime(time.Minute)
	return &Catalogue{d: postgresDialect(), path: shown, db: db, log: log}, nil
}

// prepareTables prepares the tables, or closes the database on error.
func (c *Catalogue) prepareTables(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := c.prepare(ctx); err != nil {
		return errors.Join(fmt.Errorf("open the catalogue: %w", c.translateError(ctx, err)), c.db.Close())
	}
	return nil
}

// CheckURL returns an error for an invalid address.
func CheckURL(address string) error {
	_, _, _, err := parsePostgres(address)
	return err
}

func parsePostgres(address string) (conf *pgx.ConnConfig, shown, file string, err error) {
	const form = "write it like postgres://USER@HOST/DATABASE?password_file=FILE"
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, "", "", fmt.Errorf("the address of the catalogue is none of PostgreSQL; %s", form)
	}
	if _, has := u.User.Password(); has {
		return nil, "", "", fmt.Errorf(
			"the address of the catalogue at %s holds a password, which others can see in the list of processes; write it into a file "+
				"and give password_file=FILE", u.Host)
	}
	q := u.Query()
	if q.Has("password") {
		return nil, "", "", fmt.Errorf(
			"the address of the catalogue at %s holds a password; write it into a file and give password_file=FILE", u.Host)
	}
	file = q.Get("password_file")
	q.Del("password_file")
	if file != "" {
		if _, err := os.ReadFile(file); err != nil {
			return nil, "", "", fmt.Errorf("the password of the catalogue: %w", err)
		}
	}
	if !q.Has("connect_timeout") {
		q.Set("connect_timeout", "5")
	}
	if !q.Has("application_name") {
		q.Set("application_name", "reckon")
	}
	if strings.Trim(u.Path, "/") == "" {
		return nil, "", "", fmt.Errorf("the address of the catalogue at %s names no database; %s", u.Host, form)
	}
	u.RawQuery = ""
	shown = u.String()
	u.RawQuery = q.Encode()
	if conf, err = pgx.ParseConfig(u.String()); err != nil {
		return nil, "", "", fmt.Errorf("the address of the catalogue %s: %w", shown, err)
	}
	return conf, shown, file, nil
}

// recreateTables recreates the tables that are derived from the series, after some of them were dropped externally. It keeps
// the other tables (forecasts, graph_*, metric_*), because the schema creates only missing ones.
func (c *Catalogue) recreateTables(ctx context.Context) error {
	c.db.SetMaxIdleConns(0) // prepared statements refer to the old tables
	defer c.db.SetMaxIdleConns(2)
	if _, err := c.db.ExecContext(ctx,
		`DROP TABLE IF EXISTS migrations, workloads, workload_nodes, workload_counts, workload_names, state, findings, use_groups, uses,`+
			` node_uses, figure_columns, steps`); err != nil {
		return err
	}
	return errors.Join(c.createTables(ctx), c.addColumns(ctx))
}

// globRegex returns the regular expression for a shell pattern in the syntax of SQLite.
func globRegex(pattern string) string {
	var b strings.Builder
	b.WriteString("^(?:")
	for p := []rune(pattern); len(p) > 0; {
		switch p[0] {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '[':
			n := classEnd(p)
			if n < 0 {
				return "a^" // matches no text
			}
			b.WriteString(regexClass(p[1:n]))
			p = p[n+1:]
			continue
		default:
			if strings.ContainsRune(`\.+()|]{}^$`, p[0]) {
				b.WriteByte('\\')
			}
			b.WriteRune(p[0])
		}
		p = p[1:]
	}
	b.WriteString(")$")
	return b.String()
}

// classEnd returns the end of the set at the beginning of p; -1 if there is none.
func classEnd(p []rune) int {
	i := 1
	if i < len(p) && p[i] == '^' {
		i++
	}
	for first := true; i < len(p); i++ {
		if p[i] == ']' && !first {
			return i
		}
		first = false
	}
	return -1
}

func regexClass(inner []rune) string {
	s := string(inner)
	not := ""
	if strings.HasPrefix(s, "^") {
		not, s = "^", s[1:]
	}
	close := ""
	if strings.HasPrefix(s, "]") {
		close, s = "]", s[1:]
	}
	return "[" + not + close + strings.NewReplacer(`\`, `\\`, "[", `\[`).Replace(s) + "]"
}
