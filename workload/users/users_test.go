package users

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const passwd = `root:x:0:0:root:/root:/bin/bash
# a comment: with colons: 5:
daemon:*:1:1::/:
toor:x:0:0:second name of root:/root:/bin/sh
root:x:7:7:second number of root:/:
alice:x:1000:1000:Alice,,,:/home/alice:/bin/zsh
DOM\bob:x:1001:1001::/home/bob:/bin/sh
1234:x:55:55::/:
jane smith:x:1002:1002::/home/jane:/bin/sh
 pad:x:88:88::/:
+nis:x:66:66::/:
bad:x:99999999999:1::/:
bad2:x:-1:1::/:
short:x
nl` + "\x01" + `:x:77:77::/:
last:x:4294967294:1::/:`

func TestPasswd(t *testing.T) {
	names, ids := parsePasswd([]byte(passwd))
	for uid, want := range map[uint32]string{0: "root", 1: "daemon", 7: "root", 1000: "alice", 55: "1234", 1002: "jane smith", 1001: `DOM\bob`, 4294967294: "last"} {
		if names[uid] != want {
			t.Errorf("%d: %q, want %q", uid, names[uid], want)
		}
		delete(names, uid)
	}
	if len(names) > 0 {
		t.Errorf("also %v", names)
	}
	if ids["root"] != 0 || ids["toor"] != 0 || ids["alice"] != 1000 {
		t.Errorf("%v", ids)
	}
}

func table(t *testing.T, text string) (*Table, string) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/etc/passwd", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return New(root), root + "/etc/passwd"
}

