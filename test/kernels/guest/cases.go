package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// load is a known load. It runs as a user of its own, so that all that is charged to that user is
// charged to it, whatever process groups it makes.
type load struct {
	name string
	args []string
	// group is a control group for it, and workload what the agent has to call that.
	group, workload string
	// memory is what it has at its peak, bytes; its CPU time is not looked at then.
	memory uint64
}

// The pod is one of containerd with the systemd driver, as the kubelet names it.
const (
	podUID    = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001"
	pods      = "/kubepods.slice/kubepods-burstable.slice"
	podGroup  = pods + "/kubepods-burstable-pod0a3f2f9c_3a5f_4f0b_8f0e_c1f6b1d0a001.slice/cri-containerd-aaaaaaaaaaaa00112233445566778899aabbccddeeff00112233445566778899.scope"
	ownGroup  = pods + "/kubepods-burstable-pod9b1c2f9c_3a5f_4f0b_8f0e_c1f6b1d0b002.slice/cri-containerd-bbbbbbbbbbbb00112233445566778899aabbccddeeff00112233445566778899.scope"
	unitGroup = "/system.slice/case.service"
)

// Orphans ("daemons") are processes that nobody of the load waits for: without exit records
// nothing tells whose they were once they have ended.
func loads() []load {
	return []load{
		{name: "busy", args: []string{"busy", "400ms"}},
		{name: "short", args: []string{"short", "150", "1ms"}},
		{name: "tree", args: []string{"tree", "4", "3"}},
		{name: "threads", args: []string{"threads", "60", "3ms"}},
		{name: "sessions", args: []string{"sessions", "20", "10ms"}},
		{name: "daemons", args: []string{"daemons", "15", "20ms"}},
		{name: "unit", args: []string{"short", "60", "2ms"}, group: unitGroup, workload: "unit/case.service"},
		{name: "pod", args: []string{"short", "60", "2ms"}, group: podGroup, workload: "pod/" + podUID},
		{name: "memory", args: []string{"memory", "64"}, memory: 64 << 20},
	}
}

// firstUser is the user id of the first load; no name belongs to it.
const firstUser = 20001

// run runs a load to its end, its orphans included, and returns the CPU time that the kernel
// counted for all of it.
func (l *load) run(user uint32, groups []string) (time.Duration, error) {
	before := children()
	args := []string{"join", strconv.Itoa(int(user))}
	for _, g := range groups {
		args = append(args, g+"/cgroup.procs")
	}
	args = append(args, "--")
	if len(groups) == 0 && l.memory == 0 {
		args = append(args, "shell")
	}
	c := exec.Command("/init", append(args, l.args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if len(groups) == 0 { // else it changes its user in the group: only root may enter it
		c.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return 0, fmt.Errorf("load %s: %w", l.name, err)
	}
	// Orphans are given to us, the first process.
	for end := time.Now().Add(20 * time.Second); userRuns(user); {
		if time.Now().After(end) {
			return 0, fmt.Errorf("load %s does not end", l.name)
		}
		reap(user)
		time.Sleep(20 * time.Millisecond)
	}
	return children() - before, nil
}

// children is the CPU time of all processes that were waited for.
func children() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reap waits for the orphans of a user.
func reap(user uint32) {
	for _, pid := range processes(user) {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

func userRuns(user uint32) bool { return len(processes(user)) > 0 }

// processes returns the processes of a user, zombies included.
func processes(user uint32) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, _ := os.ReadFile("/proc/" + e.Name() + "/status")
		if strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", user)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// child is the programs of the loads.
func child(what string, args []string) {
	switch what {
	case "join":
		join(args)
	case "inside":
		fail(inside(args))
	case "shell": // LOAD: waits for it, as a shell does, and lives on: process 1 is nobody's shell
		start(args...).wait()
		time.Sleep(2500 * time.Millisecond)
	case "busy":
		spin(duration(args[0]))
	case "short":
		for range number(args[0]) {
			start("busy", args[1]).wait()
		}
	case "tree": // DEPTH WIDTH: each waits for its children
		spin(2 * time.Millisecond)
		if depth := number(args[0]); depth > 0 {
			var all []process
			for range number(args[1]) {
				all = append(all, start("tree", strconv.Itoa(depth-1), args[1]))
			}
			for _, p := range all {
				p.wait()
			}
		}
	case "threads":
		var all sync.WaitGroup
		for range number(args[0]) {
			all.Go(func() {
				runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
				spinThread(duration(args[1]))
			})
		}
		all.Wait()
	case "sessions":
		for range number(args[0]) {
			p := start("session", args[1])
			p.wait()
		}
	case "session":
		_, _ = unix.Setsid()
		spin(duration(args[0]))
	case "daemons":
		for range number(args[0]) {
			start("daemon", args[1]).wait()
		}
	case "daemon": // the first fork ends at once; nobody but the first process waits for the second
		_, _ = unix.Setsid()
		start("busy", args[0])
	case "memory": // MEGABYTES
		block := make([]byte, number(args[0])<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		time.Sleep(2500 * time.Millisecond)
		runtime.KeepAlive(block)
	default:
		fail(fmt.Errorf("no load is called %s", what))
	}
}

// join USER GROUP... -- LOAD joins the control groups and becomes the load, of the user.
func join(args []string) {
	user := number(args[0])
	for args = args[1:]; args[0] != "--"; args = args[1:] {
		if err := os.WriteFile(args[0], []byte("0"), 0); err != nil {
			fail(err)
		}
	}
	if os.Getuid() != user {
		fail(syscall.Setgid(user))
		fail(syscall.Setuid(user))
	}
	fail(syscall.Exec("/init", append([]string{"load"}, args[1:]...), os.Environ()))
}

type process struct{ *os.Process }

func start(args ...string) process {
	p, err := os.StartProcess("/init", append([]string{"load"}, args...), &os.ProcAttr{Files: []*os.File{nil, nil, os.Stderr}})
	if err != nil {
		fail(err)
	}
	return process{p}
}

func (p process) wait() {
	if _, err := p.Wait(); err != nil {
		fail(err)
	}
}

func spin(d time.Duration)       { spinOn(unix.CLOCK_PROCESS_CPUTIME_ID, d) }
func spinThread(d time.Duration) { spinOn(unix.CLOCK_THREAD_CPUTIME_ID, d) }

// spinOn uses CPU time by a clock that counts it, so that a busy machine changes nothing.
func spinOn(clock int32, d time.Duration) {
	var t unix.Timespec
	for {
		if err := unix.ClockGettime(clock, &t); err != nil {
			fail(err)
		}
		if time.Duration(t.Nano()) >= d {
			return
		}
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fail(err)
	}
	return n
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		fail(err)
	}
	return d
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}
