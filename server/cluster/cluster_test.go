package cluster_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"reckon/internal/dirty"
	"reckon/server/cluster"
	"reckon/store/storetest"
	"reckon/transport/instance"
	"reckon/transport/senders"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a database of several members.
type site struct {
	t       *testing.T
	address string
}

func newSite(t *testing.T) *site {
	fresh, start := storetest.Postgres(t, "pgx")
	start()
	return &site{t, fresh(t)}
}

func (s *site) db() *sql.DB {
	s.t.Helper()
	db, err := sql.Open("pgx", s.address)
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, db.Close()) })
	return db
}

func (s *site) join(name string) *cluster.Lease {
	s.t.Helper()
	l, err := cluster.Open(s.t.Context(), cluster.Options{DB: s.db(), Member: name, Address: "http://" + name, Version: "1"})
	must(s.t, err)
	return l
}

// runOut makes the lease run out, as time does.
func (s *site) runOut() {
	s.t.Helper()
	_, err := s.db().ExecContext(s.t.Context(), `UPDATE members_lead SET until = clock_timestamp() - interval '1 millisecond'`)
	must(s.t, err)
}

// write tries a write of the catalogue under the fence of an epoch.
func (s *site) write(l *cluster.Lease, epoch int64) error {
	tx, err := s.db().BeginTx(s.t.Context(), nil)
	must(s.t, err)
	defer tx.Rollback() //nolint:errcheck // nothing is kept
	return l.Fence(epoch)(s.t.Context(), tx)
}

