package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"reckon/figure/wire"
)

// Backend lists workloads and nodes, and returns the details of a run. It checks no rights; see [Authorized]. Its
// methods are safe for concurrent use and stop when the context ends.
type Backend interface {
	// Workloads returns the selected workloads with their Total. An empty result is not an error.
	// Limit is always set.
	Workloads(ctx context.Context, f wire.Filter) (wire.WorkloadList, error)
	// Workload details one run, as Workloads listed it, with its profile.
	Workload(ctx context.Context, w wire.Workload, r wire.Range) (wire.WorkloadDetail, error)
	// Nodes returns every node of the site, sorted by name.
	Nodes(ctx context.Context) (wire.NodeList, error)
}

// Authorized filters the answers of a backend by the rights of the viewer. For other owners' work it returns "not
// found" instead of "forbidden", so that an answer does not reveal that the work exists. It is safe for concurrent use.
type Authorized struct {
	backend Backend
	missing func(id string) error
	secret  []byte // key of the pseudonyms, new at each start of the server
}

var _ Backend = (*Authorized)(nil)

// Authorize wraps a backend. missing returns the error for an id that does not exist.
func Authorize(b Backend, missing func(id string) error) *Authorized {
	a := &Authorized{backend: b, missing: missing, secret: make([]byte, 32)}
	_, _ = rand.Read(a.secret) // never fails (crypto/rand)
	return a
}

// Workloads implements [Backend].
func (a *Authorized) Workloads(ctx context.Context, f wire.Filter) (wire.WorkloadList, error) {
	v := From(ctx)
	switch {
	case v.All():
		return a.backend.Workloads(ctx, f)
	case v.Role == User:
		f.Owners = v.OwnAmong(f.Owners)
		if len(f.Owners) == 0 {
			return wire.WorkloadList{}, nil
		}
		return a.backend.Workloads(ctx, f)
	case v.Role == Public:
		if err := rejectHiddenOwners(f); err != nil {
			return wire.WorkloadList{}, err
		}
		list, err := a.backend.Workloads(ctx, f)
		for i := range list.Workloads {
			a.redactWorkload(&list.Workloads[i])
		}
		return list, err
	}
	return wire.WorkloadList{}, v.Unknown()
}

// Workload implements [Backend]. A request for the work of another owner costs no query and reveals nothing.
func (a *Authorized) Workload(ctx context.Context, w wire.Workload, r wire.Range) (wire.WorkloadDetail, error) {
	if v := From(ctx); !v.All() && !v.Sees(w.Owner) {
		return wire.WorkloadDetail{}, a.missing(w.ID)
	}
	return a.backend.Workload(ctx, w, r)
}

// Nodes implements [Backend]. Machines have no owner, but administrators' notes about them may name people.
func (a *Authorized) Nodes(ctx context.Context) (wire.NodeList, error) {
	v := From(ctx)
	if v.Role == Nobody {
		return wire.NodeList{}, v.Unknown()
	}
	list, err := a.backend.Nodes(ctx)
	if v.Role == Public {
		list.Nodes = slices.Clone(list.Nodes)
		for i := range list.Nodes {
			if b := list.Nodes[i].Batch; b != nil && b.Reason != "" {
				shown := *b
				shown.Reason = ""
				list.Nodes[i].Batch = &shown
			}
		}
	}
	return list, err
}

// OwnAmong returns the viewer's own owners among the given ones, or all of the viewer's if none are given.
func (v Viewer) OwnAmong(owners []string) []string {
	if len(owners) == 0 {
		return v.Own()
	}
	return slices.DeleteFunc(slices.Clone(owners), func(o string) bool { return !v.Sees(o) })
}

// Unknown returns the refusal for a viewer that sees nothing.
func (v Viewer) Unknown() error {
	return Refuse(ErrUnauthenticated, "sign in, or send the token of a user: an agent's token cannot read",
		errors.New("only users can see this"))
}

// rejectHiddenOwners rejects filters that would reveal an owner's name to a viewer who may not see names.
func rejectHiddenOwners(f wire.Filter) error {
	if len(f.IDs) > 0 || f.Family != "" {
		return Refuse(ErrForbidden, "sign in", errors.New("a workload is shown to its owner only"))
	}
	word := ""
	for _, by := range []struct {
		word string
		used bool
	}{{"filtering by owner", len(f.Owners) > 0}, {"filtering by name", f.Name != ""}, {"filtering by account", len(f.Accounts) > 0},
		{"filtering by command", f.Command != ""}} {
		if by.used {
			word = by.word
		}
	}
	if key := strings.TrimPrefix(f.Sort, "-"); slices.Contains([]string{"id", "name", "owner", "account", "command"}, key) {
		word = "sorting by " + key
	}
	if word == "" {
		return nil
	}
	return Refuse(ErrForbidden, "sign in, or leave it out",
		fmt.Errorf("workloads are shown to the public without names, so %s is not allowed", word))
}

// redactWorkload removes the names from a workload. Its id becomes a pseudonym that is stable until the server restarts.
func (a *Authorized) redactWorkload(w *wire.Workload) {
	m := hmac.New(sha256.New, a.secret)
	fmt.Fprintf(m, "%q %q %d", w.Site, w.ID, w.Start.UnixNano())
	w.ID = w.Kind + "/" + hex.EncodeToString(m.Sum(nil)[:8])
	w.Name, w.Owner, w.Account, w.Command, w.Reason, w.EndedByUser, w.Users = "", "", "", "", "", "", nil
}
