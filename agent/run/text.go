package run

import (
	"fmt"
	"math"
	"strings"
	"time"

	"reckon/internal/term"
)

// Print writes the report for a person.
func (r *Report) Print(s term.Screen) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		b.WriteString(s.Fold(s.Paint(term.Quiet, fmt.Sprintf("%-10s", label))+" "+fmt.Sprintf(format, args...), 11) + "\n")
	}
	end := fmt.Sprintf("exit code %d", r.ExitCode)
	if r.Signal != "" {
		end = "ended by " + r.Signal
	}
	width := s.Width
	if width <= 0 {
		width = 200 // of a file: a command may have a hundred thousand arguments, which --json has whole
	}
	title := term.Cut(term.Safe(strings.Join(r.Command, " ")), max(width-len(end)-12, 8), s.ASCII)
	fmt.Fprintf(&b, "%s: %s\n", s.Paint(term.Bold, "reckon: "+title), end)
	line("wall time", "%s", threeDecimals(r.WallSeconds))
	line("CPU time", "%s  (user %s, system %s)", threeDecimals(r.CPU.Total), threeDecimals(r.CPU.User), threeDecimals(r.CPU.System))
	c := r.Cores
	line("cores", "mean %s, p50 %s, p95 %s, max %s  (of %s)", twoDecimals(c.Mean), twoDecimals(c.P50), twoDecimals(c.P95),
		twoDecimals(c.Max), twoDecimals(r.Machine.Cores))
	wait := term.Unknown
	if r.CPUWaitSeconds != nil {
		wait = threeDecimals(*r.CPUWaitSeconds)
	}
	line("CPU wait", "%s", wait)
	line("memory", "peak %s%s, mean %s%s, largest process %s%s", r.mark(), bytesOrUnknown(r.MemoryPeakBytes), r.mark(),
		bytesOrUnknown(r.MemoryMeanBytes),
		bytesOrUnknown(r.MemoryLargestBytes), cgroupPeak(r))
	calls := ""
	if r.IOCalls != nil {
		calls = fmt.Sprintf("  (by calls: %s read, %s written)", formatBytes(r.IOCalls.Read), formatBytes(r.IOCalls.Write))
	}
	line("storage", "read %s, written %s%s", formatBytes(r.IO.Read), formatBytes(r.IO.Write), calls)
	if g := r.GPU; g != nil {
		mark, joules := "", ""
		if g.Estimated {
			mark = "~"
		}
		if g.EnergyJoules != nil {
			joules = ", energy " + term.Energy(g.EnergyJoules)
		}
		line("GPU", "%s%s (mean %s), memory peak %s%s", mark, threeDecimals(g.Seconds), twoDecimals(g.Seconds/max(r.WallSeconds, 1e-9)),
			formatBytes(g.MemoryPeakBytes), joules)
	}
	line("switches", "%s voluntary, %s involuntary", count(r.Switches.Voluntary), count(r.Switches.Involuntary))
	least := ""
	if !r.ProcessesExact {
		least = "at least "
	}
	line("processes", "%s%s started, at most %d at a time with %d threads", least, count(r.Processes), r.ProcessesPeak, r.ThreadsPeak)
	if _, err := s.Write([]byte(b.String() + "\n")); err != nil {
		return err
	}
	if err := r.printCommands(s); err != nil {
		return err
	}
	b.Reset()
	b.WriteByte('\n')
	for _, v := range r.Judgement {
		style := term.Plain
		switch v.Level {
		case levelNotice:
			style = term.Yellow
		case levelWarning:
			style = term.Red
		}
		wrap(&b, s.Paint(style, fmt.Sprintf("%-10s", labels[v.Resource])), v.Text, s.Width)
	}
	for _, n := range r.Notes {
		wrap(&b, s.Paint(term.Quiet, fmt.Sprintf("%-10s", "note")), term.Safe(n), s.Width)
	}
	fmt.Fprintln(&b, s.Paint(term.Quiet, "measured by "+r.Source))
	_, err := s.Write([]byte(b.String()))
	return err
}

var labels = map[string]string{"cpu": "CPU", "wait": "CPU wait", "memory": "memory", "io": "storage", "processes": "processes"}

// shownCommands is the maximum number of rows in the text's table; --json has all of them.
const shownCommands = 12