// One leads at a time. Another takes the lead only when it has run out, and what the one before
// writes after that fails, whatever that one believes.
func TestLease(t *testing.T) {
	s := newSite(t)
	a, b := s.join("a"), s.join("b")
	first := a.Epoch()
	if first == 0 || b.Epoch() != 0 || !a.Leads(first) || b.Leads(0) || b.Leads(first) || b.Leader() != "http://a" {
		t.Fatalf("epochs %d, %d; leader %q", first, b.Epoch(), b.Leader())
	}
	if a.Leads(first - 1) {
		t.Error("it leads in an epoch of before")
	}
	must(t, s.write(a, first))
	for name, err := range map[string]error{"one that follows": s.write(b, 0), "a later epoch": s.write(b, first+1)} {
		if !errors.Is(err, cluster.ErrNotLeading) {
			t.Errorf("%s writes: %v", name, err)
		}
	}
	must(t, a.Files(first).Put("nflog", []byte("one")))
	s.runOut()
	c := s.join("c") // looks once, and takes it
	second := c.Epoch()
	if second != first+1 {
		t.Fatalf("epoch %d after %d", second, first)
	}
	if err := s.write(a, first); !errors.Is(err, cluster.ErrNotLeading) {
		t.Errorf("the leader of before writes: %v", err)
	}
	if err := a.Files(first).Put("nflog", []byte("two")); !errors.Is(err, cluster.ErrNotLeading) {
		t.Errorf("the leader of before keeps a file: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "alerts")
	must(t, os.MkdirAll(dir, 0o750))
	must(t, os.WriteFile(filepath.Join(dir, "old"), nil, 0o600))
	must(t, c.Files(second).Fetch(t.Context(), dir))
	if raw, err := os.ReadFile(filepath.Join(dir, "nflog")); err != nil || string(raw) != "one" {
		t.Errorf("the next leader has %q, %v", raw, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); err == nil {
		t.Error("a file of its own is left")
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, done := a.Changed(), make(chan struct{})
	go func() { a.Run(ctx); close(done) }()
	<-changed // it finds out
	cancel()
	<-done
	if a.Epoch() != 0 || a.Leads(first) || a.Leader() != "http://c" {
		t.Errorf("the leader of before: epoch %d, leader %s", a.Epoch(), a.Leader())
	}
	if leader, err := cluster.Leading(t.Context(), s.db()); err != nil || leader != "http://c" {
		t.Errorf("leading: %q, %v", leader, err)
	}
	must(t, c.Release(t.Context()))
	if leader, err := cluster.Leading(t.Context(), s.db()); err != nil || leader != "" {
		t.Errorf("leading after it was given back: %q, %v", leader, err)
	}
	d := s.join("d") // at once
	if d.Epoch() != second+1 || c.Leads(second) {
		t.Errorf("after it was given back: epoch %d", d.Epoch())
	}
	list, err := d.Members(t.Context())
	must(t, err)
	leading := 0
	for _, m := range list {
		if m.Leads {
			leading++
		}
	}
	if len(list) != 3 || leading != 1 { // a, b and d
		t.Errorf("%+v", list)
	}
}

// A write that is under way when the lease runs out is waited for, and ends before another leads.
func TestTakeWaits(t *testing.T) {
	s := newSite(t)
	a := s.join("a")
	tx, err := s.db().BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(7231406)`)
	must(t, err)
	must(t, a.Fence(a.Epoch())(t.Context(), tx))
	s.runOut()
	if _, err := cluster.Open(t.Context(), cluster.Options{DB: s.db(), Member: "b", Address: "http://b"}); err == nil {
		t.Fatal("another leads, or is a member, while a write of the one before is under way")
	}
	must(t, tx.Commit())
	if b := s.join("b"); b.Epoch() != a.Epoch()+1 {
		t.Errorf("epoch %d", b.Epoch())
	}
}

func late(times ...int64) *dirty.Late {
	var l dirty.Late
	for _, x := range times {
		l.Add(x)
	}
	return &l
}

const hour = int64(3_600_000)

// Hours that one member notes the leader sees, and forgets only when nobody can still be writing
// under the note, nor has noted them since.
func TestLate(t *testing.T) {
	s := newSite(t)
	a, b := cluster.NewLate(s.join("a")), cluster.NewLate(s.join("b"))
	note := func(h *cluster.LateHours, l *dirty.Late) {
		t.Helper()
		end, err := h.Begin(l)
		must(t, err)
		end()
	}
	look := func() dirty.Snapshot {
		t.Helper()
		d, err := a.Snapshot()
		must(t, err)
		return d
	}
	age := func() { // two minutes and a second
		_, err := s.db().ExecContext(t.Context(), `UPDATE members_late SET noted = noted - interval '121 seconds'`)
		must(t, err)
	}
	note(b, late(5*hour+7, 3*hour))
	note(b, late(5*hour+9)) // a moment later: noted already
	d := look()
	if len(d.Hours) != 2 || d.Hours[0].At.UnixMilli() != 3*hour || d.Hours[1].Oldest.UnixMilli() != 5*hour+7 {
		t.Fatalf("%+v", d)
	}
	must(t, a.Clean(d))
	if d = look(); len(d.Hours) != 2 {
		t.Fatal("forgotten while somebody may be writing")
	}
	for _, h := range d.Hours {
		if h.Mark <= d.Mark {
			t.Error("rows of an hour that may be written are not made again")
		}
	}
	age()
	d = look()
	if d.Hours[0].Mark > d.Mark || d.Hours[1].Mark > d.Mark {
		t.Fatalf("%+v", d)
	}
	note(a, late(5*hour+3)) // by the other, after the snapshot
	must(t, a.Clean(d))
	if d = look(); len(d.Hours) != 1 || d.Hours[0].At.UnixMilli() != 5*hour || d.Hours[0].Oldest.UnixMilli() != 5*hour+3 {
		t.Fatalf("%+v", d)
	}
	age()
	must(t, a.Clean(look()))
	if d = look(); len(d.Hours) != 0 {
		t.Errorf("%+v", d)
	}
}

func admitted(t *testing.T, r *senders.Registry, s instance.Sender, address string) {
	t.Helper()
	_, err := r.Admit(s, address)
	must(t, err)
}

// A name belongs to one machine at all servers together.
func TestSenders(t *testing.T) {
	s := newSite(t)
	leases := []*cluster.Lease{s.join("a"), s.join("b")}
	var at [2]*senders.Registry
	for i := range at {
		at[i] = senders.New(senders.Options{})
	}
	share := func(which ...int) {
		t.Helper()
		for _, i := range which {
			all, err := leases[i].Share(t.Context(), at[i].Claims())
			must(t, err)
			at[i].Learn(all)
		}
	}
	from := func(id string) instance.Sender {
		return instance.Sender{ID: instance.ID{Agent: id, Machine: "m"}, Node: "n1", Sent: time.Now()}
	}
	admitted(t, at[0], from("one"), "10.0.0.1")
	share(0, 1)
	var taken *senders.TakenError
	if _, err := at[1].Admit(from("two"), "10.0.0.2"); !errors.As(err, &taken) || taken.Address != "10.0.0.1" {
		t.Errorf("a second machine at another server: %v", err)
	}
	admitted(t, at[1], from("one"), "10.0.0.1") // the first may go to either

	// Let in by both before they heard of each other: the first that was reported has the name.
	other := func(id string) instance.Sender {
		x := from(id)
		x.Node = "n2"
		return x
	}
	admitted(t, at[0], other("three"), "10.0.0.3")
	admitted(t, at[1], other("four"), "10.0.0.4")
	share(0, 1)
	admitted(t, at[0], other("three"), "10.0.0.3")
	if _, err := at[1].Admit(other("four"), "10.0.0.4"); !errors.As(err, &taken) {
		t.Errorf("the second machine goes on: %v", err)
	}
	if x, ok := at[1].Sender("", "n2"); !ok || x.ID.Agent != "three" || x.Other == nil || x.Other.Address != "10.0.0.4" {
		t.Errorf("%+v", x)
	}
	// The first is silent for so long that the name is free.
	_, err := s.db().ExecContext(t.Context(), `UPDATE members_senders SET seen = seen - interval '11 minutes' WHERE node = 'n2'`)
	must(t, err)
	free := senders.New(senders.Options{})
	admitted(t, free, other("five"), "10.0.0.5")
	all, err := leases[1].Share(t.Context(), free.Claims())
	must(t, err)
	for _, c := range all {
		if c.Node == "n2" && c.ID.Agent != "five" {
			t.Errorf("a name that is free: %+v", c)
		}
	}
}
