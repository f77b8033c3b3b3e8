package golden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that the server is waited for with

	"reckon/store/storetest"
)

// TestPostgres opens the catalogue as the earlier program left it in PostgreSQL.
func TestPostgres(t *testing.T) {
	dir, m := unpack(t)
	fresh, begin := storetest.Postgres(t, "pgx")
	begin()
	address := fresh(t)
	dump, err := os.ReadFile(filepath.Join(dir, "catalogue.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.PgConn().Exec(t.Context(), string(dump)).ReadAll(); err != nil {
		t.Fatalf("load catalogue.sql: %v", err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "site")
	if err := os.Remove(filepath.Join(data, "catalogue.db")); err != nil { // not asked here
		t.Fatal(err)
	}
	s := serve(t, dir, data, "--catalogue", address)
	defer s.stop()
	if *record {
		return // the answers are the answers of TestSite
	}
	s.checkAll(m)
	s.importAgain()
	s.changeFindings()
}
