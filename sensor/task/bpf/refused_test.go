package bpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Who is refused is reported what to do about what stands in the way.
func TestRefusal(t *testing.T) {
	const host, rootless = "         0          0 4294967295\n", "         0       1000          1\n         1     100000      65536\n"
	for name, c := range map[string]struct{ status, uidMap, filtered, reason, remedy string }{
		"no capability":     {"CapEff:\t0000000000000000\nSeccomp:\t2\n", host, "bpf(2)", "no permission to load BPF programs", "grant CAP_BPF"},
		"one of the two":    {"CapEff:\t0000008000000000\nSeccomp:\t0\n", host, "", "no permission to load BPF programs", "grant CAP_BPF"},
		"seccomp":           {"CapEff:\t000000c000080004\nSeccomp:\t2\n", host, "bpf(2)", "a seccomp filter forbids bpf(2)", "seccomp=unconfined"},
		"seccomp, admin":    {"CapEff:\t000001ffffffffff\nSeccomp:\t2\n", host, "bpf(2)", "a seccomp filter forbids bpf(2)", "seccomp=unconfined"},
		"a call of another": {"CapEff:\t000000c000080004\nSeccomp:\t2\n", host, "perf_event_open(2)", "a seccomp filter forbids perf_event_open(2)", "seccomp=unconfined"},
		"some programs":     {"CapEff:\t000000c000080004\nSeccomp:\t2\n", host, "", "although the capabilities", "program walk: operation not permitted (look in the kernel's log"},
		"rootless":          {"CapEff:\t000001ffffffffff\nSeccomp:\t2\n", rootless, "bpf(2)", "user namespace", "not rootless"},
		"security module":   {"CapEff:\t000000c000000000\nSeccomp:\t0\n", host, "", "although the capabilities", "kernel's log"},
		"locked memory":     {"CapEff:\t000001ffffffffff\nSeccomp:\t0\n", host, "", "more locked memory", "LimitMEMLOCK"},
		"unreadable":        {"", "", "", "no permission to load BPF programs", "grant CAP_BPF"},
	} {
		err := explainRefusal(fmt.Errorf("program walk: %w", unix.EPERM), c.status, c.uidMap, name == "locked memory", c.filtered)
		var un *sensor.UnavailableError
		if !errors.As(err, &un) || !errors.Is(err, unix.EPERM) || !strings.Contains(un.Reason, c.reason) || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%s: %v; want %q and %q", name, err, c.reason, c.remedy)
		}
	}
}

// Where bpf(2) is missing and a seccomp filter is in place, the kernel is not blamed alone.
func TestMissing(t *testing.T) {
	for status, want := range map[string]string{
		"Seccomp:\t2\n": "seccomp=unconfined", "Seccomp:\t0\n": "CONFIG_BPF_SYSCALL", "": "CONFIG_BPF_SYSCALL",
	} {
		if err := explainMissing(unix.ENOSYS, status); !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", status, err, want)
		}
	}
}

// Only the kernel that locked up is refused, in words that name it.
func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		refused      bool
	}{{5, 9, false}, {5, 10, true}, {5, 11, false}, {6, 10, false}, {6, 1, false}, {0, 0, false}} {
		err := checkRelease(c.major, c.minor)
		if (err != nil) != c.refused {
			t.Errorf("%d.%d: %v", c.major, c.minor, err)
		}
		if !c.refused {
			continue
		}
		if got := Explain(err, t.TempDir(), "otherwise", "fix"); !errors.Is(got, sensor.ErrUnavailable) || !strings.Contains(got.Error(), "5.10") || strings.Contains(got.Error(), "otherwise") {
			t.Errorf("%d.%d: %v", c.major, c.minor, got)
		}
	}
}

// TestVerdict tests that a rejection names the kernel's reason in one line, whatever the
// verifier wrote. The logs end as the logs of the named kernels.
func TestVerdict(t *testing.T) {
	many := slices.Repeat([]string{"1: (bf) r6 = r1", "R1=ctx(off=0,imm=0)"}, 2000)
	stats := "processed 1203 insns (limit 1000000) max_states_per_insn 4 total_states 48 peak_states 48 mark_read 20"
	for name, c := range map[string]struct {
		log   []string
		errno error
		want  string
	}{
		"6.1.0, a typedef in an array": {[]string{"; r->pages[0] = total->rss_stat.count[0].counter;", "219: (79) r1 = *(u64 *)(r7 +808)", "Type 'atomic_long_t' is not a struct", stats},
			unix.EINVAL, "program walk: Type 'atomic_long_t' is not a struct (invalid argument)"},
		"5.10.0, too much stack": {[]string{"combined stack size of 6 calls is 576. Too large", "verification time 36000000 usec", "stack depth 360+0+16+40+48+24", stats},
			unix.EACCES, "program walk: combined stack size of 6 calls is 576. Too large (permission denied)"},
	} {
		log := &ebpf.VerifierError{Cause: c.errno, Log: append(slices.Clone(many), c.log...)}
		got := Explain(fmt.Errorf("program walk: load program%w", log), t.TempDir(), "", "")
		if !errors.Is(got, sensor.ErrUnavailable) || !strings.Contains(got.Error(), c.want) || len(got.Error()) > 250 || strings.Contains(got.Error(), "\n") {
			t.Errorf("%s: %v; want %q in one line", name, got, c.want)
		}
	}
}

func FuzzRefusal(f *testing.F) {
	f.Add("Name:\tx\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n", "0 0 4294967295\n")
	f.Fuzz(func(t *testing.T, status, uidMap string) {
		if explainRefusal(unix.EPERM, status, uidMap, false, "") == nil {
			t.Fatal("no error")
		}
	})
}

// TestShorten: the library's guess stays only on kernels that charge BPF memory as locked memory.
func TestShorten(t *testing.T) {
	const refused = "load program: operation not permitted"
	for name, c := range map[string]struct {
		text    string
		charges bool
		want    string
	}{
		"before Linux 5.11": {refused + memlockHint, true, refused + memlockHint},
		"since":             {refused + memlockHint, false, refused},
		"several lines":     {refused + "\n1: (bf) r6 = r1", false, refused},
		"neither":           {refused, false, refused},
	} {
		if got := firstLine(c.text, c.charges); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	plain := errors.New(refused)
	if got := Cause(plain); got != plain {
		t.Errorf("one line became %v", got)
	}
	if got := Cause(fmt.Errorf("%w\nmore", unix.EPERM)); !errors.Is(got, unix.EPERM) || strings.Contains(got.Error(), "more") {
		t.Errorf("several lines became %v", got)
	}
}
