//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// innocentWork holds 1.2 GB, computes a quarter of the time, writes 8 MB a second past the page cache, and starts short commands.
const innocentWork = `
import mmap, os, subprocess, sys, time
held = bytearray(os.urandom(1 << 20) * 1200)
buf = mmap.mmap(-1, 8 << 20)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    busy = time.thread_time() + 0.2
    while time.thread_time() < busy:
        pass
    os.pwrite(fd, buf, 0)
    subprocess.run(["/bin/true"])
    time.sleep(0.6)
`

// control is a control group of either version, read by the kernel's counts.
type control struct{ cpu, memory, io, name string }

func newControl(t *testing.T) control {
	t.Helper()
	const root = "/sys/fs/cgroup/"
	name := fmt.Sprintf("reckon-e2e-%d", os.Getpid())
	c := control{root + "cpuacct/" + name, root + "memory/" + name, root + "blkio/" + name, name}
	if has, err := os.ReadFile(root + "cgroup.controllers"); err == nil {
		c.cpu, c.memory, c.io = root+name, root+name, root+name
		if err := os.WriteFile(root+"cgroup.subtree_control", []byte("+cpu +memory +io"), 0o644); err != nil {
			t.Skipf("controllers %s: %v", has, err)
		}
	}
	for _, dir := range []string{c.cpu, c.memory, c.io} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	return c
}

// read returns the first figure on the lines of a file that begin with a word and hold another.
func (c control) read(t *testing.T, file, word, other string) (sum float64) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, word) || !strings.Contains(line, other) {
			continue
		}
		for _, f := range strings.Fields(line) {
			if n, err := strconv.ParseFloat(strings.TrimPrefix(f, "wbytes="), 64); err == nil && (other == "" || !strings.Contains(f, ":")) {
				sum += n
				break
			}
		}
	}
	return sum
}

// used is the CPU time in seconds, anonymous memory in bytes, and bytes written, so far.
func (c control) used(t *testing.T) (cpu, memory, written float64) {
	if c.cpu == c.io {
		return c.read(t, c.cpu+"/cpu.stat", "usage_usec", "") / 1e6, c.read(t, c.memory+"/memory.stat", "anon ", ""), c.read(t, c.io+"/io.stat", "", "wbytes=")
	}
	return c.read(t, c.cpu+"/cpuacct.usage", "", "") / 1e9, c.read(t, c.memory+"/memory.stat", "total_rss ", ""),
		c.read(t, c.io+"/blkio.throttle.io_service_bytes", "", "Write")
}

// rssFile is RssFile of proc_pid_status(5), in bytes.
func rssFile(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "RssFile:")
	var kB float64
	_, _ = fmt.Sscan(rest, &kB)
	return kB * 1024
}

// TestInnocent has one user try all that the list of hostile users has, over and over, for RECKON_ATTACK (90s): CPU time, memory and I/O
// of another one are complete within 1 % of the control group's counts.
func TestInnocent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	for _, program := range []string{"curl", "setpriv", "unshare", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	long := 90 * time.Second
	if text := os.Getenv("RECKON_ATTACK"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	group := newControl(t)
	dir, err := os.MkdirTemp("/var/tmp", "reckon-innocent") // a disk, not memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	l := &login{t: t, socket: filepath.Join(dir, "api", "api.sock")}
	l.up = start(t, "up", filepath.Join(dir, "data"), []string{"--export", "5s", "--node", "login", "--set", "api-socket=" + l.socket, "--set", "push-socket=none"})
	pause(5 * time.Second)

	join := "for d in " + group.cpu + " " + group.memory + " " + group.io + "; do echo $$ > $d/cgroup.procs; done; "
	work := exec.Command("sh", "-c", join+`exec setpriv --reuid=`+innocent+` --regid=`+innocent+` --clear-groups /usr/bin/python3 -c "$0" "$@"`,
		innocentWork, filepath.Join(dir, "written"), fmt.Sprint(long.Seconds()))
	work.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- work.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-work.Process.Pid, syscall.SIGKILL) })

	l.job = "group/login/0-0"
	var byteSeconds float64
	var most, sent int
	tries, names := l.tries(), []string(nil)
	for name := range tries {
		names = append(names, name)
	}
	var flood *exec.Cmd
	flooded := time.Time{}
	last, ended := time.Now(), false
	for i := 0; !ended; i++ {
		if time.Since(flooded) > 80*time.Second {
			flooded = time.Now()
			flood = l.start(hostile, 75, "/usr/bin/python3", "-c", sleepersScript)
			l.start(hostile, 20, "env", "LSB_JOBID=91", "setsid", "sh", "-c", "while :; do :; done")
		}
		l.ask(tries[names[i%len(names)]])
		sent++
		select {
		case err := <-done:
			ended = true
			if err != nil {
				t.Errorf("the work of the other: %v", err)
			}
		case <-time.After(200 * time.Millisecond):
		}
		if _, memory, _ := group.used(t); !ended {
			// Pages of files count in the control group that read them first, and for each process that has them.
			byteSeconds += (memory + rssFile(work.Process.Pid)) * time.Since(last).Seconds()
		}
		last = time.Now()
	}
	most = int(l.promBy("max_over_time(reckon_short_live_groups[1h])", "owner")[hostile])
	_ = flood.Process.Signal(syscall.SIGTERM)
	pause(15 * time.Second)
	cpu, _, written := group.used(t)
	at := func(series string) (sum float64) {
		for _, v := range l.prom(`sum by (workload) (last_over_time(` + series + `[2h]))`) {
			sum += v
		}
		return sum
	}
	t.Logf("%d requests and at most %d process groups without series of their own in %s", sent, most, long)
	for _, f := range []struct {
		name       string
		want, have float64
	}{
		{"CPU seconds", cpu, at(`reckon_workload_cpu_seconds_total{owner="` + innocent + `"}`)},
		{"byte-seconds of memory", byteSeconds, at(`reckon_workload_memory_byte_seconds_total{owner="` + innocent + `"}`)},
		{"bytes written", written, at(`reckon_workload_io_bytes_total{owner="` + innocent + `",direction="write"}`)},
	} {
		t.Logf("%s: control group %.6g, reckon %.6g, %+.3f %%", f.name, f.want, f.have, 100*(f.have/f.want-1))
		if math.Abs(f.have/f.want-1) > 0.01 || f.want == 0 {
			t.Errorf("%s: control group %.6g, reckon %.6g", f.name, f.want, f.have)
		}
	}
	if most < 2000 {
		t.Errorf("%d process groups were without series of their own", most)
	}
	if n := l.prom(`count({try!=""})`)[""]; n != 0 {
		t.Errorf("%v forged series are stored", n)
	}
	l.stopsIn(20 * time.Second)
}
