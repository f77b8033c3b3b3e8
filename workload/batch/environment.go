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

func getenv(h *workload.Hint, key string) string {
	s, _ := h.Getenv(key)
	return s
}

func cleanEnv(h *workload.Hint, key string) string { return cgpath.Clean(getenv(h, key)) }

// firstPositive returns the number in the first variable that holds one above zero.
func firstPositive(h *workload.Hint, keys ...string) float64 {
	for _, k := range keys {
		if n, err := strconv.ParseUint(getenv(h, k), 10, 32); err == nil && n > 0 {
			return float64(n)
		}
	}
	return 0
}

func pbsJobFromEnv(h *workload.Hint) string {
	if !strings.HasPrefix(getenv(h, "PBS_ENVIRONMENT"), "PBS_") {
		return ""
	}
	return parsePBSJob(getenv(h, "PBS_JOBID"))
}

func pbsFacts(h *workload.Hint) workload.Facts {
	return workload.Facts{
		Name: cleanEnv(h, "PBS_JOBNAME"), Account: cleanEnv(h, "PBS_ACCOUNT"), Partition: cleanEnv(h, "PBS_QUEUE"),
		RequestCores: firstPositive(h, "NCPUS", "PBS_NUM_PPN"), // of this node
	}
}

func sgeJobFromEnv(h *workload.Hint) string {
	if getenv(h, "SGE_ROOT") == "" || getenv(h, "NSLOTS") == "" {
		return ""
	}
	number := getenv(h, "JOB_ID")
	if !isDecimal(number) {
		return ""
	}
	if task := getenv(h, "SGE_TASK_ID"); isDecimal(task) {
		return number + "." + task
	}
	return number
}

func sgeFacts(h *workload.Hint) workload.Facts {
	f := workload.Facts{Name: cleanEnv(h, "JOB_NAME"), Account: cleanEnv(h, "SGE_ACCOUNT"), Partition: cleanEnv(h, "QUEUE")}
	if firstPositive(h, "NHOSTS") <= 1 {
		f.RequestCores = firstPositive(h, "NSLOTS") // of all nodes
	}
	return f
}

// fluxJobFromEnv prefers the job that holds the nested instance of a job.
func fluxJobFromEnv(h *workload.Hint) string {
	job := workload.ParseFluxID(getenv(h, "FLUX_JOB_ID"))
	if job == "" {
		return "" // without asking for a variable that no probe reads
	}
	return cmp.Or(workload.ParseFluxID(getenv(h, "FLUX_ENCLOSING_ID")), job)
}

func lsfJobFromEnv(h *workload.Hint) string {
	number := getenv(h, "LSB_JOBID")
	if !isDecimal(number) {
		return ""
	}
	if index := getenv(h, "LSB_JOBINDEX"); isDecimal(index) {
		return number + "[" + index + "]"
	}
	return number
}

func lsfFacts(h *workload.Hint) workload.Facts {
	f := workload.Facts{Name: cleanEnv(h, "LSB_JOBNAME"), Account: cleanEnv(h, "LSB_PROJECT_NAME"), Partition: cleanEnv(h, "LSB_QUEUE")}
	if hosts := strings.Fields(getenv(h, "LSB_MCPU_HOSTS")); len(hosts) == 2 { // one host and its slots
		f.RequestCores = firstPositive(h, "LSB_DJOB_NUMPROC")
	}
	return f
}
