package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"reckon/internal/term"
	"reckon/lab/stress"
)

// writeStress writes a report in the requested format.
func writeStress(g *globals, w io.Writer, r *stress.Report, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "csv":
		return r.WriteCSV(w)
	}
	return printStress(term.Open(w, g.getenv), r)
}

func printStress(s term.Screen, report *stress.Report) error {
	t := term.TableOf("STEP:r|FROM:r|TIME:r|RESOURCE|WISH:r|ACHIEVED:r|OFF BY:r|DEVIATION:ro1")
	for _, step := range report.Steps {
		number, from, length := strconv.Itoa(step.Step), formatExact(step.Start)+" s", formatExact(step.Seconds)+" s"
		for _, of := range stress.All() {
			f, ok := step.Figures[of.String()]
			if !ok {
				continue
			}
			t.Add(number, from, length, stressNames[of], formatLevel(of, &f.Wish), formatLevel(of, f.Achieved), formatDeviation(of, f),
				formatPoints(f.Deviation))
			number, from, length = "", "", ""
		}
	}
	if err := t.Print(s); err != nil {
		return err
	}
	word := "complete"
	if !report.Ended {
		word = "interrupted"
	}
	_, err := fmt.Fprintf(s, "\n%s after %s s; %s\n", word, formatExact(report.Seconds),
		map[bool]string{true: "everything as wished", false: "see the warnings"}[len(report.Warnings) == 0])
	return err
}

var stressNames = map[stress.Resource]string{
	stress.CPU: "cpu", stress.Memory: "memory", stress.DiskRead: "disk read", stress.DiskWrite: "disk write", stress.Network: "network",
	stress.GPU: "gpu",
}

// describeStep describes the achieved load of a step in one line.
func describeStep(step stress.StepReport) string {
	var parts []string
	for _, of := range stress.All() {
		if f, ok := step.Figures[of.String()]; ok {
			parts = append(parts, fmt.Sprintf("%s %s of %s", stressNames[of], formatLevel(of, f.Achieved), formatLevel(of, &f.Wish)))
		}
	}
	return strings.Join(parts, ", ")
}

// formatLevel formats a figure of a resource. CPU is in percent of a core, for comparison with a target such as 40.0 %.
func formatLevel(of stress.Resource, v *float64) string {
	switch of {
	case stress.CPU, stress.GPU:
		return formatPoints(v)
	case stress.Memory:
		return term.Bytes(v)
	}
	if v == nil {
		return term.Unknown
	}
	return formatRate(*v)
}

// formatRate formats bytes per second with decimal prefixes, as used in targets.
func formatRate(v float64) string {
	units := []string{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"}
	i := 0
	for v >= 999.5 && i < len(units)-1 {
		v /= 1000
		i++
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + " " + units[i]
}

func formatPoints(v *float64) string {
	if v == nil {
		return term.Unknown
	}
	return strconv.FormatFloat(100**v, 'f', 2, 64) + "%"
}

func formatDeviation(of stress.Resource, f stress.Figure) string {
	switch {
	case f.Achieved == nil:
		return term.Unknown
	case of == stress.CPU || of == stress.GPU:
		return fmt.Sprintf("%+.2f points", 100*(*f.Achieved-f.Wish))
	case f.Wish == 0:
		return "-"
	}
	return fmt.Sprintf("%+.2f %%", 100*(*f.Achieved/f.Wish-1))
}

func formatExact(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }
