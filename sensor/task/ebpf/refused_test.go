package ebpf

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Who is refused is told what to do about what stands in the way.
func TestRefusal(t *testing.T) {
	const host, rootless = "         0          0 4294967295\n", "         0       1000          1\n         1     100000      65536\n"
	for name, c := range map[string]struct{ status, uidMap, reason, remedy string }{
		"no capability":   {"CapEff:\t0000000000000000\nSeccomp:\t2\n", host, "no permission to load BPF programs", "grant CAP_BPF"},
		"one of the two":  {"CapEff:\t0000008000000000\nSeccomp:\t0\n", host, "no permission to load BPF programs", "grant CAP_BPF"},
		"seccomp":         {"CapEff:\t000000c000080004\nSeccomp:\t2\n", host, "a seccomp filter forbids bpf(2)", "seccomp=unconfined"},
		"seccomp, admin":  {"CapEff:\t000001ffffffffff\nSeccomp:\t2\n", host, "a seccomp filter forbids bpf(2)", "seccomp=unconfined"},
		"rootless":        {"CapEff:\t000001ffffffffff\nSeccomp:\t2\n", rootless, "user namespace", "not rootless"},
		"security module": {"CapEff:\t000000c000000000\nSeccomp:\t0\n", host, "although the capabilities", "kernel's log"},
		"unreadable":      {"", "", "no permission to load BPF programs", "grant CAP_BPF"},
	} {
		err := refusal(c.status, c.uidMap)
		var un *sensor.UnavailableError
		if !errors.As(err, &un) || !errors.Is(err, unix.EPERM) || !strings.Contains(un.Reason, c.reason) || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%s: %v; want %q and %q", name, err, c.reason, c.remedy)
		}
	}
}

func FuzzRefusal(f *testing.F) {
	f.Add("Name:\tx\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n", "0 0 4294967295\n")
	f.Fuzz(func(t *testing.T, status, uidMap string) {
		if refusal(status, uidMap) == nil {
			t.Fatal("no error")
		}
	})
}
