package batch

import (
	"cmp"
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Job data in the environment of each system: qsub(1B) of PBS, TORQUE and Grid Engine, and the
// reference of LSF's environment variables.

func get(h *workload.Hint, key string) string {
	s, _ := h.Getenv(key)
	return s
}

func clean(h *workload.Hint, key string) string { return cgpath.Clean(get(h, key)) }

// first returns the number in the first variable that holds one above zero.
func first(h *workload.Hint, keys ...string) float64 {
	for _, k := range keys {
		if n, err := strconv.ParseUint(get(h, k), 10, 32); err == nil && n > 0 {
			return float64(n)
		}
	}
	return 0
}

func pbsEnvironment(h *workload.Hint) string {
	if !strings.HasPrefix(get(h, "PBS_ENVIRONMENT"), "PBS_") {
		return ""
	}
	return pbsJob(get(h, "PBS_JOBID"))
}

func pbsFacts(h *workload.Hint) workload.Facts {
	return workload.Facts{
		Name: clean(h, "PBS_JOBNAME"), Account: clean(h, "PBS_ACCOUNT"), Partition: clean(h, "PBS_QUEUE"),
		RequestCores: first(h, "NCPUS", "PBS_NUM_PPN"), // of this node
	}
}

func sgeEnvironment(h *workload.Hint) string {
	if get(h, "SGE_ROOT") == "" || get(h, "NSLOTS") == "" {
		return ""
	}
	number := get(h, "JOB_ID")
	if !decimal(number) {
		return ""
	}
	if task := get(h, "SGE_TASK_ID"); decimal(task) {
		return number + "." + task
	}
	return number
}

func sgeFacts(h *workload.Hint) workload.Facts {
	f := workload.Facts{Name: clean(h, "JOB_NAME"), Account: clean(h, "SGE_ACCOUNT"), Partition: clean(h, "QUEUE")}
	if first(h, "NHOSTS") <= 1 {
		f.RequestCores = first(h, "NSLOTS") // of all nodes
	}
	return f
}

// fluxEnvironment prefers the job that holds the nested instance of a job.
func fluxEnvironment(h *workload.Hint) string {
	job := workload.ParseFluxID(get(h, "FLUX_JOB_ID"))
	if job == "" {
		return "" // without asking for a variable that no probe reads
	}
	return cmp.Or(workload.ParseFluxID(get(h, "FLUX_ENCLOSING_ID")), job)
}

func lsfEnvironment(h *workload.Hint) string {
	number := get(h, "LSB_JOBID")
	if !decimal(number) {
		return ""
	}
	if index := get(h, "LSB_JOBINDEX"); decimal(index) {
		return number + "[" + index + "]"
	}
	return number
}

func lsfFacts(h *workload.Hint) workload.Facts {
	f := workload.Facts{Name: clean(h, "LSB_JOBNAME"), Account: clean(h, "LSB_PROJECT_NAME"), Partition: clean(h, "LSB_QUEUE")}
	if hosts := strings.Fields(get(h, "LSB_MCPU_HOSTS")); len(hosts) == 2 { // one host and its slots
		f.RequestCores = first(h, "LSB_DJOB_NUMPROC")
	}
	return f
}
