// Package session recognises login sessions on machines without systemd by the audit
// session id, which the kernel gives to a login (pam_loginuid(8)) and to all its
// descendants, also those that became daemons (/proc/PID/sessionid).
//
// A session is session/USER/ID. Its owner is the user of the first process seen in it
// that does not run as root, so that sudo does not split it; the root processes of
// the login itself (sshd, login, cron) come before that and are left to the next
// resolver. A session in which only root was seen is root's.
//
// A Resolver is used from one goroutine.
package session

import (
	"strconv"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// unsetSession is the session id of a process that no login started (AUDIT_SID_UNSET).
const unsetSession = 1<<32 - 1

// Resolver implements [workload.Resolver].
type Resolver struct{ owners cgpath.Memo[string] }

var _ workload.Resolver = (*Resolver)(nil)

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "session" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel || h.LoginSession == nil {
		return workload.Identity{}, false
	}
	n, ok := h.LoginSession()
	if !ok || n == 0 || n == unsetSession {
		return workload.Identity{}, false
	}
	key := strconv.FormatUint(uint64(n), 10)
	owner, known := r.owners.Get(key)
	if !known {
		if h.UID == 0 && opensSessions(h.Comm) {
			return workload.Identity{}, false
		}
		if owner = h.User; owner == "" {
			owner = h.UserOf(h.UID)
		}
		if h.UID != 0 {
			r.owners.Put(key, owner)
		}
	}
	return workload.Identity{Workload: workload.MakeID(workload.Session, cgpath.Clean(owner)+"/"+key), Owner: owner}, true
}

// opensSessions reports whether a program of root opens sessions of other users.
func opensSessions(comm string) bool {
	switch comm {
	case "sshd", "sshd-session", "sshd-auth", "dropbear", "login", "su", "sudo", "doas", "cron", "crond", "atd",
		"gdm-session-wor", "sddm-helper", "lightdm", "xdm", "in.rshd", "in.rlogind":
		return true
	}
	return false
}
