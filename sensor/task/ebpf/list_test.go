package ebpf

import (
	"cmp"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"reckon/sensor"
)

// stripped is a process without what two sources differ in: how each divided the CPU time when it last ran, the wait of a
// thread that is moved to another queue while it waits, which is seen when it runs, and its switches, see [switched]. Of threads
// that ended the kernel keeps the I/O beside the children's, so each source goes by what it had seen of them, and one of the two was opened later.
func stripped(p sensor.Process) sensor.Process {
	if p.Threads > 1 {
		p.ReadBytes, p.WriteBytes = 0, 0
	}
	p.UserNanos, p.SystemNanos, p.WaitNanos = p.UserNanos+p.SystemNanos, 0, 0
	p.Voluntary, p.Involuntary, p.MinorFaults = 0, 0, 0
	return p
}

// switched reports whether two sources agree on the switches and faults of a process: the kernel counts one a moment before or
// after the CPU time around it, and a process that was read in between is not read again until it runs.
func switched(p, q sensor.Process) bool {
	near := func(a, b uint64) bool { return a-b+1 <= 2 }
	return near(p.Voluntary, q.Voluntary) && near(p.Involuntary, q.Involuntary) && near(p.MinorFaults, q.MinorFaults)
}

// tableOf reads the table. Ended processes with records still to come are after it, in no order.
func tableOf(t *testing.T, s *Source, p *sensor.Pass) []sensor.Process {
	t.Helper()
	p.Reset()
	read(t, s, p)
	return p.Live[:len(s.table.rows)]
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
	for range 15 { // that stand still, on a machine of few processes too
		c := exec.Command("sleep", "600")
		if err := c.Start(); err != nil {
			t.Skip("not available here: ", err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	var first, second, third sensor.Pass
	same := 0
	ran := make(map[int32]bool) // processes of several threads, where one may have ended: a source keeps what it had seen of that one
	end := time.Now().Add(2 * time.Minute)
	for i := 0; i < 5 || same < 50 && time.Now().Before(end); i++ {
		a, b, c := tableOf(t, byList, &first), tableOf(t, byWalk, &second), tableOf(t, byList, &third)
		for i := range a {
			p := &a[i]
			if i > 0 && a[i-1].PID >= p.PID {
				t.Fatalf("processes %d and %d are not in order", a[i-1].PID, p.PID)
			}
			j, later := findIndex(b, p.PID), findIndex(c, p.PID)
			if later < 0 || c[later] != *p || int(p.PID) == os.Getpid() {
				ran[p.PID] = ran[p.PID] || p.Threads > 1 || j >= 0 && b[j].Threads > 1 || later >= 0 && c[later].Threads > 1
				continue // it ran, as this one does all the time, or ended
			}
			if ran[p.PID] {
				continue
			}
			if j < 0 {
				t.Fatalf("process %d (%s) is listed, and the iterator does not have it", p.PID, p.Comm)
			}
			other := b[j]
			if p.Partial != other.Partial {
				ran[p.PID] = true // threads ended after one source was opened and before the other was
				continue
			}
			if other.Anon != p.Anon || other.File != p.File || other.Shmem != p.Shmem || other.Swap != p.Swap {
				continue // others changed its memory, which the two read again at different times
			}
			if stripped(*p) != stripped(other) || !switched(*p, other) {
				t.Errorf("process %d: the list has\n%+v\nand the iterator\n%+v", p.PID, *p, other)
			}
			same++
		}
		for i := range b {
			p := &b[i]
			if findIndex(a, p.PID) < 0 && findIndex(c, p.PID) < 0 && p.State != 'Z' && p.State != 'X' && p.Start < first.Boot {
				t.Errorf("process %d (%s) is not listed", p.PID, p.Comm)
			}
		}
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
		var list []listedProcess
		for i, id := range ids {
			list = append(list, listedProcess{id, uint32(i)})
		}
		sorted, unused := sortByID(slices.Clone(list), nil)
		slices.SortFunc(list, func(a, b listedProcess) int { return cmp.Compare(a.pid, b.pid) })
		if !slices.Equal(sorted, list) {
			t.Errorf("%s: sorted to %v, want %v", name, sorted, list)
		}
		if again, _ := sortByID(sorted, unused); !slices.Equal(again, list) {
			t.Errorf("%s: sorted again to %v", name, again)
		}
	}
}
