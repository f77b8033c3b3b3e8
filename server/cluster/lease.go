package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"reckon/store"
)

const (
	// leaseFor is the time that a leader leads after its last sign of life, by the clock of the database.
	leaseFor = 8 * time.Second
	// margin is the time before the end of the lease at which the leader itself stops.
	margin = 1500 * time.Millisecond
	// beat is the interval at which the lease is renewed or read.
	beat = 2 * time.Second
	// patience is the time limit of one access.
	patience = 4 * time.Second
	// forgotten is the time after which a silent member is no longer listed.
	forgotten = time.Hour
)

// ErrNotLeading is the error of a write by a server that does not lead, or not any more.
var ErrNotLeading = errors.New("another server leads: what this one was about to write is left to it")

// Options identifies a member.
type Options struct {
	DB      *sql.DB // of the catalogue, PostgreSQL; closed by the caller
	Member  string  // its name, unlike every other and every earlier process
	Address string  // Address is the address at which other members reach it.
	Version string
	Logger  *slog.Logger
}

// Lease is the lease of the leader, as seen by one member.
type Lease struct {
	o Options

	mu      sync.Mutex
	epoch   int64     // term of this member's lead; 0 while it does not lead
	until   time.Time // it leads, by the clock of this machine
	leader  string    // address of the leader, as far as known
	changed chan struct{}
}

// Open creates the tables and queries the leader once.
func Open(ctx context.Context, o Options) (*Lease, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := createTables(ctx, o.DB); err != nil {
		return nil, fmt.Errorf("make the tables of the members: %w", err)
	}
	l := &Lease{o: o, changed: make(chan struct{})}
	return l, l.renewOrAcquire(ctx)
}

// Run renews the lease, or acquires an expired one, until ctx ends. It does not release the lease. The caller must call
// [Lease.Release] after its last write.
func (l *Lease) Run(ctx context.Context) {
	_ = store.Repeat(ctx, beat, beat, 0, l.renewOrAcquire, func(err error) {
		l.o.Logger.Warn("who leads cannot be found out; nobody does until it can", "err", err)
	})
}

// renewOrAcquire renews the lease of this member, or acquires one that has expired.
func (l *Lease) renewOrAcquire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := time.Now()
	epoch := l.Epoch()
	if epoch > 0 {
		r, err := l.o.DB.ExecContext(ctx,
			`UPDATE members_lead SET until = clock_timestamp() + $1 * interval '1 millisecond' WHERE one = 1 AND epoch = $2`,
			leaseFor.Milliseconds(), epoch)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		if n == 1 {
			l.setLeader(epoch, asked, l.o.Address)
			return l.markAlive(ctx)
		}
	}
	var leader string
	var out bool
	if err := l.o.DB.QueryRowContext(ctx, `SELECT address, until < clock_timestamp() FROM members_lead WHERE one = 1`).Scan(&leader,
		&out); err != nil {
		return err
	}
	taken := int64(0)
	if out {
		asked = time.Now()
		var err error
		if taken, err = l.acquire(ctx); err != nil {
			return err
		}
	}
	if taken > 0 {
		leader = l.o.Address
	} else if out {
		leader = ""
	}
	l.setLeader(taken, asked, leader)
	return l.markAlive(ctx)
}

