package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// load is a program with known use. It runs as a user of its own, so that everything charged to that user belongs to
// the load, regardless of the process groups that it creates.
type load struct {
	name string
	args []string
	// group is a control group for it, and workload its name in the agent.
	group, workload string
	// of is the thing to look at.
	of subject
	// own has it run as the user of the unprivileged agent.
	own bool
	// limit is the memory that the control group may have, bytes; 0 is no limit.
	limit uint64
}

// subject is the subject of a load.
type subject int

const (
	cpuTime      subject = iota
	memoryPeak           // of one process
	sharedMemory         // of a process and its forks, while they run
	remoteFiles          // calls on a file system across the network
	outOfMemory          // a process of a control group that is killed for lack of memory
)

// The pod's path is the one of containerd with the systemd driver, as the kubelet names it.
const (
	podUID   = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001"
	pods     = "/kubepods.slice/kubepods-burstable.slice"
	podGroup = pods + "/kubepods-burstable-pod0a3f2f9c_3a5f_4f0b_8f0e_c1f6b1d0a001.slice" +
		"/cri-containerd-aaaaaaaaaaaa00112233445566778899aabbccddeeff00112233445566778899.scope"
	ownGroup = pods + "/kubepods-burstable-pod9b1c2f9c_3a5f_4f0b_8f0e_c1f6b1d0b002.slice" +
		"/cri-containerd-bbbbbbbbbbbb00112233445566778899aabbccddeeff00112233445566778899.scope"
	unitGroup = "/system.slice/case.service"
	oomGroup  = "/system.slice/oom.service"
)

// loads returns the known loads. Orphans ("daemons") are processes that the load does not reap. Without exit records,
// their owners are unknown after they have ended. Each load uses at least two seconds of CPU time, because child times
// are truncated to clock ticks and may lack up to 20 ms.
func loads() []load {
	return []load{
		{name: "busy", args: []string{"busy", "2500ms"}},
		{name: "short", args: []string{"short", "80", "1ms"}},
		{name: "tree", args: []string{"tree", "4", "3"}},
		{name: "threads", args: []string{"threads", "60", "40ms"}},
		{name: "sessions", args: []string{"sessions", "20", "100ms"}},
		{name: "daemons", args: []string{"daemons", "15", "150ms"}},
		{name: "unit", args: []string{"short", "40", "2ms"}, group: unitGroup, workload: "unit/case.service"},
		{name: "pod", args: []string{"short", "40", "2ms"}, group: podGroup, workload: "pod/" + podUID},
		{name: "memory", args: []string{"memory", "64"}, of: memoryPeak},
		{name: "forks", args: []string{"forks", "32", "10"}, of: sharedMemory},
		{name: "own-forks", args: []string{"forks", "32", "10"}, of: sharedMemory, own: true},
		{name: "oom", args: []string{"starve", "2s", "256"}, group: oomGroup, workload: "unit/oom.service", of: outOfMemory,
			limit: 64 << 20},
		{name: "nfs", args: []string{"files", remoteDir}, of: remoteFiles},
	}
}

// firstUser is the user id of the first load; no name belongs to it.
const firstUser = 20001

// kernelFigures is the kernel's figure of a load.
type kernelFigures struct {
	cpu    time.Duration // of all of its processes, orphans included
	group  time.Duration // counted by its control group, if it has one
	memory uint64        // the highest resident size of a process; of shared memory the proportional size of all, bytes
	leader int           // its first process, which leads a session
	before samples       // charges of the agent before the beginning
	own    time.Duration // use of the driver until then
}

