//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
	held map[string][]string // by number of the job: its groups that were kept
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
	c := &cluster{t: t, dir: dir, held: map[string][]string{}}
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

// keep keeps the control groups of all jobs from being removed, by a group of its own in
// each, so that their counters can be read when all is over. It returns how to stop.
func (c *cluster) keep() func() {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		seen := map[string]bool{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for _, h := range []string{"cpuacct", "memory"} {
				jobs, _ := filepath.Glob("/sys/fs/cgroup/" + h + "/slurm_" + c.host + "*/uid_*/job_*")
				for _, dir := range jobs {
					if !seen[dir] && os.Mkdir(filepath.Join(dir, "kept"), 0o755) == nil {
						seen[dir] = true
						_, raw, _ := strings.Cut(filepath.Base(dir), "_")
						c.mu.Lock()
						c.held[raw] = append(c.held[raw], dir)
						c.mu.Unlock()
					}
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
		for _, dirs := range c.held {
			for _, dir := range dirs {
				_ = os.Remove(filepath.Join(dir, "kept"))
				_ = os.Remove(dir)
			}
		}
	}
}

// counted reads a counter of the group of a job, all its steps together.
func (c *cluster) counted(raw, file string) float64 {
	c.t.Helper()
	v, ok := c.kept(raw, file)
	if !ok {
		c.t.Errorf("the control group of job %s was not kept: %s is not known", raw, file)
	}
	return v
}

// kept is counted for a job that may not have begun.
func (c *cluster) kept(raw, file string) (float64, bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, dir := range c.held[raw] {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
			v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return v, true
		}
	}
	return 0, false
}
