//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/interop/slurmtext"
	"reckon/test/e2e/judge"
	"reckon/web/client"
)

// jobKind is a kind of job, and what must be reported about it.
type jobKind struct {
	what    string
	script  string
	options []string
	user    string                                 // hpcuser if empty
	act     func(id string)                        // an action once it runs
	state   string                                 // of its last run
	runs    int                                    // 1 if 0
	says    []string                               // all of them, among the sentences
	never   []string                               // none of them
	must    []string                               // keys of sentences that must be stated
	before  string                                 // state of the run before the last one
	left    int                                    // processes alive when its script ends
	queued  bool                                   // it never runs
	moved   bool                                   // out of its control groups, which do not have all of it then
	turn    int                                    // handed in when the jobs of the turns before have ended
	measure func(r *kindResult, c *cluster, u *up) // more than CPU time and hours
}

func (k *jobKind) array() bool {
	return slices.ContainsFunc(k.options, func(o string) bool { return strings.HasPrefix(o, "--array") })
}

// kindResult is the result of one job.
type kindResult struct {
	kind   *jobKind
	raw    string
	detail client.WorkloadDetail
	cpu    float64 // of all its runs, by reckon
	text   string
}

const wide = "-pboth"

// jobKinds are the kinds. Idle tasks burn little, so that two processors are enough for all of them.
func (c *cluster) jobKinds() []*jobKind {
	scontrol := func(words ...string) func(string) {
		return func(id string) {
			args := slices.Clone(words)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "ID", id)
			}
			c.run(append([]string{"scontrol"}, args...)...)
		}
	}
	byOwner := func(id string) { c.run("runuser", "-u", "hpcuser", "--", "scancel", id) }
	byRoot := func(id string) { c.run("scancel", id) }
	one, two := "-pnormal", "-pdevel"
	return []*jobKind{
		{what: "one busy core", script: "LOAD -burn 5s", options: []string{one}, state: "completed"},
		{what: "asleep", script: "sleep 40", options: []string{one}, state: "completed", must: []string{"idle"}, says: []string{"it was idle"}},
		{what: "less than a second", script: "true", options: []string{two}, state: "completed", says: []string{"too short to judge"}},
		{what: "a name with a bar, quotes and an accent", script: "LOAD -burn 1s", options: []string{two, "-J", `a|"b",é`}, state: "completed"},
		{what: "cancelled by its owner", script: "LOAD -burn 1s -hold 10m", options: []string{two}, act: byOwner, state: "cancelled", says: []string{"it was cancelled by hpcuser after"}, never: []string{"exit code"}},
		{what: "cancelled by root", script: "LOAD -burn 1s -hold 10m", options: []string{two}, act: byRoot, state: "cancelled", says: []string{"it was cancelled by root after"}, never: []string{"exit code"}},
		{what: "time limit", must: []string{"timeout"}, script: "LOAD -burn 1s -hold 10m", options: []string{one, "-t1"}, state: "timeout", says: []string{"it reached its time limit of 1 min and was ended"}, never: []string{"exit code"}},
		{what: "deadline while it waits", script: "true", options: []string{one, "--exclusive", "-t1", "--deadline=now+63seconds", "--nice=1000"}, state: "deadline", queued: true, says: []string{"until it could no longer end before its deadline, and never started"}},
		{what: "exit code 3", must: []string{"failed"}, script: "LOAD -burn 1s; exit 3", options: []string{two}, state: "failed", says: []string{"it failed with exit code 3"}},
		{what: "second of two steps fails", script: "srun -J prepare LOAD -burn 1s; srun -J solve sh -c 'exit 3' || exit 3", options: []string{two}, state: "failed", says: []string{"step 1 (solve) failed with exit code 3"}},
		{what: "a step fails, the script goes on", script: "srun LOAD -burn 1s; srun -J solve sh -c 'exit 1'; true", options: []string{two}, state: "completed", says: []string{"its state is completed, but step 1 (solve) failed with exit code 1"}},
		{what: "a step is killed for lack of memory at once, the script goes on", script: "srun LOAD -burn 500ms; srun -J eat LOAD -alloc 800000000 -hold 1s; true", options: []string{two, "--mem=300M"},
			state: "completed", says: []string{"step 1 (eat) was killed for lack of memory"}, never: []string{"a little more and it would be killed"}},
		{what: "one failing among 20 steps of 0.1 s", script: "for i in $(seq 20); do srun -J s$i sh -c \"sleep 0.1; [ $i != 13 ]\"; done; true", options: []string{two}, state: "completed", says: []string{"step 12 (s13) failed with exit code 1"}},
		{what: "killed for lack of memory at once", must: []string{"oom"}, script: "LOAD -alloc 400000000 -hold 1s", options: []string{two, "--mem=100M"}, state: "out_of_memory", says: []string{"for lack of memory"}, never: []string{"exit code"}},
		{what: "segmentation fault", script: "srun sh -c 'kill -SEGV $$'", options: []string{two}, state: "failed", says: []string{"step 0 (sh) failed: signal 11 (segmentation fault) ended it"}, never: []string{"exit code"}},
		{what: "exit code 255", script: "LOAD -burn 1s; exit 255", options: []string{two}, state: "failed", must: []string{"failed"}, says: []string{"it failed with exit code 255"}, never: []string{"does not find"}},
		{what: "abort", script: "LOAD -burn 1s; kill -ABRT $$", options: []string{two}, state: "failed", must: []string{"failed.signal"}, says: []string{"signal 6 (abort)"}},
		{what: "a command that is not there", script: "LOAD -burn 1s; nosuchcommand", options: []string{two}, state: "failed", must: []string{"failed"}, says: []string{"it failed with exit code 127, which a shell returns for a command that it does not find"}},
		{what: "idle until its limit", script: "sleep 600", options: []string{one, "-t1"}, state: "timeout", must: []string{"timeout.idle"}, says: []string{"more time would not help"}, never: []string{"ask for more time"}},
		{what: "a step runs into a limit of its own", script: "srun -t1 -J slow LOAD -hold 10m; LOAD -burn 1s; true", options: []string{one, "-t4"}, state: "completed", must: []string{"stopped.limit"}, says: []string{"step 0 (slow) ran into a time limit of its own"}},
		{what: "a step is cancelled, the script goes on", script: "srun -J slow LOAD -hold 10m & sleep 5; scancel $SLURM_JOB_ID.0; LOAD -burn 1s; sleep 8; true", options: []string{two}, state: "completed", must: []string{"stopped.cancelled"}, says: []string{"step 0 (slow) was cancelled after"}},
		{what: "a spike of a tenth of a second", script: "LOAD -alloc 52428800 -hold 3s; head -c 600000000 /dev/zero | tail >/dev/null; LOAD -hold 4s", options: []string{one, "--mem=900M"}, state: "completed", must: []string{"memory"}, never: []string{"page cache"}},
		{what: "a step killed at a limit of its own", script: "srun --mem=150M -J eat LOAD -alloc 400000000 -hold 1s; sleep 2; true", options: []string{two, "--mem=600M"}, state: "completed", must: []string{"oom.step"}},
		{what: "kill -9", script: "kill -9 $$", options: []string{two}, state: "failed", says: []string{"signal 9 (killed)"}},
		{what: "a step ends itself by SIGTERM", script: "srun sh -c 'kill -TERM $$'", options: []string{two}, state: "failed", says: []string{"step 0 (sh) failed: signal 15 (terminated) ended it"}, never: []string{"exit code"}},
		{what: "page cache fills its memory", script: "F=$(mktemp /var/tmp/kind-XXXX); dd if=/dev/zero of=$F bs=1M count=300 status=none; cat $F >/dev/null; rm $F; sleep 8", options: []string{one, "--mem=200M"}, state: "completed",
			never: []string{"would be killed"}, measure: (*kindResult).needsLittle},
		{what: "150 of 200 MiB needed", must: []string{"memory"}, script: "LOAD -burn 500ms -alloc 157286400 -hold 20s", options: []string{one, "--mem=200M"}, state: "completed", says: []string{"of the 200 MiB of memory it was allocated"}, measure: (*kindResult).peak},
		{what: "two steps of 150 MB, one after the other", script: "srun LOAD -alloc 150000000 -hold 18s; srun LOAD -alloc 150000000 -hold 18s", options: []string{one, "--mem=400M"}, state: "completed", measure: (*kindResult).peak},
		{what: "a thousand processes", script: "LOAD -procs 1000 -each 2ms", options: []string{two}, state: "completed"},
		{what: "array of 3 tasks of less than a second, one fails", script: "exit $((SLURM_ARRAY_TASK_ID == 2))", options: []string{two, "--array=1-3"}, state: "failed", measure: (*kindResult).array},
		{what: "two nodes, a task on each", script: "srun LOAD -burn 2s -hold 12s", options: []string{wide, "-N2", "-n2"}, state: "completed", turn: 1},
		{what: "four tasks, one of them works", script: "srun sh -c 'if [ $SLURM_PROCID = 0 ]; then LOAD -burn 20s; else sleep 40; fi'", options: []string{wide, "-N2", "-n4"}, state: "completed", turn: 1, says: []string{"tasks of step 0 (sh) on node", "the work is not spread evenly"}},
		{what: "two GPUs it never opens", script: "LOAD -burn 500ms -hold 20s", options: []string{two, "--gres=gpu:2"}, state: "completed", measure: func(r *kindResult, _ *cluster, _ *up) { r.equal("GPUs", r.detail.AllocatedGPUs, 2, 0) }},
		{what: "a whole node", script: "LOAD -burn 1s", options: []string{two, "--exclusive"}, state: "completed", measure: func(r *kindResult, _ *cluster, _ *up) { r.equal("cores", r.detail.AllocatedCores, 2, 0) }},
		{what: "suspended for some seconds", script: "LOAD -burn 1s -hold 30s", options: []string{one}, act: func(id string) {
			c.run("scontrol", "suspend", id)
			pause(8 * time.Second)
			c.run("scontrol", "resume", id)
		}, state: "completed"},
		{what: "children left at the end", script: "LOAD -hold 10m & LOAD -hold 10m & LOAD -burn 1s", options: []string{two}, state: "completed", left: 2, must: []string{"left"}, says: []string{"2 processes were still running when the script ended"}, never: []string{"exit code"}},
		{what: "a daemon left at the end", script: "(setsid nohup LOAD -alloc 157286400 -hold 10m >/dev/null 2>&1 &); LOAD -burn 1s -hold 6s", options: []string{one, "--mem=400M"}, state: "completed", left: 1, must: []string{"left"},
			says: []string{"1 process was still running when the script ended"}, measure: (*kindResult).peak},
		{what: "a name of two words and quotes", script: "LOAD -burn 1s", options: []string{two, "-J", "say \"hi\" `now`"}, state: "completed", measure: func(r *kindResult, _ *cluster, _ *up) {
			if want := "say \"hi\" `now`"; r.detail.Name != want {
				r.errorf("its name is %q, want %q", r.detail.Name, want)
			}
		}},
		{what: "idle but for a burst", script: "LOAD -burn 117ms -hold 34s", options: []string{one}, state: "completed", must: []string{"idle"}},
		{what: "idle on two cores", script: "LOAD -burn 300ms -hold 38s", options: []string{one, "-c2"}, state: "completed", must: []string{"idle"}},
		{what: "exit code 137 of its own", script: "LOAD -burn 1s; exit 137", options: []string{two}, state: "failed", must: []string{"failed.signal"}, says: []string{"signal 9 (killed)"}},
		{what: "a file that is no program", script: "LOAD -burn 1s; /etc/passwd", options: []string{two}, state: "failed", must: []string{"failed"}, says: []string{"it failed with exit code 126, which a shell returns for a command that it cannot execute"}},
		{what: "its output cannot be written", script: "LOAD -burn 1s", options: []string{two, "-o", "/nosuchfolder/out"}, state: "failed", must: []string{"failed"}, says: []string{"its output file or directory is not writable"}},
		{what: "450 of 500 MiB needed", script: "LOAD -alloc 471859200 -hold 20s", options: []string{one, "--mem=500M"}, state: "completed", must: []string{"memory.tight"}, says: []string{"little room for a run that needs more"}, measure: (*kindResult).peak},
		{what: "all the memory of its node", script: "LOAD -burn 1s -hold 3s", options: []string{two, "--mem=0"}, state: "completed", never: []string{"killed"}},
		{what: "a program with a time limit of its own", script: "timeout 3 LOAD -hold 10m; LOAD -burn 1s; true", options: []string{two}, state: "completed", never: []string{"exit code", "time limit"}},
		{what: "four steps at a time", script: "for i in 1 2 3 4; do srun --overlap LOAD -burn 300ms -hold 2s & done; wait", options: []string{two}, state: "completed"},
		{what: "two tasks on a node", script: "srun -n2 LOAD -burn 1s -hold 2s", options: []string{one, "-n2"}, state: "completed"},
		{what: "of a low priority of its own", script: "nice -n 19 LOAD -burn 1s", options: []string{two}, state: "completed"},
		{what: "a process that leaves its session", script: "setsid LOAD -burn 1s -hold 2s & sleep 5", options: []string{two}, state: "completed"},
		{what: "a process without a parent", script: "(setsid sh -c 'LOAD -burn 1s' &) ; sleep 5", options: []string{two}, state: "completed"},
		{what: "threads that end", script: "LOAD -threads 200 -dir /tmp -delete -hold 1s", options: []string{two}, state: "completed"},
		{what: "array of 3 tasks, one at a time", script: "LOAD -burn 300ms -hold 25s", options: []string{two, "--array=1-3%1"}, state: "completed", turn: 1, measure: func(r *kindResult, _ *cluster, u *up) {
			var m client.Members
			u.get("/api/reckon/v1/members/slurm/"+r.raw, &m)
			if got := fmt.Sprint(m.States); len(m.Members) != 3 || got != "[{completed 3}]" {
				r.errorf("%d members: %s", len(m.Members), got)
			}
		}},
		{what: "queued again by root", script: "LOAD -burn 1s -hold 15s", options: []string{one, "--requeue"}, turn: 1, act: scontrol("requeue", "ID"), state: "completed", runs: 2, must: []string{"before"}},
		{what: "cancelled while it is suspended", script: "LOAD -burn 1s -hold 10m", options: []string{one}, act: func(id string) {
			c.run("scontrol", "suspend", id)
			pause(35 * time.Second) // the queue is asked meanwhile
			byOwner(id)
		}, state: "cancelled", says: []string{"it was cancelled"}},
		{what: "moved out of its control groups", script: "LOAD -burn 8s", options: []string{one}, moved: true, act: func(id string) {
			c.run("sh", "-c", "for f in $(find /sys/fs/cgroup -path '*job_"+id+"/*' -name cgroup.procs); do for p in $(cat $f); do "+
				"ps -o user= -p $p | grep -q hpcuser && for g in /sys/fs/cgroup/*/; do echo $p >$g/cgroup.procs; done; done; done; true")
		}, state: "completed", measure: func(r *kindResult, _ *cluster, _ *up) { r.equal("CPU seconds", &r.cpu, 8, 0.2) }},
		{what: "resized from two nodes to one", script: "LOAD -burn 1s -hold 25s", options: []string{wide, "-N2", "-n2"}, turn: 1, act: scontrol("update", "JobId=ID", "NumNodes=1"), state: "completed"},
		{what: "held by its owner", script: "true", options: []string{two, "-H"}, queued: true, state: "pending", says: []string{"its owner holds it"}},
		{what: "waits for its time", script: "true", options: []string{two, "--begin=now+1hour"}, queued: true, state: "pending", says: []string{"it is not to start before the time that it was given"}},
		{what: "asks for more time than its partition allows", script: "true", options: []string{two, "-t60"}, queued: true, state: "pending", says: []string{"ask for less, or it will never start"}},
		{what: "preempted and cancelled", script: "LOAD -burn 1s -hold 10m", options: []string{"-pscrap"}, turn: 2, act: func(string) {
			c.submit("hpcbob", "LOAD -burn 1s -hold 4s", "-pfirst", "-w", c.host+"-two", "--exclusive")
		},
			state: "preempted", says: []string{"it had to make room for a job of higher priority after"}, never: []string{"exit code"}},
		{what: "preempted and queued again", must: []string{"before"}, script: "LOAD -burn 1s -hold 15s", options: []string{"-pagain", "--requeue"}, turn: 2, act: func(string) { c.submit("hpcbob", "LOAD -burn 1s -hold 4s", "-pfirst", "-w", c.host, "--exclusive") },
			state: "completed", runs: 2, before: "preempted"},
	}
}