// run runs a load until it and its orphans have ended. It starts a driver process that waits for the load. The driver is not process 1,
// because the child times of process 1 belong to no workload, and it does not adopt orphans. It lives until ask has read the agent's
// measurements. agent is the process id of the agent. Outside of control groups, the driver runs as the load's user, and starts the load
// after the agent has read the driver. All use from then on, before and after each setsid(2), is therefore charged to that user.
func (l *load) run(user uint32, dirs []string, agent int, ask func(*kernelFigures) error) error {
	args := []string{"drive", strconv.Itoa(int(user))}
	args = append(args, dirs...)
	args = append(args, "--")
	measured := len(dirs) == 0 && l.of == cpuTime // by its user
	if measured {
		args = append(args, "shell")
	}
	c := exec.Command("/init", append(args, l.args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if len(dirs) == 0 { // else it changes its user in the group: only root may enter it
		c.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		return err
	}
	says, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	reapEnded(agent, 0) // remains of test programs and earlier loads do not belong to this load
	before, counted := childrenCPU(), groupCPU(dirs)
	if err := c.Start(); err != nil {
		return err
	}
	defer func() {
		_ = input.Close()
		_ = c.Wait()
	}()
	over := make(chan struct{})
	var orphans sync.WaitGroup
	orphans.Go(func() { reapOrphans(agent, c.Process.Pid, over) })
	defer orphans.Wait()
	defer close(over)

	t, err := startLoad(c.Process.Pid, says, input, measured)
	if err != nil {
		return fmt.Errorf("load %s: %w", l.name, err)
	}
	var nanos int64
	if l.of == sharedMemory {
		err := ask(t)
		if err := errors.Join(err, unix.Kill(t.leader, unix.SIGTERM)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fscan(says, &nanos, &t.memory); err != nil {
		return fmt.Errorf("load %s: %w", l.name, err)
	}
	if l.of == sharedMemory {
		return nil
	}
	for late := time.Now().Add(time.Minute); userRuns(user, c.Process.Pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			return fmt.Errorf("load %s does not end", l.name)
		}
	}
	t.cpu = time.Duration(nanos) + childrenCPU() - before
	t.group = groupCPU(dirs) - counted
	if measured {
		own, err := processTime(c.Process.Pid)
		if err != nil {
			return fmt.Errorf("read the time of the driver of load %s: %w", l.name, err)
		}
		t.cpu += own - t.own
	}
	if err := awaitExports(3); err != nil { // it has been read by then, and its parent's child times
		return err
	}
	return ask(t)
}

// startLoad starts the load of a driver. If the driver is measured too, it first waits until the agent shows the driver.
func startLoad(driver int, says io.Reader, input io.Writer, measured bool) (*kernelFigures, error) {
	var t kernelFigures
	var ready string
	if _, err := fmt.Fscan(says, &ready); err != nil {
		return nil, err
	}
	for late := time.Now().Add(2 * time.Minute); t.before == nil || measured && groupName(t.before, driver) == "none"; {
		if time.Now().After(late) {
			return nil, errors.New("the agent does not show the driver")
		}
		if measured {
			if err := awaitExports(2); err != nil { // the first may be of a reading before the driver waited
				return nil, err
			}
		}
		var err error
		if t.before, err = scrapeAgent(); err != nil {
			return nil, err
		}
	}
	var err error
	if t.own, err = processTime(driver); err != nil {
		return nil, fmt.Errorf("read the time of the driver: %w", err)
	}
	if _, err := fmt.Fprintln(input, "begin"); err != nil {
		return nil, err
	}
	_, err = fmt.Fscan(says, &t.leader)
	return &t, err
}

// runDriver is the command "drive USER GROUP... -- LOAD". It prints that it runs and waits for a line. It then starts the
// load in the control groups, prints its process id and its use, and lives until its input ends.
func runDriver(args []string) {
	joined := []string{"join", args[0]}
	c := exec.Command("/init")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	user := parseNumber(args[0])
	at := 1
	for ; args[at] != "--"; at++ {
		if _, err := os.Stat(args[at] + "/cgroup.controllers"); err == nil { // of version 2: it can be born there
			group, err := os.Open(args[at])
			fail(err)
			c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(group.Fd())
			continue
		}
		joined = append(joined, args[at]+"/cgroup.procs")
	}
	if len(joined) == 2 && os.Getuid() != user { // else it changes its user in the group: only root may enter it
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	c.Args = append(append(c.Args, joined...), args[at:]...)
	c.Stderr = os.Stderr
	spin(100 * time.Millisecond) // more than a group that no export shows while it may be short work
	fmt.Println("ready")
	_, err := fmt.Scanln(new(string))
	fail(err)
	fail(c.Start())
	fmt.Println(c.Process.Pid)
	fail(c.Wait())
	var u unix.Rusage
	fail(unix.Getrusage(unix.RUSAGE_CHILDREN, &u))
	fmt.Println(u.Utime.Nano()+u.Stime.Nano(), u.Maxrss<<10)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// processTime returns the CPU time that a living process has used (clock_getcpuclockid(3)).
func processTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|unix.CLOCK_PROCESS_CPUTIME_ID), &t)
	return time.Duration(t.Nano()), err
}

// groupCPU returns the CPU time that a control group has counted.
func groupCPU(dirs []string) time.Duration {
	for _, d := range dirs {
		if b, err := os.ReadFile(d + "/cpuacct.usage"); err == nil {
			return time.Duration(parseNumber(strings.TrimSpace(string(b))))
		}
		b, _ := os.ReadFile(d + "/cpu.stat")
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
				return time.Duration(parseNumber(strings.TrimSpace(v))) * time.Microsecond
			}
		}
	}
	return 0
}

// sessionMemory returns the proportional set size of the processes of a session, bytes.
func sessionMemory(leader int) (sum uint64) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if sid, err := unix.Getsid(pid); err != nil || sid != leader {
			continue
		}
		b, _ := os.ReadFile("/proc/" + e.Name() + "/smaps_rollup")
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "Pss:"); ok {
				sum += uint64(parseNumber(strings.Fields(v)[0])) << 10
			}
		}
	}
	return sum
}