// acquire tries to become the leader and returns the new epoch, or 0 if another member was faster. It waits for running
// writes of the previous leader. Later writes of that leader fail.
func (l *Lease) acquire(ctx context.Context) (epoch int64, err error) {
	err = inTx(ctx, l.o.DB, beat, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE members_lead SET epoch = epoch + 1, member = $1, address = $2, until = clock_timestamp() + $3 * interval '1 millisecond'
			WHERE one = 1 AND until < clock_timestamp() RETURNING epoch`, l.o.Member, l.o.Address, leaseFor.Milliseconds()).Scan(&epoch)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return epoch, nil
}

// setLeader records the answer to a query for the leader. asked is the time of the query.
func (l *Lease) setLeader(epoch int64, asked time.Time, leader string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.epoch {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.epoch, l.until, l.leader = epoch, asked.Add(leaseFor-margin), leader
	if epoch == 0 {
		l.until = time.Time{}
	}
}

// markAlive records that this member is alive.
func (l *Lease) markAlive(ctx context.Context) error {
	_, err := l.o.DB.ExecContext(ctx, `INSERT INTO members (member, address, version, since, seen) VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp())
		ON CONFLICT (member) DO UPDATE SET address = excluded.address, version = excluded.version, seen = excluded.seen`, l.o.Member, l.o.Address, l.o.Version)
	return err
}

// Epoch returns the epoch of this member while it may be the leader, and otherwise 0. It does not change while the
// database is unreachable.
func (l *Lease) Epoch() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// Changed returns a channel that is closed when the epoch changes.
func (l *Lease) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Leads reports whether this member is the leader of the given epoch, which means that its lease has not expired. It
// checks the monotonic clock and the wall clock, so that it is false after a pause of the process or of the machine.
func (l *Lease) Leads(epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return epoch > 0 && l.epoch == epoch && now.Before(l.until) && now.Round(0).Before(l.until.Round(0))
}

// Leader returns the address of the leader; "" if there is none.
func (l *Lease) Leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

// Address returns the address of this member.
func (l *Lease) Address() string { return l.o.Address }

// Fence returns a function for the first statement of a write transaction, after the lock of writers is held. It
// returns ErrNotLeading unless epoch is the epoch of the current leader. Epoch 0 never belongs to a leader.
func (l *Lease) Fence(epoch int64) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		var now int64
		if err := tx.QueryRowContext(ctx, `SELECT epoch FROM members_lead WHERE one = 1`).Scan(&now); err != nil {
			return err
		}
		if epoch == 0 || now != epoch {
			return ErrNotLeading
		}
		return nil
	}
}

// Release releases the lease, so that another member need not wait until it expires.
func (l *Lease) Release(ctx context.Context) error {
	epoch := l.Epoch()
	l.setLeader(0, time.Time{}, "")
	_, err := l.o.DB.ExecContext(ctx, `UPDATE members_lead SET until = 'epoch' WHERE one = 1 AND epoch = $1`, epoch)
	if err == nil {
		_, err = l.o.DB.ExecContext(ctx, `DELETE FROM members WHERE member = $1`, l.o.Member)
	}
	return err
}

// Leading returns the address of the server that is the current leader. It is empty if there is no leader, or if the
// database was never shared by several servers.
func Leading(ctx context.Context, db *sql.DB) (address string, err error) {
	var shared bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass('members_lead') IS NOT NULL`).Scan(&shared); err != nil || !shared {
		return "", err
	}
	err = db.QueryRowContext(ctx, `SELECT address FROM members_lead WHERE one = 1 AND until >= clock_timestamp()`).Scan(&address)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return address, err
}

// Member is one of the servers.
type Member struct {
	Address, Version string
	Since, Seen      time.Time
	Silent           time.Duration // since it was heard of, by the clock of the database
	Leads            bool
}

// Members returns the servers that were active within the last hour, sorted by address. If several processes had one
// address, it returns the latest.
func (l *Lease) Members(ctx context.Context) ([]Member, error) {
	if _, err := l.o.DB.ExecContext(ctx, `DELETE FROM members WHERE seen < clock_timestamp() - $1 * interval '1 millisecond'`,
		forgotten.Milliseconds()); err != nil {
		return nil, err
	}
	rows, err := l.o.DB.QueryContext(ctx, `SELECT DISTINCT ON (m.address) m.address, m.version, m.since, m.seen, CAST(extract(epoch FROM clock_timestamp() - m.seen) AS DOUBLE PRECISION), m.member = d.member AND d.until >= clock_timestamp()
		FROM members m, members_lead d ORDER BY m.address, m.seen DESC`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Member
	for rows.Next() {
		var m Member
		var silent float64
		if err := rows.Scan(&m.Address, &m.Version, &m.Since, &m.Seen, &silent, &m.Leads); err != nil {
			return nil, err
		}
		m.Silent = time.Duration(silent * float64(time.Second))
		out = append(out, m)
	}
	return out, rows.Err()
}
