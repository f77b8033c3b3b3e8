//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cluster is a real Slurm, started for one test; see beds/slurm.
type cluster struct {
	t    *testing.T
	dir  string // readable by all
	load string // the program of load, where users can run it
	host string

	mu   sync.Mutex
	held map[string][]*polled // by number of the job: of each of its runs on each node
}

// startSlurm starts the bed, or skips with the reason.
func startSlurm(t *testing.T) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a Slurm of its own needs root")
	}
	for _, c := range []string{"slurmctld", "slurmd", "slurmdbd", "squeue", "munged", "mariadbd", "runuser"} {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("%s is not installed; `script/setup e2e` installs Slurm on Debian", c)
		}
	}
	for _, h := range []string{"cpuacct", "memory", "freezer", "cpuset"} {
		if _, err := os.Stat("/sys/fs/cgroup/" + h + "/cgroup.procs"); err != nil {
			t.Skipf("the bed is for control groups of version 1, and %s is not mounted", h)
		}
	}
	dir, err := os.MkdirTemp("", "reckon-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, held: map[string][]*polled{}}
	c.host, _, _ = strings.Cut(host, ".")
	t.Cleanup(func() {
		out, err := exec.Command("beds/slurm/down.sh", dir).CombinedOutput()
		if err != nil {
			t.Errorf("down.sh: %v\n%s", err, out)
		}
		if t.Failed() {
			t.Logf("the logs of Slurm are in %s/log", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	up := exec.CommandContext(ctx, "beds/slurm/up.sh", dir)
	var said bytes.Buffer
	up.Stdout, up.Stderr = &said, &said
	up.WaitDelay = time.Second // its daemons keep the pipe
	if err := up.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("up.sh: %v\n%s", err, said.String())
	}
	t.Setenv("SLURM_CONF", filepath.Join(dir, "etc/slurm.conf"))
	c.load = filepath.Join(dir, "load")
	raw, err := os.ReadFile(program(t, "load"))
	if err == nil {
		err = os.WriteFile(c.load, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a command and returns what it wrote.
func (c *cluster) run(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), args[0], args[1:]...)
	cmd.Dir = "/"
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(out.String())
}

// submit hands in a script as a user and returns the number of the job.
func (c *cluster) submit(user, script string, options ...string) string {
	c.t.Helper()
	args := append([]string{"runuser", "-u", user, "--", "sbatch", "--parsable", "-n1", "-o", "/dev/null", "-D", "/tmp"}, options...)
	id, _, _ := strings.Cut(c.run(append(args, "--wrap", strings.ReplaceAll(script, "LOAD", c.load))...), ";")
	return id
}

// until asks again until something is so.
func (c *cluster) until(what string, limit time.Duration, f func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); pause(200 * time.Millisecond) {
		if f() {
			return
		}
	}
	c.t.Fatalf("%s: not within %v\n%s", what, limit, c.run("squeue", "-a", "-t", "all"))
}

// polled is what the control groups of a job on a node were last seen with, before Slurm removed them.
type polled struct {
	cpu        float64 // seconds
	peak       float64 // bytes
	most       float64 // limit of memory, bytes, where the job was stopped at it
	last, gone time.Time
}

// watch polls the control groups of all jobs, and leaves them as Slurm has them. What a job did after the last reading is unknown. It is at
// most what the processors can do until the group was found gone. It returns how to stop.
func (c *cluster) watch() func() {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		live := map[string]*polled{}
		for ctx.Err() == nil {
			found := map[string]bool{}
			jobs, _ := filepath.Glob("/sys/fs/cgroup/cpuacct/slurm_" + c.host + "*/uid_*/job_*")
			c.mu.Lock()
			for _, dir := range jobs {
				at := time.Now()
				cpu, ok := number(filepath.Join(dir, "cpuacct.usage"))
				if !ok {
					continue
				}
				found[dir] = true
				p := live[dir]
				if p == nil {
					p = &polled{}
					live[dir] = p
					_, raw, _ := strings.Cut(filepath.Base(dir), "_")
					c.held[raw] = append(c.held[raw], p)
				}
				p.cpu, p.last = cpu/1e9, at
				memory := strings.Replace(dir, "/cpuacct/", "/memory/", 1)
				peak, _ := number(filepath.Join(memory, "memory.max_usage_in_bytes"))
				p.peak = max(p.peak, peak)
				if full, _ := number(filepath.Join(memory, "memory.failcnt")); full > 0 {
					p.most, _ = number(filepath.Join(memory, "memory.limit_in_bytes"))
				}
			}
			for dir, p := range live {
				if !found[dir] {
					p.gone = time.Now()
					delete(live, dir)
				}
			}
			c.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// number reads a file that holds a number.
func number(name string) (float64, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return v, err == nil
}

// cpu is between what the CPU time of all runs of a job is, seconds, by its control groups on all nodes.
func (c *cluster) cpu(raw string) (low, high float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.held[raw] {
		low += p.cpu
		if high += p.cpu; !p.gone.IsZero() {
			high += p.gone.Sub(p.last).Seconds() * float64(runtime.NumCPU())
		}
	}
	return low, high
}

// peak is the highest memory of a job on all nodes together, bytes. It was seen, or most may have been: up to its limit, where that was full.
func (c *cluster) peak(raw string) (seen, most float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.held[raw] {
		seen += p.peak
		most += max(p.peak, p.most)
	}
	return seen, most
}