// TestSlurmKinds runs a job of each kind in a real Slurm and holds state, words, CPU time and memory of each against Slurm
// and its control groups. It prints the table of doc/benchmarks.md, with core time beside accounting. No figure may pass
// what bounds it.
func TestSlurmKinds(t *testing.T) {
	c := startSlurm(t)
	u := startUp(t, t.TempDir(), "--slurm", "--site", "tiny")
	defer c.watch()()
	kinds := chosen(t, c.jobKinds())
	results, waiting := make([]*kindResult, len(kinds)), []string{}
	for turn := range 3 {
		for i, k := range kinds {
			if k.turn != turn {
				continue
			}
			user := k.user
			if user == "" {
				user = "hpcuser"
			}
			results[i] = &kindResult{kind: k, raw: c.submit(user, k.script, k.options...)}
			if k.queued {
				waiting = append(waiting, results[i].raw)
			}
		}
		for _, r := range results {
			if r != nil && r.kind.turn == turn && r.kind.act != nil {
				if !r.kind.array() { // with numbers of their own for the tasks
					c.until(r.kind.what+": runs and has used a second", 4*time.Minute, func() bool { v, _ := c.cpu(r.raw); return v > 0.9 })
				}
				t.Log(time.Now().Format(time.TimeOnly), r.kind.what)
				r.kind.act(r.raw)
			}
		}
		c.until("all jobs that can run have ended", 10*time.Minute, func() bool {
			for _, line := range strings.Fields(c.run("squeue", "-h", "-o", "%A")) {
				if !slices.Contains(waiting, line) {
					return false
				}
			}
			return true
		})
	}
	c.missing(u, results)
	pause(130 * time.Second) // accounting, which knows the steps, is asked every two minutes
	accounted := c.accounted()
	t.Log("| kind | what was said first | CPU time, s | its control groups | core time, s | sacct |")
	for _, r := range results {
		t.Run(strings.ReplaceAll(r.kind.what, " ", "-"), func(t *testing.T) { r.check(t, c, u, accounted) })
	}
	t.Run("hours", func(t *testing.T) { hours(t, u, accounted) })
	t.Run("inconsistent", func(t *testing.T) {
		var list client.InconsistentList
		u.get("/api/reckon/v1/inconsistent", &list)
		if len(list.Figures) > 0 {
			t.Errorf("%+v", list.Figures)
		}
	})
}

