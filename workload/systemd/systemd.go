// Package systemd recognises units and login sessions of systemd by their control groups
// (systemd.slice(5), systemd.scope(5), user@.service(5)).
//
//	/system.slice/nginx.service                                 unit/nginx.service
//	/system.slice/system-getty.slice/getty@tty1.service         unit/getty@tty1.service
//	/system.slice/docker.service/sub/group                      unit/docker.service (delegated)
//	/init.scope                                                 unit/init.scope
//	/user.slice/user-1000.slice/session-3.scope                 session/alice/3
//	/user.slice/user-1000.slice/user@1000.service/init.scope    unit/user@1000.service
//	.../user@1000.service/app.slice/app-firefox-12.scope        unit/alice/app-firefox-12.scope
//
// The owner of units in a user's slice is that user, even if processes run as another user (sudo).
// The owner of a system unit is the user of the process of it that was seen first, which is its
// main process as a rule (postgres, or root for nginx); it stays, so that workers under other users
// do not split the unit.
//
// With version 1 of control groups the hierarchy name=systemd is used, else the unified one. Unit
// names are shown without systemd's escapes.
//
// A Resolver is used from one goroutine.
package systemd

import (
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Resolver implements [workload.Resolver].
type Resolver struct{ owners cgpath.Memo[string] }

var _ workload.Resolver = (*Resolver)(nil)

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "systemd" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	pieces := cgpath.Split(systemdPath(h))
	i := findUnit(pieces, 0)
	if i < 0 {
		return workload.Identity{}, false
	}
	uid, inUser := userOfSlice(pieces[:i])
	if !inUser {
		return r.identityOfUnit(h, pieces[i]), true
	}
	owner := h.UserOf(uid)
	c := pieces[i]
	if n, ok := parseSession(c.Name); ok {
		return workload.Identity{Workload: workload.MakeID(workload.Session, cgpath.Clean(owner)+"/"+n), Owner: owner, Cgroup: c.Prefix},
			true
	}
	name := displayName(c.Name)
	if _, manager := cgpath.SliceUser(c.Name); manager {
		// The user's own manager: its units are below. Its Cgroup holds them too.
		if j := findUnit(pieces, i+1); j < 0 || pieces[j].Name == "init.scope" {
			return workload.Identity{Workload: workload.MakeID(workload.Unit, name), Owner: owner}, true
		} else if c = pieces[j]; c.Name != "" {
			name = cgpath.Clean(owner) + "/" + displayName(c.Name)
		}
	} else {
		name = cgpath.Clean(owner) + "/" + name
	}
	return workload.Identity{Workload: workload.MakeID(workload.Unit, name), Owner: owner, Cgroup: c.Prefix}, true
}

// identityOfUnit returns the identity of a unit of the system manager.
func (r *Resolver) identityOfUnit(h *workload.Hint, c cgpath.Piece) workload.Identity {
	owner, known := r.owners.Get(c.Prefix)
	if !known {
		owner = h.User
		r.owners.Put(c.Prefix, owner)
	}
	return workload.Identity{Workload: workload.MakeID(workload.Unit, displayName(c.Name)), Owner: owner, Cgroup: c.Prefix}
}

// systemdPath returns the path of a process in systemd's hierarchy. On hybrid machines that is name=systemd, because the path
// in the unified hierarchy is the same or missing.
func systemdPath(h *workload.Hint) string {
	unified := ""
	for _, c := range h.Cgroups {
		switch {
		case c.Controllers == "name=systemd" && c.Path != "/":
			return c.Path
		case c.Controllers == "":
			unified = c.Path
		}
	}
	return unified
}

// findUnit returns the index of the first component, from index i on, that is a systemd unit with processes, or -1. Only
// slices may precede that unit, because systemd did not create any other group.
func findUnit(pieces []cgpath.Piece, i int) int {
	for ; i < len(pieces); i++ {
		name := pieces[i].Name
		dot := strings.LastIndexByte(name, '.')
		if name == ".." {
			continue
		}
		if dot <= 0 {
			return -1
		}
		switch name[dot:] {
		case ".slice":
		case ".service", ".scope", ".socket", ".mount", ".swap":
			return i
		default:
			return -1
		}
	}
	return -1
}

// userOfSlice returns the user id in the name of the slice that contains the pieces.
func userOfSlice(pieces []cgpath.Piece) (uid uint32, ok bool) {
	for _, p := range pieces {
		if uid, ok := cgpath.SliceUser(p.Name); ok {
			return uid, true
		}
	}
	return 0, false
}

// parseSession parses "session-3.scope", or "session-c1.scope" for a session without an audit id.
func parseSession(name string) (id string, ok bool) {
	n, ok := strings.CutSuffix(name, ".scope")
	if !ok {
		return "", false
	}
	if n, ok = strings.CutPrefix(n, "session-"); !ok || n == "" {
		return "", false
	}
	return cgpath.Clean(n), true
}

func displayName(name string) string { return cgpath.Clean(cgpath.Unescape(name)) }
