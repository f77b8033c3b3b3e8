// Package users resolves user ids to names and names to ids.
//
// It queries, in this order: /etc/passwd under a root directory (passwd(5)), read again when the
// file changes; the user database of systemd (/run/systemd/userdb/io.systemd.Multiplexer,
// systemd.io/USER_GROUP_API); and where that does not run (Debian installs it separately),
// getent(1). The last two know the users of LDAP, SSSD and winbind by nsswitch.conf(5), without
// cgo. They are queried in the background. Until one has answered, and for an unknown user, the
// name is the number in decimal. At most 4,096 answers are kept, for ten minutes each (also for
// unknown users), and failures for one minute.
//
// All methods may be called from any goroutine and none but Wait waits for an answer.
package users

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	knownAge            = 10 * time.Minute // LDAP names change rarely
	failureAge          = time.Minute
	passwdCheckInterval = 5 * time.Second        // how often the time stamp of passwd is looked at
	missCheckInterval   = 100 * time.Millisecond // the same after a lookup of an unknown user
	maxAnswers          = 4096
	maxPending          = 64
)

// userEntry is the database entry of one user.
type userEntry struct {
	name  string
	uid   uint32
	known bool
	until time.Time
}

// userQuery asks for the user with an id, or with a name if that is not empty.
type userQuery struct {
	name string
	uid  uint32
}

// Table looks up users.
type Table struct {
	passwd, socket string
	getent         string // the program, or empty

	mu      sync.Mutex
	checked time.Time
	stamp   fileStamp
	names   map[uint32]string
	ids     map[string]uint32
	answers map[userQuery]userEntry
	pending map[userQuery]bool
	ask     chan userQuery
	stop    chan struct{}
	done    sync.WaitGroup
	started bool
	closed  bool
}

// fileStamp identifies the state of a file.
type fileStamp struct {
	modified time.Time
	size     int64
}

// New returns a table of the users of the machine with its file tree at root ("/" if empty). For any other root it
// reads only passwd, because a socket in a recording does not respond.
func New(root string) *Table {
	root = filepath.Clean("/" + root)
	t := &Table{
		passwd:  filepath.Join(root, "etc/passwd"),
		names:   map[uint32]string{},
		ids:     map[string]uint32{},
		answers: map[userQuery]userEntry{},
		pending: map[userQuery]bool{},
		ask:     make(chan userQuery, maxPending),
		stop:    make(chan struct{}),
	}
	if root == "/" {
		t.socket, t.getent = multiplexerSocket, "/usr/bin/getent"
	}
	return t
}

// Name returns the name of a user. If it is unknown, Name returns the user id in decimal. It adds # in front if another
// user has that number as a name.
func (t *Table) Name(uid uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh(passwdCheckInterval)
	if name, ok := t.names[uid]; ok {
		return name
	}
	if t.refresh(missCheckInterval); t.names[uid] != "" { // added a moment ago
		return t.names[uid]
	}
	if a, ok := t.lookup(userQuery{uid: uid}); ok {
		return a.name
	}
	number := strconv.FormatUint(uint64(uid), 10)
	if _, taken := t.ids[number]; taken {
		return numberMark + number
	}
	return number
}

// Wait is Name, but waits for the first answer about a user, until ctx is done.
func (t *Table) Wait(ctx context.Context, uid uint32) string {
	q := userQuery{uid: uid}
	for {
		name := t.Name(uid)
		t.mu.Lock()
		_, answered := t.answers[q]
		waits := t.pending[q] && !answered && !t.closed
		t.mu.Unlock()
		if !waits {
			return name
		}
		select {
		case <-ctx.Done():
			return name
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// numberMark precedes the number of a user without a name if another user has that number as a name. No name begins with it.
const numberMark = "#"

// ID returns the user id for a name. If the name is a decimal number and no user has it, the number itself is the id.
// It returns false while the id is unknown.
func (t *Table) ID(name string) (uid uint32, ok bool) {
	if name == "" {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh(passwdCheckInterval)
	if uid, ok := t.ids[name]; ok {
		return uid, true
	}
	if n, err := strconv.ParseUint(strings.TrimPrefix(name, numberMark), 10, 32); err == nil {
		return uint32(n), true
	}
	if !isValidName(name) {
		return 0, false
	}
	a, ok := t.lookup(userQuery{name: name})
	return a.uid, ok
}

// Close ends the background work.
func (t *Table) Close() error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.stop)
	}
	t.mu.Unlock()
	t.done.Wait()
	return nil
}

// refresh reads passwd again if the file has changed. It checks that only if the last check is longer ago than after.
// If the file cannot be read, or is empty because it is being rewritten, the previous content remains.
func (t *Table) refresh(after time.Duration) {
	now := time.Now()
	if !t.checked.IsZero() && now.Sub(t.checked) < after {
		return
	}
	t.checked = now
	info, err := os.Stat(t.passwd)
	if err != nil || info.Size() > maxPasswdSize {
		return
	}
	s := fileStamp{info.ModTime(), info.Size()}
	if s == t.stamp {
		return
	}
	text, err := os.ReadFile(t.passwd)
	if err != nil || len(text) == 0 {
		return
	}
	t.stamp = s
	t.names, t.ids = parsePasswd(text)
}

// lookup returns the known answer of the user database to a question. It sends the question to the database in the
// background if there is no answer or the answer is old. An old answer is used until the new one arrives.
func (t *Table) lookup(q userQuery) (entry userEntry, ok bool) {
	a, ok := t.answers[q]
	if t.socket != "" && !t.closed && (!ok || time.Now().After(a.until)) && !t.pending[q] {
		select {
		case t.ask <- q:
			t.pending[q] = true
			t.startQueries()
		default: // too many at once: asked again at the next call
		}
	}
	return a, ok && a.known
}

// startQueries starts the background queries. The first unknown user calls it, because most machines never need it.
func (t *Table) startQueries() {
	if t.started {
		return
	}
	t.started = true
	t.done.Add(1)
	go t.runQueries()
}

func (t *Table) runQueries() {
	defer t.done.Done()
	for {
		select {
		case <-t.stop:
			return
		case q := <-t.ask:
			a, heard := queryUserDB(t.socket, q)
			if !heard && t.getent != "" {
				a = runGetent(t.getent, q)
			}
			t.mu.Lock()
			delete(t.pending, q)
			if old, ok := t.answers[q]; ok && old.known && !a.known {
				a.name, a.uid, a.known = old.name, old.uid, true // the directory is away for a moment
			}
			t.storeEntry(q, a)
			t.mu.Unlock()
		}
	}
}

// storeEntry stores an entry. If the table is full, it first drops all entries.
func (t *Table) storeEntry(q userQuery, a userEntry) {
	if len(t.answers) >= maxAnswers {
		clear(t.answers)
	}
	t.answers[q] = a
}
