package slurm

import (
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

const mebibyte = 1 << 20

// factsFromEnv returns the facts about a job from the environment variables of sbatch(1) and srun(1). The requested amounts
// are those on this node.
func factsFromEnv(h *workload.Hint, id string) workload.Facts {
	part, several := findComponent(h, id)
	get := func(key string) string {
		if several {
			if s, ok := h.Getenv(key + part.suffix(part.offset)); ok {
				return s
			}
		}
		s, _ := h.Getenv(key)
		return s
	}
	f := workload.Facts{
		Name:         cgpath.Clean(get("SLURM_JOB_NAME")),
		Account:      cgpath.Clean(get("SLURM_JOB_ACCOUNT")),
		Partition:    cgpath.Clean(get("SLURM_JOB_PARTITION")),
		Run:          runID(h),
		RequestCores: coresPerNode(get("SLURM_JOB_CPUS_PER_NODE"), get("SLURM_CPUS_ON_NODE")),
	}
	switch {
	case get("SLURM_MEM_PER_NODE") != "":
		f.RequestMemoryBytes = parseMemory(get("SLURM_MEM_PER_NODE"))
	case f.RequestCores > 0:
		f.RequestMemoryBytes = parseMemory(get("SLURM_MEM_PER_CPU")) * f.RequestCores
	}
	if f.RequestGPUs = countListed(get("SLURM_JOB_GPUS")); f.RequestGPUs == 0 {
		f.RequestGPUs = parseCount(get("SLURM_GPUS_ON_NODE"))
	}
	start, end := parseCount(get("SLURM_JOB_START_TIME")), parseCount(get("SLURM_JOB_END_TIME"))
	const unlimited = 10 * 365 * 86400 // Slurm represents no limit by a time a century ahead
	if start > 0 && end > start && end-start < unlimited {
		f.RequestSeconds = end - start
	}
	return f
}

// runID returns the id of a job's run. It is the time of the allocation (SLURM_JOB_START_TIME), which is the same on
// all nodes and changes when the job is requeued. It is "" if Slurm does not set the variable.
func runID(h *workload.Hint) string {
	if s, _ := h.Getenv("SLURM_JOB_START_TIME"); parseCount(s) > 0 {
		return s
	}
	return ""
}

// coresPerNode returns the number of processors of a job on this node. job is the number on each node ("8" or "8(x4)"). If the
// nodes differ ("8(x2),4"), cores uses step, the number of the step, because only that is known to apply to this node.
func coresPerNode(job, step string) float64 {
	if number, times, ok := strings.Cut(job, "("); ok && strings.HasPrefix(times, "x") && strings.HasSuffix(times, ")") &&
		!strings.Contains(times, ",") {
		job = number
	}
	if n := parseCount(job); n > 0 {
		return n
	}
	return parseCount(step)
}

// parseCount returns a number of up to 32 bits, or 0 for other text.
func parseCount(s string) float64 {
	if !isDecimal(s) {
		return 0
	}
	n, _ := strconv.ParseUint(s, 10, 32)
	return float64(n)
}

// parseMemory parses an amount of memory and returns bytes. Slurm writes a number of MiB, and sbatch accepts a unit in
// the same variable. A value of 0 requests all memory of the node and gives no amount.
func parseMemory(s string) float64 {
	unit := float64(mebibyte)
	if s != "" {
		switch s[len(s)-1] {
		case 'K', 'k':
			s, unit = s[:len(s)-1], 1<<10
		case 'M', 'm':
			s = s[:len(s)-1]
		case 'G', 'g':
			s, unit = s[:len(s)-1], 1<<30
		case 'T', 't':
			s, unit = s[:len(s)-1], 1<<40
		}
	}
	return parseCount(s) * unit
}

// countListed returns the number of members of a list such as "0,2-4", or 0 for other text.
func countListed(s string) float64 {
	total := 0.0
	for item := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		if !isDecimal(from) || !isDecimal(to) || parseCount(to) < parseCount(from) || parseCount(to) > 4096 {
			return 0
		}
		total += parseCount(to) - parseCount(from) + 1
	}
	return total
}