// childrenCPU returns the CPU time of all processes that were waited for.
func childrenCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reapOrphans reaps orphans as soon as they end, so that the agent reads none of them as a zombie. Orphans become children of
// this process, which is process 1. The agent and the driver of a load are reaped elsewhere.
func reapOrphans(agent, driver int, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(2 * time.Millisecond):
		}
		reapEnded(agent, driver)
	}
}

// reapEnded waits for the processes that have ended.
func reapEnded(agent, driver int) {
	for {
		var about unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &about, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&about), 16))) // si_pid of sigaction(2) on 64-bit systems
		if err != nil || pid == 0 || pid == driver || pid == agent {
			return
		}
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// userRuns reports whether a user has processes other than one, including zombies.
func userRuns(user uint32, but int) bool {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err != nil || pid == but {
			continue
		}
		status, _ := os.ReadFile("/proc/" + e.Name() + "/status")
		if strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", user)) {
			return true
		}
	}
	return false
}

// runProgram runs the program of a load.
func runProgram(what string, args []string) {
	switch what {
	case "join":
		joinGroups(args)
	case "inside":
		fail(runInNamespaces(args))
	case "drive":
		runDriver(args)
	case "shell": // LOAD: waits for it, as a shell does, and lives on
		startProcess(args...).wait()
		time.Sleep(2500 * time.Millisecond)
	case "memory", "forks", "hog":
		holdMemory(what, args)
	case "starve": // CPU TIME, MEGABYTES of a child that is to be killed
		starve(args)
	case "files":
		fail(runOnce(args[0]))
	default:
		runWork(what, args)
	}
}

// runWork runs the loads that use CPU time.
func runWork(what string, args []string) {
	switch what {
	case "busy":
		spin(parseDuration(args[0]))
	case "short":
		for range parseNumber(args[0]) {
			startProcess("busy", args[1]).wait()
		}
	case "tree": // DEPTH WIDTH: each waits for its children
		spin(2 * time.Millisecond)
		if depth := parseNumber(args[0]); depth > 0 {
			var all []process
			for range parseNumber(args[1]) {
				all = append(all, startProcess("tree", strconv.Itoa(depth-1), args[1]))
			}
			for _, p := range all {
				p.wait()
			}
		}
	case "threads":
		var all sync.WaitGroup
		for range parseNumber(args[0]) {
			all.Go(func() {
				runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
				spinThread(parseDuration(args[1]))
			})
		}
		all.Wait()
	case "sessions":
		for range parseNumber(args[0]) {
			p := startProcess("session", args[1])
			p.wait()
		}
	case "session":
		_, _ = unix.Setsid()
		spin(parseDuration(args[0]))
	case "daemons":
		for range parseNumber(args[0]) {
			startProcess("daemon", args[1]).wait()
		}
	case "daemon": // the first fork ends at once; only the first process waits for the second
		_, _ = unix.Setsid()
		startProcess("busy", args[0])
	default:
		fail(fmt.Errorf("no load is called %s", what))
	}
}

// holdMemory runs the loads that use memory.
func holdMemory(what string, args []string) {
	block := make([]byte, parseNumber(args[0])<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	switch what {
	case "memory": // MEGABYTES
		time.Sleep(2500 * time.Millisecond)
	case "forks": // MEGABYTES NUMBER: they hold its pages
		runtime.LockOSThread()
		var all []int
		for range parseNumber(args[1]) {
			all = append(all, fork())
		}
		enough := make(chan os.Signal, 1)
		signal.Notify(enough, unix.SIGTERM)
		<-enough
		for _, pid := range all {
			fail(unix.Kill(pid, unix.SIGKILL))
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
	runtime.KeepAlive(block)
}

// starve uses processor time and starts a child that requests more memory than exists.
func starve(args []string) {
	spin(parseDuration(args[0]))
	state, err := startProcess("hog", args[1]).Wait()
	fail(err)
	if s, ok := state.Sys().(syscall.WaitStatus); !ok || s.Signal() != unix.SIGKILL {
		fail(fmt.Errorf("the process that wants too much memory was not killed: %v", state))
	}
}

// joinGroups is the command "USER GROUP... -- LOAD". It joins the control groups, and becomes the load with the user's rights.
func joinGroups(args []string) {
	user := parseNumber(args[0])
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

// fork creates a copy of this process that sleeps until it is killed, and returns its process id. The copy cannot run
// Go code, because only the calling thread is copied and not the rest of the runtime.
//
//go:nosplit
//go:norace
func fork() int {
	pid, _, failed := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	for failed == 0 && pid == 0 {
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	return int(pid)
}

type process struct{ *os.Process }

func startProcess(args ...string) process {
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

func parseNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fail(err)
	}
	return n
}

func parseDuration(s string) time.Duration {
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
