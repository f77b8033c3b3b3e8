package embedded

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io/fs"

	"reckon/internal/durable"
)

// lastChange is the newest change of the database that this server has recorded.
type lastChange struct {
	Instance string `json:"instance"`
	Changed  int64  `json:"changed"`
}

// checkRestored detects a database that was restored from a backup, by comparing it with the last state that this server wrote. It then
// raises the versions of all subgraphs, because clients may have seen later versions that the backup lacks.
func (s *Store) checkRestored(ctx context.Context) error {
	var now lastChange
	if err := s.o.DB.QueryRowContext(ctx, `SELECT instance, changed FROM graph_state WHERE one = 1`).Scan(&now.Instance,
		&now.Changed); err != nil {
		return s.o.Explain(ctx, err)
	}
	var last lastChange
	if s.o.State != "" {
		if err := durable.ReadJSON(s.o.State, &last); err != nil {
			last = lastChange{}
			if now.Instance != "" || !errors.Is(err, fs.ErrNotExist) {
				s.o.Logger.Warn(
					"up to which change this server had written the knowledge graph cannot be read and is noted again: versions are "+
						"raised, as after a restored backup; nothing is lost", "file", s.o.State, "err", err)
			}
		}
	}
	if now.Instance != "" && (s.o.State == "" || last.Instance == now.Instance && last.Changed <= now.Changed) {
		return s.saveNewestChange(ctx)
	}
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE graph_state SET instance = $1, changed = changed + 1 WHERE one = 1`, rand.Text())
		if err != nil || now.Instance == "" {
			return err
		}
		at := s.o.Now().UnixMilli()
		_, err = tx.ExecContext(
			ctx, `UPDATE graph_subgraphs SET version = CASE WHEN version + 1 > $1 THEN version + 1 ELSE $2 END, changed = (SELECT `+
				`changed FROM graph_state WHERE one = 1)`, at, at)
		return err
	})
	if err != nil {
		return err
	}
	return s.saveNewestChange(ctx)
}

// saveNewestChange saves the newest change of the database.
func (s *Store) saveNewestChange(ctx context.Context) error {
	if s.o.State == "" {
		return nil
	}
	var now lastChange
	if err := s.o.DB.QueryRowContext(ctx, `SELECT instance, changed FROM graph_state WHERE one = 1`).Scan(&now.Instance,
		&now.Changed); err != nil {
		return s.o.Explain(ctx, err)
	}
	return durable.WriteJSON(s.o.State, now, 0o640)
}
