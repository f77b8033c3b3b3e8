package sonar

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"reckon/interop/sacct"
	"reckon/interop/slurmtext"
)

type jobsAttributes struct {
	Time    string     `json:"time"`
	Cluster string     `json:"cluster"`
	Jobs    []slurmJob `json:"slurm_jobs"`
}

// slurmJob is a job or a step. Its time limit is encoded as 0 for unset, 1 for no limit, and otherwise as the limit plus two.
type slurmJob struct {
	JobID       uint64   `json:"job_id"`
	Step        string   `json:"job_step"`
	Name        string   `json:"job_name"`
	State       string   `json:"job_state"`
	ArrayJobID  uint64   `json:"array_job_id"`
	ArrayTaskID uint64   `json:"array_task_id"`
	HetJobID    uint64   `json:"het_job_id"`
	HetOffset   uint64   `json:"het_job_offset"`
	User        string   `json:"user_name"`
	Account     string   `json:"account"`
	Submit      string   `json:"submit_time"`
	TimeLimit   uint64   `json:"time_limit"`
	Partition   string   `json:"partition"`
	Nodes       []string `json:"nodes"`
	Allocated   string   `json:"allocated_resources"`
	ReqCPUs     uint64   `json:"requested_cpus"`
	ReqMemory   uint64   `json:"requested_memory_per_node"` // KiB
	ReqNodes    uint64   `json:"requested_node_count"`
	Start       string   `json:"start_time"`
	End         string   `json:"end_time"`
	ExitCode    int      `json:"exit_code"`
	Sacct       *struct {
		AllocTRES            string
		ElapsedRaw           float64
		SystemCPU, UserCPU   *float64
		MaxRSS, AveRSS       float64 // KiB
		AveDiskRead, MaxTask float64
	} `json:"sacct"`
}

func (r *Reader) parseJobs(raw json.RawMessage, h *Handler) (bad, fatal error) {
	var a jobsAttributes
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("jobs: %w", err), nil
	}
	seen, err := r.parseTime([]byte(a.Time))
	if err != nil {
		return err, nil
	}
	for i := range a.Jobs {
		j, err := a.Jobs[i].toJob(a.Cluster, time.Unix(seen, 0))
		if err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		if h.Job != nil {
			if err := h.Job(&j); err != nil {
				return bad, err
			}
		}
	}
	return bad, nil
}

func (s *slurmJob) toJob(cluster string, seen time.Time) (sacct.Job, error) {
	if s.JobID == 0 || s.State == "" {
		return sacct.Job{}, fmt.Errorf("a job without a number or a state (job_id %d, job_state %q)", s.JobID, s.State)
	}
	j := sacct.Job{
		ID: strconv.FormatUint(s.JobID, 10), Raw: strconv.FormatUint(s.JobID, 10), Step: s.Step, Cluster: cluster,
		User: s.User, Account: s.Account, Partition: s.Partition, Name: s.Name, Seen: seen,
		Nodes: strings.Join(s.Nodes, ","),
	}
	// Index 0 of an array is omitted like every zero.
	if s.ArrayJobID != 0 {
		j.ID, j.Also = fmt.Sprintf("%d_%d", s.ArrayJobID, s.ArrayTaskID), j.Raw
	} else if s.HetJobID != 0 {
		j.ID, j.Also = fmt.Sprintf("%d+%d", s.HetJobID, s.HetOffset), j.Raw
	}
	j.State, j.Reason = slurmtext.State(s.State)
	j.EndedBy, j.EndedByUser = slurmtext.EndedBy(j.State, j.Reason)
	var err error
	for text, into := range map[*string]*time.Time{&s.Submit: &j.Submit, &s.Start: &j.Start, &s.End: &j.End} {
		if *text == "" {
			continue
		}
		if *into, err = time.Parse(time.RFC3339, *text); err != nil {
			return j, fmt.Errorf("job %d: time %q is not RFC 3339", s.JobID, *text)
		}
	}
	if s.TimeLimit >= 2 {
		j.TimeLimit = numberOrNil(float64(s.TimeLimit-2) * 60)
	}
	positive := func(v uint64, by float64) *float64 {
		if v == 0 {
			return nil
		}
		return numberOrNil(float64(v) * by)
	}
	j.ReqCores, j.ReqNodes = positive(s.ReqCPUs, 1), positive(s.ReqNodes, 1)
	j.ReqMemory = positive(s.ReqMemory, 1024)
	if j.ReqMemory != nil && j.ReqNodes != nil {
		*j.ReqMemory *= *j.ReqNodes
	}
	tres := s.Allocated
	if s.Sacct != nil {
		if s.Sacct.AllocTRES != "" {
			tres = s.Sacct.AllocTRES
		}
		j.CPUUser, j.CPUSystem = s.Sacct.UserCPU, s.Sacct.SystemCPU
		if s.Sacct.MaxRSS > 0 {
			j.PeakMemory = numberOrNil(s.Sacct.MaxRSS * 1024)
		}
	}
	j.TRES(tres)
	if sacct.IsFinal(j.State) {
		code := s.ExitCode
		j.ExitCode = &code
	}
	return j, nil
}

func numberOrNil(v float64) *float64 { return &v }
