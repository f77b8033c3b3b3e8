//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/store/storetest"
	"reckon/web/client"
)

// slurmJob is a job that was handed in, and the expectations.
type slurmJob struct {
	what, raw, id string
	owner, state  string
	exit          int  // -1 for any
	usage         bool // CPU time and memory are compared with its control group
	memory        bool
}

// TestSlurm runs jobs of every kind in a real Slurm under `reckon up --slurm`, and holds
// what it reports against the control groups and against Slurm.
func TestSlurm(t *testing.T) {
	c := startSlurm(t)
	u := startUp(t, t.TempDir(), "--slurm", "--site", "tiny")
	defer c.watch()()

	var jobs []slurmJob
	add := func(what, raw, id, owner, state string, exit int, usage, memory bool) {
		jobs = append(jobs, slurmJob{what, raw, "slurm/" + id, owner, state, exit, usage, memory})
	}
	const small, big = "--mem=300M", "--mem=800M"
	used := func(raw string) func() bool {
		return func() bool { v, _ := c.cpu(raw); return v > 1 }
	}
	plain := c.submit("hpcuser", "LOAD -burn 3s -alloc 200000000 -hold 2s", "-J", "a|b UserId=root(0)", big)
	add("a plain job", plain, plain, "hpcuser", "completed", 0, true, true)
	// Slurm lets a requeued job wait for two minutes.
	again := c.submit("hpcuser", "LOAD -burn 1s -hold 20s", "--requeue", "-J", "again", small)
	c.until("the job has used what it shall that is to be requeued", 3*time.Minute, used(again))
	c.run("scontrol", "requeue", again)

	het := c.submit("hpcuser", "LOAD -burn 500ms; srun --het-group=0,1 LOAD -burn 1500ms -hold 1s", small, "-p", "normal", ":", "-n1", small, "-p", "devel")
	other := c.submit("hpcbob", "LOAD -burn 3s -alloc 100000000 -hold 1s", "-J", "bob's", big)
	add("a second user on the node", other, other, "hpcbob", "completed", 0, true, true)
	array := c.submit("hpcuser", "LOAD -burn 1s -hold 1s", "--array=0-2", "-J", "arr", small)
	oom := c.submit("hpcuser", "LOAD -alloc 400000000 -hold 1s", "--mem=100M")
	add("a job that runs out of memory", oom, oom, "hpcuser", "out_of_memory", -1, false, false)
	fails := c.submit("hpcuser", "LOAD -burn 1s; exit 3", small)
	add("a job that fails", fails, fails, "hpcuser", "failed", 3, true, false)
	steps := c.submit("hpcuser", "srun LOAD -burn 1s; srun LOAD -burn 1s; srun LOAD -burn 800ms -alloc 60000000", "-J", "steps", small)
	add("steps of a second", steps, steps, "hpcuser", "completed", 0, true, false)
	many := c.submit("hpcuser", "LOAD -procs 1000 -each 2ms", "-J", "many", small)
	add("a thousand processes", many, many, "hpcuser", "completed", 0, true, false)
	limit := c.submit("hpcuser", "LOAD -burn 1s -hold 10m", "-t", "1", "-p", "devel", small)
	add("a job that runs into its limit", limit, limit, "hpcuser", "timeout", -1, true, false)
	gone := c.submit("hpcbob", "LOAD -burn 1s -hold 10m", "-J", "gone", "-p", "devel", small)
	add("a job that is cancelled", gone, gone, "hpcbob", "cancelled", -1, true, false)
	never := c.submit("hpcbob", "true", "--begin=now+1hour", "-J", "never", small)
	add("a job that is cancelled while it waits", never, never, "hpcbob", "cancelled", -1, false, false)

	// What waits is in the list, and is marked as waiting.
	c.until("a waiting job is listed", 2*time.Minute, func() bool {
		w := find(u.workloads("kind=slurm&state=pending&limit=1000"), "slurm/"+never)
		return w != nil && !w.Running && w.Reason != "" && w.RequestCores != nil
	})
	c.run("scancel", never)
	c.until("the job has used what it shall that is to be cancelled", 3*time.Minute, used(gone))
	c.run("scancel", gone)
	c.until("all jobs have ended", 6*time.Minute, func() bool { return c.run("squeue", "-h") == "" })

	// Slurm itself reports which numbers it gave to tasks and components.
	for _, line := range strings.Split(c.run("sacct", "-a", "-X", "-n", "-P", "-S", "now-1hour", "-o", "JobID,JobIDRaw"), "\n") {
		shown, raw, _ := strings.Cut(line, "|")
		switch {
		case strings.HasPrefix(shown, array+"_"):
			add("task "+shown+" of an array", raw, shown, "hpcuser", "completed", 0, true, false)
		case strings.HasPrefix(shown, het+"+"):
			add("component "+shown+" of a heterogeneous job", raw, shown, "hpcuser", "completed", 0, true, false)
		}
	}
	if len(jobs) != 9+3+2 {
		t.Errorf("%d jobs are known to Slurm: %v", len(jobs), jobs)
	}

	// Accounting is asked every two minutes, for what left the queue more often.
	missing := ""
	defer func() {
		if t.Failed() {
			t.Log("the last that was not known:", missing)
		}
	}()
	c.until("the last state of all is known", 4*time.Minute, func() bool {
		rows := u.workloads("kind=slurm&limit=1000")
		for _, j := range jobs {
			if w := find(rows, j.id); w == nil || w.End == nil || w.State != j.state || (j.usage && w.CPUSeconds == nil) {
				missing = fmt.Sprintf("%+v: %+v", j, lives(rows, j.id))
				return false
			}
		}
		l := lives(rows, "slurm/"+again)
		missing = fmt.Sprintf("the lives of %s: %+v", again, l)
		return len(l) == 2 && l[1].State == "requeued" && l[0].End != nil
	})
	rows := u.workloads("kind=slurm&limit=1000")
	for _, j := range jobs {
		t.Run(strings.ReplaceAll(j.what, " ", "-"), func(t *testing.T) { j.check(t, c, lives(rows, j.id)) })
	}
	t.Run("out-of-memory-is-seen", func(t *testing.T) {
		if w := find(rows, "slurm/"+oom); w.OOMKills == nil || *w.OOMKills < 1 {
			t.Errorf("OOM kills of %s: %v", w.ID, figureOf(w.OOMKills))
		}
	})
	t.Run("requeued", func(t *testing.T) {
		l := lives(rows, "slurm/"+again)
		last, first := l[0], l[1]
		if last.State != "completed" || !first.End.Before(last.Start) || first.Submit.Equal(*last.Submit) {
			t.Errorf("first life %+v\nlast life %+v", first, last)
		}
		for _, w := range l {
			if w.CPUSeconds == nil || *w.CPUSeconds < 0.9 || *w.CPUSeconds > 1.5 {
				t.Errorf("life from %v used %s s, want about 1", w.Start, figureOf(w.CPUSeconds))
			}
		}
	})
	t.Run("steps", func(t *testing.T) {
		got := u.prom(fmt.Sprintf(`sum by (workload) (last_over_time(reckon_slurm_step_exit_code{workload="slurm/%s",part=~"[0-2]"}[1h]) + 1)`, steps))
		if got["slurm/"+steps] != 3 {
			t.Errorf("accounting told %g steps that ended well, want 3", got["slurm/"+steps])
		}
	})
	t.Run("by-rest", func(t *testing.T) { byRest(t, c, jobs) })
	t.Run("nodes", func(t *testing.T) {
		if n := len(u.promBy(`reckon_slurm_node_state`, "node")); n != 2 {
			t.Errorf("%d nodes", n)
		}
		if p := u.promBy(`reckon_slurm_partition_limit_seconds`, "partition"); p["normal"] != 86400 || p["devel"] != 1800 {
			t.Errorf("limits of the partitions: %v", p)
		}
	})
}

