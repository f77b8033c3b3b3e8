package mounts

import (
	"reflect"
	"testing"
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// A record as the kernel writes it becomes the activity of a process on each file system that it used, and tells its end.
func TestRecord(t *testing.T) {
	const home, disk = 46, 8<<20 | 1
	r := Reader{clock: bpf.OwnClock(), names: names{others: sensor.Mount{Type: "other", Source: "other"}, known: map[uint64]sensor.Mount{
		home + 1: {Type: "nfs", Source: "fs:/home"}, disk + 1: {Type: "ext4", Source: "/dev/sda1", Local: true},
	}}}
	read := sensor.MountUse{Bytes: [2]uint64{4096, 0}, Operations: [3]uint64{1, 0, 7}, Nanos: [3]uint64{500, 0, 900}}
	looked := sensor.MountUse{Operations: [3]uint64{0, 0, 3}}
	var x Record
	x.PID, x.TGID, x.Start, x.Ended = 77, 1077, 5e9, 1
	x.Uses[0].Dev, x.Uses[0].Cells = home+1, read
	x.Uses[1].Dev = 99 // not since the reading before
	x.Uses[2].Dev, x.Uses[2].Cells = disk+1, looked
	x.Uses[4].Dev, x.Uses[4].Cells = ^uint64(0), looked
	hidden := x
	hidden.PID, hidden.Ended = -1, 0
	var p sensor.MountPass
	r.pass = &p
	for _, c := range []struct {
		record *Record
		ended  bool
	}{{&x, true}, {&hidden, false}} {
		if key, ended := r.record(unsafe.Slice((*byte)(unsafe.Pointer(c.record)), RecordSize)); key != 1077 || ended != c.ended {
			t.Errorf("account %d, ended %v", key, ended)
		}
	}
	start := r.clock.Here(5e9)
	var want []sensor.Mounted
	for _, pid := range []int32{77, 0} {
		want = append(want, sensor.Mounted{PID: pid, Start: start, Mount: sensor.Mount{Type: "nfs", Source: "fs:/home"}, Use: read},
			sensor.Mounted{PID: pid, Start: start, Mount: sensor.Mount{Type: "ext4", Source: "/dev/sda1", Local: true}, Use: looked},
			sensor.Mounted{PID: pid, Start: start, Mount: sensor.Mount{Type: "other", Source: "other"}, Use: looked})
	}
	if !reflect.DeepEqual(p.Used, want) {
		t.Errorf("%+v\nwant %+v", p.Used, want)
	}
}
