package rightsize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Slurm writes the advice as lines for a batch script. Memory is that of one node:
// perNode, for nodes need not be alike.
func (a *Advice) Slurm(nodes int, perNode *float64) string {
	var out []string
	line := func(format string, args ...any) { out = append(out, "#SBATCH "+fmt.Sprintf(format, args...)) }
	if nodes > 1 {
		line("--nodes=%d", nodes)
	}
	if a.Cores != nil {
		each := math.Ceil(*a.Cores / float64(max(1, nodes)))
		if nodes > 1 {
			// How many tasks share them is the program's affair.
			line("--mincpus=%.0f", each)
		} else {
			line("--cpus-per-task=%.0f", each)
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

// Kubernetes writes the advice as the resources of a container. Cores are a request
// alone: a limit of CPU time only holds a container back.
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

// slurmTime writes [days-]hours:minutes:seconds.
func slurmTime(seconds float64) string {
	s := int64(math.Ceil(seconds))
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if d := s / 86400; d > 0 {
		text = fmt.Sprintf("%d-%s", d, text)
	}
	return text
}

func runsText(n int) string {
	if n == 1 {
		return "1 run"
	}
	return strconv.Itoa(n) + " runs"
}

func gpusText(n float64) string {
	if n == 1 {
		return "1 GPU"
	}
	return count(n) + " GPUs"
}

// count is an amount to what whole things can mean.
func count(v float64) string {
	switch {
	case v > 0 && v < 0.05:
		return "less than 0.1"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func percent(share float64) string {
	if share > 0 && share < 0.01 {
		return "below 1 %"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + " %"
}

func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; bytes >= 1023.5 && i < len(units)-1; i++ {
		bytes /= 1024
	}
	return strconv.FormatFloat(bytes, 'g', max(3, len(strconv.FormatFloat(math.Trunc(bytes), 'f', 0, 64))), 64) + " " + units[i]
}

func duration(seconds float64) string {
	if seconds < 59.5 {
		return strconv.FormatFloat(seconds, 'g', 2, 64) + " s"
	}
	m := int(math.Round(seconds / 60))
	switch {
	case m < 60:
		return fmt.Sprintf("%d min", m)
	case m < 48*60 && m%60 == 0:
		return fmt.Sprintf("%d h", m/60)
	case m < 48*60:
		return fmt.Sprintf("%d h %d min", m/60, m%60)
	}
	return fmt.Sprintf("%.1f days", seconds/86400)
}
