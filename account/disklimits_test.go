package account

import (
	"strings"
	"testing"

	"reckon/sensor"
)

// TestDiskLimits: the limits of a control group on disks are exported where they are set, and no longer than that.
func TestDiskLimits(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{
		Have: sensor.CgroupCPU | sensor.CgroupIOLimits,
		IOLimits: &[]sensor.IOLimit{
			{Device: "sda", Bytes: [2]uint64{2 << 20, 0}, Operations: [2]uint64{0, 120}},
			{Device: "sdb", Bytes: [2]uint64{0, 1 << 20}},
		},
	}}
	r := newRig(t, Config{Identify: inJob(cg, nil)})
	p := proc(10, 10, r.boot+1, 2*second)
	r.tick(0, []sensor.Process{p})
	r.export()
	const of = "|slurm/1|slurm|0|bob"
	want := map[string]float64{
		"bytes_per_second" + of + "|sda|read":       2 << 20,
		"operations_per_second" + of + "|sda|write": 120,
		"bytes_per_second" + of + "|sdb|write":      1 << 20,
	}
	const prefix = "reckon_workload_disk_limit_"
	for name, value := range want {
		r.want(name, r.values[prefix+name], value)
	}
	for name, value := range r.values {
		if rest, ok := strings.CutPrefix(name, prefix); ok && want[rest] == 0 {
			t.Errorf("%s %g where no limit is set", name, value)
		}
	}
	cg.c.Have, cg.c.IOLimits = sensor.CgroupCPU, nil
	r.tick(0, []sensor.Process{p})
	clear(r.values)
	r.export()
	for name := range r.values {
		if strings.HasPrefix(name, prefix) {
			t.Errorf("%s after the limit was lifted", name)
		}
	}
}
