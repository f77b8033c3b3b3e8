package run

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

func TestParseStat(t *testing.T) {
	// The layout of Linux 6.18; the name is hostile on purpose.
	const text = "4242 (a) b\n(c) R 17 4242 4000 0 -1 4194304 158 9 3 0 250 50 7 3 20 0 12 0 98765 2990080 459 18446744073709551615 0 0 0\n"
	var s stat
	if err := parseStat([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	want := stat{pid: 4242, ppid: 17, comm: sensor.CommOf([]byte("a) b\n(c")), state: 'R', user: 2_500_000_000, system: 500_000_000,
		cuser: 70_000_000, csys: 30_000_000, threads: 12, start: 987_650_000_000, residentPages: 459}
	if s != want {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
	for _, bad := range []string{"", "1", "1 (x)", "1 (x) ", "x (y) R 1", "1 (x) R 1 2 3", ") 1 ( R"} {
		if err := parseStat([]byte(bad), &s); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("4242 (a) b) R 17 4242 4000 0 -1 4194304 158 9 3 0 250 50 7 3 20 0 12 0 98765 2990080 459 1 0"))
	f.Add([]byte("1 (x) R"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s stat
		if parseStat(b, &s) == nil && s.pid == 0 && !bytes.HasPrefix(b, []byte("0")) && !bytes.Contains(b[:bytes.IndexByte(b, '(')], []byte("4294967296")) {
			if n, ok := number(b[:bytes.IndexByte(b, '(')-1]); !ok || int32(n) != 0 {
				t.Errorf("no pid in %q", b)
			}
		}
	})
}

func TestParseSmallFiles(t *testing.T) {
	if r, s, err := parseStatm([]byte("730 459 431 5 0 89 0\n")); err != nil || r != 459 || s != 431 {
		t.Errorf("statm: %d %d %v", r, s, err)
	}
	if r, w, err := parseSchedstat([]byte("1190569 26768663 2\n")); err != nil || r != 1190569 || w != 26768663 {
		t.Errorf("schedstat: %d %d %v", r, w, err)
	}
	var f ioFile
	const io = "rchar: 6976\nwchar: 12\nsyscr: 10\nsyscw: 0\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"
	if err := parseIO([]byte(io), &f); err != nil || f != (ioFile{6976, 12, 8192, 4096}) {
		t.Errorf("io: %+v %v", f, err)
	}
	const smaps = "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:                1836 kB\nPss:                 291 kB\nPss_Dirty:           96 kB\n"
	if p, r, err := parsePSS([]byte(smaps)); err != nil || p != 291<<10 || r != 1836<<10 {
		t.Errorf("smaps_rollup: %d %d %v", p, r, err)
	}
	for text, want := range map[string]bool{
		"Name:\tx\nSigIgn:\t0000000000010000\n": true,
		"Name:\tx\nSigIgn:\t0000000000000001\n": false,
		"SigIgn:\tzz\n":                         false, "": false,
	} {
		if ignoresChildren([]byte(text)) != want {
			t.Errorf("status %q: want %v", text, want)
		}
	}
}

func FuzzParseSmallFiles(f *testing.F) {
	f.Add([]byte("730 459 431 5 0 89 0\n"))
	f.Add([]byte("read_bytes: 8192\nwrite_bytes: 18446744073709551616\n"))
	f.Add([]byte("Rss: 18446744073709551615 kB\nPss: 1 kB\nSigIgn:\tffffffffffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, s, err := parseStatm(b); err == nil && s > r {
			t.Errorf("more pages are shared (%d) than resident (%d)", s, r)
		}
		_, _, _ = parseSchedstat(b)
		_, _, _ = parsePSS(b)
		_, _ = keyed(b, "usage_usec")
		ignoresChildren(b)
		var file ioFile
		_ = parseIO(b, &file)
	})
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "18446744073709551615": 1<<64 - 1, "007": 7} {
		if v, ok := number([]byte(text)); !ok || v != want {
			t.Errorf("%s: %d %v", text, v, ok)
		}
	}
	for _, bad := range []string{"", "-1", "18446744073709551616", "99999999999999999999", "1x", "123456789012345678901"} {
		if v, ok := number([]byte(bad)); ok {
			t.Errorf("%q was taken for %d", bad, v)
		}
	}
}

func TestParseCgroups(t *testing.T) {
	const own = "9:name=systemd:/\n4:memory:/slurm/uid_1/job_2\n2:cpuacct,cpu:/a b\n0::/user.slice/session-1.scope\n"
	const mounts = `30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 /slurm /sys/fs/cgroup/mem\040ory rw shared:9 - cgroup cgroup rw,memory
33 23 0:29 /elsewhere /mnt rw - cgroup2 cgroup2 rw
34 23 0:30 / /proc rw - proc proc rw
`
	got, err := parseCgroups([]byte(own), strings.NewReader(mounts))
	if err != nil {
		t.Fatal(err)
	}
	want := []hierarchy{
		{nil, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user.slice/session-1.scope"},
		{[]string{"cpu", "cpuacct"}, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a b"},
		{[]string{"memory"}, "/sys/fs/cgroup/mem ory", "/sys/fs/cgroup/mem ory/uid_1/job_2"},
	}
	if !slices.EqualFunc(got, want, func(a, b hierarchy) bool {
		return a.mount == b.mount && a.dir == b.dir && slices.Equal(a.controllers, b.controllers)
	}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func FuzzParseCgroups(f *testing.F) {
	f.Add([]byte("4:memory:/a\n0::/b\n"), "32 23 0:28 / /sys/fs/cgroup/mem rw - cgroup cgroup rw,memory\n")
	f.Add([]byte("0::/../..\n"), `1 1 0:1 / /x\04 rw - cgroup2 cgroup2 rw`)
	f.Fuzz(func(t *testing.T, own []byte, mounts string) {
		got, _ := parseCgroups(own, strings.NewReader(mounts))
		for _, h := range got {
			if strings.HasPrefix(h.mount, "/") && strings.Contains(h.dir+"/", "/../") {
				t.Errorf("%+v leaves its mount point", h)
			}
		}
	})
}

func TestParseList(t *testing.T) {
	got, err := parseList("0-2,5")
	if err != nil || !slices.Equal(got, []int{0, 1, 2, 5}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "a", "3-1", "1-", "0-99999999"} {
		if l, err := parseList(bad); err == nil {
			t.Errorf("%q was taken for %d processors", bad, len(l))
		}
	}
}

// side writes one side-band record as the kernel does.
func side(kind uint32, misc uint16, time uint64, body []byte) []byte {
	e := binary.NativeEndian
	b := e.AppendUint32(nil, kind)
	b = e.AppendUint16(b, misc)
	b = e.AppendUint16(b, uint16(8+len(body)+16))
	b = append(b, body...)
	b = append(b, make([]byte, 8)...) // pid, tid
	return e.AppendUint64(b, time)
}

func words(v ...uint32) (b []byte) {
	for _, w := range v {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return b
}

func forkRecord(kind uint32, time uint64, pid, ppid, tid, ptid uint32) []byte {
	return side(kind, 0, time, binary.NativeEndian.AppendUint64(words(pid, ppid, tid, ptid), time))
}

// A process is born, takes a name, starts a thread and ends; its CPU time comes after its end.
func TestRecords(t *testing.T) {
	const pid = 5_000_000 // above what Linux ever gives out: no real clock answers
	read := func(time uint64, pid, tid uint32, ns uint64) []byte {
		return side(unix.PERF_RECORD_READ, 0, time, binary.NativeEndian.AppendUint64(words(pid, tid), ns))
	}
	var b []byte
	b = append(b, forkRecord(unix.PERF_RECORD_FORK, 1, pid, 10, pid, 10)...)
	b = append(b, side(unix.PERF_RECORD_COMM, unix.PERF_RECORD_MISC_COMM_EXEC, 2, append(words(pid, pid), "worker\x00\x00"...))...)
	b = append(b, forkRecord(unix.PERF_RECORD_FORK, 3, pid, pid, pid+1, pid)...)
	b = append(b, side(unix.PERF_RECORD_COMM, 0, 4, append(words(pid, pid+1), "thread\x00\x00"...))...)
	b = append(b, forkRecord(unix.PERF_RECORD_EXIT, 5, pid, 10, pid+1, pid+1)...)
	b = append(b, read(6, pid, pid+1, 300)...)
	b = append(b, forkRecord(unix.PERF_RECORD_EXIT, 7, pid, 10, pid, pid)...)
	b = append(b, read(8, pid, pid, 700)...)
	b = append(b, side(unix.PERF_RECORD_LOST, 0, 9, binary.NativeEndian.AppendUint64(make([]byte, 8), 5))...)
	records := parseRecords(b, nil)
	if len(records) != 9 {
		t.Fatalf("%d records, want 9", len(records))
	}
	tree := newTree(1, t.TempDir()) // an empty /proc
	tree.byEvents = true
	tree.add(10, 1)
	w := &perfWatch{rings: make([]perfRing, 1)}
	for i := range records {
		w.apply(&records[i], tree, float64(records[i].time))
		if p := tree.procs[pid]; i < 6 && (p == nil || p.dead) {
			t.Fatalf("dead after record %d, while a thread lives", i)
		}
	}
	p := tree.procs[pid]
	if !p.dead || p.reads != 0 || p.cpu() != 1000 || p.comm.String() != "worker" || w.lost != 5 {
		t.Errorf("dead %v, %d records due, %d ns, name %s, lost %d; want true, 0, 1000, worker, 5", p.dead, -p.reads, p.cpu(), p.comm, w.lost)
	}
	tree.fold(p)
	if c := tree.commands["worker"]; c == nil || c.n != 1 || c.cpu != 1000 || tree.started != 2 {
		t.Errorf("commands %+v, started %d", tree.commands, tree.started)
	}
}

func FuzzParseRecords(f *testing.F) {
	f.Add(forkRecord(unix.PERF_RECORD_FORK, 1, 20, 10, 20, 10))
	f.Add(side(unix.PERF_RECORD_COMM, 0, 2, append(words(20, 20), "x"...)))
	f.Add([]byte{7, 0, 0, 0, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		tree := newTree(1, "/nowhere")
		tree.byEvents = true
		w := &perfWatch{rings: make([]perfRing, 1)}
		records := parseRecords(b, nil)
		if len(records) > len(b)/24 {
			t.Errorf("%d records out of %d bytes", len(records), len(b))
		}
		for i := range records {
			w.apply(&records[i], tree, 0)
		}
		tree.sweep(func(*proc) bool { return true })
	})
}