func TestFileIsReadAgain(t *testing.T) {
	tab, file := table(t, passwd)
	synctest.Test(t, func(t *testing.T) {
		if got := tab.Name(1000); got != "alice" {
			t.Errorf("1000 is %q", got)
		}
		if got := tab.Name(2000); got != "2000" {
			t.Errorf("2000 is %q", got)
		}
		if uid, ok := tab.ID("alice"); !ok || uid != 1000 {
			t.Errorf("alice is %d, %v", uid, ok)
		}
		if uid, ok := tab.ID("4711"); !ok || uid != 4711 {
			t.Errorf("4711 is %d, %v", uid, ok)
		}
		if got := tab.Name(1234); got != "#1234" {
			t.Errorf("a user without a name, beside one of that name, is %q", got)
		}
		for name, want := range map[string]uint32{"1234": 55, "#1234": 1234} {
			if uid, ok := tab.ID(name); !ok || uid != want {
				t.Errorf("%s is %d, %v", name, uid, ok)
			}
		}
		if _, ok := tab.ID("nobody knows"); ok {
			t.Error("an impossible name has a number")
		}
		if err := os.WriteFile(file, []byte(passwd+"\ncarol:x:2000:1::/:\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := tab.Name(2000); got != "2000" {
			t.Errorf("the file is looked at on each call: %q", got)
		}
		<-time.After(missCheckInterval)
		if got := tab.Name(2000); got != "carol" {
			t.Errorf("2000 is %q soon after carol was added", got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		<-time.After(passwdCheckInterval)
		if got := tab.Name(2000); got != "carol" {
			t.Errorf("2000 is %q after the file went", got)
		}
		if err := tab.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// database answers as systemd-userdbd does.
type database struct {
	net.Listener
	asked atomic.Int32
}

func serve(t *testing.T, users map[uint32]string) (*database, string) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	d := &database{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.answer(conn, users)
		}
	}()
	return d, socket
}

func (d *database) answer(conn net.Conn, users map[uint32]string) {
	defer conn.Close()
	message, err := bufio.NewReader(conn).ReadBytes(0)
	if err != nil {
		return
	}
	d.asked.Add(1)
	var c varlinkCall
	_ = json.Unmarshal(message[:len(message)-1], &c)
	for uid, name := range users {
		if c.Method == "io.systemd.UserDatabase.GetUserRecord" && c.Parameters.Service == "io.systemd.Multiplexer" &&
			((c.Parameters.UID != nil && *c.Parameters.UID == uid) || c.Parameters.Name == name) {
			b, _ := json.Marshal(map[string]any{"parameters": map[string]any{
				"record": map[string]any{"userName": name, "uid": uid, "gid": uid, "disposition": "regular", "realName": strings.Repeat("x", 20000)}, "incomplete": false}})
			_, _ = conn.Write(append(b, 0))
			return
		}
	}
	_, _ = conn.Write([]byte(`{"error":"io.systemd.UserDatabase.NoRecordFound","parameters":{}}` + "\x00"))
}

// settle waits until all questions are answered.
func settle(t *testing.T, tab *Table) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		tab.mu.Lock()
		n := len(tab.pending)
		tab.mu.Unlock()
		if n == 0 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatal("the database was not asked")
}

func TestDatabase(t *testing.T) {
	db, socket := serve(t, map[uint32]string{70001: "ldap-alice"})
	tab, _ := table(t, passwd)
	tab.socket = socket
	defer tab.Close()
	if got := tab.Name(70001); got != "70001" {
		t.Errorf("the first call answered %q, so it waited", got)
	}
	tab.Name(70002)
	tab.Name(1000)
	settle(t, tab)
	if !tab.Settled(70001) || !tab.Settled(5) {
		t.Error("not settled after the answer")
	}
	for range 3 {
		if got := tab.Name(70001); got != "ldap-alice" {
			t.Errorf("70001 is %q", got)
		}
		if got := tab.Name(70002); got != "70002" {
			t.Errorf("70002 is %q", got)
		}
	}
	settle(t, tab)
	if n := db.asked.Load(); n != 2 {
		t.Errorf("asked %d times, want 2: answers are kept, unknown ones too, and passwd comes first", n)
	}
	tab.ID("ldap-alice")
	settle(t, tab)
	if uid, ok := tab.ID("ldap-alice"); !ok || uid != 70001 {
		t.Errorf("ldap-alice is %d, %v", uid, ok)
	}
}

func TestWait(t *testing.T) {
	_, socket := serve(t, map[uint32]string{70001: "ldap-alice"})
	tab, _ := table(t, passwd)
	tab.socket = socket
	defer tab.Close()
	for uid, want := range map[uint32]string{70001: "ldap-alice", 70002: "70002", 1000: "alice"} {
		if got := tab.Wait(t.Context(), uid); got != want {
			t.Errorf("%d is %q, want %q", uid, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := tab.Wait(ctx, 70003); got != "70003" {
		t.Errorf("70003 is %q before the database answered", got)
	}
}

func TestDatabaseAway(t *testing.T) {
	db, socket := serve(t, map[uint32]string{70001: "ldap-alice"})
	tab, _ := table(t, passwd)
	tab.socket = socket
	tab.Name(70001)
	settle(t, tab)
	_ = db.Close()
	tab.mu.Lock()
	q := userQuery{uid: 70001}
	old := tab.answers[q]
	old.until = time.Time{}
	tab.answers[q] = old
	tab.mu.Unlock()
	tab.Name(70001)
	settle(t, tab)
	if got := tab.Name(70001); got != "ldap-alice" {
		t.Errorf("forgotten while the database is away: %q", got)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if got := tab.Name(1); got != "daemon" {
		t.Errorf("after Close: %q", got)
	}
}

// TestGetent: without systemd's database the C library's is asked, by its own program. Where a machine has no such program, a script
// answers in its place.
func TestGetent(t *testing.T) {
	real, err := exec.LookPath("getent")
	if err != nil {
		real = "sh -c '[ $2 = 0 ] && echo root:x:0:0:root:/root:/bin/sh || exit 2' getent"
	}
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	getent := filepath.Join(dir, "getent")
	script := "#!/bin/sh\necho \"$@\" >>" + asked + "\ncase $2 in\n70001|ldap-alice|Alice) echo 'ldap-alice:*:70001:7::/:' ;;\n" +
		"70003) exit 1 ;;\n*) exec " + real + " \"$@\" ;; esac\n"
	if err := os.WriteFile(getent, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	tab, _ := table(t, "nobody:x:65534:65534::/:\n")
	tab.socket, tab.getent = filepath.Join(dir, "none"), getent
	defer tab.Close()
	unknown := uint32(4200000000)
	for range 3 {
		for _, uid := range []uint32{0, 70001, 70003, unknown} {
			tab.Name(uid)
		}
		settle(t, tab)
	}
	for uid, want := range map[uint32]string{0: "root", 70001: "ldap-alice", 70003: "70003", unknown: "4200000000"} {
		if got := tab.Name(uid); got != want {
			t.Errorf("%d is %q, want %q", uid, got, want)
		}
	}
	for _, name := range []string{"ldap-alice", "Alice"} {
		tab.ID(name)
		settle(t, tab)
		if uid, ok := tab.ID(name); !ok || uid != 70001 {
			t.Errorf("%s is %d, %v", name, uid, ok)
		}
	}
	if text, err := os.ReadFile(asked); err != nil || strings.Count(string(text), "\n") != 6 {
		t.Errorf("asked %q, %v; want each once", text, err)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for uid, want := range map[uint32]time.Duration{70003: failureAge, unknown: knownAge} {
		if left := time.Until(tab.answers[userQuery{uid: uid}].until); left > want || left < want/2 {
			t.Errorf("that %d is unknown is kept for %s, want %s", uid, left, want)
		}
	}
}

func TestBounded(t *testing.T) {
	tab, _ := table(t, passwd)
	for i := range uint32(2 * maxAnswers) {
		tab.storeEntry(userQuery{uid: i}, userEntry{})
	}
	if n := len(tab.answers); n > maxAnswers {
		t.Errorf("%d answers kept", n)
	}
}

func BenchmarkName(b *testing.B) {
	tab := New("")
	defer tab.Close()
	b.ReportAllocs()
	for b.Loop() {
		tab.Name(0)
	}
}

func FuzzPasswd(f *testing.F) {
	f.Add([]byte(passwd))
	f.Fuzz(func(t *testing.T, text []byte) {
		names, ids := parsePasswd(text)
		for uid, name := range names {
			if !isValidName(name) {
				t.Errorf("%d is %q", uid, name)
			}
			if _, ok := ids[name]; !ok {
				t.Errorf("%q has no number", name)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"parameters":{"record":{"userName":"a","uid":1}}}`))
	f.Add([]byte(`{"error":"x","parameters":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if name, _, ok := decodeReply(text); ok && !isValidName(name) {
			t.Errorf("%q", name)
		}
	})
}

// Settled reports whether the name of a user is more than a number that stands in until
// the database has answered.
func (t *Table) Settled(uid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.pending[userQuery{uid: uid}]
}
