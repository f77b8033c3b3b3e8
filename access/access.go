// Package access holds the roles of viewers and what each role may see. Every answer of the server
// passes through it: the pages and the API of reckon, PromQL, remote read and /metrics.
//
//	admin    everything, and may change things
//	support  all measurements, of all owners
//	user     own workloads in full, the others only as totals without names
//	public   totals of nodes and of the site; workloads without names
//
// A [Viewer] travels in the context of a request; package auth identifies it. A context without one
// holds Nobody, who sees nothing, so that a handler that forgets to check shows nothing.
// [Authorized] and [AuthorizedUsage] wrap the backends that answer about work. A denied request is
// a [Refusal]; package web/api maps it to a status.
package access

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Role decides the rights of a viewer. A viewer with the zero value may see nothing.
type Role uint8

// Roles. Each sees everything that the previous one sees, and more.
const (
	Nobody Role = iota
	Public
	User
	Support
	Admin
)

var roleNames = []string{"nobody", "public", "user", "support", "admin"}

// String returns the name of the role.
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		return fmt.Sprintf("role %d", r)
	}
	return roleNames[r]
}

// ParseRole reads admin, support, user or public.
func ParseRole(s string) (Role, error) {
	if at := slices.Index(roleNames, s); at > int(Nobody) {
		return Role(at), nil
	}
	return Nobody, fmt.Errorf("%q is no role; give admin, support, user or public", s)
}

// Viewer is the sender of a request and its rights.
type Viewer struct {
	Role Role
	// Name is the login name; empty for the public.
	Name string
	// Login is the Unix user of an admin without a login name, for the audit log and for texts. It gives no rights.
	Login string
	// Owners are the owners (users, namespaces) of the viewer's own work. If empty, the only one is
	// the Unix user of the viewer's name.
	Owners []string
	Until  time.Time // end of the viewer's token; zero without one, and for one that never expires
	// Writes is the set of nodes that the viewer may send samples for. nil means none, or all for an admin.
	Writes *Scope
	// Figures allows sending figures of the viewer's own, see package transport/ingest; Name is then a Unix user of this machine.
	Figures bool
	// Runs allows listing and keeping the runs of MetricSets of all namespaces: for the operator of a cluster.
	Runs bool
	// Bound limits the data that the sender may send, if its token has limits.
	Bound Bound
}

// Bound limits the samples of a sender. 0 is the default of the server, -1 is no limit.
type Bound struct {
	// Series with a sample in the last half hour to an hour.
	Series int `yaml:"series" json:"series,omitempty"`
	// SamplesPerSecond, averaged over two minutes.
	SamplesPerSecond float64 `yaml:"samples_per_second" json:"samples_per_second,omitempty"`
}

// OwnSeries is the number of external series that a local user may send without a token.
const OwnSeries = 1_000

// Scope is the part of a fleet that an agent's token may write for.
type Scope struct {
	Site  string   // empty: any site
	Nodes []string // shell patterns on names of nodes; none: any node
}

// Holds reports whether samples with these labels are within the scope.
func (s *Scope) Holds(site, node string) bool {
	if s.Site != "" && s.Site != site {
		return false
	}
	return len(s.Nodes) == 0 || slices.ContainsFunc(s.Nodes, func(p string) bool {
		ok, err := path.Match(p, node)
		return ok && err == nil
	})
}

// String describes the scope for people.
func (s *Scope) String() string {
	site, nodes := "any site", "any node"
	if s.Site != "" {
		site = "site " + s.Site
	}
	if len(s.Nodes) > 0 {
		nodes = "nodes " + strings.Join(s.Nodes, ", ")
	}
	return site + ", " + nodes
}

// MayWrite reports whether the viewer may send samples with these labels.
func (v Viewer) MayWrite(site, node string) bool {
	if v.Writes != nil {
		return v.Writes.Holds(site, node)
	}
	return v.Changes()
}

// Allow returns a function that reports whether the sender in ctx may send samples for a node. It returns nil if the
// sender may write to every node, so that the caller can skip the check for each series.
func Allow(ctx context.Context) (func(site, node string) bool, error) {
	v := From(ctx)
	if v.Writes == nil && v.Changes() {
		return nil, nil
	}
	return v.MayWrite, nil
}

// MaySend reports whether the viewer may send any samples at all.
func (v Viewer) MaySend() bool { return v.Writes != nil || v.Changes() }

// MayKeepRuns reports whether the viewer may store and delete MetricSet runs of a namespace. A user may do so only in a
// namespace that the user owns.
func (v Viewer) MayKeepRuns(namespace string) bool {
	return v.Changes() || v.Runs || v.Role == User && v.Sees(namespace)
}

// All reports whether the viewer sees the work of all owners.
func (v Viewer) All() bool { return v.Role >= Support }

// Changes reports whether the viewer may change data that other users see.
func (v Viewer) Changes() bool { return v.Role >= Admin }

// Called returns the name of the viewer for people: the login name, or the Unix user of an admin without one.
func (v Viewer) Called() string { return cmp.Or(v.Name, v.Login) }

// Own lists the owners of the viewer's own work.
func (v Viewer) Own() []string {
	switch {
	case v.Role < User:
		return nil
	case len(v.Owners) > 0:
		return v.Owners
	case v.Name != "":
		return []string{v.Name}
	}
	return nil
}

// Sees reports whether the viewer may see the owner's work by name. Work without an owner is
// visible only to viewers who see all.
func (v Viewer) Sees(owner string) bool {
	return v.All() || (owner != "" && slices.Contains(v.Own(), owner))
}

// machinePrefixes are the name prefixes of series about nodes, sensors and the site.
var machinePrefixes = []string{
	"node_", "reckon_node_", "reckon_gpu_", "reckon_sensor_", "reckon_agent_", "reckon_push_", "reckon_build_info",
	"reckon_site_", "reckon_partition_", "reckon_forecast", "reckon_slurm_node_", "reckon_slurm_partition_",
}

// identifyingLabels are labels that identify a workload or a person.
var identifyingLabels = []string{"workload", "user", "username", "pod", "container", "container_id", "namespace", "hpc_job", "job_id",
	"jobid", "pid",
	"comm", "command", "groupname"}

// SeesSeries reports whether the viewer may see a series. A series with an owner is visible like
// the owner's work. A series without one must be about a machine and must not identify a workload.
// get returns the value of a label, or "".
func (v Viewer) SeesSeries(get func(label string) string) bool {
	if v.All() {
		return true
	}
	if v.Role == Nobody {
		return false
	}
	if owner := get("owner"); owner != "" {
		return v.Sees(owner)
	}
	name := get("__name__")
	if name != "up" && !slices.ContainsFunc(machinePrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return false
	}
	if v.Role == Public && strings.HasPrefix(name, "reckon_slurm_") && get("reason") != "" {
		return false // free text by administrators, which may name people
	}
	return !slices.ContainsFunc(identifyingLabels, func(l string) bool { return get(l) != "" })
}

type ctxKey struct{}

// With puts the viewer into a context.
func With(ctx context.Context, v Viewer) context.Context { return context.WithValue(ctx, ctxKey{}, v) }

// From returns the viewer of a context, or Nobody if there is none.
func From(ctx context.Context) Viewer {
	v, _ := ctx.Value(ctxKey{}).(Viewer)
	return v
}
