package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// agentMode is a way to run the agent.
type agentMode struct {
	name      string
	user      uint32
	caps      []uintptr
	args      []string
	container bool // in a cgroup namespace of its own, with the machine's files at /host
	sources   string
	pid       int // of the agent
}

const nobody = 65534

func measureModes(layout string) []agentMode {
	least := []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}
	all := []agentMode{
		{name: "ebpf", sources: "processes by ebpf, their ends by ebpf"},
		{name: "taskstats", user: nobody, caps: []uintptr{unix.CAP_NET_ADMIN},
			args:    []string{"--source", "procfs", "--set", "exits=taskstats"},
			sources: "processes by procfs, their ends by taskstats"},
		{name: "unprivileged", user: nobody, sources: "processes by procfs"},
	}
	if layout == "v2" { // engines make such a namespace on version 2 only
		all = append(all,
			agentMode{name: "container-ebpf", user: nobody, caps: least, container: true, sources: "processes by ebpf, their ends by ebpf"},
			agentMode{name: "container-unprivileged", user: nobody, container: true, sources: "processes by procfs"})
	}
	return all
}

// patterns match the names of the modes and loads to run.
type patterns struct{ modes, loads string }

// measureAll runs loads under modes.
func measureAll(layout string, some patterns) error {
	user := uint32(firstUser)
	wanted, err := regexp.Compile(some.modes)
	if err != nil {
		return err
	}
	load, err := regexp.Compile(some.loads)
	if err != nil {
		return err
	}
	for _, m := range measureModes(layout) {
		if !wanted.MatchString(m.name) {
			continue
		}
		if err := m.measureLoads(layout, load, &user); err != nil {
			printLine("failed %s %s %v", layout, m.name, err)
		}
	}
	return nil
}

func (m *agentMode) measureLoads(layout string, wanted *regexp.Regexp, user *uint32) error {
	stop, reading, err := m.startAgent(layout)
	if err != nil {
		return err
	}
	defer stop()
	printLine("reading %s %s %s", layout, m.name, reading)
	if err := checkReasons(); err != nil {
		return err
	}
	if !strings.Contains(reading, m.sources) {
		return fmt.Errorf("it reads %s", reading)
	}
	if err := awaitExports(1); err != nil { // the first marks the groups that were there before the agent
		return err
	}
	watch := newExactnessWatcher()
	defer watch.stop()
	busy, tasks, all := processors()
	defer func() {
		b, t, a := processors()
		printLine("nobody %s %s %.4f", layout, m.name, ((b-busy)-(t-tasks))/(a-all))
	}()
	for _, l := range loads() {
		if l.of == remoteFiles && !m.countsRemote() || !wanted.MatchString(l.name) {
			continue
		}
		*user++
		if err := m.measureLoad(&l, layout, *user, watch); err != nil {
			return err
		}
	}
	return nil
}

// measureLoad measures one load.
func (m *agentMode) measureLoad(l *load, layout string, user uint32, watch *exactnessWatcher) (err error) {
	if l.own {
		user = nobody
	}
	var dirs []string
	if l.group != "" {
		if dirs, err = makeGroup(layout, l.group); err != nil {
			return err
		}
		defer removeGroup(dirs) // the next mode starts with its own group, as every container does
		if limited, err := limitMemory(dirs, l.limit); err != nil || !limited {
			printLine("note no control group limits memory here, load %s is left out: %v", l.name, err)
			return err
		}
	}
	if l.of == remoteFiles {
		unmount, err := mountRemote()
		if err != nil {
			return err
		}
		defer unmount()
	}
	watch.reset()
	return l.run(user, dirs, m.pid, func(t *kernelFigures) error {
		after, err := scrapeAgent()
		if l.of == sharedMemory && err == nil {
			after, err = watch.awaitMemory(t, l.own || strings.HasSuffix(m.name, "ebpf"))
		}
		if err != nil {
			return err
		}
		workload := l.workload
		if workload == "" && l.of != cpuTime {
			workload = groupName(after, t.leader)
		}
		all := l.compareFigures(t, user, after)
		if l.of == remoteFiles && slices.ContainsFunc(all, comparison.differs) {
			nfsUsers(after)
		}
		if all[0].figure == "cpu_seconds" && all[0].lacks() { // is it lost or late?
			cpuUsers(t.before, after)
			time.Sleep(10 * time.Second)
			if later, err := scrapeAgent(); err == nil {
				printLine("note %s lacks: want=%.6g got=%.6g, and %.6g after 10 s; the group has %v", l.name, all[0].want, all[0].got,
					l.compareFigures(t, user, later)[0].got, groupCPU(dirs))
			}
		}
		for _, c := range all {
			printLine("result %s %s %s want=%.6g got=%.6g mark=%s", layout, m.name, c.subject, c.want, c.got,
				watch.worstExactness(c.figure, workload, l.workload != ""))
		}
		return nil
	})
}

