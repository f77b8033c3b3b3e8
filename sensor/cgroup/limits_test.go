package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// TestIOMax: limits in the form of Documentation/admin-guide/cgroup-v2.rst.
func TestIOMax(t *testing.T) {
	_, root := machine(t, "slurm-v2.txtar")
	const group = "/user.slice/user-20821.slice"
	file := filepath.Join(root, "sys/fs/cgroup", group, "io.max")
	write(t, file, "8:16 rbps=2097152 wbps=max riops=max wiops=120\n259:0 rbps=max wbps=1048576 riops=7 wiops=max\nnonsense\n8:32 rbps=max wbps=max riops=max wiops=max\n")
	if err := os.MkdirAll(filepath.Join(root, "sys/dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/pci0/block/sdb", filepath.Join(root, "sys/dev/block/8:16")); err != nil {
		t.Fatal(err)
	}
	h := open(t, reader(t, root), sensor.CgroupPath{Path: group})
	var c sensor.Cgroup
	read := func() *[]sensor.IOLimit {
		t.Helper()
		if err := h.Read(&c); err != nil {
			t.Fatal(err)
		}
		return c.IOLimits
	}
	want := []sensor.IOLimit{{Device: "sdb", Bytes: [2]uint64{2097152, 0}, Operations: [2]uint64{0, 120}}, {Device: "259:0", Bytes: [2]uint64{0, 1048576}, Operations: [2]uint64{7, 0}}}
	if got := read(); got == nil || !reflect.DeepEqual(*got, want) || c.Have&sensor.CgroupIOLimits == 0 {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	write(t, file, "")
	for range rareInterval - 1 {
		if got := read(); got == nil || !reflect.DeepEqual(*got, want) {
			t.Fatalf("got %+v, want %+v as before until it is read again", got, want)
		}
	}
	if got := read(); got != nil || c.Have&sensor.CgroupIOLimits != 0 {
		t.Errorf("the limits were lifted, got %+v", got)
	}
}

// TestLiveLimits: a limit that is set on a disk of this machine is read, in the version in which the controller of disks is mounted.
func TestLiveLimits(t *testing.T) {
	r, groups, dirs := liveGroups(t, 1)
	disk := wholeDisk(t)
	for _, dir := range dirs[0] {
		v1 := os.WriteFile(dir+"/blkio.throttle.read_bps_device", []byte(disk.number+" 3000000"), 0)
		_ = os.WriteFile(dir+"/blkio.throttle.write_iops_device", []byte(disk.number+" 50"), 0)
		v2 := os.WriteFile(dir+"/io.max", []byte(disk.number+" rbps=3000000 wiops=50"), 0)
		if v1 != nil && v2 != nil {
			continue
		}
		var c sensor.Cgroup
		if err := open(t, r, groups[0]...).Read(&c); err != nil {
			t.Fatal(err)
		}
		want := []sensor.IOLimit{{Device: disk.name, Bytes: [2]uint64{3000000, 0}, Operations: [2]uint64{0, 50}}}
		if c.IOLimits == nil || !reflect.DeepEqual(*c.IOLimits, want) {
			t.Errorf("got %+v, want %+v", c.IOLimits, want)
		}
		return
	}
	t.Skip("no control group here takes a limit on a disk: the controller blkio or io is not available to it")
}

// wholeDisk is a disk of this machine that takes limits, with its number.
func wholeDisk(t *testing.T) (disk struct{ name, number string }) {
	t.Helper()
	entries, _ := os.ReadDir("/sys/block")
	for _, e := range entries {
		text, err := os.ReadFile("/sys/block/" + e.Name() + "/dev")
		var st unix.Stat_t
		if err == nil && unix.Stat("/sys/block/"+e.Name()+"/queue", &st) == nil && !strings.HasPrefix(e.Name(), "loop") {
			disk.name, disk.number = e.Name(), strings.TrimSpace(string(text))
			return disk
		}
	}
	t.Skipf("none of the %d devices in /sys/block is a disk", len(entries))
	return disk
}
