package files

import (
	"reflect"
	"testing"
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// A record as the kernel writes it becomes rows of a process on each file system that it used, and reports its end.
func TestRecord(t *testing.T) {
	const home, disk = 46, 8<<20 | 1
	r := reader{clock: bpf.OwnClock(), names: mountNames{others: mountID{Type: "other", Source: "other"}, known: map[uint64]mountID{
		home + 1: {Type: "nfs", Source: "fs:/home"}, disk + 1: {Type: "ext4", Source: "/dev/sda1", Local: true},
	}}}
	read := callCounts{Bytes: [2]uint64{4096, 0}, Operations: [3]uint64{1, 0, 7}, Nanos: [3]uint64{500, 0, 900}}
	looked := callCounts{Operations: [3]uint64{0, 0, 3}, Nanos: [3]uint64{0, 0, 5}}
	var x mountRecord
	x.PID, x.TGID, x.Start, x.Ended = 77, 1077, 5e9, 1
	x.Uses[0].Dev, x.Uses[0].Cells = home+1, read
	x.Uses[1].Dev = 99 // not since the reading before
	x.Uses[2].Dev, x.Uses[2].Cells = disk+1, looked
	x.Uses[4].Dev, x.Uses[4].Cells = ^uint64(0), looked
	hidden := x
	hidden.PID, hidden.Ended = -1, 0
	var p sensor.TallyPass
	r.pass = &p
	for _, c := range []struct {
		record *mountRecord
		ended  bool
	}{{&x, true}, {&hidden, false}} {
		if key, ended := r.readRecord(unsafe.Slice((*byte)(unsafe.Pointer(c.record)), recordSize)); key != 1077 || ended != c.ended {
			t.Errorf("account %d, ended %v", key, ended)
		}
	}
	start := r.clock.Here(5e9)
	looked.Nanos[2] = 0 // of a file system of this machine times are not measured
	for _, pid := range []int32{77, 0} {
		for m, want := range map[mountID]callCounts{
			{Type: "nfs", Source: "fs:/home"}: read, {Type: "ext4", Source: "/dev/sda1", Local: true}: looked,
			{Type: "other", Source: "other"}: {Operations: looked.Operations, Nanos: [3]uint64{0, 0, 5}},
		} {
			if got := used(&p, pid, m); !reflect.DeepEqual(got, want) {
				t.Errorf("process %d, %v: %+v, want %+v", pid, m, got, want)
			}
		}
	}
	for _, row := range p.Rows {
		if row.Start != start {
			t.Errorf("%+v begins at %d, want %d", row, row.Start, start)
		}
	}
}