// chosen are the kinds that match the expression in RECKON_KINDS, or all.
func chosen(t *testing.T, kinds []*jobKind) []*jobKind {
	only, err := regexp.Compile(os.Getenv("RECKON_KINDS"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(kinds, func(k *jobKind) bool { return !only.MatchString(k.what) })
}

// missing waits until the last state of all jobs is in the catalogue.
func (c *cluster) missing(u *up, results []*kindResult) {
	c.t.Helper()
	what := ""
	defer func() {
		if c.t.Failed() {
			c.t.Log("the last that was not as expected:", what)
		}
	}()
	c.until("the last state of all is known", 5*time.Minute, func() bool {
		rows := u.workloads("kind=slurm&limit=1000")
		for _, w := range rows { // also of jobs that made others wait
			if what = fmt.Sprintf("%+v", w); w.Running {
				return false
			}
		}
		for _, r := range results {
			id := "slurm/" + r.raw
			if r.kind.array() {
				id += "_1"
			}
			l := lives(rows, id)
			what = fmt.Sprintf("%s: %+v", r.kind.what, l)
			if len(l) != max(1, r.kind.runs) || !r.kind.queued && (l[0].End == nil || l[0].CPUSeconds == nil && r.kind.state != "failed" && l[0].WallSeconds > 2) {
				return false
			}
			if l[0].State != r.kind.state && !strings.HasSuffix(id, "_1") || r.kind.before != "" && l[1].State != r.kind.before {
				return false
			}
		}
		return true
	})
}

// accountedJob is sacct's account of all runs of a job.
type accountedJob struct {
	id, owner   string
	coreSeconds float64
	changed     bool // it was suspended or resized: its core time is not its cores by its wall time
	lines       []string
}

// accounted reads what sacct reports about all jobs, by the number of each. The record behind a change of size has the time of
// the change where others have the time of the submission, and the start of the job.
func (c *cluster) accounted() map[string]accountedJob {
	out := map[string]accountedJob{}
	for _, line := range strings.Split(c.run("env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-D", "-n", "-P", "-S", "now-2hours", "-o", "JobIDRaw,User,State,AllocCPUS,Submit,Start,End,Suspended,JobID"), "\n") {
		f := strings.Split(line, "|")
		number := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
		from := max(number(f[4]), number(f[5]))
		suspended, err := slurmtext.Duration(f[7])
		if err != nil {
			c.t.Errorf("suspended for %q", f[7])
		}
		j := out[f[0]]
		j.id, j.owner, j.lines = f[8], f[1], append(j.lines, line)
		if j.changed = j.changed || suspended > 0 || f[2] == "RESIZING"; number(f[5]) > 0 {
			j.coreSeconds += number(f[3]) * max(number(f[6])-from-suspended, 0)
		}
		out[f[0]] = j
	}
	return out
}

// hours holds the core time that owners were allocated against accounting, to the second.
func hours(t *testing.T, u *up, accounted map[string]accountedJob) {
	want := map[string]float64{}
	for _, j := range accounted {
		want[j.owner] += j.coreSeconds
	}
	var list client.UsageList
	for began := time.Now(); time.Since(began) < 5*time.Minute; pause(5 * time.Second) { // a busy server counts usage every few minutes
		list = client.UsageList{}
		if u.get("/api/reckon/v1/usage?span=whole&by=owner&kind=slurm", &list); list.AsOf == nil || list.AsOf.After(began) {
			break
		}
	}
	for _, r := range list.Rows {
		if math.Abs(deref(r.HeldCoreSeconds)-want[r.Owner]) > 0.5 {
			t.Errorf("%s was allocated %s core seconds, sacct says %g", r.Owner, figureOf(r.HeldCoreSeconds), want[r.Owner])
		}
		t.Logf("%s was allocated %s core seconds, sacct says %g", r.Owner, figureOf(r.HeldCoreSeconds), want[r.Owner])
		delete(want, r.Owner)
	}
	if len(want) > 0 {
		t.Errorf("not among the owners: %v", want)
	}
}

func (r *kindResult) errorf(format string, args ...any) {
	r.text += fmt.Sprintf(format, args...) + "\n"
}

func (r *kindResult) equal(what string, got *float64, want, within float64) {
	if got == nil || math.Abs(*got-want) > within {
		r.errorf("%s: %s, want %g", what, figureOf(got), want)
	}
}

// check holds a job against the expectations of its kind.
func (r *kindResult) check(t *testing.T, c *cluster, u *up, accounted map[string]accountedJob) {
	id := "slurm/" + r.raw
	array := r.kind.array()
	if array {
		id += "_1"
	}
	u.get("/api/reckon/v1/workloads/"+id, &r.detail)
	if !array {
		r.judged(c, u, id, accounted[r.raw])
	}
	said := []string{}
	for _, v := range r.detail.Verdicts {
		said = append(said, v.Text)
	}
	text := strings.Join(said, "\n")
	for _, want := range r.kind.says {
		if !strings.Contains(text, want) {
			r.errorf("%q is not said", want)
		}
	}
	for _, not := range r.kind.never {
		if strings.Contains(text, not) {
			r.errorf("%q is said", not)
		}
	}
	core := 0.0
	rows := lives(u.workloads("kind=slurm&limit=1000"), id)
	for _, w := range rows {
		if w.AllocatedCores != nil {
			core += *w.AllocatedCores * w.WallSeconds
		}
		if w.CPUSeconds != nil {
			r.cpu += *w.CPUSeconds
		}
	}
	low, high := c.cpu(r.raw)
	if !r.kind.queued && !r.kind.moved && !array && (r.cpu < 0.99*low-0.02 || r.cpu > 1.01*high+0.02) {
		r.errorf("CPU time %.3f s, its control groups say %.3f s to %.3f s", r.cpu, low, high)
	}
	sacct := accounted[r.raw]
	if !sacct.changed && !array && math.Abs(core-sacct.coreSeconds) > 0.5 {
		r.errorf("core time %g s, sacct says %g s: %v\n%+v", core, sacct.coreSeconds, sacct.lines, rows)
	}
	if r.kind.measure != nil {
		r.kind.measure(r, c, u)
	}
	first := "-"
	if len(said) > 0 {
		first = said[0]
	}
	t.Logf("| %s | %s | %.3f | %.3f to %.3f | %.0f | %.0f |", r.kind.what, first, r.cpu, low, high, core, sacct.coreSeconds)
	if r.text != "" {
		t.Errorf("%s%s\nsaid:\n%s", r.text, r.detail.State, text)
	}
}

// judged holds the sentences about a job against the batch system and its control groups.
func (r *kindResult) judged(c *cluster, u *up, id string, sacct accountedJob) {
	truth := judge.Truth{ID: id, Wall: -1, Limit: -1, CPU: -1, Cores: -1, Memory: -1, Exit: -1, Left: float64(r.kind.left), Must: r.kind.must}
	_, truth.Peak = c.peak(r.raw)                       // no node can have had more
	if n := len(sacct.lines); n > 0 && !sacct.changed { // the last run
		f := strings.Split(sacct.lines[n-1], "|")
		number := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
		truth.Wall, truth.Cores = max(number(f[6])-number(f[5]), 0), number(f[3])
		if n == 1 {
			low, high := c.cpu(r.raw)
			truth.CPU = (low + high) / 2
		}
	}
	for _, pair := range strings.Fields(c.run("sh", "-c", "scontrol show job "+r.raw+" 2>/dev/null | tr ' ' '\\n'; true")) {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "TimeLimit":
			if s, err := slurmtext.Duration(value); err == nil {
				truth.Limit = s
			}
		case "ExitCode":
			code, signal, _ := strings.Cut(value, ":")
			truth.Exit, _ = strconv.ParseFloat(code, 64)
			if s, _ := strconv.ParseFloat(signal, 64); s > 0 {
				truth.Exit = 128 + s
			}
		}
	}
	var raw json.RawMessage
	u.get("/api/reckon/v1/workloads/"+id, &raw)
	wrong, computed := judge.Sentences(raw, truth)
	for _, w := range wrong {
		r.errorf("%s", w)
	}
	c.t.Logf("%s: %d figures of its sentences computed anew", r.kind.what, computed)
}

// needsLittle is for a job with page cache as its memory.
func (r *kindResult) needsLittle(*cluster, *up) {
	if v := r.detail.MemoryNeededPeakBytes; v == nil || *v > 64e6 {
		r.errorf("it needed %s bytes", figureOf(v))
	}
}

// peak holds the memory peak against the peak of the control group of the job.
func (r *kindResult) peak(c *cluster, _ *up) {
	want, _ := c.peak(r.raw)
	r.equal("memory peak", r.detail.MemoryPeakBytes, want, 0.01*want)
}

// array holds the tasks of an array as a whole.
func (r *kindResult) array(c *cluster, u *up) {
	var m client.Members
	u.get("/api/reckon/v1/members/slurm/"+r.raw, &m)
	if got := fmt.Sprint(m.States); len(m.Members) != 3 || got != "[{completed 2} {failed 1}]" {
		r.errorf("%d members: %s", len(m.Members), got)
	}
	rows := u.workloads("kind=slurm&limit=1000")
	for number, j := range c.accounted() {
		if j.id == number || !strings.HasPrefix(j.id, r.raw+"_") {
			continue
		}
		for _, w := range lives(rows, "slurm/"+number) {
			if w.State != "started" { // what waited of the array
				r.errorf("task %s has a row under its number, too: %+v", j.id, w)
			}
		}
	}
}
