package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"reckon/sensor"
)

func TestMemoryStat(t *testing.T) {
	page, huge := uint64(os.Getpagesize()), uint64(2<<20)
	withoutHuge := func(b []byte, _ uint64, c *sensor.Cgroup) bool { return parseLegacyMemoryStat(b, 0, c) }
	for _, tt := range []struct {
		name  string
		parse func([]byte, uint64, *sensor.Cgroup) bool
		text  string
		whole bool
		want  sensor.Cgroup
	}{
		{"since 5.18", parseMemoryStat,
			"anon 100\nfile 60\ninactive_file 15\nkernel 50\nkernel_stack 5\npagetables 6\nsock 7\nshmem 20\nslab_reclaimable " +
				"30\nslab_unreclaimable 9\nworkingset_refault_anon 2\nworkingset_refault_file 3\n", true, sensor.Cgroup{
				Have: sensor.CgroupInactive | sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupRefaults, InactiveFile: 15,
				Anon: 100, File: 40, Shmem: 20, Kernel: 50 - 30 + 7, RefaultAnon: 2 * page, RefaultFile: 3 * page}},
		{"before 5.18", parseMemoryStat,
			"anon 100\nfile 60\nkernel_stack 5\npagetables 6\npercpu 1\nsock 7\nshmem 20\nslab_reclaimable 30\nslab_unreclaimable " +
				"9\nworkingset_refault 4\n", true, sensor.Cgroup{
				Have: sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupRefaults,
				Anon: 100, File: 40, Shmem: 20, Kernel: 5 + 6 + 1 + 7 + 9, RefaultFile: 4 * page}},
		{"kernel memory not accounted", parseMemoryStat, "anon 100\nfile 60\nsock 0\n", true, sensor.Cgroup{Anon: 100, File: 60}},
		{"slab lags behind", parseMemoryStat, "anon 1\nfile 2\nkernel 5\nslab_reclaimable 9\n", true, sensor.Cgroup{
			Have: sensor.CgroupKernel, Anon: 1, File: 2}},
		{"more shmem than cache", parseMemoryStat, "anon 1\nfile 2\nshmem 3\n", true,
			sensor.Cgroup{Have: sensor.CgroupShmem, Anon: 1, Shmem: 3}},
		{"half", parseMemoryStat, "file 2\n", false, sensor.Cgroup{File: 2}},
		{"version 1", parseLegacyMemoryStat,
			"rss 1\ncache 2\ninactive_file 1\ntotal_inactive_file 15\nworkingset_refault_file 9\ntotal_rss 100\ntotal_cache " +
				"60\ntotal_shmem 20\ntotal_swap 8\ntotal_workingset_refault_anon 2\ntotal_workingset_refault_file " +
				"3\nhierarchical_memory_limit 500\n", true, sensor.Cgroup{
				Have: sensor.CgroupInactive | sensor.CgroupShmem | sensor.CgroupSwap | sensor.CgroupRefaults, InactiveFile: 15,
				Anon: 100, File: 40, Shmem: 20, Swap: 8, RefaultAnon: 2 * page, RefaultFile: 3 * page}},
		{"faults and huge pages", parseMemoryStat, "anon 100\nfile 60\nanon_thp 30\nfile_thp 2\nshmem_thp 1\npgfault 500\npgmajfault 7\n",
			true, sensor.Cgroup{
				Have: sensor.CgroupFaults | sensor.CgroupHuge, Anon: 100, File: 60, Faults: 500, MajorFaults: 7, HugeBytes: 33}},
		{"the same, version 1", parseLegacyMemoryStat,
			"rss_huge 1\npgfault 3\ntotal_rss 100\ntotal_cache 60\ntotal_rss_huge 30\ntotal_pgfault 500\ntotal_pgmajfault 7\n", true,
			sensor.Cgroup{
				Have: sensor.CgroupFaults | sensor.CgroupHuge, Anon: 100, File: 60, Faults: 500, MajorFaults: 7, HugeBytes: 30}},
		{"huge pages were filled", parseMemoryStat, "anon 100\nfile 60\npgfault 500\nthp_fault_alloc 2\nthp_collapse_alloc 1\n", true,
			sensor.Cgroup{Have: sensor.CgroupFaults | sensor.CgroupFilled, Anon: 100, File: 60, Faults: 500, Filled: 500*page + 3*huge}},
		{"version 1 counts a huge page as one charge", parseLegacyMemoryStat, "total_rss 100\ntotal_cache 60\ntotal_pgpgin 40\n", true,
			sensor.Cgroup{Anon: 100, File: 60}},
		{"version 1 where there are none", withoutHuge, "total_rss 100\ntotal_cache 60\ntotal_pgpgin 40\n", true,
			sensor.Cgroup{Have: sensor.CgroupFilled, Anon: 100, File: 60, Filled: 40 * page}},
		{"version 1 before 3.14", parseLegacyMemoryStat, "total_rss 100\ntotal_cache 60\n", true, sensor.Cgroup{Anon: 100, File: 60}},
	} {
		got := sensor.Cgroup{HugeBytes: 9} // of the reading before, which does not add up
		if whole := tt.parse([]byte(tt.text), huge, &got); got != tt.want || whole != tt.whole {
			t.Errorf("%s: %v\n got %+v\nwant %+v", tt.name, whole, got, tt.want)
		}
	}
}

