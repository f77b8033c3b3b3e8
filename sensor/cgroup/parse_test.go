package cgroup

import (
	"strings"
	"testing"

	"reckon/sensor"
)

func TestParsers(t *testing.T) {
	split := func(b []byte, c *sensor.Cgroup) { parseCPUStat(b, c) }
	for _, tt := range []struct {
		name  string
		parse func([]byte, *sensor.Cgroup)
		text  string
		want  sensor.Cgroup
	}{
		{"no controller", split, "usage_usec 3\nuser_usec 2\nsystem_usec 1\n", sensor.Cgroup{
			Have: sensor.CgroupCPU | sensor.CgroupCPUSplit, UsageNanos: 3000, UserNanos: 2000, SystemNanos: 1000}},
		{"throttled", split, "nr_periods 9\nnr_throttled 4\nthrottled_usec 5\n", sensor.Cgroup{
			Have: sensor.CgroupThrottle | sensor.CgroupPeriods, Periods: 9, ThrottledPeriods: 4, ThrottledNanos: 5000}},
		{"one half", split, "user_usec 2\n", sensor.Cgroup{UserNanos: 2000}},
		{"no number", split, "usage_usec x\nusage_usec\nusage_usec 1x\nusage_usec -1\n", sensor.Cgroup{}},
		{"beyond 64 bits", split, "usage_usec 18446744073709551616\n", sensor.Cgroup{}},
		{"beyond 64 bits in ns", split, "usage_usec 18446744073709551615\n", sensor.Cgroup{Have: sensor.CgroupCPU, UsageNanos: 1<<64 - 1}},
		{"v1 throttle", parseThrottle, "nr_periods 9\nnr_throttled 4\nthrottled_time 5\n", sensor.Cgroup{
			Have: sensor.CgroupThrottle | sensor.CgroupPeriods, Periods: 9, ThrottledPeriods: 4, ThrottledNanos: 5}},
		{"acct", parseAcct, "user 3\nsystem 4\n", sensor.Cgroup{Have: sensor.CgroupCPUSplit, UserNanos: 30e6, SystemNanos: 40e6}},
		{"events", parseMemoryEvents, "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n", sensor.Cgroup{
			Have: sensor.CgroupEvents | sensor.CgroupMemoryEvents, OOMKills: 5, MaxEvents: 3, OOMEvents: 4}},
		{"events before 4.13", parseMemoryEvents, "low 1\nhigh 2\nmax 3\noom 4\n", sensor.Cgroup{
			Have: sensor.CgroupMemoryEvents, MaxEvents: 3, OOMEvents: 4}},
		{"oom_control", parseMemoryEvents, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", sensor.Cgroup{Have: sensor.CgroupEvents, OOMKills: 2}},
		{"cpu.max", parseCPUMax, "150000 100000\n", sensor.Cgroup{Have: sensor.CgroupCPUMax, CPUMax: 1.5}},
		{"no cpu.max", parseCPUMax, "max 100000\n", sensor.Cgroup{}},
		{"period 0", parseCPUMax, "150000 0\n", sensor.Cgroup{}},
	} {
		var got sensor.Cgroup
		if tt.parse([]byte(tt.text), &got); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func TestIOLayers(t *testing.T) {
	stack := map[device]deviceLayer{{253, 0}: layerTop, {253, 1}: layerMiddle, {7, 0}: layerIgnored}
	layerOf := func(d device) deviceLayer { return stack[d] }
	for _, tt := range []struct {
		name, text  string
		read, write uint64
	}{
		{"one disk", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n", 10, 20},
		{"two disks", "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=1 wbytes=2\n", 11, 22},
		{"volume on a disk", "8:0 rbytes=10 wbytes=20\n253:0 rbytes=10 wbytes=20\n", 10, 20},
		{"three layers", "8:0 rbytes=10 wbytes=20\n253:1 rbytes=10 wbytes=20\n253:0 rbytes=10 wbytes=20\n", 10, 20},
		{"encryption writes on nobody's behalf", "8:0 rbytes=10 wbytes=0\n253:0 rbytes=10 wbytes=20\n", 10, 20},
		{"loop", "8:0 rbytes=10 wbytes=20\n7:0 rbytes=5 wbytes=5\n", 10, 20},
		{"nothing", "", 0, 0},
		{"no figures", "8:0 \n8:0\nnonsense\n:\n", 0, 0},
	} {
		var sum ioTraffic
		parseIOStat([]byte(tt.text), &sum, layerOf)
		if r, w := sum.total(); r != tt.read || w != tt.write {
			t.Errorf("%s: %d, %d; want %d, %d", tt.name, r, w, tt.read, tt.write)
		}
	}
	var sum ioTraffic
	ok := parseBlkio([]byte("8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 4096\n8:0 Async 8192\n8:0 Discard 0\n8:0 Total 12288\n253:0 Read 4096\n253:0 Write 8192\nTotal 24576\n"), &sum, layerOf)
	if r, w := sum.total(); !ok || r != 4096 || w != 8192 {
		t.Errorf("blkio: %d, %d, %v", r, w, ok)
	}
	if parseBlkio([]byte("Total 0\n"), &sum, layerOf) {
		t.Error("a blkio file that counts no device was taken for zero")
	}
	if parseBlkio([]byte("8:0 Read 4096\n"), &sum, layerOf) {
		t.Error("a blkio file without its total was taken for whole")
	}
}

func TestDeviceLayers(t *testing.T) {
	root := t.TempDir()
	block := root + "/sys/dev/block/"
	write(t, block+"8:0/holders/.keep", "")
	write(t, block+"8:1/slaves/sda1/dev", "8:1")
	write(t, block+"253:0/slaves/sda/dev", "8:0")
	write(t, block+"253:1/slaves/sda/dev", "8:0")
	write(t, block+"253:1/holders/dm-0/dev", "253:0")
	d := newDevices(root)
	for dev, want := range map[device]deviceLayer{
		{8, 0}: layerBottom, {9, 9}: layerBottom, {253, 0}: layerTop, {253, 1}: layerMiddle, {7, 3}: layerIgnored, {1, 0}: layerIgnored,
	} {
		if got := d.look(dev); got != want {
			t.Errorf("%v: layer %d, want %d", dev, got, want)
		}
	}
}

// Whatever the bytes, no parser panics, and the bits keep their meaning.
func FuzzFiles(f *testing.F) {
	for _, s := range []string{
		"usage_usec 131721\nuser_usec 47997\nsystem_usec 83723\nnr_throttled 0\nthrottled_usec 0\n",
		"anon 1933312\nfile 1302528\nshmem 1\n", "total_rss 1\ntotal_cache 2\nhierarchical_memory_limit 9223372036854771712\n",
		"low 0\nmax 0\noom_kill 0\n", "8:0 rbytes=1 wbytes=2\n", "8:0 Read 1\nTotal 1\n", "max 100000\n", "-1\n", "5\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull total=4\n", "some total=18446744073709551616", "\n\n \n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		sources := append(unifiedSources(), legacySources()...)
		for i := range sources {
			r := reading{devices: newDevices("/nonexistent")}
			sources[i].parse(text, &r)
			r.combineFigures()
			if r.Have&sensor.CgroupCPUMax != 0 && !(r.CPUMax > 0) {
				t.Errorf("%s: CPUMax %v", sources[i].names[0], r.CPUMax)
			}
			if r.Have&sensor.CgroupMemoryMax != 0 && r.MemoryMax >= 1<<62 {
				t.Errorf("%s: MemoryMax %v", sources[i].names[0], r.MemoryMax)
			}
			if r.Have&sensor.CgroupMemory != 0 {
				t.Errorf("%s: memory from one file", sources[i].names[0])
			}
			if r.Have != 0 && !strings.ContainsAny(string(text), "0123456789") && r.Have != sensor.CgroupIO {
				t.Errorf("%s: figures %b without a digit", sources[i].names[0], r.Have)
			}
		}
	})
}