// cpuUsers names the workloads that were charged with CPU time meanwhile.
func cpuUsers(before, after samples) {
	had := make(map[string]float64)
	for _, s := range before {
		had[s.name+s.labels] = s.value
	}
	for _, s := range after {
		if n := s.value - had[s.name+s.labels]; s.name == "reckon_workload_cpu_seconds_total" && n > 0.1 {
			printLine("note %s} %.3f s more", s.labels, n)
		}
	}
}

// processors returns times of all processors in seconds: the time that they were not idle, the time that they ran
// tasks, and their total time. The first two differ by interrupts and transitions from idle, which belong to no task.
// The difference is small except on emulated processors.
func processors() (busy, tasks, all float64) {
	stat, _ := os.ReadFile("/proc/stat")
	schedstat, _ := os.ReadFile("/proc/schedstat")
	uptime, _ := os.ReadFile("/proc/uptime")
	seconds, _ := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	f := strings.Fields(strings.SplitN(string(stat), "\n", 2)[0])
	all = seconds * float64(runtime.NumCPU())
	busy = all - float64(parseNumber(f[4])+parseNumber(f[5])+parseNumber(f[8]))/100 // idle, iowait, steal
	for line := range strings.Lines(string(schedstat)) {
		if f := strings.Fields(line); len(f) > 7 && strings.HasPrefix(f[0], "cpu") {
			tasks += float64(parseNumber(f[7])) / 1e9
		}
	}
	return busy, tasks, all
}

// comparison holds the kernel's figure of a load, and the agent's.
type comparison struct {
	subject   string
	figure    string // key of the marked figure; empty for one that is never marked
	want, got float64
}

func (c comparison) differs() bool { return c.want != c.got }

func (c comparison) lacks() bool { return c.got < 0.99*c.want }

func (l *load) compareFigures(t *kernelFigures, user uint32, after samples) []comparison {
	owner := strconv.Itoa(int(user))
	const cpu = "reckon_workload_cpu_seconds_total"
	grown := func(name string) float64 {
		return after.sumMatch(name, "workload", l.workload) - t.before.sumMatch(name, "workload", l.workload)
	}
	ofGroup := func() comparison {
		got := grown(cpu)
		// What a process used before it entered the group (version 1 has no other way) may count or not.
		return comparison{l.name, "cpu_seconds", min(max(got, t.group.Seconds()), max(t.group, t.cpu).Seconds()), got}
	}
	switch {
	case l.of == remoteFiles:
		return remoteUse(owner, after)
	case l.of == memoryPeak:
		return []comparison{
			{l.name, "memory_peak_bytes", float64(t.memory), after.maxMatch("reckon_workload_memory_peak_bytes", "owner", owner)}}
	case l.of == sharedMemory:
		return []comparison{
			{l.name, "memory_bytes", float64(t.memory), after.sumMatch("reckon_workload_memory_bytes", "workload", groupName(after,
				t.leader))}}
	case l.of == outOfMemory:
		return []comparison{ofGroup(),
			{l.name + "-peak", "memory_peak_bytes", float64(l.limit),
				after.maxMatch("reckon_workload_memory_peak_bytes", "workload", l.workload)},
			{l.name + "-kills", "", 1, grown("reckon_workload_oom_kills_total")}}
	case l.workload != "":
		return []comparison{ofGroup()}
	}
	return []comparison{{l.name, "cpu_seconds", t.cpu.Seconds(), after.sumMatch(cpu, "owner", owner) - t.before.sumMatch(cpu, "owner",
		owner)}}
}

// groupName returns the agent's name of the process group of a leader.
func groupName(all samples, leader int) string {
	for _, s := range all {
		_, rest, _ := strings.Cut(s.labels, "workload=\"")
		id, _, _ := strings.Cut(rest, "\"")
		if strings.HasPrefix(id, "group/") && strings.Contains(id, fmt.Sprintf("/%d-", leader)) {
			return id
		}
	}
	return "none"
}

const address = "127.0.0.1:9871"

// checkReasons returns an error if a source is unavailable and the agent does not explain why.
func checkReasons() error {
	all, err := scrapeAgent()
	for _, s := range all {
		if s.name == "reckon_sensor_up" && s.value == 0 && hasLabel(s.labels, "reason", "") {
			return fmt.Errorf("no reason why a source is not available: %s}", s.labels)
		}
	}
	return err
}

