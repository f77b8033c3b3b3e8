package ebpf

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"reckon/sensor"
)

// stripped is a process without what two sources differ in: how each divided the CPU time when it last ran, and the wait of a
// thread that is moved to another queue while it waits, which is seen when it runs.
func stripped(p sensor.Process) sensor.Process {
	p.UserNanos, p.SystemNanos, p.WaitNanos = p.UserNanos+p.SystemNanos, 0, 0
	return p
}

// TestListEqualsWalk reads the table by the list and by the iterator of tasks, in turns: who has not run in between is the same in both.
func TestListEqualsWalk(t *testing.T) {
	byList, byWalk := open(t, Options{}), open(t, Options{})
	if byList.kernel.list == nil {
		t.Skip("this kernel lets no program list its processes")
	}
	if err := byWalk.kernel.list.close(); err != nil {
		t.Fatal(err)
	}
	byWalk.kernel.list = nil
	var a, b, c sensor.Pass
	same := 0
	for range 5 {
		read(t, byList, &a)
		read(t, byWalk, &b)
		read(t, byList, &c)
		for i := range a.Live {
			p := &a.Live[i]
			if i > 0 && a.Live[i-1].PID >= p.PID {
				t.Fatalf("processes %d and %d are not in order", a.Live[i-1].PID, p.PID)
			}
			later := find(c.Live, p.PID)
			if later < 0 || c.Live[later] != *p || int(p.PID) == os.Getpid() {
				continue // it ran, as this one does all the time, or ended
			}
			j := find(b.Live, p.PID)
			if j < 0 {
				t.Fatalf("process %d (%s) is listed, and the iterator does not have it", p.PID, p.Comm)
			}
			other := b.Live[j]
			if other.Anon != p.Anon || other.File != p.File || other.Shmem != p.Shmem || other.Swap != p.Swap {
				continue // others changed its memory, which the two read again at different times
			}
			if stripped(*p) != stripped(other) {
				t.Errorf("process %d: the list has\n%+v\nand the iterator\n%+v", p.PID, *p, other)
			}
			same++
		}
		for i := range b.Live {
			p := &b.Live[i]
			if find(a.Live, p.PID) < 0 && find(c.Live, p.PID) < 0 && p.State != 'Z' && p.State != 'X' && p.Start < a.Boot {
				t.Errorf("process %d (%s) is not listed", p.PID, p.Comm)
			}
		}
		a.Reset()
		b.Reset()
		c.Reset()
	}
	if same < 50 {
		t.Fatalf("only %d processes could be compared", same)
	}
}

func TestSortByID(t *testing.T) {
	const most = 1<<22 - 1 // PID_MAX_LIMIT and less
	for name, ids := range map[string][]int32{
		"none": nil, "one": {7}, "ids started over": {300, 4000, 1 << 21, most, 2, 3, 299, 3999}, "backwards": {most, 1<<11 + 1, 1 << 11, 1<<11 - 1, 1},
	} {
		var list []listed
		for i, id := range ids {
			list = append(list, listed{id, uint32(i)})
		}
		sorted, unused := sortByID(slices.Clone(list), nil)
		slices.SortFunc(list, func(a, b listed) int { return cmp.Compare(a.pid, b.pid) })
		if !slices.Equal(sorted, list) {
			t.Errorf("%s: sorted to %v, want %v", name, sorted, list)
		}
		if again, _ := sortByID(sorted, unused); !slices.Equal(again, list) {
			t.Errorf("%s: sorted again to %v", name, again)
		}
	}
}
