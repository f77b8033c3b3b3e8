package auth

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reckon/access"
)

// TestGuessesAtOnce tries many passwords in parallel: no more are checked than sequentially,
// and many concurrent requests with the right one are checked once.
func TestGuessesAtOnce(t *testing.T) {
	us, err := Open(t.TempDir(), Options{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = us.Close() })
	if err := us.AddUser(t.Context(), User{Name: "alice", Role: access.User}, "the right one"); err != nil {
		t.Fatal(err)
	}
	all := func(n int, password func(int) string, from string) (in, refused, slow int64) {
		var i, r, s atomic.Int64
		var wg sync.WaitGroup
		for k := range n {
			wg.Go(func() {
				switch _, err := us.CheckPassword(t.Context(), "alice", password(k), from); {
				case err == nil:
					i.Add(1)
				case errors.Is(err, ErrRefused):
					r.Add(1)
				case errors.Is(err, ErrSlow):
					s.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return i.Load(), r.Load(), s.Load()
	}
	if _, checked, slow := all(300, func(k int) string { return fmt.Sprint("guess number ", k) }, "192.0.2.1"); checked != free || slow != 300-free {
		t.Errorf("of 300 guesses at once %d were checked and %d held up, want %d and %d", checked, slow, free, 300-free)
	}
	if in, _, _ := all(50, func(int) string { return "the right one" }, "192.0.2.2"); in != 50 {
		t.Errorf("%d of 50 with the right password were let in", in)
	}
}

func TestThrottle(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	fail := func(x *throttle, at time.Time, n int, name, from string) (counted int) {
		for range n {
			if x.reserveAttempt(at, name, from) <= 0 {
				counted++
			}
		}
		return counted
	}
	t.Run("five are free, the sixth waits a second", func(t *testing.T) {
		var x throttle
		if n := fail(&x, begin, 10, "alice", "192.0.2.1"); n != free {
			t.Errorf("%d were counted", n)
		}
		if w := x.reserveAttempt(begin.Add(999*time.Millisecond), "alice", "192.0.2.1"); w != time.Millisecond {
			t.Errorf("wait %v", w)
		}
		if w := x.reserveAttempt(begin.Add(time.Second), "alice", "192.0.2.1"); w > 0 {
			t.Errorf("after a second: wait %v", w)
		}
		if w := x.reserveAttempt(begin.Add(time.Second), "alice", "192.0.2.1"); w != 2*time.Second {
			t.Errorf("the next: wait %v", w)
		}
	})
	t.Run("nobody waits long for what others do", func(t *testing.T) {
		var x throttle
		for i := range 2000 { // from many addresses, for one name
			fail(&x, begin, 1, "alice", fmt.Sprintf("198.51.%d.%d", i/256, i%256))
		}
		if w := x.reserveAttempt(begin, "alice", "192.0.2.1"); w <= 0 || w > sharedWait {
			t.Errorf("a new address: wait %v, want up to %v", w, sharedWait)
		}
		if w := x.reserveAttempt(begin, "bob", "192.0.2.1"); w > 0 {
			t.Errorf("another name: wait %v", w)
		}
	})
	t.Run("who has signed in from there goes on", func(t *testing.T) {
		var x throttle
		if w := x.reserveAttempt(begin, "bob", "192.0.2.1"); w > 0 {
			t.Fatal(w)
		}
		x.recordSuccess(begin, "bob", "192.0.2.1")
		for i := range 200 { // another user behind the same address
			fail(&x, begin, 1, fmt.Sprint("name", i), "192.0.2.1")
		}
		if w := x.reserveAttempt(begin, "carol", "192.0.2.1"); w <= 0 || w > sharedWait {
			t.Errorf("who has never been there: wait %v", w)
		}
		if w := x.reserveAttempt(begin, "bob", "192.0.2.1"); w > 0 {
			t.Errorf("bob waits %v", w)
		}
	})
	t.Run("a network of IPv6 is one sender", func(t *testing.T) {
		var x throttle
		for i := range free {
			fail(&x, begin, 1, "alice", fmt.Sprintf("2001:db8::%x", i+1))
		}
		if w := x.reserveAttempt(begin, "alice", "2001:db8::ffff"); w <= 0 {
			t.Error("the sixth address of a network is not held up")
		}
		if w := x.reserveAttempt(begin, "alice", "2001:db8:0:1::1"); w > 0 {
			t.Errorf("another network waits %v", w)
		}
	})
	t.Run("an hour heals", func(t *testing.T) {
		var x throttle
		for i := range 12 {
			fail(&x, begin.Add(time.Duration(i)*10*time.Minute), 1, "alice", "192.0.2.1")
		}
		if w := x.reserveAttempt(begin.Add(110*time.Minute+healed+1), "alice", "192.0.2.1"); w > 0 {
			t.Errorf("wait %v", w)
		}
	})
}

func TestSource(t *testing.T) {
	a := &Authenticator{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32")}}
	for _, c := range []struct {
		name, remote, passed, proto string
		source                      string
		secure                      bool
	}{
		{"no proxy", "192.0.2.1:4", "", "", "192.0.2.1", false},
		{"who is no proxy is not believed", "192.0.2.1:4", "198.51.100.1", "https", "192.0.2.1", false},
		{"a proxy", "10.1.2.3:4", "198.51.100.1", "https", "198.51.100.1", true},
		{"a proxy without TLS", "10.1.2.3:4", "198.51.100.1", "http", "198.51.100.1", false},
		{"proxies in a row", "127.0.0.1:4", "198.51.100.1, 10.9.9.9", "HTTPS", "198.51.100.1", true},
		{"what the client wrote itself is not believed", "10.1.2.3:4", "1.1.1.1, 198.51.100.1", "", "198.51.100.1", false},
		{"nonsense", "10.1.2.3:4", "unknown", "", "10.1.2.3", false},
		{"nothing passed on", "10.1.2.3:4", "", "", "10.1.2.3", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		if c.passed != "" {
			r.Header.Set("X-Forwarded-For", c.passed)
		}
		if c.proto != "" {
			r.Header.Set("X-Forwarded-Proto", c.proto)
		}
		if got := a.senderAddress(r); got != c.source {
			t.Errorf("%s: from %s, want %s", c.name, got, c.source)
		}
		if got := a.newCookie(r, "x", "y", 1, 0).Secure; got != c.secure {
			t.Errorf("%s: secure %v", c.name, got)
		}
	}
}

func TestRefusedLoginsAreCounted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	us, err := Open(t.TempDir(), Options{Fast: true, Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = us.Close() })
	a := &Authenticator{Users: us}
	refuse := func(n int, from string) {
		for i := range n {
			r := httptest.NewRequest("POST", "/auth/login", nil)
			r.RemoteAddr = from
			a.recordRefusal(r, strings.Repeat("n", i%100))
		}
	}
	refuse(221, "192.0.2.1:4")
	now = now.Add(repeatInterval)
	refuse(1, "192.0.2.1:4")
	for i := range 1000 {
		refuse(2, fmt.Sprintf("198.51.%d.%d:4", i/256, i%256))
	}
	list, err := us.Entries(t.Context(), "", "", time.Time{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) > maxRefusals+3 {
		t.Errorf("%d entries", len(list))
	}
	var counted bool
	for _, e := range list {
		counted = counted || e.Object == "221 tries since the last entry"
		if len(e.Viewer) > 64 {
			t.Errorf("a name of %d bytes", len(e.Viewer))
		}
	}
	if !counted {
		t.Error("no entry says how many tries there were")
	}
}
