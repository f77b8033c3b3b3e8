package rightsize

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// Slurm formats the advice as lines for a batch script. perNode is the memory of one node, because
// nodes may differ. Cores are per task if tasks is known.
func (a *Advice) Slurm(nodes int, perNode *float64, tasks float64) string {
	var out []string
	line := func(format string, args ...any) { out = append(out, "#SBATCH "+fmt.Sprintf(format, args...)) }
	if nodes > 1 {
		line("--nodes=%d", nodes)
	}
	if a.Cores != nil {
		if tasks > 1 {
			line("--ntasks=%.0f", tasks)
		}
		if nodes > 1 && tasks <= 1 { // the number of tasks that share them is up to the program
			line("--mincpus=%.0f", math.Ceil(*a.Cores/float64(nodes)))
		} else {
			line("--cpus-per-task=%.0f", math.Ceil(*a.Cores/max(1, tasks)))
		}
	}
	if perNode != nil {
		line("--mem=%.0fM", math.Ceil(*perNode/(1<<20)))
	}
	if a.GPUs != nil && *a.GPUs > 0 {
		line("--gpus=%.0f", *a.GPUs)
	}
	if a.Seconds != nil {
		line("--time=%s", slurmTime(*a.Seconds))
	}
	return strings.Join(out, "\n")
}

// Kubernetes formats the advice as the resources of a container. It sets cores only as a request, because a CPU limit
// would only throttle a container.
func (a *Advice) Kubernetes() string {
	var requests, limits []string
	if a.Cores != nil {
		requests = append(requests, fmt.Sprintf("    cpu: %q", strconv.FormatFloat(*a.Cores, 'f', -1, 64)))
	}
	if a.Memory != nil {
		v := fmt.Sprintf("    memory: %.0fMi", math.Ceil(*a.Memory/(1<<20)))
		requests, limits = append(requests, v), append(limits, v)
	}
	if a.GPUs != nil && *a.GPUs > 0 {
		limits = append(limits, fmt.Sprintf("    nvidia.com/gpu: %.0f", *a.GPUs))
	}
	out := []string{"resources:"}
	if len(requests) > 0 {
		out = append(append(out, "  requests:"), requests...)
	}
	if len(limits) > 0 {
		out = append(append(out, "  limits:"), limits...)
	}
	if len(out) == 1 {
		return ""
	}
	return strings.Join(out, "\n")
}

// slurmTime formats seconds as [days-]hours:minutes:seconds.
func slurmTime(seconds float64) string {
	s := int64(math.Ceil(seconds))
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if d := s / 86400; d > 0 {
		text = fmt.Sprintf("%d-%s", d, text)
	}
	return text
}

func runsText(n int) phrase.Text {
	text := strconv.Itoa(n) + " runs"
	if n == 1 {
		text = "1 run"
	}
	return phrase.Number(float64(n), "count", text)
}

func gpusText(n float64) phrase.Text {
	text := format.Count(n) + " GPUs"
	if n == 1 {
		text = "1 GPU"
	}
	return phrase.Number(n, "count", text)
}
