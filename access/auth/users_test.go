package auth_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"reckon/access"
	"reckon/access/auth"
)

// clock is a time of day set by tests.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func open(t *testing.T) (*auth.Users, *clock, string) {
	t.Helper()
	c := &clock{t: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	k, err := auth.Open(dir, auth.Options{Clock: c.now, Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, c, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const good = "correct horse battery"

func TestUsers(t *testing.T) {
	k, c, dir := open(t)
	ctx := t.Context()
	if empty, err := k.Empty(ctx); err != nil || !empty {
		t.Errorf("a new file is not empty: %v", err)
	}
	must(t, k.AddUser(ctx, auth.User{Name: "alice", Role: access.User}, good))
	must(t, k.AddUser(ctx, auth.User{Name: "lead", Role: access.User, Owners: []string{"shop", "lead"}}, good+"2"))
	if err := k.AddUser(ctx, auth.User{Name: "alice", Role: access.Admin}, good); !errors.Is(err, auth.ErrExists) {
		t.Errorf("alice twice: %v", err)
	}
	for name, u := range map[string]auth.User{"short": {Name: "x", Role: access.User}, "name": {Name: "a\tb", Role: access.User}, "colon": {Name: "a:b", Role: access.User}, "role": {Name: "x"}, "public": {Name: "x", Role: access.Public}} {
		password := good
		if name == "short" {
			password = "123456789"
		}
		if err := k.AddUser(ctx, u, password); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if admin, err := k.HasAdmin(ctx); err != nil || admin {
		t.Errorf("an admin out of nowhere: %v", err)
	}
	v, err := k.CheckPassword(ctx, "alice", good, "a")
	if err != nil || v.Role != access.User || v.Name != "alice" || !v.Sees("alice") || v.Sees("bob") {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := k.CheckPassword(ctx, "lead", good+"2", "a"); err != nil || !v.Sees("shop") || v.Sees("alice") {
		t.Errorf("%+v, %v", v, err)
	}
	for _, try := range [][2]string{{"alice", good + " "}, {"alice", ""}, {"Alice", good}, {"nobody", good}, {"", ""}, {"alice", strings.Repeat("x", 10_000)}} {
		if _, err := k.CheckPassword(ctx, try[0], try[1], "b"+try[1][:min(len(try[1]), 9)]); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%q signs in: %v", try, err)
		}
	}
	// Another password: the old one is invalid at once, also where it was cached.
	must(t, k.SetPassword(ctx, "alice", "another password"))
	c.add(time.Hour)
	if _, err := k.CheckPassword(ctx, "alice", good, "c"); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("the old password: %v", err)
	}
	if err := k.SetPassword(ctx, "nobody", good); !errors.Is(err, auth.ErrUnknown) {
		t.Error(err)
	}
	must(t, k.RemoveUser(ctx, "alice"))
	if _, err := k.CheckPassword(ctx, "alice", "another password", "d"); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("a removed user signs in: %v", err)
	}
	if users, err := k.List(ctx); err != nil || len(users) != 1 || users[0].Name != "lead" || len(users[0].Owners) != 2 {
		t.Errorf("%+v, %v", users, err)
	}
	// No password is in the file, and only its user can read the file.
	for _, file := range []string{auth.File, auth.File + "-wal"} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		for _, secret := range []string{good, "another password"} {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s holds a password", file)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(dir, auth.File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestGuessingIsSlow(t *testing.T) {
	k, c, _ := open(t)
	ctx := t.Context()
	must(t, k.AddUser(ctx, auth.User{Name: "alice", Role: access.User}, good))
	var slow int
	for i := range 20 {
		_, err := k.CheckPassword(ctx, "alice", "guess "+strings.Repeat("x", i), "attacker")
		if errors.Is(err, auth.ErrSlow) {
			slow++
		} else if !errors.Is(err, auth.ErrRefused) {
			t.Fatal(err)
		}
	}
	if slow < 14 {
		t.Errorf("%d of 20 guesses within a second were held up", slow)
	}
	if _, err := k.CheckPassword(ctx, "alice", good, "attacker"); !errors.Is(err, auth.ErrSlow) {
		t.Errorf("the right password tells itself apart where guessing goes on: %v", err)
	}
	// Neither the name nor the address is locked for others.
	must(t, k.AddUser(ctx, auth.User{Name: "bob", Role: access.User}, good))
	if _, err := k.CheckPassword(ctx, "bob", good, "attacker"); err != nil {
		t.Errorf("another name from the same address: %v", err)
	}
	if _, err := k.CheckPassword(ctx, "alice", good, "elsewhere"); err != nil {
		t.Errorf("the same name from elsewhere: %v", err)
	}
	c.add(2 * time.Second)
	if _, err := k.CheckPassword(ctx, "alice", good, "elsewhere"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

func TestTokens(t *testing.T) {
	k, c, dir := open(t)
	ctx := t.Context()
	agent, err := k.AddToken(ctx, auth.Token{Kind: auth.Agent, Note: "rack 1", Scope: access.Scope{Site: "lab", Nodes: []string{"n*"}}})
	must(t, err)
	expires := c.now().Add(time.Hour)
	grafana, err := k.AddToken(ctx, auth.Token{Kind: auth.Person, Role: access.Support, Name: "grafana", Expires: &expires})
	must(t, err)
	for _, bad := range []auth.Token{{}, {Kind: auth.Person}, {Kind: auth.Person, Role: access.User}, {Kind: auth.Agent, Scope: access.Scope{Nodes: []string{"[x"}}}} {
		if _, err := k.AddToken(ctx, bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	v, err := k.CheckToken(ctx, agent)
	if err != nil || v.Role != access.Nobody || !v.MayWrite("lab", "n7") || v.MayWrite("lab", "gpu1") || v.MayWrite("", "n7") {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := k.CheckToken(ctx, grafana); err != nil || !v.All() || v.MaySend() {
		t.Errorf("%+v, %v", v, err)
	}
	nameless, err := k.AddToken(ctx, auth.Token{Kind: auth.Person, Role: access.Support, Note: "dashboards"})
	must(t, err)
	if v, err := k.CheckToken(ctx, nameless); err != nil || !strings.HasPrefix(v.Name, "token ") || !strings.HasSuffix(v.Name, " (dashboards)") {
		t.Errorf("a token without a name looks around unnamed: %+v, %v", v, err)
	}
	flipped := []byte(agent)
	flipped[len(flipped)-2] ^= 1
	for _, text := range []string{"", "rkn_", "rkn_.", agent[:len(agent)-1], agent + "x", string(flipped), strings.TrimPrefix(agent, "rkn_"), strings.ToUpper(agent), "rkn_" + strings.Repeat("a", 10_000) + ".x"} {
		if _, err := k.CheckToken(ctx, text); !errors.Is(err, auth.ErrToken) {
			t.Errorf("%.40q is taken: %v", text, err)
		}
	}
	list, err := k.Tokens(ctx)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	var id string
	for _, x := range list {
		if x.Kind == auth.Agent {
			id = x.ID
			if x.Used == nil || x.Note != "rack 1" {
				t.Errorf("%+v", x)
			}
		}
	}
	must(t, k.Revoke(ctx, id))
	if _, err := k.CheckToken(ctx, agent); !errors.Is(err, auth.ErrToken) {
		t.Errorf("a revoked token is taken: %v", err)
	}
	if err := k.Revoke(ctx, id); !errors.Is(err, auth.ErrUnknown) {
		t.Errorf("revoked twice: %v", err)
	}
	c.add(time.Hour)
	if _, err := k.CheckToken(ctx, grafana); !errors.Is(err, auth.ErrToken) {
		t.Errorf("an expired token is taken: %v", err)
	}
	for _, left := range []int{3, 2} { // portals make one for each page: a day after its end it goes
		must(t, k.Trim(ctx))
		if list, err := k.Tokens(ctx); err != nil || len(list) != left {
			t.Errorf("%d tokens are kept, want %d: %v", len(list), left, err)
		}
		c.add(25 * time.Hour)
	}
	raw, err := os.ReadFile(filepath.Join(dir, auth.File+"-wal"))
	must(t, err)
	if _, secret, _ := strings.Cut(agent, "."); bytes.Contains(raw, []byte(secret)) {
		t.Error("the file holds a token")
	}
}

func TestSessions(t *testing.T) {
	k, c, _ := open(t)
	ctx := t.Context()
	must(t, k.AddUser(ctx, auth.User{Name: "alice", Role: access.Admin}, good))
	v, err := k.CheckPassword(ctx, "alice", good, "a")
	must(t, err)
	local, err := k.NewSession(ctx, v, true)
	must(t, err)
	remote, err := k.NewSession(ctx, access.Viewer{Role: access.User, Name: "carol"}, false)
	must(t, err)
	for secret, role := range map[string]access.Role{local: access.Admin, remote: access.User} {
		if v, err := k.CheckSession(ctx, secret); err != nil || v.Role != role {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if _, err := k.CheckSession(ctx, local+"x"); !errors.Is(err, auth.ErrSession) {
		t.Error(err)
	}
	// In use it lasts for a week; unused it ends after half a day.
	for range 7 * 3 {
		c.add(8*time.Hour - time.Second)
		if _, err := k.CheckSession(ctx, local); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.CheckSession(ctx, remote); !errors.Is(err, auth.ErrSession) {
		t.Errorf("a session nobody used: %v", err)
	}
	c.add(time.Hour)
	if _, err := k.CheckSession(ctx, local); !errors.Is(err, auth.ErrSession) {
		t.Errorf("after a week: %v", err)
	}
	// The session of a user who was removed, or who got a new password, ends at once.
	for _, end := range []func() error{
		func() error { return k.SetPassword(ctx, "alice", good+"3") },
		func() error { return k.RemoveUser(ctx, "alice") },
	} {
		s, err := k.NewSession(ctx, v, true)
		must(t, err)
		must(t, end())
		if _, err := k.CheckSession(ctx, s); !errors.Is(err, auth.ErrSession) {
			t.Errorf("still in: %v", err)
		}
	}
	s, err := k.NewSession(ctx, v, false)
	must(t, err)
	must(t, k.EndSession(ctx, s))
	if _, err := k.CheckSession(ctx, s); !errors.Is(err, auth.ErrSession) {
		t.Error(err)
	}
}

func TestAudit(t *testing.T) {
	k, c, _ := open(t)
	ctx := t.Context()
	sue := access.Viewer{Role: access.Support, Name: "sue"}
	must(t, k.Audit(ctx, sue, "workload", "slurm/1", "bob", "10.0.0.1"))
	c.add(time.Hour)
	must(t, k.Audit(ctx, sue, "query", strings.Repeat("x", 5000), "", "10.0.0.1"))
	all, err := k.Entries(ctx, "", "", time.Time{}, 10)
	if err != nil || len(all) != 2 || all[0].Action != "query" || len(all[0].Object) > 2003 {
		t.Errorf("%+v, %v", all, err)
	}
	if bobs, err := k.Entries(ctx, "bob", "", time.Time{}, 10); err != nil || len(bobs) != 1 || bobs[0].Viewer != "sue" || bobs[0].Object != "slurm/1" {
		t.Errorf("%+v, %v", bobs, err)
	}
	if none, err := k.Entries(ctx, "", "joe", time.Time{}, 10); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	c.add(400 * 24 * time.Hour)
	must(t, k.Trim(ctx))
	if left, err := k.Entries(ctx, "", "", time.Time{}, 10); err != nil || len(left) != 1 {
		t.Errorf("%d left, %v", len(left), err)
	}
}

// TestTwoProcesses: changes by `reckon token revoke` take effect in the server at once.
func TestTwoProcesses(t *testing.T) {
	k, _, dir := open(t)
	text, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent})
	must(t, err)
	other, err := auth.Open(dir, auth.Options{})
	must(t, err)
	defer other.Close()
	list, err := other.Tokens(t.Context())
	must(t, err)
	must(t, other.Revoke(t.Context(), list[0].ID))
	if _, err := k.CheckToken(t.Context(), text); !errors.Is(err, auth.ErrToken) {
		t.Errorf("taken after another process revoked it: %v", err)
	}
}
