package run

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "18446744073709551615": 1<<64 - 1, "007": 7} {
		if v, ok := parseNumber([]byte(text)); !ok || v != want {
			t.Errorf("%s: %d %v", text, v, ok)
		}
	}
	for _, bad := range []string{"", "-1", "18446744073709551616", "99999999999999999999", "1x", "123456789012345678901"} {
		if v, ok := parseNumber([]byte(bad)); ok {
			t.Errorf("%q was taken for %d", bad, v)
		}
	}
}

func TestHierarchies(t *testing.T) {
	paths := []sensor.CgroupPath{
		{Controllers: "name=systemd", Path: "/"}, {Controllers: "memory", Path: "/slurm/uid_1/job_2"},
		{Controllers: "cpuacct,cpu", Path: "/a b"}, {Path: "/user.slice/session-1.scope"},
	}
	const mounts = `30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 /slurm /sys/fs/cgroup/mem\040ory rw shared:9 - cgroup cgroup rw,memory
33 23 0:29 /elsewhere /mnt rw - cgroup2 cgroup2 rw
34 23 0:30 / /proc rw - proc proc rw
`
	want := []hierarchy{
		{nil, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user.slice/session-1.scope"},
		{[]string{"cpu", "cpuacct"}, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a b"},
		{[]string{"memory"}, "/sys/fs/cgroup/mem ory", "/sys/fs/cgroup/mem ory/uid_1/job_2"},
	}
	got := joinHierarchies(cgpath.ParseMounts([]byte(mounts)), paths)
	if !slices.EqualFunc(got, want, func(a, b hierarchy) bool {
		return a.mount == b.mount && a.dir == b.dir && slices.Equal(a.controllers, b.controllers)
	}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseList(t *testing.T) {
	got, err := parseCPUList("0-2,5")
	if err != nil || !slices.Equal(got, []int{0, 1, 2, 5}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "a", "3-1", "1-", "0-99999999"} {
		if l, err := parseCPUList(bad); err == nil {
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
	tree.addProcess(10, 1)
	w := &perfWatch{rings: make([]perfRing, 1)}
	for i := range records {
		w.applyRecord(&records[i], tree, float64(records[i].time))
		if p := tree.procs[pid]; i < 6 && (p == nil || p.dead) {
			t.Fatalf("dead after record %d, while a thread lives", i)
		}
	}
	p := tree.procs[pid]
	if !p.dead || p.reads != 0 || p.cpu() != 1000 || p.comm.String() != "worker" || w.lost != 5 {
		t.Errorf("dead %v, %d records due, %d ns, name %s, lost %d; want true, 0, 1000, worker, 5", p.dead, -p.reads, p.cpu(), p.comm, w.lost)
	}
	tree.foldDead(p)
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
			w.applyRecord(&records[i], tree, 0)
		}
		tree.foldReady(func(*treeProcess) bool { return true })
	})
}