// TestNeededMemory: what a job needs is what it holds itself, however large the page cache.
func TestNeededMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		paths []sensor.CgroupPath
		want  uint64
	}{
		"slurm-22.05-v1.txtar": {[]sensor.CgroupPath{{Controllers: "memory", Path: "/slurm_vm/uid_1001/job_14/step_0"}}, 86925312},
		"slurm-v2.txtar": {[]sensor.CgroupPath{{Path: "/user.slice/user-20821.slice"}},
			17854464 + 16384 + 4354048 - 865472},
	} {
		r, _ := machine(t, name)
		var c sensor.Cgroup
		if err := open(t, r, tt.paths...).Read(&c); err != nil {
			t.Fatal(err)
		}
		if c.Needed() != tt.want {
			t.Errorf("%s: %d bytes needed, want %d", name, c.Needed(), tt.want)
		}
	}
}

// TestMemoryBeyondTheMachine: memory that the machine does not have, or more than twice the limit of the group, is absent and
// named; the rest of the reading stays.
func TestMemoryBeyondTheMachine(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n")
	group := func(anon, current, peak, limit string) {
		for name, v := range map[string]string{"memory.stat": "anon " + anon + "\nfile 4096\nshmem 0\nkernel 0\n",
			"memory.current": current,
			"memory.peak":    peak, "memory.max": limit, "cpu.stat": "usage_usec 100\nuser_usec 60\nsystem_usec 40\n"} {
			put("sys/fs/cgroup/job/"+name, v+"\n")
		}
	}
	group("1048576", "2097152", "3145728", "max")
	r, err := New(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := open(t, r, sensor.CgroupPath{Path: "/job"})
	for i, c := range []struct {
		anon, current, peak, limit string
		have                       sensor.CgroupFields
	}{
		{"1048576", "2097152", "3145728", "max", sensor.CgroupMemory | sensor.CgroupPeak},
		{"966367641600", "2097152", "3145728", "max", sensor.CgroupPeak},
		{"1048576", "2097152", "18446744073709547520", "max", sensor.CgroupMemory},
		{"1048576", "18446744073709547520", "3145728", "max", sensor.CgroupPeak},
		{"8589934592", "8589934592", "8589934592", "max", sensor.CgroupMemory | sensor.CgroupPeak},
		{"8589934592", "2097152", "2097152", "1073741824", sensor.CgroupPeak},
		{"1048576", "2097152", "3145728", "1073741824", sensor.CgroupMemory | sensor.CgroupPeak},
	} {
		group(c.anon, c.current, c.peak, c.limit)
		var got sensor.Cgroup
		if err := h.Read(&got); err != nil {
			t.Fatal(err)
		}
		n, alone := sensor.Implausible(r.Refused())
		if have := got.Have & (sensor.CgroupMemory | sensor.CgroupPeak); have != c.have || !alone ||
			(n > 0) != (c.have != sensor.CgroupMemory|sensor.CgroupPeak) {
			t.Errorf("step %d: have %b, want %b, %d refused", i, have, c.have, n)
		}
		if got.Have&sensor.CgroupCPU == 0 {
			t.Errorf("step %d: the CPU time is gone", i)
		}
	}
}
