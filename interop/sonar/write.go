package sonar

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"strconv"
	"strings"
	"time"

	"reckon/workload"
)

// Documents are written in sonar's format 0. Zeros are omitted, as by sonar, except in required fields.

// OutEnvelope is a document around its attributes.
type OutEnvelope struct {
	Meta struct {
		Producer string `json:"producer"`
		Version  string `json:"version"`
	} `json:"meta"`
	Data struct {
		Type       string `json:"type"`
		Attributes any    `json:"attributes"`
	} `json:"data"`
}

// OutSample contains the attributes of type sample.
type OutSample struct {
	Time    string    `json:"time"`
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	System  OutSystem `json:"system"`
	Jobs    []*OutJob `json:"jobs,omitempty"`
}

// OutSystem is the state of a node. Memory is in KiB.
type OutSystem struct {
	Boot       string   `json:"boot,omitempty"`
	CPUs       []uint64 `json:"cpus,omitempty"`
	UsedMemory uint64   `json:"used_memory,omitempty"`
	Load1      float64  `json:"load1,omitempty"`
}

// OutJob is a job on a node.
type OutJob struct {
	Job       uint64        `json:"job"`
	User      string        `json:"user"`
	Epoch     uint64        `json:"epoch"`
	Processes []*OutProcess `json:"processes,omitempty"`
}

// OutProcess is a process, or several with one name, as written by sonar.
type OutProcess struct {
	Resident uint64   `json:"resident_memory,omitempty"`
	Cmd      string   `json:"cmd,omitempty"`
	Threads  uint64   `json:"num_threads,omitempty"`
	CPUTime  uint64   `json:"cpu_time,omitempty"`
	CPUMean  float64  `json:"cpu_avg,omitempty"` // percent of a core, since it started
	Rolled   uint64   `json:"rolledup,omitempty"`
	Read     uint64   `json:"data_read,omitempty"`
	Written  uint64   `json:"data_written,omitempty"`
	GPUs     []OutGPU `json:"gpus,omitempty"`
}

// OutGPU is the share of a process in a card.
type OutGPU struct {
	Index  uint64  `json:"index"`
	UUID   string  `json:"uuid"`
	Util   float64 `json:"gpu_util,omitempty"`
	Memory uint64  `json:"gpu_memory,omitempty"`
}

// OutSysinfo contains the attributes of type sysinfo.
type OutSysinfo struct {
	Time           string `json:"time"`
	Cluster        string `json:"cluster"`
	Node           string `json:"node"`
	OS             string `json:"os_name"`
	Release        string `json:"os_release"`
	Architecture   string `json:"architecture"`
	Sockets        uint64 `json:"sockets"`
	CoresPerSocket uint64 `json:"cores_per_socket"`
	ThreadsPerCore uint64 `json:"threads_per_core"`
	CPUModel       string `json:"cpu_model"`
	Memory         uint64 `json:"memory"`
}

// OutJobs contains the attributes of type job.
type OutJobs struct {
	Time    string        `json:"time"`
	Cluster string        `json:"cluster"`
	Jobs    []OutSlurmJob `json:"slurm_jobs,omitempty"`
}

// OutSlurmJob is a job of accounting. TimeLimit is minutes plus two; 0 is unset.
type OutSlurmJob struct {
	JobID       uint64    `json:"job_id"`
	Name        string    `json:"job_name,omitempty"`
	State       string    `json:"job_state"`
	ArrayJobID  uint64    `json:"array_job_id,omitempty"`
	ArrayTaskID uint64    `json:"array_task_id,omitempty"`
	User        string    `json:"user_name,omitempty"`
	Account     string    `json:"account,omitempty"`
	Submit      string    `json:"submit_time"`
	TimeLimit   uint64    `json:"time_limit,omitempty"`
	Partition   string    `json:"partition,omitempty"`
	Nodes       []string  `json:"nodes,omitempty"`
	ReqCPUs     uint64    `json:"requested_cpus,omitempty"`
	ReqMemory   uint64    `json:"requested_memory_per_node,omitempty"`
	ReqNodes    uint64    `json:"requested_node_count,omitempty"`
	Start       string    `json:"start_time"`
	End         string    `json:"end_time"`
	ExitCode    uint64    `json:"exit_code,omitempty"`
	Sacct       *OutSacct `json:"sacct,omitempty"`
}

// OutSacct is the use of a job in accounting. Memory is in KiB.
type OutSacct struct {
	AllocTRES  string `json:"AllocTRES,omitempty"`
	ElapsedRaw uint64 `json:"ElapsedRaw,omitempty"`
	SystemCPU  uint64 `json:"SystemCPU,omitempty"`
	UserCPU    uint64 `json:"UserCPU,omitempty"`
	MaxRSS     uint64 `json:"MaxRSS,omitempty"`
}

// Write writes one document on a line.
func Write(w io.Writer, version, kind string, attributes any) error {
	var e OutEnvelope
	e.Meta.Producer, e.Meta.Version = "reckon", version
	e.Data.Type, e.Data.Attributes = kind, attributes
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(e)
}

// Stamp formats a time as sonar does; empty for the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05+00:00")
}

// Number returns the job number and the epoch that represent a workload in sonar's output. A batch job or process group
// has its own number. Other workloads get a stable number that no process has.
func Number(of string) (job, epoch uint64) {
	switch id, name := workload.ID(of), workload.ID(of).Name(); {
	case id.Kind().Batch():
		if n, err := strconv.ParseUint(id.BatchNumber(), 10, 64); err == nil && n > 0 {
			return n, 0
		}
	case id.Kind().Group():
		group, start, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], "-")
		n, e1 := strconv.ParseUint(group, 10, 64)
		s, e2 := strconv.ParseUint(start, 10, 64)
		if e1 == nil && e2 == nil && n > 0 && s > 0 {
			if s > epochBase {
				s -= epochBase
			}
			return n, s
		}
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, of)
	return 1<<32 | uint64(h.Sum32()), 1
}
