// Package vm recognises the virtual machines that a host runs.
//
//	manager                control group or process                                 id, name
//	libvirt with systemd   /machine.slice/machine-qemu\x2d3\x2dNAME.scope           vm/NAME
//	libvirt without        /machine/qemu-3-NAME.libvirt-qemu, /libvirt/qemu/NAME    vm/NAME
//	Proxmox VE             /qemu.slice/VMID.scope                                   vm/VMID, the name from -name
//	none, and sessions     QEMU with -name, Cloud Hypervisor with --api-socket      vm/NAME
//
// libvirt puts a number that changes at each start before the name; it is left out. So is a virtual
// machine in a container, a pod or a batch job: the node runs that, and resolvers of those come
// first. A machine without a name stays what it else is: part of a unit, a session or a group of
// processes.
//
// The owner is the user who runs the emulator (a machine of libvirt's qemu:///session, or one
// started by hand). Emulators of libvirt run as users of the system, so there it is the project
// that the definition of the machine names ([projectOwners]); for Proxmox it is the pool. If neither is
// set, the owner is "libvirt" or "proxmox".
//
// Its requests are the cores and memory of the machine, from the emulator's arguments.
package vm

import (
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Owners of virtual machines without a named owner.
const (
	libvirtOwner = "libvirt"
	proxmoxOwner = "proxmox"
)

// Resolver implements [workload.Resolver].
type Resolver struct {
	owners   projectOwners
	machines cgpath.Memo[machineFacts] // by control group
}

var _ workload.Resolver = (*Resolver)(nil)

// machineFacts holds the facts that all processes of a virtual machine have in common.
type machineFacts struct {
	owner string
	facts workload.Facts
}

// New returns a resolver that reads the definitions of machines below root. "" and "/" mean this host.
func New(root string) *Resolver { return &Resolver{owners: projectOwners{root: root}} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "vm" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	for _, c := range h.Cgroups {
		if g, ok := findGroup(cgpath.Split(c.Path)); ok {
			return r.identityInGroup(h, g), true
		}
	}
	if !isEmulator(h.Comm) {
		return workload.Identity{}, false
	}
	a := parseArguments(h)
	if a.name == "" {
		return workload.Identity{}, false
	}
	owner := h.User
	if isLibvirtUser(h.User) {
		owner = r.owners.libvirtProject(a.name)
	}
	return workload.Identity{Workload: workload.MakeID(workload.VM, cgpath.Clean(a.name)), Owner: owner, Facts: a.facts(h)}, true
}

// machineGroup is the control group of a machine.
type machineGroup struct {
	name, path string
	manager    string
}

// findGroup finds the control group of a virtual machine in a path. With several, it returns the outermost.
func findGroup(pieces []cgpath.Piece) (group machineGroup, ok bool) {
	for i, c := range pieces {
		if name, ok := parseScope(c.Name); ok {
			return machineGroup{name, c.Prefix, libvirtOwner}, true
		}
		if i+1 == len(pieces) {
			break
		}
		next := pieces[i+1]
		switch c.Name {
		case "machine":
			if name, ok := strings.CutSuffix(next.Name, ".libvirt-qemu"); ok && name != "" {
				return machineGroup{cutNumber(name), next.Prefix, libvirtOwner}, true
			}
		case "libvirt":
			if next.Name == "qemu" && i+2 < len(pieces) {
				return machineGroup{pieces[i+2].Name, pieces[i+2].Prefix, libvirtOwner}, true
			}
		case "qemu.slice":
			if id, ok := strings.CutSuffix(next.Name, ".scope"); ok {
				if _, number := cgpath.Number(id, ""); number {
					return machineGroup{id, next.Prefix, proxmoxOwner}, true
				}
			}
		}
	}
	return machineGroup{}, false
}

// libvirtDrivers are the prefixes of scope names of libvirt drivers for virtual machines. The prefix of containers (lxc) is
// missing, because they have another resolver.
var libvirtDrivers = [...]string{"qemu-", "ch-"}

// parseScope reads "machine-qemu\x2d3\x2dNAME.scope".
func parseScope(unit string) (name string, ok bool) {
	unit, ok = strings.CutPrefix(unit, "machine-")
	if !ok {
		return "", false
	}
	if unit, ok = strings.CutSuffix(unit, ".scope"); !ok {
		return "", false
	}
	unit = cgpath.Unescape(unit)
	name = cutNumber(unit)
	return name, name != unit
}

// cutNumber removes the prefix with a number, such as "qemu-3-" from "qemu-3-NAME".
func cutNumber(name string) string {
	for _, d := range libvirtDrivers {
		rest, ok := strings.CutPrefix(name, d)
		if !ok {
			continue
		}
		number, domain, ok := strings.Cut(rest, "-")
		if _, isNumber := cgpath.Number(number, ""); ok && isNumber && domain != "" {
			return domain
		}
	}
	return name
}

// identityInGroup returns the machine that a control group holds.
func (r *Resolver) identityInGroup(h *workload.Hint, g machineGroup) workload.Identity {
	m, known := r.machines.Get(g.path)
	if !known {
		m = machineFacts{owner: r.ownerOf(h, g)}
	}
	if m.facts == (workload.Facts{}) && isEmulator(h.Comm) {
		m.facts = parseArguments(h).facts(h)
	}
	r.machines.Put(g.path, m)
	return workload.Identity{Workload: workload.MakeID(workload.VM, cgpath.Clean(g.name)), Owner: m.owner, Cgroup: g.path, Whole: g.path,
		Facts: m.facts}
}

func (r *Resolver) ownerOf(h *workload.Hint, g machineGroup) string {
	if uid, ok := cgpath.Owner(cgpath.Split(g.path)); ok {
		return h.UserOf(uid)
	}
	if g.manager == proxmoxOwner {
		return r.owners.proxmoxPool(g.name)
	}
	return r.owners.libvirtProject(g.name)
}

// isLibvirtUser reports whether libvirt runs emulators as this user, in Debian or Red Hat systems.
func isLibvirtUser(user string) bool { return user == "libvirt-qemu" || user == "qemu" }
