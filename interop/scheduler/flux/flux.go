// Package flux is the source of package scheduler for Flux (flux-core): the jobs and nodes of the system instance.
//
//	jobs in the instance     flux jobs -A --json
//	jobs that ended          flux jobs -A --json --filter=inactive --since=TIME
//	nodes and queues         flux resource list, with a format of its own
//
// Times are seconds since the Unix epoch, with fractions (RFC 21); a duration of 0 is no limit. States and results use Slurm's words, as
// package scheduler requires. Steps, accounts and memory requests are absent, because Flux's accounting keeps no steps, banks belong to
// flux-accounting, and there is no memory request. A job of a nested instance belongs to the job that started the instance.
//
// A [Source] is used from one goroutine.
package flux

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"reckon/internal/hostlist"
	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
	"reckon/workload"
)

// mostJobs is the largest number of jobs of one answer; Flux lists a thousand by default.
const mostJobs = 1_000_000

// Source queries Flux by its command, which finds the instance by FLUX_URI or its default address.
type Source struct {
	// Env is added to the environment of the command.
	Env []string
}

var _ scheduler.Source = (*Source)(nil)

// Open returns the source. Flux has no HTTP service to query.
func Open(a scheduler.Access) (scheduler.Source, error) {
	if a.URL != "" {
		return nil, fmt.Errorf("flux is asked by its command, not at %s: leave the address out", a.URL)
	}
	if _, err := exec.LookPath("flux"); err != nil {
		return nil, fmt.Errorf("the command flux is not found: install flux-core on this machine, or start reckon where it is: %w", err)
	}
	return &Source{}, nil
}

// Name implements [scheduler.Source].
func (*Source) Name() string { return "flux jobs and flux resource" }

// Kind implements [scheduler.Source].
func (*Source) Kind() workload.Kind { return workload.Flux }

// Jobs implements [scheduler.Source].
func (s *Source) Jobs(ctx context.Context) ([]scheduler.Job, scheduler.Read, error) {
	return s.jobs(ctx, "--filter=pending,running")
}

// Ended implements [scheduler.Source]. Flux lists jobs that became inactive since a time; the answer may include later ends.
func (s *Source) Ended(ctx context.Context, since, _ time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return s.jobs(ctx, "--filter=inactive", "--since="+strconv.FormatInt(since.Unix(), 10))
}

// ByNumber implements [scheduler.Source]. An id always belongs to one run, so the submit time is not needed.
func (s *Source) ByNumber(ctx context.Context, numbers []uint64, _ time.Time) ([]scheduler.Job, scheduler.Read, error) {
	args := make([]string, len(numbers))
	for i, n := range numbers {
		args[i] = strconv.FormatUint(n, 10)
	}
	return s.jobs(ctx, args...)
}

func (s *Source) jobs(ctx context.Context, which ...string) ([]scheduler.Job, scheduler.Read, error) {
	text, err := s.run(ctx, append([]string{"jobs", "-A", "--json", "--count=" + strconv.Itoa(mostJobs)}, which...)...)
	jobs, got, wrong := readJobs(text)
	if err != nil && len(jobs) == 0 {
		return nil, got, err
	}
	return jobs, got, cmp.Or(wrong, err)
}

// run returns the output of a command.
func (s *Source) run(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "flux", args...)
	c.Env = append(c.Environ(), s.Env...)
	var out, wrong bytes.Buffer
	c.Stdout, c.Stderr = &out, &wrong
	if err := c.Run(); err != nil {
		message, _, _ := strings.Cut(strings.TrimSpace(wrong.String()), "\n")
		if over := context.Cause(ctx); over != nil {
			err = over
		}
		return out.Bytes(), fmt.Errorf("flux %s: %s", args[0], cmp.Or(message, err.Error()))
	}
	return out.Bytes(), nil
}

// record is a job in the JSON of flux jobs.
type record struct {
	ID         uint64
	UserID     *int64 `json:"userid"`
	User       string `json:"username"`
	Name       string
	Queue      string
	Bank       string
	State      string
	Result     string
	Urgency    *float64
	Cores      float64 `json:"ncores"`
	Tasks      float64 `json:"ntasks"`
	Nodes      float64 `json:"nnodes"`
	Duration   float64
	NodeList   string  `json:"nodelist"`
	Submit     float64 `json:"t_submit"`
	Eligible   float64 `json:"t_sched"`
	Run        float64 `json:"t_run"`
	Cleanup    float64 `json:"t_cleanup"`
	Inactive   float64 `json:"t_inactive"`
	ReturnCode *int    `json:"returncode"`
	Annotation struct {
		Sched struct {
			Reason string `json:"reason_pending"`
		}
	} `json:"annotations"`
	Exception struct{ Type, Note string }
}

// readJobs parses the answer: {"jobs":[...]}, or a single job if only one was requested.
func readJobs(text []byte) (jobs []scheduler.Job, got scheduler.Read, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, got, nil // of no job, older releases write nothing
	}
	var list struct{ Jobs []json.RawMessage }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&list); err != nil && err != io.ErrUnexpectedEOF {
		return nil, got, fmt.Errorf("the answer of flux jobs is no JSON: %w", err)
	}
	if list.Jobs == nil && bytes.Contains(text, []byte(`"t_submit"`)) {
		list.Jobs = []json.RawMessage{text}
	}
	for _, raw := range list.Jobs {
		got.Records++
		var r record
		if err := json.Unmarshal(raw, &r); err != nil || r.ID == 0 || r.State == "" {
			got.Reject("a job without id or state: %.80s", raw)
			continue
		}
		jobs = append(jobs, r.job())
	}
	return jobs, got, nil
}

