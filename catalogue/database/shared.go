package database

import (
	"context"
	"database/sql"
	"sync"
)

// Shared is the database for data beside the catalogue in separate tables.
type Shared struct {
	DB *sql.DB
	// Write must be held by writers: SQLite has one writer.
	Write sync.Locker
	// Postgres reports whether it is PostgreSQL rather than SQLite.
	Postgres bool
	// Explain translates an error of the database: see store.ErrUnavailable.
	Explain func(context.Context, error) error
}

// Shared returns the database for other uses. The catalogue closes it.
func (c *Catalogue) Shared() Shared {
	return Shared{DB: c.db, Write: writing{c}, Postgres: c.d.indexes, Explain: c.translateError}
}

// writing is the lock of a writer to other tables.
type writing struct{ c *Catalogue }

func (w writing) Lock() { w.c.write.Lock() }

func (w writing) Unlock() {
	w.c.settler.checkpoint(context.Background(), checkpointBytes)
	w.c.write.Unlock()
}
