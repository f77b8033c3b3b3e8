package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"reckon/client"
	"reckon/internal/term"
)

const notKnown = "unknown"

// printSeff writes the lines of Slurm's seff, in its order and units (1 GB there is
// 1024 MB), so that scripts that read it work. What was not measured is "unknown".
func printSeff(w io.Writer, d client.WorkloadDetail) error {
	var b strings.Builder
	line := func(name, format string, args ...any) { fmt.Fprintf(&b, name+": "+format+"\n", args...) }
	_, id, _ := strings.Cut(d.ID, "/")
	line("Job ID", "%s", term.Safe(id))
	line("Cluster", "%s", term.Safe(cmp.Or(d.Site, notKnown)))
	line("User/Group", "%s/%s", term.Safe(cmp.Or(d.Owner, notKnown)), notKnown)
	if word := seffState(d.Workload); word == "RUNNING" || word == "PENDING" {
		line("State", "%s", word)
	} else {
		code := notKnown
		if d.ExitCode != nil {
			code = fmt.Sprint(*d.ExitCode)
		}
		line("State", "%s (exit code %s)", word, code)
	}
	cores, nodes := d.RequestCores, float64(max(1, len(d.Nodes)))
	if d.RequestNodes != nil && *d.RequestNodes > 0 {
		nodes = *d.RequestNodes
	}
	switch {
	case cores == nil || *cores <= 0:
		cores = nil
		line("Nodes", "%.0f", nodes)
		line("Cores per node", notKnown)
	case *cores == 1:
		line("Cores", "1")
	default:
		line("Nodes", "%.0f", nodes)
		line("Cores per node", "%.0f", math.Ceil(*cores/nodes))
	}
	line("CPU Utilized", "%s", seffTime(d.CPUSeconds))
	if cores != nil {
		held := *cores * d.WallSeconds
		line("CPU Efficiency", "%s of %s core-walltime", seffShare(d.CPUSeconds, &held), seffTime(&held))
	} else {
		line("CPU Efficiency", notKnown)
	}
	line("Job Wall-clock time", "%s", seffTime(&d.WallSeconds))
	line("Memory Utilized", "%s", seffBytes(d.MemoryPeakBytes))
	if d.RequestMemory != nil && *d.RequestMemory > 0 {
		line("Memory Efficiency", "%s of %s", seffShare(d.MemoryPeakBytes, d.RequestMemory), seffBytes(d.RequestMemory))
	} else {
		line("Memory Efficiency", notKnown)
	}
	if d.Running {
		b.WriteString("WARNING: Efficiency statistics may be misleading for RUNNING jobs.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func seffState(w client.Workload) string {
	switch {
	case w.State != "":
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
		return notKnown
	}
	s := int64(*v)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

func seffShare(part, whole *float64) string {
	if v := share(part, whole); v != nil {
		return fmt.Sprintf("%.2f%%", 100**v)
	}
	return notKnown
}

func seffBytes(v *float64) string {
	if v == nil || *v < 0 || math.IsNaN(*v) {
		return notKnown
	}
	x, units := *v/1024, []string{"KB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	return fmt.Sprintf("%.2f %s", x, units[i])
}
