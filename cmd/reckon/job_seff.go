package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
	"reckon/workload"
)

// printSeff writes the output of Slurm's seff in its order and units (1 GB is 1024 MB there), so that scripts can parse
// it. A line with an unmeasured figure is omitted and named at the end. Scripts expect a number there, and 0 would be
// wrong.
func printSeff(w io.Writer, detail client.WorkloadDetail) error {
	var b strings.Builder
	var missing []string
	line := func(name, format string, args ...any) {
		for _, a := range args {
			if text, ok := a.(string); ok && text == "" {
				missing = append(missing, name)
				return
			}
		}
		fmt.Fprintf(&b, name+": "+format+"\n", args...)
	}
	id := detail.ID
	kind := workload.Kind(detail.Kind)
	if kind.Scheduled() {
		id = workload.ID(detail.ID).Name()
	}
	line("Job ID", "%s", term.Safe(id))
	if kind.Array() && strings.Contains(id, "_") {
		line("Array Job ID", "%s", term.Safe(id))
	}
	if detail.Site != "" {
		line("Cluster", "%s", term.Safe(detail.Site))
	}
	line("User/Group", "%s/", term.Safe(detail.Owner)) // the group is not measured
	if word := seffState(detail.Workload); word == "RUNNING" || word == "PENDING" || detail.ExitCode == nil {
		line("State", "%s", word)
	} else {
		line("State", "%s (exit code %d)", word, *detail.ExitCode)
	}
	cores, _ := detail.GivenCores()
	nodes := float64(max(1, len(detail.Nodes)))
	for _, n := range []*float64{detail.RequestNodes, detail.AllocatedNodes} {
		if n != nil && *n > 0 {
			nodes = *n
		}
	}
	switch {
	case cores == nil || !(*cores > 0):
		cores = nil
		line("Nodes", "%.0f", nodes)
		missing = append(missing, "Cores per node")
	case *cores == 1:
		line("Cores", "1")
	default:
		line("Nodes", "%.0f", nodes)
		line("Cores per node", "%.0f", math.Ceil(*cores/nodes))
	}
	if isPending(detail.Workload) || isStartedArray(detail.Workload) {
		b.WriteString("Efficiency not available for jobs in the PENDING state.\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	var used *float64 // to the nearest second, as in seff
	if detail.CPUSeconds != nil {
		v := math.Round(*detail.CPUSeconds)
		used = &v
	}
	line("CPU Utilized", "%s", seffTime(used))
	var held *float64
	wall := detail.WallSeconds
	if detail.SuspendedSeconds != nil { // Slurm's elapsed time excludes it
		wall = max(wall-*detail.SuspendedSeconds, 0)
	}
	if cores != nil {
		v := *cores * wall
		held = &v
	}
	line("CPU Efficiency", "%s of %s core-walltime", seffShare(used, held), seffTime(held))
	line("Job Wall-clock time", "%s", seffTime(&wall))
	memory := cmp.Or(detail.MemoryNeededPeakBytes, detail.MemoryPeakBytes) // like MaxRSS, without page cache
	line("Memory Utilized", "%s", seffBytes(memory))
	line("Memory Efficiency", "%s of %s", seffShare(memory, detail.RequestMemoryBytes), seffBytes(detail.RequestMemoryBytes))
	if neededDiffers(&detail.Workload) {
		b.WriteString("NOTE: memory needed was between " + seffBytes(memory) + " and " + seffBytes(detail.NeededMost()) + ".\n")
	}
	if detail.Running {
		b.WriteString("WARNING: Efficiency statistics may be misleading for RUNNING jobs.\n")
	}
	if len(missing) > 0 {
		b.WriteString("NOTE: unknown, and left out: " + strings.Join(missing, ", ") + ".\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func seffState(w client.Workload) string {
	switch {
	case w.State != "" && (w.State != "pending" || isPending(w)):
		return strings.ToUpper(term.Safe(w.State))
	case w.Running:
		return "RUNNING"
	case w.ExitCode == nil:
		return "UNKNOWN"
	case *w.ExitCode != 0:
		return "FAILED"
	}
	return "COMPLETED"
}

func seffTime(v *float64) string {
	if v == nil || *v < 0 || math.IsNaN(*v) {
		return ""
	}
	s := int64(*v)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

func seffShare(part, whole *float64) string {
	if v := figure.Ratio(part, whole); v != nil {
		return fmt.Sprintf("%.2f%%", 100**v)
	}
	return ""
}

func seffBytes(v *float64) string {
	if v == nil || *v < 0 || math.IsNaN(*v) {
		return ""
	}
	x, units := *v/1024, []string{"KB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	return fmt.Sprintf("%.2f %s", x, units[i])
}
