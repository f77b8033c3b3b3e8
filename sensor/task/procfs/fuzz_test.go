package procfs

import (
	"bytes"
	"strings"
	"testing"

	"reckon/internal/cgpath"
)

func FuzzStat(f *testing.F) {
	f.Add([]byte("899 (a) b) R 882 899 882 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 270030 3133440 431 18446744073709551615 1\n"))
	f.Add([]byte("1 () R "))
	f.Add([]byte("1 ("))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s stat
		if parseStat(b, &s) == nil && (s.pid <= 0 || s.comm[15] != 0) {
			t.Errorf("%q: %+v", b, s)
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("Name:\ta\nUid:\t1\t2\t3\t4\nVmHWM:\t    1724 kB\nVmRSS:\t 1 kB\nRssAnon:\t1 kB\nRssFile:\t2 kB\nRssShmem:\t3 kB\nVmSwap:\t0 kB\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t2\n"))
	f.Add([]byte("VmHWM:\t18446744073709551615 kB\nVmSwap"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s status
		parseStatus(b, &s)
		if s.anon%1024 != 0 || s.hwm%1024 != 0 {
			t.Errorf("%q: memory is reported in kB: %+v", b, s)
		}
	})
}

func FuzzSmall(f *testing.F) {
	f.Add([]byte("765 431 403 5 0 122 0\n"))
	f.Add([]byte("1 588490 1\n"))
	f.Add([]byte("rchar: 1\nread_bytes: 7\nwrite_bytes: 8\ncancelled_write_bytes: 9\n"))
	f.Add([]byte("0.53 0.74 0.67 1/234 12345\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if resident, shared, err := parseStatm(b); err == nil && shared > resident {
			t.Errorf("%q: %d of %d", b, shared, resident)
		}
		_, _, _, _ = parseSchedstat(b)
		_, _ = parseIO(b)
		_, _ = parseLastPID(b)
		_, _ = sessionID(b)
		if v := auxTicks(b); v == 0 || v > 1e6 {
			t.Errorf("%q: %d ticks", b, v)
		}
	})
}

func FuzzCgroups(f *testing.F) {
	f.Add([]byte("4:memory:/slurm/uid_1000/job_7\n1:name=systemd:/a:b c\n0::/x (deleted)\n"))
	f.Add([]byte("0::/../.."))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range parseCgroups(b, cgpath.Origin{}) {
			if p.Path == "" || p.Path[0] != '/' || strings.ContainsAny(p.Controllers+p.Path, "\n") || strings.Contains(p.Controllers, ":") {
				t.Errorf("%q: %+v", b, p)
			}
		}
	})
}

func FuzzEnvironment(f *testing.F) {
	f.Add([]byte("A=1\x00B=\x00A=2\x00"), "A")
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		for k, v := range findVariables(b, []string{key}) {
			if k != key || !bytes.Contains(b, []byte(key+"="+v)) {
				t.Errorf("%q: %q=%q", b, k, v)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	record := func(name string) []byte {
		b := make([]byte, 24+len(name)/8*8+8)
		b[16] = byte(len(b))
		copy(b[19:], name)
		return b
	}
	f.Add(append(record("1234"), record("self")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pid := range numericNames(b, nil) {
			if pid <= 0 {
				t.Errorf("%q: %d", b, pid)
			}
		}
	})
}

func FuzzMountinfo(f *testing.F) {
	f.Add([]byte("22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw,hidepid=invisible\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o := hidepidOption(b, "/proc"); o != "" && !bytes.Contains(b, []byte(o)) {
			t.Errorf("%q: %q", b, o)
		}
	})
}
