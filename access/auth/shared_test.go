package auth_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"reckon/access"
	"reckon/access/auth"
	"reckon/store/storetest"
)

// Users of two servers over one PostgreSQL: changes by one are visible to the other, and the
// file of the first is migrated once.
func TestShared(t *testing.T) {
	fresh, start := storetest.Postgres(t, "pgx")
	start()
	address := fresh(t)
	c := &clock{t: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	ctx := t.Context()
	member := func() *auth.Users {
		db, err := sql.Open("pgx", address)
		must(t, err)
		us, err := auth.OpenShared(ctx, db, auth.Options{Clock: c.now, Fast: true})
		must(t, err)
		t.Cleanup(func() { must(t, us.Close()) })
		return us
	}
	a, b := member(), member()
	file, _, _ := open(t)
	must(t, file.AddUser(ctx, auth.User{Name: "root", Role: access.Admin}, good))
	token, err := file.AddToken(ctx, auth.Token{Kind: auth.Agent, Scope: access.Scope{Site: "s", Nodes: []string{"n*"}}, Bound: access.Bound{Series: 7}})
	must(t, err)
	must(t, file.Audit(ctx, access.Viewer{Name: "root", Role: access.Admin}, "query", "up\x00\xff", "alice", "::1"))
	for i, us := range []*auth.Users{a, b} {
		if took, err := us.Adopt(ctx, file); err != nil || took != (i == 0) {
			t.Fatalf("member %d took the file over: %t, %v", i, took, err)
		}
	}
	for _, us := range []*auth.Users{a, b} {
		if v, err := us.CheckPassword(ctx, "root", good, "x"); err != nil || v.Role != access.Admin {
			t.Errorf("%+v, %v", v, err)
		}
		if v, err := us.CheckToken(ctx, token); err != nil || v.Writes == nil || v.Writes.Site != "s" || v.Bound.Series != 7 {
			t.Errorf("%+v, %v", v, err)
		}
		if list, err := us.Entries(ctx, "alice", "", time.Time{}, 10); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		for _, name := range []string{"no\x00body", "\xff"} {
			if _, err := us.CheckPassword(ctx, name, good, "x"); !errors.Is(err, auth.ErrRefused) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := us.CheckToken(ctx, "rkn_\x00.x"); !errors.Is(err, auth.ErrToken) {
			t.Error(err)
		}
	}
	secret, err := a.NewSession(ctx, access.Viewer{Role: access.Admin, Name: "root"}, true)
	must(t, err)
	if v, err := b.CheckSession(ctx, secret); err != nil || v.Name != "root" {
		t.Errorf("a session of the other: %+v, %v", v, err)
	}
	must(t, a.SetPassword(ctx, "root", "another password"))
	if _, err := b.CheckSession(ctx, secret); !errors.Is(err, auth.ErrSession) {
		t.Errorf("the session outlives the password: %v", err)
	}
	c.add(5 * time.Second) // until then the other accepts the old one
	if _, err := b.CheckPassword(ctx, "root", good, "x"); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("the old password: %v", err)
	}
	list, err := b.Tokens(ctx)
	must(t, err)
	must(t, b.Revoke(ctx, list[0].ID))
	if _, err := a.CheckToken(ctx, token); !errors.Is(err, auth.ErrToken) {
		t.Errorf("a token that the other revoked: %v", err)
	}
	must(t, a.RemoveUser(ctx, "root"))
	if admin, err := b.HasAdmin(ctx); err != nil || admin {
		t.Errorf("an admin is left: %v", err)
	}
}
