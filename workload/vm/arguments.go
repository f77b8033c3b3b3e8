package vm

import (
	"path"
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// isEmulator reports whether a process name belongs to a program that runs virtual machines. The kernel truncates process
// names to 15 bytes.
func isEmulator(comm string) bool {
	return strings.HasPrefix(comm, "qemu-system-") || comm == "qemu-kvm" || comm == "kvm" || comm == "cloud-hyperviso"
}

// vmArguments holds the facts about a virtual machine in the command line of its emulator.
type vmArguments struct {
	name   string
	cores  float64
	memory float64 // bytes
}

func (a vmArguments) facts(h *workload.Hint) workload.Facts {
	return workload.Facts{Name: cgpath.Clean(a.name), Command: cgpath.Clean(h.Comm), RequestCores: a.cores, RequestMemoryBytes: a.memory}
}

// parseArguments parses the arguments of a process. Facts that cannot be read are empty.
func parseArguments(h *workload.Hint) (a vmArguments) {
	args := h.Arguments()
	for i := 1; i < len(args); i++ {
		key, value, joined := strings.Cut(args[i], "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		if !strings.HasPrefix(key, "--") && strings.HasPrefix(key, "-") {
			key, value = "-"+args[i], "" // QEMU takes -name and --name, and no "="
			if i+1 < len(args) {
				value = args[i+1]
			}
		}
		if h.Comm == "cloud-hyperviso" {
			a.parseCloudHypervisor(key, value)
		} else {
			a.parseQEMU(key, value)
		}
	}
	return a
}

// parseQEMU reads one option of qemu(1).
func (a *vmArguments) parseQEMU(key, value string) {
	first, _ := optionValue(value, "")
	switch key {
	case "--name":
		a.name = first
		if guest, ok := optionValue(value, "guest"); ok {
			a.name = guest
		}
	case "--smp":
		if cpus, ok := optionValue(value, "cpus"); ok {
			first = cpus
		}
		if n, ok := cgpath.Number(first, ""); ok {
			a.cores = float64(n)
		}
	case "--m":
		if size, ok := optionValue(value, "size"); ok {
			first = size
		}
		a.memory = parseBytes(first, 1<<20)
	}
}

// parseCloudHypervisor parses one option of Cloud Hypervisor. Its virtual machines have no names, so it uses the name of the
// control socket instead.
func (a *vmArguments) parseCloudHypervisor(key, value string) {
	first, _ := optionValue(value, "")
	switch key {
	case "--api-socket":
		if p, ok := optionValue(value, "path"); ok {
			first = p
		}
		if base := path.Base(first); base != "." && base != "/" {
			a.name = strings.TrimSuffix(base, path.Ext(base))
		}
	case "--cpus":
		if boot, ok := optionValue(value, "boot"); ok {
			if n, ok := cgpath.Number(boot, ""); ok {
				a.cores = float64(n)
			}
		}
	case "--memory":
		if size, ok := optionValue(value, "size"); ok {
			a.memory = parseBytes(size, 1)
		}
	}
}

// optionValue returns the value of a key in a list such as "a,key=value,...". With an empty key it returns the first value,
// which both emulators accept without a key. A comma within a value is doubled.
func optionValue(list, key string) (value string, ok bool) {
	list = strings.ReplaceAll(list, ",,", "\x00")
	for i, o := range strings.Split(list, ",") {
		name, value, ok := strings.Cut(o, "=")
		if key == "" && i == 0 && !ok {
			return strings.ReplaceAll(o, "\x00", ","), true
		}
		if ok && name == key {
			return strings.ReplaceAll(value, "\x00", ","), true
		}
	}
	return "", false
}

// parseBytes parses a size such as 4096, 4G or 4194304k, and returns bytes. A number without a unit is multiplied by unit.
// It returns 0 if s is not a size.
func parseBytes(s string, unit float64) float64 {
	if s == "" {
		return 0
	}
	if i := strings.IndexByte("bkmgt", s[len(s)-1]|0x20); i >= 0 {
		s, unit = s[:len(s)-1], float64(uint64(1)<<(10*i))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return float64(n) * unit
}
