package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"reckon/access"
	"reckon/access/auth"
)

// TestOpen: a sender without credentials is admin if that was configured, or if only this
// machine reaches the server and no user was added, and not by any other name of the
// server.
func TestOpen(t *testing.T) {
	k, clock, _ := open(t)
	agent, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent, Scope: access.Scope{Site: "lab"}})
	must(t, err)
	person, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Person, Role: access.User, Name: "bob"})
	must(t, err)
	local, insecure := &auth.Authenticator{Users: k, Local: true}, &auth.Authenticator{Users: k, Insecure: true}
	public := &auth.Authenticator{Users: k, Public: true}
	check := func(what string, a *auth.Authenticator, want access.Role, reason error, change func(*http.Request)) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		if change != nil {
			change(r)
		}
		v, err := a.Viewer(r)
		if v.Role != want || !errors.Is(err, reason) || (reason == nil) != (err == nil) {
			t.Errorf("%s: %s, %v; want %s, %v", what, v.Role, err, want, reason)
		}
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	foreign := func(r *http.Request) {
		r.Method = http.MethodPost
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	check("local", local, access.Admin, nil, nil)
	check("local by its number", local, access.Admin, nil, host("127.0.0.1:9870"))
	check("local by another name", local, access.Nobody, access.ErrForbidden, host("evil.example"))
	check("local from another page", local, access.Nobody, access.ErrForbidden, foreign)
	check("insecure", insecure, access.Admin, nil, host("reckon.example"))
	check("insecure from another page", insecure, access.Nobody, access.ErrForbidden, foreign)
	check("public", public, access.Public, nil, nil)
	check("open to others", &auth.Authenticator{Users: k}, access.Nobody, nil, nil)
	check("with names of the web configuration", &auth.Authenticator{Users: k, Local: true, Basic: true}, access.Nobody, nil, nil)
	// Credentials take precedence over openness: with fewer rights, or none.
	check("a person's token", local, access.User, nil, header("Authorization", "Bearer "+person))
	check("an agent's token", local, access.Nobody, nil, header("Authorization", "Bearer "+agent))
	check("a wrong token", insecure, access.Nobody, access.ErrUnauthenticated, header("Authorization", "Bearer rkn_x.y"))
	check("within the process", &auth.Authenticator{Users: k}, access.Support, nil, func(r *http.Request) {
		*r = *r.WithContext(access.With(r.Context(), access.Viewer{Role: access.Support}))
	})

	must(t, k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, good))
	check("local, within the second that a look at the users holds", local, access.Admin, nil, nil)
	clock.add(1100 * time.Millisecond)
	check("local with a user", local, access.Nobody, nil, nil)
	check("insecure with a user", insecure, access.Admin, nil, nil)
	must(t, k.RemoveUser(t.Context(), "alice"))
	clock.add(1100 * time.Millisecond)
	check("local without users again", local, access.Admin, nil, nil)
}

// TestLooks: the same access of the same viewer is recorded once in ten minutes.
func TestLooks(t *testing.T) {
	k, clock, _ := open(t)
	a := &auth.Authenticator{Users: k}
	look := func(viewer, object string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		a.AuditLook(r.WithContext(access.With(r.Context(), access.Viewer{Role: access.Support, Name: viewer})), "workload", object, "bob")
	}
	for range 3 {
		look("sue", "slurm/1")
		look("sue", "slurm/2")
		look("ann", "slurm/1")
		clock.add(time.Minute)
	}
	entries := func() int {
		list, err := k.Entries(t.Context(), "bob", "", time.Time{}, 100)
		must(t, err)
		return len(list)
	}
	if n := entries(); n != 3 {
		t.Errorf("%d entries, want one for each look", n)
	}
	clock.add(8 * time.Minute)
	if look("sue", "slurm/1"); entries() != 4 {
		t.Errorf("%d entries after ten minutes, want 4", entries())
	}
}
