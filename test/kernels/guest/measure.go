package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mode is a way to run the agent.
type mode struct {
	name      string
	user      uint32
	caps      []uintptr
	args      []string
	container bool // in a cgroup namespace of its own, with the machine's files at /host
	sources   string
}

const nobody = 65534

func modes(layout string) []mode {
	least := []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}
	all := []mode{
		{name: "ebpf", sources: "processes by ebpf, their ends by ebpf"},
		{name: "taskstats", user: nobody, caps: []uintptr{unix.CAP_NET_ADMIN}, args: []string{"--source", "procfs", "--exits", "taskstats"},
			sources: "processes by procfs, their ends by taskstats"},
		{name: "unprivileged", user: nobody, sources: "processes by procfs"},
	}
	if layout == "v2" { // engines make such a namespace on version 2 only
		all = append(all,
			mode{name: "container-ebpf", user: nobody, caps: least, container: true, sources: "processes by ebpf, their ends by ebpf"},
			mode{name: "container-unprivileged", user: nobody, container: true, sources: "processes by procfs"})
	}
	return all
}

// measure runs every load under every mode.
func measure(layout string) error {
	user := uint32(firstUser)
	for _, m := range modes(layout) {
		if err := m.measure(layout, &user); err != nil {
			say("failed %s %s %v", layout, m.name, err)
		}
	}
	return nil
}

func (m *mode) measure(layout string, user *uint32) error {
	stop, reading, err := m.start(layout)
	if err != nil {
		return err
	}
	defer stop()
	say("reading %s %s %s", layout, m.name, reading)
	if !strings.Contains(reading, m.sources) {
		return fmt.Errorf("it reads %s", reading)
	}
	type done struct {
		load
		user uint32
		cpu  time.Duration
	}
	var all []done
	before, err := scrape()
	if err != nil {
		return err
	}
	for _, l := range loads() {
		*user++
		var dirs []string
		if l.group != "" {
			if dirs, err = makeGroup(layout, l.group); err != nil {
				return err
			}
			defer removeGroup(dirs) // the next mode begins with one of its own, as every container does
		}
		cpu, err := l.run(*user, dirs)
		if err != nil {
			return err
		}
		all = append(all, done{l, *user, cpu})
	}
	time.Sleep(7 * time.Second)
	after, err := scrape()
	if err != nil {
		return err
	}
	for _, d := range all {
		want, got := d.cpu.Seconds(), 0.0
		switch {
		case d.memory != 0:
			want, got = float64(d.memory), after.most("reckon_workload_memory_peak_bytes", "owner", strconv.Itoa(int(d.user)))
		case d.workload != "":
			const name = "reckon_workload_cpu_seconds_total"
			got = after.sum(name, "workload", d.workload) - before.sum(name, "workload", d.workload)
		default:
			got = after.sum("reckon_workload_cpu_seconds_total", "owner", strconv.Itoa(int(d.user)))
		}
		say("result %s %s %s want=%.6g got=%.6g", layout, m.name, d.name, want, got)
	}
	return nil
}

const address = "127.0.0.1:9871"

// start starts the agent and waits until it has measured something. It returns what it reads.
func (m *mode) start(layout string) (stop func(), reading string, err error) {
	args := append([]string{"--listen", address, "--export", "2s", "--linger", "1h", "--push-socket", "none"}, m.args...)
	program := "/bin/reckon-agent"
	var namespaces uintptr
	if m.container {
		program, namespaces = "/init", unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP
		args = append([]string{"inside", strconv.Itoa(int(m.user)), numbers(m.caps), "/bin/reckon-agent", "--root", "/host"}, args...)
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
	stop = func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
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
		if _, r, ok := strings.Cut(line, ", reading "); ok {
			reading = r
			break
		}
		for _, about := range []string{"ebpf", "taskstats", "cgroup", "read the task table"} {
			if strings.Contains(line, about) {
				say("said %s %s %s", layout, m.name, line)
			}
		}
	}
	go func() {
		for range lines { // what it logs later
		}
	}()
	if reading == "" {
		stop()
		return nil, "", errors.New("the agent has ended: " + last)
	}
	for range 60 {
		if s, err := scrape(); err == nil && len(s) > 0 {
			return stop, reading, nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	stop()
	return nil, "", errors.New("the agent measures nothing")
}

func numbers(caps []uintptr) string {
	var s []string
	for _, c := range caps {
		s = append(s, strconv.Itoa(int(c)))
	}
	return strings.Join(s, ",")
}

// inside USER CAPABILITIES PROGRAM... makes of new namespaces what a container engine makes: a view of
// the control groups that begins at our own, the machine's files at /host. Then it becomes the program.
func inside(args []string) error {
	runtime.LockOSThread() // the signal at our end is that of this thread
	user := number(args[0])
	var caps []uintptr
	for c := range strings.SplitSeq(args[1], ",") {
		if c != "" {
			caps = append(caps, uintptr(number(c)))
		}
	}
	if err := os.MkdirAll("/host", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", "/host", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount the machine's files at /host: %w", err)
	}
	// The kernel refuses a file system on top of itself.
	if err := unix.Unmount(cgroups, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", cgroups, err)
	}
	if err := mount("cgroup2", cgroups, ""); err != nil {
		return err
	}
	text, _ := os.ReadFile("/proc/self/cgroup")
	say("note the container is in %s", strings.TrimSpace(string(text)))
	c := exec.Command(args[2], args[3:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}, AmbientCaps: caps, Pdeathsig: syscall.SIGTERM}
	c.Stderr = os.Stderr
	return c.Run()
}

// sample is a line of /metrics.
type sample struct {
	name   string
	labels string
	value  float64
}

type samples []sample

func scrape() (out samples, err error) {
	r, err := (&http.Client{Timeout: 20 * time.Second}).Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "reckon_workload_") {
			continue
		}
		i, j := strings.IndexByte(line, '{'), strings.LastIndexByte(line, '}')
		if i < 0 || j < i {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[j+1:]), 64)
		if err == nil {
			out = append(out, sample{line[:i], line[i:j], v})
		}
	}
	return out, err
}

func (all samples) each(name, label, value string, f func(float64)) {
	want := fmt.Sprintf("%s=%q", label, value)
	for _, s := range all {
		if s.name == name && (strings.Contains(s.labels, "{"+want) || strings.Contains(s.labels, ","+want)) {
			f(s.value)
		}
	}
}

func (all samples) sum(name, label, value string) (sum float64) {
	all.each(name, label, value, func(v float64) { sum += v })
	return sum
}

func (all samples) most(name, label, value string) (most float64) {
	all.each(name, label, value, func(v float64) { most = max(most, v) })
	return most
}
