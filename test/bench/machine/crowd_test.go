package machine

import (
	"context"
	"syscall"
	"testing"

	"reckon/test/bench/measure"
)

// The crowd is there and goes again.
func TestCrowd(t *testing.T) {
	c := newCrowd(2)
	if err := c.addIdle(context.Background(), 3); err != nil {
		t.Skip("no sleep here:", err)
	}
	pids, groups := []int{}, map[int]bool{}
	for _, cmd := range c.cmds {
		if g, err := syscall.Getpgid(cmd.Process.Pid); err == nil {
			groups[g] = true
		}
		pids = append(pids, cmd.Process.Pid)
		if measure.Resident(cmd.Process.Pid) == 0 {
			t.Error("a process has no memory")
		}
	}
	if len(groups) != 2 {
		t.Errorf("3 processes by twos are in %d groups", len(groups))
	}
	c.killAll()
	for _, pid := range pids {
		if measure.Resident(pid) != 0 {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// A machine that is nearly full is left alone.
func TestNoRoom(t *testing.T) {
	if err := checkRoom(1 << 30); err == nil {
		t.Error("there was room for 2^30 processes")
	}
	if err := newCrowd(20).addIdle(context.Background(), 1<<30); err == nil {
		t.Error("and they were started")
	}
}
