package auth

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"reckon/access"
	"reckon/access/peer"
)

// TestWhoAsksOnThisMachine checks the roles of senders without credentials while there are no users.
func TestWhoAsksOnThisMachine(t *testing.T) {
	us, err := Open(t.TempDir(), Options{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = us.Close() })
	for _, c := range []struct {
		name  string
		peer  *peer.Peer // nil: the kernel returns no user
		trust bool
		role  access.Role
		owner string
		sends bool
	}{
		{"root", &peer.Peer{UID: 0, Name: "root"}, false, access.Admin, "", true},
		{"the user of the server", &peer.Peer{UID: uint32(os.Geteuid()), Name: "me"}, false, access.Admin, "", true},
		{"another user", &peer.Peer{UID: 4711, Name: "alice"}, false, access.User, "alice", false},
		{"another network namespace", nil, false, access.Public, "", false},
		{"trusted as a machine", nil, true, access.Admin, "", true},
	} {
		a := &Authenticator{Users: us, Local: true}
		if !c.trust {
			a.Peer = func(*http.Request) (peer.Peer, bool) {
				if c.peer == nil {
					return peer.Peer{}, false
				}
				return *c.peer, true
			}
		}
		r := httptest.NewRequest("GET", "http://127.0.0.1:9870/", nil)
		v, err := a.Viewer(r)
		if err != nil || v.Role != c.role || v.Name != c.owner || v.MaySend() != c.sends || v.Figures != (c.role == access.User) {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
		if c.trust {
			continue
		}
		for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via", "X-Real-IP"} {
			r := httptest.NewRequest("GET", "http://127.0.0.1:9870/", nil)
			r.Header.Set(header, "127.0.0.1")
			if v, err := a.Viewer(r); err != nil || v.Role != access.Public || v.MaySend() || v.Figures || v.Name != "" {
				t.Errorf("%s behind a proxy that writes %s: %+v, %v", c.name, header, v, err)
			}
		}
		a.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} // it may write no header
		if v, err := a.Viewer(httptest.NewRequest("GET", "http://127.0.0.1:9870/", nil)); err != nil || v.Role > access.User || v.MaySend() {
			t.Errorf("%s where a proxy is named: %+v, %v", c.name, v, err)
		}
	}
	// A user ends it: then no sender without credentials is accepted.
	if err := us.AddUser(t.Context(), User{Name: "bob", Role: access.User}, "long enough"); err != nil {
		t.Fatal(err)
	}
	a := &Authenticator{Users: us, Local: true, Peer: func(*http.Request) (peer.Peer, bool) { return peer.Peer{UID: 0}, true }}
	if v, err := a.Viewer(httptest.NewRequest("GET", "http://127.0.0.1:9870/", nil)); err != nil || v.Role != access.Nobody {
		t.Errorf("with users: %+v, %v", v, err)
	}
}

// TestWhoAsksOnTheSocket: the kernel identifies the sender, also when there are users; credentials in
// the request take precedence, and an unchecked password signs in no user.
func TestWhoAsksOnTheSocket(t *testing.T) {
	us, err := Open(t.TempDir(), Options{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = us.Close() })
	if err := us.AddUser(t.Context(), User{Name: "bob", Role: access.Support, Owners: []string{"bob", "robot"}}, "long enough"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		peer  peer.Peer
		by    bool // it came through the socket
		auth  string
		role  access.Role
		as    string // name, or the Unix user of an admin without a name, in brackets
		fails bool
	}{
		{"root", peer.Peer{UID: 0, Name: "root"}, true, "", access.Admin, "(root)", false},
		{"the user of the server", peer.Peer{UID: uint32(os.Geteuid()), Name: "reckon"}, true, "", access.Admin, "(reckon)", false},
		{"another user", peer.Peer{UID: 4711, Name: "alice"}, true, "", access.User, "alice", false},
		{"a user with a role here", peer.Peer{UID: 4712, Name: "bob"}, true, "", access.Support, "bob", false},
		{"root of a container", peer.Peer{Foreign: true}, true, "", access.Public, "", false},
		{"by the network", peer.Peer{}, false, "", access.Nobody, "", false},
		{"with a wrong token", peer.Peer{UID: 0}, true, "Bearer nonsense", access.Nobody, "", true},
		{"with a password", peer.Peer{UID: 4711, Name: "alice"}, true, "Basic YWxpY2U6eA==", access.Nobody, "", true},
	} {
		a := &Authenticator{Users: us, Basic: true, Socket: func(*http.Request) (peer.Peer, bool) { return c.peer, c.by }}
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		v, err := a.Viewer(r)
		as := v.Name
		if v.Login != "" {
			as += "(" + v.Called() + ")"
		}
		if v.Role != c.role || as != c.as || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
	}
}

// TestGuideOnWhoMaySend compares the table of the guide with what a viewer may send.
func TestGuideOnWhoMaySend(t *testing.T) {
	text, err := os.ReadFile("../../doc/guides/access.md")
	if err != nil {
		t.Fatal(err)
	}
	us, err := Open(t.TempDir(), Options{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = us.Close() })
	token, err := us.AddToken(t.Context(), Token{Kind: Agent, Scope: access.Scope{Site: "lab", Nodes: []string{"n1"}}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(p peer.Peer, known, socket bool, header, value string) string {
		a := &Authenticator{Users: us, Local: true, Peer: func(*http.Request) (peer.Peer, bool) { return p, known },
			Socket: func(*http.Request) (peer.Peer, bool) { return p, socket }}
		r := httptest.NewRequest("POST", "http://127.0.0.1:9870/api/v1/write", nil)
		if header != "" {
			r.Header.Set(header, value)
		}
		v, err := a.Viewer(r)
		switch {
		case err != nil:
			t.Error(err)
		case v.Figures && !v.MaySend():
			return "own figures"
		case v.MaySend() && v.MayWrite("elsewhere", "n2"):
			return "everything, for any node"
		case v.MaySend() && v.MayWrite("lab", "n1"):
			return "everything of its site and nodes"
		case !v.MaySend():
			return "nothing"
		}
		return "something else"
	}
	alice, root := peer.Peer{UID: 4711, Name: "alice"}, peer.Peer{Name: "root"}
	self := peer.Peer{UID: uint32(os.Geteuid()), Name: "reckon"}
	cases := map[string][]string{
		"root, and the user that the server runs as": {ask(root, true, false, "", ""), ask(self, true, false, "", ""), ask(root, true, true, "", "")},
		"another user of this machine":               {ask(alice, true, false, "", ""), ask(alice, true, true, "", "")},
		"another network namespace, root of a container with the socket mounted": {ask(peer.Peer{}, false, false, "", ""),
			ask(peer.Peer{Foreign: true}, true, true, "", "")},
		"a request that a proxy passed on": {ask(root, true, false, "Via", "1.1 proxy"), ask(alice, true, false, "X-Forwarded-For", "10.0.0.1")},
		"an agent with a token":            {ask(alice, true, false, "Authorization", "Bearer "+token), ask(peer.Peer{}, false, false, "Authorization", "Bearer "+token)},
	}
	_, table, _ := strings.Cut(string(text), "| sender | may send |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != len(cases) {
		t.Errorf("the guide has %d senders, want %d", len(rows), len(cases))
	}
	for _, row := range rows {
		sender, may, _ := strings.Cut(strings.Trim(row, "| "), " | ")
		if len(cases[sender]) == 0 {
			t.Errorf("the guide has a sender that is not tested: %s", sender)
		}
		for _, got := range cases[sender] {
			if got != may {
				t.Errorf("%s: %s, the guide has %s", sender, got, may)
			}
		}
	}
}
