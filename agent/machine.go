package agent

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"reckon/account/attribution/powermodel"
)

// describeMachine returns the description of the machine below root. Models are matched with it, and built-in curves need its
// processor and memory. Unknown fields are empty.
func describeMachine(root string) powermodel.Machine {
	m := powermodel.Machine{Arch: runtime.GOARCH}
	read := func(path ...string) string {
		b, err := os.ReadFile(filepath.Join(append([]string{"/", root}, path...)...))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	m.Product = read("sys/class/dmi/id/product_name")
	if m.Product == "" {
		m.Product = strings.TrimRight(read("proc/device-tree/model"), "\x00")
	}
	hypervisor := false
	for line := range strings.Lines(read("proc/cpuinfo")) {
		k, v, ok := strings.Cut(line, ":")
		switch k = strings.TrimSpace(k); {
		case !ok:
		case k == "model name" && m.CPU == "":
			m.CPU = strings.TrimSpace(v)
		case k == "flags" && !hypervisor:
			hypervisor = slices.Contains(strings.Fields(v), "hypervisor")
		}
	}
	m.Virtual = hypervisorName(hypervisor, runtime.GOARCH, read("sys/hypervisor/type"), read("sys/class/dmi/id/sys_vendor"), m.Product)
	for line := range strings.Lines(read("proc/meminfo")) {
		if v, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 64); err == nil {
				m.Memory = kb * 1024
			}
		}
	}
	cpus, _ := filepath.Glob(filepath.Join("/", root, "sys/devices/system/cpu/cpu[0-9]*"))
	sockets, cores := map[string]bool{}, map[[2]string]bool{}
	for _, c := range cpus {
		dir := strings.TrimPrefix(c, filepath.Join("/", root))
		p := read(dir, "topology/physical_package_id")
		if p == "" {
			continue // offline
		}
		m.Threads++
		sockets[p] = true
		cores[[2]string{p, read(dir, "topology/core_id")}] = true
	}
	m.Sockets, m.Cores = len(sockets), len(cores)
	return m
}

// hypervisors maps words in the DMI fields sys_vendor and product_name to hypervisors, like systemd-detect-virt.
var hypervisors = []struct{ word, name string }{
	{"KVM", "KVM"}, {"QEMU", "QEMU"}, {"VMware", "VMware"}, {"VMW", "VMware"}, {"innotek", "VirtualBox"},
	{"VirtualBox", "VirtualBox"}, {"Xen", "Xen"}, {"Bochs", "Bochs"}, {"Parallels", "Parallels"},
	{"BHYVE", "bhyve"}, {"Hyper-V", "Hyper-V"}, {"Virtual Machine", "Hyper-V"}, {"Google Compute Engine", "Google Compute Engine"},
	{"OpenStack", "OpenStack"}, {"Apple Virtualization", "Apple Virtualization"}, {"Firecracker", "Firecracker"},
}

// hypervisorName returns the name of the hypervisor, or an empty string on hardware. On amd64, it uses bit, the processor's
// hypervisor bit, because the DMI of cloud hardware also names the provider. Other architectures have only DMI.
func hypervisorName(bit bool, arch, xen, vendor, product string) string {
	if !bit && (arch == "amd64" || arch == "386") {
		return ""
	}
	for _, h := range hypervisors {
		if strings.Contains(product, h.word) || strings.Contains(vendor, h.word) {
			return h.name
		}
	}
	switch {
	case bit:
		return cmp.Or(xen, vendor, "hypervisor not named")
	}
	return xen
}
