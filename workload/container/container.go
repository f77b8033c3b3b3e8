// Package container recognises containers outside of Kubernetes by their control groups.
//
//	/docker/CID, /system.slice/docker-CID.scope          Docker; rootless below user@UID.service
//	/machine.slice/libpod-CID.scope[/container]          Podman; rootless below user@UID.service
//	/libpod_parent/libpod-CID, /libpod_parent/CID        Podman with cgroupfs
//	/NAMESPACE/CID, /system.slice/nerdctl-CID.scope      containerd (nerdctl, ctr)
//	/machine.slice/crio-CID.scope, cri-containerd-CID.scope
//	/ecs/TASK/CID, /ecs/TASK/TASK-N                      Amazon ECS
//	/garden/ID                                           Cloud Foundry
//	/lxc/NAME, /lxc.payload.NAME, /lxc.payload/NAME      LXC, LXD, Incus
//	/machine.slice/machine-NAME.scope                    systemd-nspawn, libvirt-lxc
//	/machine.slice/systemd-nspawn@NAME.service           systemd-nspawn as a service
//
// CID is 64 hexadecimal digits; twelve of them name the workload, as in the commands of the
// engines. Of nested containers the outermost counts, because that is the one that the node runs. A
// monitor (conmon, lxc.monitor) belongs to its container but not to its Cgroup. The owner is the
// user with the tree that has the group, else root, who runs the engine, because the user within a
// container does not identify the responsible user.
//
// Apptainer and Singularity make no group of their own: their processes belong to the job, session
// or unit that starts them. Podman with --cgroups=split (Quadlet) puts its groups into the unit,
// which names the work better.
package container

import (
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Resolver implements [workload.Resolver].
type Resolver struct{}

var _ workload.Resolver = (*Resolver)(nil)

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "container" }

// Resolve implements [workload.Resolver].
func (*Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	for _, c := range h.Cgroups {
		pieces := cgpath.Split(c.Path)
		for i := range pieces {
			name, cgroup, ok := parseComponent(pieces, i)
			if !ok {
				continue
			}
			owner := "root"
			if uid, ok := cgpath.Owner(pieces[:i]); ok {
				owner = h.UserOf(uid)
			}
			return workload.Identity{Workload: workload.MakeID(workload.Container, name), Owner: owner, Cgroup: cgroup}, true
		}
	}
	return workload.Identity{}, false
}

// parseComponent parses component i of a path. cgroup is empty for a container monitor.
func parseComponent(pieces []cgpath.Piece, i int) (name, cgroup string, ok bool) {
	c := pieces[i]
	if i+1 < len(pieces) && cgpath.Hex(c.Name, idLength) && strings.HasPrefix(pieces[i+1].Name, "libpod-") {
		return "", "", false // a pod of Podman: its containers count one by one, as under systemd
	}
	if name, payload, ok := parseEngine(c.Name); ok {
		if payload {
			cgroup = c.Prefix
		}
		return name, cgroup, true
	}
	if name, ok := parseMachine(c.Name); ok {
		return name, c.Prefix, true
	}
	if name, ok := strings.CutPrefix(c.Name, "lxc.payload."); ok && name != "" {
		return cgpath.Clean(name), c.Prefix, true
	}
	if name, ok := strings.CutPrefix(c.Name, "lxc.monitor."); ok && name != "" {
		return cgpath.Clean(name), "", true
	}
	if i+1 == len(pieces) {
		return "", "", false
	}
	next := pieces[i+1]
	switch c.Name {
	case "lxc", "lxc.payload", "garden":
		return cgpath.Clean(next.Name), next.Prefix, true
	case "lxc.monitor":
		return cgpath.Clean(next.Name), "", true
	case "ecs":
		if i+2 < len(pieces) {
			last := pieces[i+2]
			if cgpath.Hex(last.Name, 64) {
				return last.Name[:12], last.Prefix, true
			}
			return cgpath.Clean(last.Name), last.Prefix, true
		}
	}
	return "", "", false
}

// idLength is the number of digits of a container id.
const idLength = 64

// parseEngine parses "CID", "ENGINE-CID" and "ENGINE-CID.scope". Unknown engines are accepted only in a scope.
func parseEngine(name string) (id string, payload, ok bool) {
	base, scope := strings.CutSuffix(name, ".scope")
	if len(base) < idLength {
		return "", false, false
	}
	prefix, id := base[:len(base)-idLength], base[len(base)-idLength:]
	if !cgpath.Hex(id, idLength) {
		return "", false, false
	}
	switch prefix {
	case "", "docker-", "libpod-", "nerdctl-", "crio-", "cri-containerd-":
	case "libpod-conmon-", "crio-conmon-":
		return id[:12], false, true
	default:
		if !scope || !strings.HasSuffix(prefix, "-") || strings.HasPrefix(prefix, "libpod-payload-") {
			return "", false, false
		}
	}
	return id[:12], true, true
}

// parseMachine parses the unit name of a container that is registered with systemd-machined. libvirt adds a number to the
// name that changes at each start ("lxc-3-NAME"). It also registers virtual machines ("qemu-3-NAME"), for which parseMachine
// returns false.
func parseMachine(unit string) (name string, ok bool) {
	name, ok = strings.CutPrefix(unit, "machine-")
	if ok {
		name, ok = strings.CutSuffix(name, ".scope")
	} else if name, ok = strings.CutPrefix(unit, "systemd-nspawn@"); ok {
		name, ok = strings.CutSuffix(name, ".service")
	}
	if !ok || name == "" {
		return "", false
	}
	name = cgpath.Unescape(name)
	driver, rest, _ := strings.Cut(name, "-")
	number, domain, ok := strings.Cut(rest, "-")
	if _, isNumber := cgpath.Number(number, ""); ok && isNumber && domain != "" {
		switch driver {
		case "lxc":
			name = domain
		case "qemu", "ch":
			return "", false
		}
	}
	return cgpath.Clean(name), true
}
