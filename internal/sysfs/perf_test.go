package sysfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNumbers(t *testing.T) {
	for list, want := range map[string][]int{
		"0-3,8\n": {0, 1, 2, 3, 8}, "0\n": {0}, "2-2": {2}, "": nil, "3-1": nil, "a": nil, "1,": nil, "0-99999999": nil,
	} {
		if got := Numbers(list); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}

func TestCPUFlag(t *testing.T) {
	root := t.TempDir()
	if CPUFlag(root, "cqm_llc") {
		t.Error("without a file there is a feature")
	}
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "processor\t: 0\nmodel name\t: a cqm: one\nflags\t\t: fpu cqm_llc hypervisor\nvmx flags\t: vnmi\n\nprocessor\t: 1\nflags\t\t: fpu rdt_a\n"
	if err := os.WriteFile(filepath.Join(root, "proc", "cpuinfo"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"cqm_llc": true, "hypervisor": true, "cqm": false, "vnmi": false, "rdt_a": false, "": false} {
		if got := CPUFlag(root, name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, list string) {
		if got := Numbers(list); len(got) > 1<<17 {
			t.Fatalf("%d numbers", len(got))
		}
	})
}

// The explanations of the kernel's refusals: the setting and the lockdown are read from the machine.
func TestPerfRefusal(t *testing.T) {
	write := func(root, name, text string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open, locked := t.TempDir(), t.TempDir()
	write(open, "proc/sys/kernel/perf_event_paranoid", "4\n")
	write(open, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
	write(locked, "sys/kernel/security/lockdown", "none integrity [confidentiality]\n")
	for _, c := range []struct {
		err               error
		root, reason, fix string
	}{
		{unix.EACCES, open, "perf_event_paranoid is 4", "CAP_PERFMON"},
		{unix.EPERM, open, "perf_event_paranoid is 4", "CAP_PERFMON"},
		{unix.EPERM, locked, "lockdown", "integrity"},
		{unix.ENOENT, open, "the machine has no such counters", "vPMU"},
		{unix.EOPNOTSUPP, open, "the machine has no such counters", "vPMU"},
		{unix.ENOSYS, open, "seccomp", "CONFIG_PERF_EVENTS"},
		{unix.EBUSY, open, "another program", "end it"},
		{unix.EINVAL, open, "can not be opened", ""},
	} {
		reason, fix := PerfRefusal(c.err, c.root, "such counters")
		if !strings.Contains(reason, c.reason) || !strings.Contains(fix, c.fix) {
			t.Errorf("%v: %q (%q)", c.err, reason, fix)
		}
	}
}
