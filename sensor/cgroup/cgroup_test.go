package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"reckon/sensor"
)

// machine unpacks a recorded machine and opens a reader on it.
func machine(t testing.TB, name string) (*Reader, string) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range a.Files {
		write(t, filepath.Join(root, f.Name), string(f.Data))
	}
	return reader(t, root), root
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func reader(t testing.TB, root string) *Reader {
	t.Helper()
	r, err := New(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t testing.TB, r *Reader, paths ...sensor.CgroupPath) sensor.CgroupHandle {
	t.Helper()
	h, err := r.Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// TestBudget: with the quarter of the limit that the task table of /proc may keep, an eighth is left for everything else.
func TestBudget(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if got := uint64(maxOpenFiles()); got == 0 || got+limit.Cur/4 > limit.Cur-limit.Cur/8 {
		t.Errorf("%d of %d files", got, limit.Cur)
	}
}

func TestRecordedTrees(t *testing.T) {
	const (
		cpuV2  = sensor.CgroupCPU | sensor.CgroupCPUSplit | sensor.CgroupThrottle | sensor.CgroupPeriods
		memory = sensor.CgroupMemory | sensor.CgroupPeak

		unifiedMemory = sensor.CgroupInactive | sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupRefaults | sensor.CgroupMemoryEvents |
			sensor.CgroupFaults | sensor.CgroupHuge
	)
	for _, tt := range []struct {
		machine string
		paths   []sensor.CgroupPath
		want    sensor.Cgroup
	}{
		{"slurm-v2.txtar", []sensor.CgroupPath{{Path: "/user.slice/user-20821.slice"}}, sensor.Cgroup{
			Have:       cpuV2 | memory | sensor.CgroupSwap | sensor.CgroupEvents | sensor.CgroupPIDs | sensor.CgroupMemoryMax | sensor.CgroupCPUMax | unifiedMemory,
			UsageNanos: 17975873000, UserNanos: 15270449000, SystemNanos: 2705424000,
			Current: 27115520, Anon: 17854464, File: 4771840 - 16384, Shmem: 16384, Kernel: 4354048 - 865472, Peak: 315523072, InactiveFile: 4374528,
			Periods: 96, PIDs: 12, MemoryMax: 2147483648, CPUMax: 1, Faults: 980544, MajorFaults: 1, HugeBytes: 4 << 20,
		}},
		{"slurm-v2.txtar", []sensor.CgroupPath{{Path: "/system.slice/slurmstepd.scope/job_4/step_0"}}, sensor.Cgroup{
			Have:       cpuV2 | memory | sensor.CgroupSwap | sensor.CgroupEvents | unifiedMemory | sensor.CgroupFilled,
			UsageNanos: 131721000, Filled: 10820 * uint64(os.Getpagesize()), UserNanos: 47997000, SystemNanos: 83723000,
			Current: 5300224, Anon: 1933312, File: 1302528, Kernel: 1896448 - 744088, Peak: 5603328, InactiveFile: 1286144, Faults: 10820,
		}},
		// These two recordings lack memory.limit_in_bytes. A kernel that has no oom_kill in memory.oom_control, and an empty cpu.stat.
		{"slurm-torque-v1.txtar", []sensor.CgroupPath{
			{Controllers: "cpuacct,cpu", Path: "/torque/1182724.batch"}, {Controllers: "memory", Path: "/torque/1182724.batch"},
		}, sensor.Cgroup{
			Have:       sensor.CgroupCPU | sensor.CgroupCPUSplit | memory | sensor.CgroupSwap | sensor.CgroupInactive | sensor.CgroupFaults | sensor.CgroupHuge,
			UsageNanos: 152995785583781, UserNanos: 153146310000000, SystemNanos: 260770000000,
			Current: 82553999360, Anon: 82444320768, File: 109678592, Peak: 113726775296, InactiveFile: 104370176, Faults: 6233168, MajorFaults: 158, HugeBytes: 82126569472,
		}},
		{"slurm-22.05-v1.txtar", []sensor.CgroupPath{
			{Controllers: "name=systemd", Path: "/"}, {Controllers: "freezer", Path: "/slurm_vm/uid_1001/job_14/step_0"},
			{Controllers: "cpuacct", Path: "/slurm_vm/uid_1001/job_14/step_0"}, {Controllers: "memory", Path: "/slurm_vm/uid_1001/job_14/step_0"},
			{Path: "/"},
		}, sensor.Cgroup{
			Have: sensor.CgroupCPU | sensor.CgroupCPUSplit | memory | sensor.CgroupSwap | sensor.CgroupEvents |
				sensor.CgroupShmem | sensor.CgroupRefaults | sensor.CgroupInactive | sensor.CgroupFaults | sensor.CgroupHuge,
			UsageNanos: 7634396466, UserNanos: 7550000000, SystemNanos: 70000000,
			Current: 87592960, Anon: 86925312, File: 57344, Peak: 87896064, InactiveFile: 12288, RefaultFile: 11 * uint64(os.Getpagesize()),
			Faults: 21581, MajorFaults: 1,
		}},
	} {
		r, _ := machine(t, tt.machine)
		var got sensor.Cgroup
		if err := open(t, r, tt.paths...).Read(&got); err != nil {
			t.Errorf("%s %v: %v", tt.machine, tt.paths, err)
		}
		if got != tt.want {
			t.Errorf("%s %v:\n got %+v\nwant %+v", tt.machine, tt.paths, got, tt.want)
		}
	}
}

const unifiedMount = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

func TestRemovedGroup(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/proc/self/mountinfo", unifiedMount)
	write(t, root+"/sys/fs/cgroup/a/cpu.stat", "usage_usec 5\n")
	r := reader(t, root)
	if _, err := r.Open([]sensor.CgroupPath{{Path: "/b"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a group that is not there: %v", err)
	}
	h := open(t, r, sensor.CgroupPath{Path: "/a"})
	var c sensor.Cgroup
	if err := h.Read(&c); err != nil || c.UsageNanos != 5000 || c.Have != sensor.CgroupCPU {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.RemoveAll(root + "/sys/fs/cgroup/a"); err != nil {
		t.Fatal(err)
	}
	if err := h.Read(&c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	if c.UsageNanos != 5000 {
		t.Errorf("the last reading was not kept: %+v", c)
	}
}

func TestFileAppears(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/proc/self/mountinfo", unifiedMount)
	write(t, root+"/sys/fs/cgroup/a/cpu.stat", "usage_usec 5\n")
	h := open(t, reader(t, root), sensor.CgroupPath{Path: "/a"})
	write(t, root+"/sys/fs/cgroup/a/pids.current", "3\n")
	var c sensor.Cgroup
	for range retryAfterReadings {
		if err := h.Read(&c); err != nil {
			t.Fatal(err)
		}
	}
	if c.Have&sensor.CgroupPIDs == 0 || c.PIDs != 3 {
		t.Errorf("pids.current was not found: %+v", c)
	}
}

func TestOverBudget(t *testing.T) {
	r, _ := machine(t, "slurm-v2.txtar")
	path := sensor.CgroupPath{Path: "/user.slice/user-20821.slice"}
	var kept, opened sensor.Cgroup
	if err := open(t, r, path).Read(&kept); err != nil {
		t.Fatal(err)
	}
	r.budget = 0
	h := open(t, r, path)
	before := r.kept
	if err := h.Read(&opened); err != nil || opened != kept {
		t.Errorf("%v\n got %+v\nwant %+v", err, opened, kept)
	}
	if r.kept != before {
		t.Errorf("a handle over the budget keeps %d descriptors more", r.kept-before)
	}
	if n := testing.AllocsPerRun(100, func() { _ = h.Read(&opened) }); n != 0 {
		t.Errorf("%v allocations per reading", n)
	}
}

func TestDescriptorsAreGivenBack(t *testing.T) {
	r, _ := machine(t, "slurm-22.05-v1.txtar")
	h, err := r.Open([]sensor.CgroupPath{{Controllers: "cpuacct", Path: "/slurm_vm"}, {Controllers: "memory", Path: "/slurm_vm"}})
	if err != nil {
		t.Fatal(err)
	}
	if r.kept < 5 {
		t.Errorf("only %d descriptors kept", r.kept)
	}
	if err := h.Close(); err != nil || r.kept != 0 {
		t.Errorf("%d descriptors left: %v", r.kept, err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := h.Read(new(sensor.Cgroup)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reading after Close: %v", err)
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	for name, paths := range map[string][]sensor.CgroupPath{
		"slurm-v2.txtar":       {{Path: "/user.slice/user-20821.slice"}},
		"slurm-22.05-v1.txtar": {{Controllers: "cpuacct", Path: "/slurm_vm"}, {Controllers: "memory", Path: "/slurm_vm"}},
	} {
		r, _ := machine(t, name)
		h := open(t, r, paths...)
		var c sensor.Cgroup
		if n := testing.AllocsPerRun(200, func() {
			if err := h.Read(&c); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per reading", name, n)
		}
	}
}

func TestLargeFile(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/proc/self/mountinfo", unifiedMount)
	text := make([]byte, 0, 100<<10)
	for len(text) < 90<<10 {
		text = append(text, "unknown_key 1\n"...)
	}
	write(t, root+"/sys/fs/cgroup/cpu.stat", string(append(text, "usage_usec 7\n"...)))
	var c sensor.Cgroup
	if err := open(t, reader(t, root), sensor.CgroupPath{Path: "/"}).Read(&c); err != nil || c.UsageNanos != 7000 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Hybrid: version 1 owns memory, version 2 the rest; the figures of memory must not be
// taken from the file of version 2, pressure may.
func TestHybrid(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
	v2, v1 := root+"/sys/fs/cgroup/unified/s/", root+"/sys/fs/cgroup/memory/s/"
	write(t, v2+"cpu.stat", "usage_usec 1\nuser_usec 1\nsystem_usec 0\n")
	write(t, v2+"memory.current", "999\n")
	write(t, v2+"memory.stat", "anon 9\nfile 9\n")
	for i, name := range []string{"cpu", "memory", "io"} {
		write(t, v2+name+".pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total="+string(rune('1'+i))+"\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	}
	write(t, v1+"memory.usage_in_bytes", "500\n")
	write(t, v1+"memory.stat", "total_cache 100\ntotal_rss 400\ntotal_shmem 30\nhierarchical_memory_limit 25232932864\n") // the group of all pods
	write(t, v1+"memory.limit_in_bytes", "9223372036854771712\n")
	write(t, v1+"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
	write(t, v1+"memory.failcnt", "17\n")
	write(t, v1+"memory.kmem.usage_in_bytes", "60\n")
	var c sensor.Cgroup
	h := open(t, reader(t, root), sensor.CgroupPath{Path: "/s"}, sensor.CgroupPath{Controllers: "memory", Path: "/s"})
	if err := h.Read(&c); err != nil {
		t.Fatal(err)
	}
	want := sensor.Cgroup{
		Have: sensor.CgroupCPU | sensor.CgroupCPUSplit | sensor.CgroupMemory | sensor.CgroupEvents | sensor.CgroupPressure |
			sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupKernelBound,
		UsageNanos: 1000, UserNanos: 1000,
		Current: 500, Anon: 400, File: 70, Shmem: 30, Kernel: 60, OOMKills: 2,
		CPUWaitNanos: 1000, MemoryStallNanos: 2000, IOStallNanos: 3000,
	}
	if c != want {
		t.Errorf("\n got %+v\nwant %+v", c, want)
	}
	for text, limit := range map[string]uint64{
		"104857600": 104857600, "4611686018427387903": 1<<62 - 1, "4611686018427387904": 0, "9223372036854710272": 0, "-1": 0,
	} {
		write(t, v1+"memory.limit_in_bytes", text+"\n")
		if err := open(t, reader(t, root), sensor.CgroupPath{Controllers: "memory", Path: "/s"}).Read(&c); err != nil {
			t.Fatal(err)
		}
		if c.MemoryMax != limit || (c.Have&sensor.CgroupMemoryMax != 0) != (limit != 0) {
			t.Errorf("limit %s is read as %d", text, c.MemoryMax)
		}
	}
}

func TestNoHierarchy(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n")
	if _, err := New(Options{Root: root}); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("no hierarchy: %v", err)
	}
	if _, err := New(Options{Root: t.TempDir()}); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("no proc: %v", err)
	}
}

// TestGroupThatRests holds that the files of a group are read when it has run, and else after restTime, or after cpuOnlyTime if
// it used little CPU time.
func TestGroupThatRests(t *testing.T) {
	const most = uint64(5e6) // nanoseconds: less is little
	for _, v := range []struct {
		name, controllers, mounts, cpu, memory string
		usage                                  func(nanos uint64) string
	}{
		{"v2", "", unifiedMount, "cpu.stat", "memory.current", func(n uint64) string { return fmt.Sprintf("usage_usec %d\n", n/1000) }},
		{
			"v1", "cpuacct,memory", "31 25 0:27 / /sys/fs/cgroup rw - cgroup cgroup rw,cpuacct,memory\n", "cpuacct.usage", "memory.usage_in_bytes",
			func(n uint64) string { return fmt.Sprintln(n) },
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			root := t.TempDir()
			at := root + "/sys/fs/cgroup/a/"
			write(t, root+"/proc/self/mountinfo", v.mounts)
			write(t, at+"memory.stat", "anon 1\ntotal_rss 1\n")
			cpu, memory, last := uint64(0), 0, 0
			run := func(nanos uint64) {
				cpu += nanos
				write(t, at+v.cpu, v.usage(cpu))
			}
			run(8e9)
			write(t, at+v.memory, "0\n")
			r := reader(t, root)
			h := open(t, r, sensor.CgroupPath{Controllers: v.controllers, Path: "/a"})
			rester := h.(sensor.CgroupRester)
			if rester.Rest() {
				t.Error("a group that was never read rests")
			}
			// want changes memory and reads; all reports whether that is to be seen.
			want := func(why string, all bool) {
				t.Helper()
				memory++
				write(t, at+v.memory, fmt.Sprintln(memory))
				if all {
					last = memory
				}
				var c sensor.Cgroup
				if err := h.Read(&c); err != nil {
					t.Fatal(err)
				}
				if c.Current != uint64(last) || c.UsageNanos != cpu {
					t.Fatalf("%s: %d bytes, %d ns of CPU time, want %d and %d", why, c.Current, c.UsageNanos, last, cpu)
				}
			}
			want("the first reading", true)
			want("a copy of a tree", true)
			if rester.Rest() {
				t.Error("a copy of a tree rests")
			}
			r.lazy = true // as of the kernel's own
			open := r.kept
			for i := range 60 {
				want(fmt.Sprintf("reading %d of a group that rests", i+1), false)
			}
			if r.kept != open {
				t.Errorf("%d descriptors are open, want %d: it has rested for less than a minute", r.kept, open)
			}
			want("after 60 readings", true)
			if r.kept != open-3 {
				t.Errorf("%d descriptors are open, want %d: no file is kept open while the group rests", r.kept, open-3)
			}
			for range 60 {
				if !rester.Rest() {
					t.Fatal("an idle group is to be read within 60 ticks")
				}
			}
			if rester.Rest() {
				t.Error("an idle group rests for more than 60 ticks")
			}
			want("after 60 idle ticks", true)
			run(most)
			want("it used 5 ms", true)
			if r.kept != open-2 {
				t.Errorf("%d descriptors are open, want %d: it has run once, of its files that of CPU time stays", r.kept, open-2)
			}
			run(most - 1000)
			want("it used less", false)
			run(1000)
			want("it used 5 ms since all were read", true)
			run(1000)
			for i := range 10 {
				want(fmt.Sprintf("reading %d of a group that used little", i+1), false)
			}
			want("after 10 readings of a group that used little", true)
			if r.kept != open-2 {
				t.Errorf("%d descriptors are open, want %d: all files are read now and then only", r.kept, open-2)
			}
			for range openAfterReadings {
				run(most)
				want("a busy group", true)
			}
			if r.kept != open {
				t.Errorf("%d descriptors are open, want %d: all files are read each time", r.kept, open)
			}
		})
	}
}

// TestUnusedGroup: of a group in which nothing runs only what others change is read, but for each second minute, and all as soon as it has run.
func TestUnusedGroup(t *testing.T) {
	root := t.TempDir()
	at := root + "/sys/fs/cgroup/a/"
	write(t, root+"/proc/self/mountinfo", unifiedMount)
	set := func(cpu, memory, limit int) {
		for name, n := range map[string]int{"memory.current": memory, "memory.max": limit} {
			write(t, at+name, fmt.Sprintln(n))
		}
		write(t, at+"memory.stat", fmt.Sprintf("anon %d\nfile 0\nshmem 0\n", memory))
		write(t, at+"cpu.stat", fmt.Sprintf("usage_usec %d\n", cpu))
	}
	set(1, 10, 100)
	r := reader(t, root)
	r.lazy = true // as of the kernel's own
	h := open(t, r, sensor.CgroupPath{Path: "/a"})
	var c sensor.Cgroup
	minute := func() {
		t.Helper()
		for range 61 {
			if err := h.Read(&c); err != nil {
				t.Fatal(err)
			}
		}
	}
	minute()
	for i, x := range []struct{ cpu, memory, limit, wantMemory, wantLimit uint64 }{
		{1, 20, 200, 20, 100}, {1, 30, 300, 30, 300}, {2, 40, 400, 40, 400},
	} {
		set(int(x.cpu), int(x.memory), int(x.limit))
		minute()
		if c.Current != x.wantMemory || c.Anon != x.wantMemory || c.MemoryMax != x.wantLimit || c.UsageNanos != x.cpu*1000 ||
			c.Have&(sensor.CgroupMemory|sensor.CgroupMemoryMax|sensor.CgroupCPU) != sensor.CgroupMemory|sensor.CgroupMemoryMax|sensor.CgroupCPU {
			t.Errorf("minute %d: %+v", i, c)
		}
	}
}

// TestTickOfGroupsThatRest: the times hold whatever the tick.
func TestTickOfGroupsThatRest(t *testing.T) {
	for tick, want := range map[time.Duration][2]uint{
		0: {60, 10}, -1: {60, 10}, time.Second: {60, 10}, 2 * time.Second: {30, 5}, 100 * time.Millisecond: {600, 100}, 10 * time.Second: {6, 1}, 61 * time.Second: {0, 0},
	} {
		root := t.TempDir()
		write(t, root+"/proc/self/mountinfo", unifiedMount)
		write(t, root+"/sys/fs/cgroup/cpu.stat", "")
		r, err := New(Options{Root: root, Tick: tick})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]uint{r.rest, r.little}; got != want {
			t.Errorf("tick %v: %v, want %v", tick, got, want)
		}
	}
}
