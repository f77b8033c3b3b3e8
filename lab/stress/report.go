package stress

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Figure is the target and the achieved amount of a resource in a step, in the unit of the resource.
type Figure struct {
	Wish     float64  `json:"wish"`
	Achieved *float64 `json:"achieved"` // null when it could not be measured
	// Deviation is the standard deviation of the process's CPU use over windows of 100 ms, in
	// cores; null if a step has fewer than two windows.
	Deviation *float64 `json:"deviation,omitempty"`
}

// StepReport is the result of a step. Figures are by the name of the resource.
type StepReport struct {
	Step    int               `json:"step"`
	Start   float64           `json:"start_seconds"`
	Seconds float64           `json:"seconds"`
	Figures map[string]Figure `json:"figures"`
}

// Report is the result of a program.
type Report struct {
	Start   time.Time    `json:"start"`
	Seconds float64      `json:"seconds"`
	Ended   bool         `json:"ended"` // false when it was interrupted
	Steps   []StepReport `json:"steps"`
	// Warnings list targets that the machine missed, Notes other useful information.
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"`
}

func (r *Report) addNote(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Report) addWarning(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// finish completes the report after the last step.
func (r *programRun) finish(ctx context.Context) {
	rep := &r.report
	rep.Seconds = r.last.at.Seconds()
	rep.Ended = ctx.Err() == nil && len(rep.Steps) == len(r.p.Steps)
	for _, of := range All() {
		if r.peak[of] > 0 {
			r.warnMissed(of)
		}
	}
	for _, f := range r.failures {
		rep.addWarning("%s", f)
	}
	if r.memory != nil {
		switch r.memory.short.Load() {
		case shortOfMemory:
			rep.addWarning("memory: filled no further, so that the machine keeps some free")
		case shortOfLimit:
			rep.addWarning("memory: filled no further, so that the control group is not killed at its limit of memory")
		case shortOfMapping:
			rep.addWarning("memory: the kernel did not take memory back")
		}
	}
	r.compareStorage()
	if !rep.Ended {
		rep.addWarning("interrupted: what was left of the program was not done, and steps of less than 0.1 s are not judged")
	}
}

// tolerance returns how far the achieved amount may deviate from the target without a warning. It is a fraction of the
// target plus a fixed amount for each resource.
func tolerance(resource Resource, wish float64) float64 {
	switch resource {
	case CPU:
		return max(0.01*wish, 0.005)
	case Memory:
		return max(0.01*wish, 1<<20)
	case GPU:
		return max(0.02*wish, 0.01)
	default:
		return max(0.02*wish, 64<<10)
	}
}

// warnMissed warns of steps that missed their targets. It describes the worst, and lists the numbers of the others.
func (r *programRun) warnMissed(resource Resource) {
	missed, worst, far := 0, 0, 0.0
	for i, s := range r.report.Steps {
		f := s.Figures[resource.String()]
		if f.Achieved == nil || s.Seconds < 0.1 {
			continue // too short to judge
		}
		off := math.Abs(*f.Achieved - f.Wish)
		if off <= tolerance(resource, f.Wish) {
			continue
		}
		if missed++; off > far {
			far, worst = off, i
		}
	}
	if missed == 0 {
		return
	}
	s := r.report.Steps[worst]
	f := s.Figures[resource.String()]
	word := "less than"
	if *f.Achieved > f.Wish {
		word = "more than"
	}
	r.report.addWarning("%s: %s wished in %s: %.4g of %.4g in step %d%s", resource, word, pluralize(missed, "step"), *f.Achieved, f.Wish,
		s.Step, r.missReason(resource, *f.Achieved > f.Wish))
}

func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// missReason returns the most likely reason why a resource missed its target.
func (r *programRun) missReason(resource Resource, more bool) string {
	switch {
	case resource == CPU && more && r.memory == nil && r.disk == nil && r.net == nil && r.gpu == nil:
		return "; the step was too short to be exact"
	case resource == CPU && more:
		return "; the other loads of the program take more CPU than it wishes"
	case resource == CPU:
		return "; others use the CPUs, or a limit (cgroup, affinity) holds the process back"
	case resource == GPU:
		return "; others use the GPU, or the step was too short"
	case resource == Memory && more:
		return "; the program itself needs as much"
	case resource == Memory:
		return "; the step was too short to fill it, or there was no more"
	}
	return ""
}

// compareStorage compares the bytes read and written with the kernel's counters.
func (r *programRun) compareStorage() {
	if r.disk == nil {
		return
	}
	now, ours := storageBytes(), [2]int64{r.disk.read.Load(), r.disk.written.Load()}
	for i, word := range []string{"read", "wrote"} {
		if now[i] < 0 || r.io[i] < 0 || ours[i] == 0 {
			continue
		}
		if counted := now[i] - r.io[i]; math.Abs(float64(counted-ours[i])) > max(0.02*float64(ours[i]), 1<<20) {
			r.report.addWarning(
				"disk: the program %s %d bytes, and the kernel counted %d for it: %s is held in memory (tmpfs) or cached; choose "+
					"another --dir or --disk-mode direct", word, ours[i], counted, r.disk.dir)
		}
	}
}

// WriteCSV writes one line per step with the target and the achieved amount of each resource that the program uses. An
// unknown figure is an empty cell.
func (r *Report) WriteCSV(w io.Writer) error {
	var used []Resource
	for _, of := range All() {
		if len(r.Steps) > 0 {
			if _, ok := r.Steps[0].Figures[of.String()]; ok {
				used = append(used, of)
			}
		}
	}
	head := []string{"step", "start_seconds", "seconds"}
	for _, of := range used {
		head = append(head, of.String()+"_wish", of.String()+"_achieved")
		if of == CPU {
			head = append(head, of.String()+"_deviation")
		}
	}
	out := csv.NewWriter(w)
	if err := out.Write(head); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for _, s := range r.Steps {
		row := []string{strconv.Itoa(s.Step), formatNumber(&s.Start), formatNumber(&s.Seconds)}
		for _, of := range used {
			f := s.Figures[of.String()]
			row = append(row, formatNumber(&f.Wish), formatNumber(f.Achieved))
			if of == CPU {
				row = append(row, formatNumber(f.Deviation))
			}
		}
		if err := out.Write(row); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func formatNumber(v *float64) string {
	if v == nil || math.IsNaN(*v) {
		return ""
	}
	return strings.TrimSuffix(strconv.FormatFloat(*v, 'f', -1, 64), ".")
}
