package auth

import (
	"net/http"
	"net/http/httptest"
	"os"
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
		{"another user", &peer.Peer{UID: 4711, Name: "alice"}, false, access.User, "alice", true},
		{"another network namespace", nil, false, access.Public, "", true},
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
		if err != nil || v.Role != c.role || v.Name != c.owner || v.Sends() != c.sends {
			t.Errorf("%s: %+v, %v", c.name, v, err)
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
		as    string
		fails bool
	}{
		{"root", peer.Peer{UID: 0, Name: "root"}, true, "", access.Admin, "", false},
		{"the user of the server", peer.Peer{UID: uint32(os.Geteuid()), Name: "reckon"}, true, "", access.Admin, "", false},
		{"another user", peer.Peer{UID: 4711, Name: "alice"}, true, "", access.User, "alice", false},
		{"a user with a role here", peer.Peer{UID: 4712, Name: "bob"}, true, "", access.Support, "bob", false},
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
		if v.Role != c.role || v.Name != c.as || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
	}
}
