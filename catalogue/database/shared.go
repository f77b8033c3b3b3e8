package database

import (
	"context"
	"database/sql"
	"sync"
)

// Shared is the database for what is kept beside the catalogue and has tables of its own.
type Shared struct {
	DB *sql.DB
	// Write is held by whoever writes: SQLite has one writer.
	Write *sync.Mutex
	// Postgres says which of the two it is.
	Postgres bool
	// Explain says what an error of the database means: see store.ErrUnavailable.
	Explain func(context.Context, error) error
}

// Shared gives the database to others. It is closed with the catalogue.
func (c *Catalogue) Shared() Shared {
	return Shared{DB: c.db, Write: &c.write, Postgres: c.d.indexes, Explain: c.explain}
}
