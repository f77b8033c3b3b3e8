package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/sensor"
)

func TestVirtual(t *testing.T) {
	for name, c := range map[string]struct {
		bit                        bool
		arch, xen, vendor, product string
		want                       string
	}{
		"server":                       {false, "amd64", "", "Dell Inc.", "PowerEdge R740", ""},
		"cloud, hardware":              {false, "amd64", "", "Amazon EC2", "m5.metal", ""},
		"cloud, virtual":               {true, "amd64", "", "Amazon EC2", "m5.large", "Amazon EC2"},
		"libvirt":                      {true, "amd64", "", "QEMU", "Standard PC (Q35 + ICH9, 2009)", "QEMU"},
		"VMware":                       {true, "amd64", "", "VMware, Inc.", "VMware Virtual Platform", "VMware"},
		"Hyper-V":                      {true, "amd64", "", "Microsoft Corporation", "Virtual Machine", "Hyper-V"},
		"no DMI":                       {true, "amd64", "", "", "", "hypervisor not named"},
		"Xen":                          {true, "amd64", "xen", "", "", "xen"},
		"arm64 board":                  {false, "arm64", "", "", "NVIDIA Jetson AGX Orin", ""},
		"arm64, virtual":               {false, "arm64", "", "QEMU", "KVM Virtual Machine", "KVM"},
		"word of a hypervisor, no bit": {false, "amd64", "", "QEMU", "KVM", ""},
	} {
		if got := hypervisorName(c.bit, c.arch, c.xen, c.vendor, c.product); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// machineTree writes the files of a server of two sockets with 16 cores each.
func machineTree(t *testing.T, flags string) string {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cpuinfo := "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz\nflags\t\t: fpu vme " + flags + " lahf_lm\n"
	write("proc/cpuinfo", cpuinfo)
	write("proc/meminfo", "MemTotal:       197000000 kB\n")
	for cpu := range 32 {
		dir := "sys/devices/system/cpu/cpu" + string([]byte{byte('0' + cpu/10), byte('0' + cpu%10)}) + "/topology/"
		write(dir+"physical_package_id", string([]byte{byte('0' + cpu/16)}))
		write(dir+"core_id", string([]byte{byte('0' + cpu%16/10), byte('0' + cpu%16%10)}))
	}
	return root
}

// A server without a meter gets the curve of its family; the same machine as a guest, of
// which only the hypervisor bit shows, gets none, and the reason names the host.
func TestVirtualMachineIsNotModelled(t *testing.T) {
	m, err := openPowerModel(machineTree(t, "sse2"), "")
	if err != nil || m == nil || m.model.Name != "built-in: Intel Xeon Scalable 1" {
		t.Fatalf("a server: %+v, %v", m, err)
	}
	_, err = openPowerModel(machineTree(t, "hypervisor"), "")
	var missing *sensor.UnavailableError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "virtual machine") || !strings.Contains(err.Error(), "host") {
		t.Errorf("a guest: %v", err)
	}
}