// startAgent starts the agent and waits for its first measurement. reading describes the sources in use.
func (m *agentMode) startAgent(layout string) (stop func(), reading string, err error) {
	args := append([]string{"--listen", address, "--export", "2s", "--set", "linger=1h", "--set", "push-socket=none"}, m.args...)
	program := "/bin/reckon-agent"
	var namespaces uintptr
	if m.container {
		program, namespaces = "/init", unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP
		args = append([]string{"inside", strconv.Itoa(int(m.user)), joinNumbers(m.caps), "/bin/reckon-agent", "--root", "/host"}, args...)
	}
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Unshareflags: namespaces & unix.CLONE_NEWNS}
	if m.container {
		dirs, err := makeGroup(layout, ownGroup)
		if err != nil {
			return nil, "", err
		}
		group, err := os.Open(dirs[0])
		if err != nil {
			return nil, "", err
		}
		defer group.Close()
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(group.Fd())
	} else if m.user != 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: m.user, Gid: m.user}
		c.SysProcAttr.AmbientCaps = m.caps
	}
	out, err := c.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	if err := c.Start(); err != nil {
		return nil, "", err
	}
	m.pid = c.Process.Pid
	stop = func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(20*time.Second, func() {
			printLine("error the agent does not end: %s", processState(c.Process.Pid))
			_ = c.Process.Kill()
		})
		_ = c.Wait()
		late.Stop()
		awaitOrphans()
	}
	lines := make(chan string, 100)
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
		close(lines)
	}()
	last := ""
	for line := range lines {
		last = line
		if !strings.HasPrefix(line, "reckon-agent: ") && !strings.HasPrefix(line, "time=") {
			printLine("error a line of the agent at its start goes on: %s", line)
		}
		if _, r, ok := strings.Cut(line, ", reading "); ok {
			reading = r
			break
		}
		for _, about := range []string{"ebpf", "taskstats", "cgroup", "read the task table", "files", "traffic", "waits", "runqueue",
			"disks"} {
			if strings.Contains(line, about) {
				printLine("said %s %s %s", layout, m.name, line)
			}
		}
	}
	go func() {
		for range lines { // its later log
		}
	}()
	if reading == "" {
		stop()
		return nil, "", errors.New("the agent has ended: " + last)
	}
	for range 60 {
		if s, err := scrapeAgent(); err == nil && len(s) > 0 {
			return stop, reading, nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	stop()
	return nil, "", errors.New("the agent measures nothing")
}

// awaitOrphans waits for orphans that we adopted, such as the agent of a container.
func awaitOrphans() {
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err == unix.ECHILD {
				return
			}
			if err != nil || pid == 0 {
				break
			}
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 1 {
			if s := processState(pid); strings.Contains(s, "PPid:\t1 ") {
				printLine("error a process is left: %s", s)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// processState describes a process, in a line.
func processState(pid int) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	out := strings.ReplaceAll(string(line), "\x00", " ") + ": "
	for l := range strings.Lines(string(status)) {
		for _, want := range []string{"State:", "PPid:", "Uid:", "SigQ:", "SigPnd:", "ShdPnd:"} {
			if strings.HasPrefix(l, want) {
				out += strings.TrimSpace(l) + " "
			}
		}
	}
	return out
}

func joinNumbers(caps []uintptr) string {
	var s []string
	for _, c := range caps {
		s = append(s, strconv.Itoa(int(c)))
	}
	return strings.Join(s, ",")
}

// runInNamespaces is the command "inside USER CAPABILITIES PROGRAM...". It creates namespaces as a container engine does,
// with control groups that start at its own group and the machine's files at /host. It then executes the program.
func runInNamespaces(args []string) error {
	runtime.LockOSThread() // the signal at our end belongs to this thread
	user := parseNumber(args[0])
	var caps []uintptr
	for c := range strings.SplitSeq(args[1], ",") {
		if c != "" {
			caps = append(caps, uintptr(parseNumber(c)))
		}
	}
	if err := os.MkdirAll("/host", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", "/host", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount the machine's files at /host: %w", err)
	}
	// The kernel refuses a file system on top of itself.
	if err := unix.Unmount(cgroupRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", cgroupRoot, err)
	}
	if err := mountAt("cgroup2", cgroupRoot, ""); err != nil {
		return err
	}
	text, _ := os.ReadFile("/proc/self/cgroup")
	printLine("note the container is in %s", strings.TrimSpace(string(text)))
	c := exec.Command(args[2], args[3:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}, AmbientCaps: caps,
		Pdeathsig: syscall.SIGTERM}
	c.Stderr = os.Stderr
	return c.Run()
}
