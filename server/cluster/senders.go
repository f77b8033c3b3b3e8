package cluster

import (
	"context"
	"fmt"
	"time"

	"reckon/transport/senders"
)

// Share publishes the senders of this server to the other members. It returns the holder of each sender name according
// to all members. The first sender with a name holds it. Another sender replaces the holder if the holder was silent
// for [senders.ReleaseAfter], or for [senders.TakeoverAfter] before the other sender began.
func (l *Lease) Share(ctx context.Context, mine []senders.Claim) ([]senders.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := l.o.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	const ago = `clock_timestamp() - %s * interval '1 millisecond'`
	put, err := tx.PrepareContext(ctx, `INSERT INTO members_senders AS held (site, node, agent, machine, boot, address, since, seen, skew_ms, member)
		VALUES ($1, $2, $3, $4, $5, $6, `+fmt.Sprintf(ago, "$7")+`, `+fmt.Sprintf(ago, "$8")+`, $9, $10)
		ON CONFLICT (site, node) DO UPDATE SET agent = excluded.agent, machine = excluded.machine, boot = excluded.boot, address = excluded.address,
			since = excluded.since, seen = excluded.seen, skew_ms = excluded.skew_ms, member = excluded.member
		WHERE (held.agent = excluded.agent AND held.machine = excluded.machine AND held.boot = excluded.boot AND held.seen < excluded.seen)
			OR held.seen < `+fmt.Sprintf(ago, "$11")+` OR held.seen < excluded.since - $12 * interval '1 millisecond'`)
	if err != nil {
		return nil, err
	}
	defer put.Close()
	for _, c := range mine {
		if _, err := put.ExecContext(ctx, c.Site, c.Node, c.ID.Agent, c.ID.Machine, c.ID.Boot, c.Address, c.Since.Milliseconds(),
			c.Seen.Milliseconds(), c.Skew.Milliseconds(),
			l.o.Member, senders.ReleaseAfter.Milliseconds(), senders.TakeoverAfter.Milliseconds()); err != nil {
			return nil, fmt.Errorf("inform the other servers about senders: %w", err)
		}
	}
	rows, err := tx.QueryContext(ctx, `SELECT site, node, agent, machine, boot, address, CAST(extract(epoch FROM clock_timestamp() - since) AS DOUBLE PRECISION),
		CAST(extract(epoch FROM clock_timestamp() - seen) AS DOUBLE PRECISION), skew_ms FROM members_senders WHERE seen > `+fmt.Sprintf(ago, "$1"), senders.ReleaseAfter.Milliseconds())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []senders.Claim
	for rows.Next() {
		var c senders.Claim
		var since, seen float64
		var skew int64
		if err := rows.Scan(&c.Site, &c.Node, &c.ID.Agent, &c.ID.Machine, &c.ID.Boot, &c.Address, &since, &seen, &skew); err != nil {
			return nil, err
		}
		c.Since, c.Seen = time.Duration(since*float64(time.Second)), time.Duration(seen*float64(time.Second))
		c.Skew = time.Duration(skew) * time.Millisecond
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return out, tx.Commit()
}

// Forget frees a name for its next sender.
func (l *Lease) Forget(ctx context.Context, site, node string) error {
	_, err := l.o.DB.ExecContext(ctx, `DELETE FROM members_senders WHERE site = $1 AND node = $2`, site, node)
	return err
}
