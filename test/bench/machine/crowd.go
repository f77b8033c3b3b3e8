package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// crowd is the set of processes that a benchmark adds to the machine. The kernel kills them if the benchmark ends in
// any way, because they have PR_SET_PDEATHSIG. That signal depends on the thread that started a process, so a single
// thread starts all of them and lives as long as the crowd.
type crowd struct {
	cmds   []*exec.Cmd
	start  chan func()
	group  int // processes in a process group, hence in a workload
	leader int
}

func newCrowd(group int) *crowd {
	c := &crowd{start: make(chan func()), group: group}
	go func() {
		runtime.LockOSThread() // never unlocked: the signal follows the thread
		for f := range c.start {
			f()
		}
	}()
	return c
}

func (c *crowd) startProcess(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	if len(c.cmds)%c.group == 0 {
		c.leader = 0 // the next one leads a group of its own
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Pgid: c.leader}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	done := make(chan error)
	c.start <- func() { done <- cmd.Start() }
	if err := <-done; err != nil {
		return fmt.Errorf("start %s as process %d of the crowd: %w", name, len(c.cmds)+1, err)
	}
	if c.leader == 0 {
		c.leader = cmd.Process.Pid
	}
	c.cmds = append(c.cmds, cmd)
	return nil
}

// checkRoom returns an error if n more processes would use half of the kernel's process ids. The rest of the machine
// needs some too.
func checkRoom(n int) error {
	limit := 32768
	if data, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil {
		if v, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			limit = v
		}
	}
	if have := countProcesses(); have+n > limit/2 {
		return fmt.Errorf("%d processes more on top of %d would be over half of kernel.pid_max %d; "+
			"give smaller numbers with -idle and -busy", n, have, limit)
	}
	return nil
}

// addIdle makes the crowd n processes that sleep.
func (c *crowd) addIdle(ctx context.Context, n int) error {
	if err := checkRoom(n - len(c.cmds)); err != nil {
		return err
	}
	for len(c.cmds) < n && ctx.Err() == nil {
		if err := c.startProcess("sleep", "infinity"); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// BusyArg makes this program one of the busy processes.
const BusyArg = "-be-busy"

// addBusy adds n processes that run for about 0.2 ms, five times a second.
func (c *crowd) addBusy(ctx context.Context, n int) error {
	if err := checkRoom(n); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		if err := c.startProcess(self, BusyArg); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// RunBusy is the main loop of a busy process.
func RunBusy() {
	for n := 0; ; n++ {
		for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
			n++
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// killAll ends the crowd and waits for it.
func (c *crowd) killAll() {
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
