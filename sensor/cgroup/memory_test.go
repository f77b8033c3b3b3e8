package cgroup

import (
	"os"
	"testing"

	"reckon/sensor"
)

func TestMemoryStat(t *testing.T) {
	page := uint64(os.Getpagesize())
	for _, tt := range []struct {
		name  string
		parse func([]byte, *sensor.Cgroup) bool
		text  string
		whole bool
		want  sensor.Cgroup
	}{
		{"since 5.18", parseMemoryStat, "anon 100\nfile 60\ninactive_file 15\nkernel 50\nkernel_stack 5\npagetables 6\nsock 7\nshmem 20\nslab_reclaimable 30\nslab_unreclaimable 9\nworkingset_refault_anon 2\nworkingset_refault_file 3\n", true, sensor.Cgroup{
			Have: sensor.CgroupInactive | sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupRefaults, InactiveFile: 15,
			Anon: 100, File: 40, Shmem: 20, Kernel: 50 - 30 + 7, RefaultAnon: 2 * page, RefaultFile: 3 * page}},
		{"before 5.18", parseMemoryStat, "anon 100\nfile 60\nkernel_stack 5\npagetables 6\npercpu 1\nsock 7\nshmem 20\nslab_reclaimable 30\nslab_unreclaimable 9\nworkingset_refault 4\n", true, sensor.Cgroup{
			Have: sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupRefaults,
			Anon: 100, File: 40, Shmem: 20, Kernel: 5 + 6 + 1 + 7 + 9, RefaultFile: 4 * page}},
		{"kernel memory not accounted", parseMemoryStat, "anon 100\nfile 60\nsock 0\n", true, sensor.Cgroup{Anon: 100, File: 60}},
		{"slab lags behind", parseMemoryStat, "anon 1\nfile 2\nkernel 5\nslab_reclaimable 9\n", true, sensor.Cgroup{
			Have: sensor.CgroupKernel, Anon: 1, File: 2}},
		{"more shmem than cache", parseMemoryStat, "anon 1\nfile 2\nshmem 3\n", true, sensor.Cgroup{Have: sensor.CgroupShmem, Anon: 1, Shmem: 3}},
		{"half", parseMemoryStat, "file 2\n", false, sensor.Cgroup{File: 2}},
		{"version 1", parseLegacyMemoryStat, "rss 1\ncache 2\ninactive_file 1\ntotal_inactive_file 15\nworkingset_refault_file 9\ntotal_rss 100\ntotal_cache 60\ntotal_shmem 20\ntotal_swap 8\ntotal_workingset_refault_anon 2\ntotal_workingset_refault_file 3\nhierarchical_memory_limit 500\n", true, sensor.Cgroup{
			Have: sensor.CgroupInactive | sensor.CgroupShmem | sensor.CgroupSwap | sensor.CgroupRefaults, InactiveFile: 15,
			Anon: 100, File: 40, Shmem: 20, Swap: 8, RefaultAnon: 2 * page, RefaultFile: 3 * page}},
		{"faults and huge pages", parseMemoryStat, "anon 100\nfile 60\nanon_thp 30\nfile_thp 2\nshmem_thp 1\npgfault 500\npgmajfault 7\n", true, sensor.Cgroup{
			Have: sensor.CgroupFaults | sensor.CgroupHuge, Anon: 100, File: 60, Faults: 500, MajorFaults: 7, HugeBytes: 33}},
		{"the same, version 1", parseLegacyMemoryStat, "rss_huge 1\npgfault 3\ntotal_rss 100\ntotal_cache 60\ntotal_rss_huge 30\ntotal_pgfault 500\ntotal_pgmajfault 7\n", true, sensor.Cgroup{
			Have: sensor.CgroupFaults | sensor.CgroupHuge, Anon: 100, File: 60, Faults: 500, MajorFaults: 7, HugeBytes: 30}},
		{"version 1 before 3.14", parseLegacyMemoryStat, "total_rss 100\ntotal_cache 60\n", true, sensor.Cgroup{Anon: 100, File: 60}},
	} {
		got := sensor.Cgroup{HugeBytes: 9} // of the reading before, which does not add up
		if whole := tt.parse([]byte(tt.text), &got); got != tt.want || whole != tt.whole {
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