// byRest asks the same cluster by slurmrestd, and expects the same states.
func byRest(t *testing.T, c *cluster, jobs []slurmJob) {
	if _, err := exec.LookPath("slurmrestd"); err != nil {
		t.Skip("slurmrestd is not installed")
	}
	addr := storetest.FreeAddress(t)
	// It refuses to run as root; SLURM_JWT=daemon has it take tokens.
	rest := exec.Command("setpriv", "--reuid=hpcbob", "--regid=hpcbob", "--clear-groups", "slurmrestd", "-a", "rest_auth/jwt", addr)
	rest.Dir, rest.Env = "/", append(os.Environ(), "SLURM_JWT=daemon")
	if err := rest.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rest.Process.Kill(); _ = rest.Wait() }()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(c.run("scontrol", "token", "username=root", "lifespan=3600")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.until("slurmrestd listens", time.Minute, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	u := startServe(t, t.TempDir(), "--site", "tiny", "--set", "slurm-url=http://"+addr, "--set", "slurm-token-file="+token)
	said := ""
	defer func() {
		if t.Failed() {
			t.Log(said, u.out)
		}
	}()
	c.until("all jobs are known by slurmrestd", 2*time.Minute, func() bool {
		rows := u.workloads("kind=slurm&limit=1000")
		for _, j := range jobs {
			if w := find(rows, j.id); w == nil || w.State != j.state || w.Owner != j.owner || w.End == nil {
				said = fmt.Sprintf("%+v: %+v", j, lives(rows, j.id))
				return false
			}
		}
		return len(u.promBy("reckon_slurm_partition_limit_seconds", "partition")) == 2
	})
}

// check holds one job against the expectations, Slurm's times, and its control group.
func (j *slurmJob) check(t *testing.T, c *cluster, rows []client.Workload) {
	if len(rows) != 1 {
		t.Fatalf("%s has %d rows: %+v", j.id, len(rows), rows)
	}
	w := &rows[0]
	if w.Owner != j.owner || w.State != j.state || w.Account != "demo" || w.Submit == nil || w.Running || w.Site != "tiny" {
		t.Errorf("%s is owned by %s, %s, of account %q, running %v, of site %q; want %s, %s", j.id, w.Owner, w.State, w.Account, w.Running, w.Site, j.owner, j.state)
	}
	if j.exit >= 0 && (w.ExitCode == nil || *w.ExitCode != j.exit) {
		t.Errorf("%s: exit code %v, want %d", j.id, w.ExitCode, j.exit)
	}
	var start, end int64
	for _, line := range strings.Split(c.run("env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-n", "-P", "-j", j.raw, "-S", "now-1hour", "-o", "JobIDRaw,Start,End"), "\n") {
		if f := strings.Split(line, "|"); f[0] == j.raw {
			_, _ = fmt.Sscan(f[1], &start)
			_, _ = fmt.Sscan(f[2], &end)
		}
	}
	if start != 0 && w.Start.Unix() != start || w.End.Unix() != end {
		t.Errorf("%s: %d to %d, Slurm says %d to %d", j.id, w.Start.Unix(), w.End.Unix(), start, end)
	}
	if w.RequestCores == nil || w.RequestMemoryBytes == nil || w.RequestNodes == nil || w.RequestSeconds == nil {
		t.Errorf("%s: what it asked for is not known: %+v", j.id, w)
	}
	if j.usage {
		low, high := c.cpu(j.raw)
		nearly(t, "CPU seconds of "+j.id, w.CPUSeconds, (low+high)/2, 0.01+(high-low)/(low+high))
	}
	if j.memory {
		want, _ := c.peak(j.raw)
		nearly(t, "memory peak of "+j.id, w.MemoryPeakBytes, want, 0.05)
	}
}

func nearly(t *testing.T, what string, got *float64, want, within float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > within*want {
		t.Errorf("%s: %s, its control group says %g (%.2f %%)", what, figureOf(got), want, 100*(deref(got)/want-1))
		return
	}
	t.Logf("%s: %g, its control group says %g (%+.2f %%)", what, *got, want, 100*(*got/want-1))
}

func deref(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func figureOf(v *float64) string { return fmt.Sprint(deref(v)) }

// lives are the rows of an id, the latest first.
func lives(rows []client.Workload, id string) (out []client.Workload) {
	for _, w := range rows {
		if w.ID == id {
			out = append(out, w)
		}
	}
	return out
}

func find(rows []client.Workload, id string) *client.Workload {
	for i := range rows {
		if rows[i].ID == id {
			return &rows[i]
		}
	}
	return nil
}