func (r *Report) printCommands(s term.Screen) error {
	t := term.TableOf("COMMAND|PROCESSES:r|CPU:r|SHARE:r|USER:ro2|SYSTEM:ro2|PEAK MEM:ro1|READ:ro3|WRITTEN:ro3")
	shown := r.Commands
	if len(shown) > shownCommands {
		shown = shown[:shownCommands]
	}
	for _, c := range shown {
		read, written := term.Unknown, term.Unknown
		if c.IO != nil {
			read, written = formatBytes(c.IO.Read), formatBytes(c.IO.Write)
		}
		share := math.NaN()
		if r.CPU.Total > 0 {
			share = c.CPUSeconds / r.CPU.Total
		}
		t.Add(c.Name, count(c.Processes), threeDecimals(c.CPUSeconds), term.Percent(&share), exactOr(c.User), exactOr(c.System),
			bytesOrUnknown(c.MemoryPeakBytes), read, written)
	}
	if err := t.Print(s); err != nil {
		return err
	}
	if n := len(r.Commands) - len(shown); n > 0 {
		cpu, procs := 0.0, uint64(0)
		for _, c := range r.Commands[len(shown):] {
			cpu += c.CPUSeconds
			procs += c.Processes
		}
		_, err := fmt.Fprintf(s, "and %d more names: %s processes, %s of CPU\n", n, count(procs), threeDecimals(cpu))
		return err
	}
	return nil
}

// Plot draws cores and memory over time, both at once on the screen.
func (r *Report) Plot(s term.Screen) string {
	width := s.Width
	if width <= 0 {
		width = 80
	}
	height := 7
	if s.Height > 0 { // two charts with title and time, and the line below them
		height = min(max((s.Height-6)/2, 2), 12)
	}
	if len(r.Rows) < 2 {
		height = 1 // one reading
	}
	coresOf := func(row Row) float64 { return row.Cores }
	memoryOf := func(row Row) float64 { return row.Memory }
	return s.Draw(term.Chart{Title: "cores in use", Points: r.points(coresOf), Format: term.Cores, Width: width, Height: height}) +
		s.Draw(term.Chart{Title: "resident memory", Points: r.points(memoryOf), Format: term.Bytes, Width: width, Height: height}) +
		s.Paint(term.Quiet,
			s.Fold("means of one second; "+formatCores(r.Machine.Cores)+" and "+formatBytes(r.Machine.MemoryBytes)+" at hand", 0)) + "\n"
}

// points returns the rows as values on an even grid of seconds, so that the width of a window is proportional to its length.
func (r *Report) points(value func(Row) float64) []term.Point {
	if len(r.Rows) == 0 {
		return nil
	}
	step := r.Rows[0].Seconds
	for _, row := range r.Rows[:max(len(r.Rows)-1, 1)] {
		step = min(step, row.Seconds)
	}
	var out []term.Point
	for _, row := range r.Rows {
		n := max(int(math.Round(row.Seconds/max(step, 1e-3))), 1)
		if row.Seconds < step/2 {
			continue // the last moment of a long run
		}
		v := value(row)
		for i := range min(n, maxRows) {
			at := row.Start + row.Seconds*float64(i)/float64(n)
			p := term.Point{Time: r.Start.Add(time.Duration(at * float64(time.Second)))}
			if !math.IsNaN(v) {
				p.Value = &v
			}
			out = append(out, p)
		}
	}
	return out
}

func cgroupPeak(r *Report) string {
	if r.MemoryCgroupPeakBytes == nil {
		return ""
	}
	return ", cgroup peak " + formatBytes(*r.MemoryCgroupPeakBytes)
}

// threeDecimals formats seconds with three decimals up to a minute, so that two runs can be compared.
func threeDecimals(v float64) string {
	if v < 60 {
		return fmt.Sprintf("%.3f s", v)
	}
	return fmt.Sprintf("%.1f s (%s)", v, term.Seconds(&v))
}

func exactOr(v *float64) string {
	if v == nil {
		return term.Unknown
	}
	return threeDecimals(*v)
}

func twoDecimals(v float64) string { return fmt.Sprintf("%.2f", v) }

func count(v uint64) string {
	f := float64(v)
	return term.Number(&f)
}

// mark returns the sign that precedes memory if it is an upper or a lower bound, or both.
func (r *Report) mark() string {
	switch {
	case r.MemoryAtMost && r.MemoryAtLeast:
		return "~"
	case r.MemoryAtMost:
		return "<="
	case r.MemoryAtLeast:
		return ">="
	}
	return ""
}

func bytesOrUnknown(v *uint64) string {
	if v == nil {
		return term.Unknown
	}
	return formatBytes(*v)
}

// wrap writes a labelled text in lines of the screen's width.
func wrap(b *strings.Builder, label, text string, width int) {
	if width <= 0 {
		fmt.Fprintf(b, "%s %s\n", label, text)
		return
	}
	const indent = 11
	room := max(width-indent, 20)
	b.WriteString(label + " ")
	col := 0
	for i, w := range strings.Fields(text) {
		n := len([]rune(w))
		if i > 0 && col+1+n > room {
			b.WriteString("\n" + strings.Repeat(" ", indent))
			col = 0
		} else if i > 0 {
			b.WriteByte(' ')
			col++
		}
		b.WriteString(w)
		col += n
	}
	b.WriteByte('\n')
}