func (r *record) job() scheduler.Job {
	j := scheduler.Job{
		ID: workload.FluxID(r.ID), Number: r.ID, User: r.User, Name: r.Name, Partition: r.Queue, Account: r.Bank,
		Submit: unixTime(r.Submit), Eligible: unixTime(r.Eligible), Start: unixTime(r.Run),
		Cores: cmp.Or(r.Cores, r.Tasks), Nodes: r.Nodes, Seconds: r.Duration, NodeList: r.NodeList,
	}
	if r.UserID != nil && *r.UserID >= 0 {
		j.UID = strconv.FormatInt(*r.UserID, 10)
	}
	j.User = cmp.Or(j.User, j.UID)
	switch r.State {
	case "RUN":
		j.State = "running"
	case "CLEANUP": // its processes have ended, and the prolog, epilog or the release of nodes goes on
		j.State = "completing"
	case "INACTIVE":
		j.State, j.Ended, j.End = r.finalState(), true, unixTime(cmp.Or(r.Cleanup, r.Inactive))
		j.EndedBy, j.Reason = r.endedBy()
	default: // NEW, DEPEND, PRIORITY, SCHED
		j.State, j.Reason = "pending", r.waitsFor()
	}
	if !j.Start.IsZero() {
		j.Allocated = scheduler.Allocation{Cores: r.Cores, Nodes: r.Nodes}
		if j.Ended {
			j.Exit = r.ReturnCode
		}
	}
	return j
}

// finalState returns the final state. A job that was canceled before it started has no start.
func (r *record) finalState() string {
	switch r.Result {
	case "COMPLETED":
		return "completed"
	case "CANCELED":
		return "cancelled"
	case "TIMEOUT":
		return "timeout"
	}
	if r.Exception.Type == "node-failure" || r.Exception.Type == "lost-shell" {
		return "node_fail"
	}
	return "failed"
}

func (r *record) endedBy() (by, reason string) {
	switch r.finalState() {
	case "cancelled":
		by = slurmtext.EndedByUser
	case "timeout":
		by = slurmtext.EndedByTimeLimit
	case "node_fail":
		by = slurmtext.EndedByNodeFailure
	}
	return by, r.Exception.Note
}

// waitsFor explains why a job has not started. It uses Slurm's word if there is one.
func (r *record) waitsFor() string {
	switch {
	case r.Urgency != nil && *r.Urgency == 0:
		return "JobHeldUser"
	case r.State == "DEPEND":
		return "Dependency"
	case r.State == "PRIORITY" || r.State == "NEW":
		return "Priority"
	}
	return cmp.Or(r.Annotation.Sched.Reason, "Resources")
}

func unixTime(seconds float64) time.Time {
	if seconds <= 0 || seconds > 1<<40 {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000)).UTC()
}

// nodeFormat is a line for each state and queue of flux resource list.
const nodeFormat = "{state}\t{queue}\t{nnodes}\t{ncores}\t{ngpus}\t{nodelist}"

// Nodes implements [scheduler.Source]. It returns one entry per state of a node, such as free and allocated, with the
// number of cores in that state.
func (s *Source) Nodes(ctx context.Context) ([]scheduler.Node, []scheduler.Partition, scheduler.Read, error) {
	text, err := s.run(ctx, "resource", "list", "--states=free,allocated,down", "--no-header", "--format="+nodeFormat)
	if err != nil {
		return nil, nil, scheduler.Read{}, err
	}
	nodes, parts, got := readNodes(string(text))
	return nodes, parts, got, nil
}

func readNodes(text string) (nodes []scheduler.Node, parts []scheduler.Partition, got scheduler.Read) {
	at := map[string]int{}
	queues := map[string]bool{}
	for line := range strings.Lines(text) {
		got.Records++
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 6 {
			got.Reject("a line of flux resource list with %d of 6 fields", len(f))
			continue
		}
		names, err := hostlist.Expand(f[5])
		count, _ := strconv.ParseFloat(f[2], 64)
		if err != nil || len(names) == 0 || count != float64(len(names)) {
			if count > 0 {
				got.Reject("a line of flux resource list with %s nodes and the list %.60q", f[2], f[5])
			}
			continue
		}
		cores, _ := strconv.ParseFloat(f[3], 64)
		gpus, _ := strconv.ParseFloat(f[4], 64)
		for _, q := range strings.Split(f[1], ",") {
			if q != "" && !queues[q] {
				queues[q] = true
				parts = append(parts, scheduler.Partition{Name: q, State: "up"})
			}
		}
		for _, name := range names {
			i, ok := at[name]
			if !ok {
				i, at[name] = len(nodes), len(nodes)
				nodes = append(nodes, scheduler.Node{Name: name})
				for _, q := range strings.Split(f[1], ",") {
					if q != "" {
						nodes[i].Partitions = append(nodes[i].Partitions, q)
					}
				}
			}
			addShare(&nodes[i], f[0], cores/count, gpus/count)
		}
	}
	return nodes, parts, got
}

// addShare adds the cores and GPUs of a node in a state. For a line of several nodes it adds their mean.
func addShare(n *scheduler.Node, state string, cores, gpus float64) {
	n.Cores += cores
	n.GPUs += gpus
	if n.AllocatedGPUs == nil {
		n.AllocatedGPUs = new(float64)
	}
	switch state {
	case "allocated":
		n.AllocatedCores += cores
		*n.AllocatedGPUs += gpus
		if n.State == "idle" {
			n.State = "mixed"
		} else if n.State == "" {
			n.State = "allocated"
		}
	case "free":
		if n.State == "allocated" {
			n.State = "mixed"
		} else if n.State == "" {
			n.State = "idle"
		}
	default:
		n.State = "down"
	}
}
