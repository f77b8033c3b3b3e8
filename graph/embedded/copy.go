package embedded

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"reckon/graph"
)

// CopyTo copies all subgraphs to another store, including the versions of deleted subgraphs. It skips a subgraph if the
// other store has a higher version of it. copied is the number of subgraphs that it wrote.
func (s *Store) CopyTo(ctx context.Context, to *Store) (copied int, err error) {
	list, err := queryInfos(ctx, s.o.DB, `SELECT `+infoColumns+` FROM graph_subgraphs ORDER BY id`)
	if err != nil {
		return 0, s.o.Explain(ctx, err)
	}
	for _, r := range list {
		quads, err := readQuads(ctx, s.o.DB, r.g)
		if err != nil {
			return copied, s.o.Explain(ctx, err)
		}
		if err := to.copyGraph(ctx, r.Info, quads); err != nil {
			return copied, fmt.Errorf("copy the subgraph %q: %w", r.ID, err)
		}
		copied++
	}
	return copied, nil
}

// copyGraph writes a subgraph of another store with its version there.
func (s *Store) copyGraph(ctx context.Context, from graph.Info, quads []graph.Quad) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		r, there, err := findRow(ctx, tx, from.ID)
		if err != nil || there && r.Version >= from.Version {
			return err
		}
		if !there {
			if r, err = s.createSubgraph(ctx, tx, from.ID, graph.Put{Origin: from.Origin, Owner: from.Owner}); err != nil {
				return err
			}
		}
		_, n, err := s.replaceStatements(ctx, tx, r, graph.Put{Quads: quads})
		if err != nil {
			return err
		}
		r.Origin, r.Owner, r.Quads, r.Deleted = from.Origin, from.Owner, n, from.Deleted
		if _, _, err := s.nextVersion(ctx, tx, r, from.Time); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE graph_subgraphs SET version = $1 WHERE id = $2 AND version < $3`, from.Version, from.ID,
			from.Version)
		return err
	})
}

// DropTimestamps deletes the subgraphs named timestamp:MS or ID/timestamp:MS with a time before the given one. Clients
// of GLACIATION write such a subgraph at every tick. dropped is the number of deleted subgraphs.
func DropTimestamps(ctx context.Context, s graph.Store, before time.Time) (dropped int, err error) {
	list, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, i := range list {
		if ms, ok := Timestamp(i.ID); ok && ms < before.UnixMilli() {
			if _, err := s.Delete(ctx, i.ID, graph.AnyVersion); err != nil {
				return dropped, err
			}
			dropped++
		}
	}
	return dropped, nil
}
