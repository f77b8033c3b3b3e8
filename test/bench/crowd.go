package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// crowd is the processes that a benchmark adds to the machine. The kernel ends them
// if the benchmark ends in any way: they are started from one thread that lives as
// long as the crowd, with PR_SET_PDEATHSIG.
type crowd struct {
	cmds  []*exec.Cmd
	start chan func()
}

func newCrowd() *crowd {
	c := &crowd{start: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the signal follows the thread
		for f := range c.start {
			f()
		}
	}()
	return c
}

func (c *crowd) add(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	done := make(chan error)
	c.start <- func() { done <- cmd.Start() }
	if err := <-done; err != nil {
		return fmt.Errorf("start %s as process %d of the crowd: %w", name, len(c.cmds)+1, err)
	}
	c.cmds = append(c.cmds, cmd)
	return nil
}

// idle makes the crowd n processes that sleep.
func (c *crowd) idle(ctx context.Context, n int) error {
	for len(c.cmds) < n && ctx.Err() == nil {
		if err := c.add("sleep", "infinity"); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// busyArg makes this program one of the busy processes.
const busyArg = "-be-busy"

// busy adds n processes that run for about 0.2 ms, five times a second.
func (c *crowd) busy(ctx context.Context, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		if err := c.add(self, busyArg); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func beBusy() {
	for n := 0; ; n++ {
		for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
			n++
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// end ends the crowd and waits for it.
func (c *crowd) end() {
	for _, cmd := range c.cmds {
		_ = cmd.Process.Kill() // it may have ended
	}
	for _, cmd := range c.cmds {
		_ = cmd.Wait() // killed
	}
	c.cmds = nil
}

func countProcesses() (n int) {
	entries, _ := os.ReadDir("/proc") // without /proc nothing here works
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			n++
		}
	}
	return n
}
