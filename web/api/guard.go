package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"reckon/access"
	"reckon/client"
)

// guard stands before a [Backend] and answers each viewer (package access) as if only
// what they may see existed: what is not theirs is not found, not forbidden, so that
// an answer does not tell that it is there.
type guard struct {
	Backend
	secret []byte // of the pseudonyms, new with each start of the server
}

func newGuard(b Backend) *guard {
	g := &guard{Backend: b, secret: make([]byte, 32)}
	_, _ = rand.Read(g.secret) // never fails (crypto/rand)
	return g
}

// Workloads implements [Backend].
func (g *guard) Workloads(ctx context.Context, f client.Filter) (client.WorkloadList, error) {
	v := access.From(ctx)
	switch {
	case v.All():
		return g.Backend.Workloads(ctx, f)
	case v.Role == access.User:
		f.Owners = owned(v, f.Owners)
		if len(f.Owners) == 0 {
			return client.WorkloadList{}, nil
		}
		return g.Backend.Workloads(ctx, f)
	case v.Role == access.Public:
		if word := naming(f); word != "" {
			return client.WorkloadList{}, fail(http.StatusForbidden, "sign in, or leave it out", "workloads are shown to the public without names, so %s can not be asked for", word)
		}
		list, err := g.Backend.Workloads(ctx, f)
		for i := range list.Workloads {
			g.redact(&list.Workloads[i])
		}
		return list, err
	}
	return client.WorkloadList{}, nobody(v)
}

// Workload implements [Backend].
func (g *guard) Workload(ctx context.Context, id string, r client.Range) (client.WorkloadDetail, error) {
	v := access.From(ctx)
	switch v.Role {
	case access.Nobody:
		return client.WorkloadDetail{}, nobody(v)
	case access.Public:
		return client.WorkloadDetail{}, fail(http.StatusForbidden, "sign in", "a workload is shown to its owner only")
	case access.User:
		// Asked first, so that work of others costs and tells nothing.
		list, err := g.Workloads(ctx, client.Filter{ID: id, Sort: "-start", Limit: listedRuns})
		if err != nil {
			return client.WorkloadDetail{}, err
		}
		own := slices.DeleteFunc(list.Workloads, func(w client.Workload) bool { return r.Site != "" && w.Site != r.Site })
		if len(own) == 0 {
			return client.WorkloadDetail{}, noWorkload(id)
		}
		if r.Start.IsZero() { // the latest of the viewer's own
			r.Start, r.Site = own[0].Start, own[0].Site
		}
	}
	d, err := g.Backend.Workload(ctx, id, r)
	if err == nil && !v.Sees(d.Owner) { // batch systems give an id again, to somebody else
		return client.WorkloadDetail{}, noWorkload(id)
	}
	return d, err
}

// Nodes implements [Backend]: machines belong to nobody. What administrators write about
// them may name people.
func (g *guard) Nodes(ctx context.Context) (client.NodeList, error) {
	v := access.From(ctx)
	if v.Role == access.Nobody {
		return client.NodeList{}, nobody(v)
	}
	list, err := g.Backend.Nodes(ctx)
	if v.Role == access.Public {
		list.Nodes = slices.Clone(list.Nodes)
		for i := range list.Nodes {
			if b := list.Nodes[i].Batch; b != nil && b.Reason != "" {
				told := *b
				told.Reason = ""
				list.Nodes[i].Batch = &told
			}
		}
	}
	return list, err
}

// owned is what of the owners asked for is the viewer's own; all of it when none is
// asked for.
func owned(v access.Viewer, asked []string) []string {
	if len(asked) == 0 {
		return v.Own()
	}
	return slices.DeleteFunc(slices.Clone(asked), func(o string) bool { return !v.Sees(o) })
}

// naming is the part of a filter that an answer without names would give away.
func naming(f client.Filter) string {
	for word, used := range map[string]bool{
		"an id": f.ID != "", "an owner": len(f.Owners) > 0, "a name": f.Name != "", "an account": len(f.Accounts) > 0, "a command": f.Command != "",
	} {
		if used {
			return word
		}
	}
	if key := strings.TrimPrefix(f.Sort, "-"); slices.Contains([]string{"id", "name", "owner", "account", "command"}, key) {
		return "the order by " + key
	}
	return ""
}

// redact takes the names off a workload. Its id becomes a pseudonym that stays the
// same until the server is started again.
func (g *guard) redact(w *client.Workload) {
	m := hmac.New(sha256.New, g.secret)
	fmt.Fprintf(m, "%q %q %d", w.Site, w.ID, w.Start.UnixNano())
	w.ID = w.Kind + "/" + hex.EncodeToString(m.Sum(nil)[:8])
	w.Name, w.Owner, w.Account, w.Command, w.Reason = "", "", "", "", ""
}

func nobody(v access.Viewer) error {
	return fail(http.StatusUnauthorized, "sign in, or send a token", "a viewer of role %s sees nothing", v.Role)
}

// visible leaves the own workloads of a viewer in a tick and adds those of all others up.
func visible(v access.Viewer, l client.Live) client.Live {
	if v.All() {
		return l
	}
	all := l.Workloads
	l.Workloads = make([]client.LiveWorkload, 0, len(all))
	var rest client.LiveWorkload
	for _, w := range all {
		if v.Sees(w.Owner) {
			l.Workloads = append(l.Workloads, w)
		} else {
			join(&rest, &w)
		}
	}
	if len(l.Workloads) < len(all) {
		rest.ID, rest.Name = "others", "others"
		l.Workloads = append(l.Workloads, rest)
	}
	return l
}

// join adds what a workload does to a total without names.
func join(total, w *client.LiveWorkload) {
	total.Cores += w.Cores
	total.CPUSeconds += w.CPUSeconds
	total.Processes += w.Processes
	total.Threads += w.Threads
	for _, f := range []struct{ to, from **float64 }{
		{&total.MemoryBytes, &w.MemoryBytes}, {&total.ReadRate, &w.ReadRate}, {&total.WriteRate, &w.WriteRate}, {&total.Wait, &w.Wait},
	} {
		if *f.from == nil {
			continue
		}
		sum := **f.from
		if *f.to != nil {
			sum += **f.to
		}
		*f.to = &sum
	}
}
