package metricsetlog

import (
	"regexp"
	"strings"
	"sync"
)

var amgValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(.+?)\s*(?:=|:)\s*([0-9.eE+-]+)\s*(seconds)?\s*$`)
})

// parseAMG parses the output of AMG (https://github.com/LLNL/AMG): sections between lines of =, with values after = or a colon.
func parseAMG(lines []string, f *figures) []string {
	section := ""
	for i, line := range lines {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "====") {
			if i+2 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+2]), "====") {
				section = strings.TrimSuffix(strings.TrimSpace(lines[i+1]), ":")
			}
			continue
		}
		m := amgValue().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		v, ok := parseNumber(m[2])
		if !ok {
			continue
		}
		name, unit := m[1], "count"
		switch {
		case m[3] != "":
			unit = "seconds"
		case strings.HasSuffix(name, "MFLOPS"):
			unit, v = "flops", v*1e6
		}
		if section != "" && strings.HasPrefix(line, " ") { // a value of the section
			name = section + ": " + name
		}
		f.addValue(name, unit, v)
	}
	return nil
}

var (
	mpiRank = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^Data for MPI rank (\d+) of (\d+)`)
	})
	mpiRoutine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(MPI_\w+)\s+(\d+)\s+([0-9.]+)\s+([0-9.]+)\s*$`)
	})
	mpiSize = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(MPI_\w+)?\s+(\d+)\s+([0-9.]+)\s+([0-9.]+)\s*$`)
	})
	mpiValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(.+?)\s*=\s*([0-9.]+)\s*(seconds|MBytes|MiB)?\.?\s*$`)
	})
	mpiTask = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*(\d+)\s+(\S+)\s+(\d+)\s+([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)\s+(\d+)\s*$`)
	})
)

// parseMPITrace parses the profile that libmpitrace writes for a rank (https://github.com/IBM/mpitrace):
// the time of each routine, its message sizes, and for rank 0 a table of all tasks.
func parseMPITrace(lines []string, f *figures) []string {
	rank, sizes, routine := "rank", false, ""
	for _, line := range lines {
		if m := mpiRank().FindStringSubmatch(line); m != nil {
			rank = "rank " + m[1]
			continue
		}
		if strings.HasPrefix(line, "Message size distributions") {
			sizes = true
			continue
		}
		if strings.HasPrefix(line, "----") || strings.HasPrefix(line, "Summary for all tasks") ||
			strings.HasPrefix(line, "MPI timing summary") {
			sizes = sizes && strings.HasPrefix(line, "----") && routine == ""
			continue
		}
		parseMPILine(line, rank, sizes, &routine, f)
	}
	return nil
}

// parseMPILine parses one line of a table.
func parseMPILine(line, rank string, sizes bool, routine *string, f *figures) {
	add := func(name, unit, text string, scale float64) {
		if v, ok := parseNumber(text); ok {
			f.addValue(rank+" "+name, unit, v*scale)
		}
	}
	if sizes {
		if word := strings.Fields(line); len(word) > 0 && strings.HasPrefix(word[0], "MPI_") {
			*routine = word[0]
		}
		if m := mpiSize().FindStringSubmatch(line); m != nil {
			name := *routine + " of " + m[3] + " bytes"
			add(name+", calls", "count", m[2], 1)
			add(name+", time", "seconds", m[4], 1)
		}
		return
	}
	if m := mpiRoutine().FindStringSubmatch(line); m != nil {
		add(m[1]+" calls", "count", m[2], 1)
		add(m[1]+" mean size", "bytes", m[3], 1)
		add(m[1]+" time", "seconds", m[4], 1)
		return
	}
	if m := mpiTask().FindStringSubmatch(line); m != nil {
		for i, c := range []struct {
			name, unit string
			scale      float64
		}{{"communication", "seconds", 1}, {"elapsed", "seconds", 1}, {"user", "seconds", 1}, {"system", "seconds", 1},
			{"size", "bytes", 1 << 20}, {"switches", "count", 1}} {
			if v, ok := parseNumber(m[i+4]); ok {
				f.addValue("task "+m[1]+" "+c.name, c.unit, v*c.scale)
			}
		}
		return
	}
	if m := mpiValue().FindStringSubmatch(line); m != nil {
		unit, scale := "count", 1.0
		switch m[3] {
		case "seconds":
			unit = "seconds"
		case "MBytes", "MiB":
			unit, scale = "bytes", 1<<20
		}
		add(strings.TrimSpace(m[1]), unit, m[2], scale)
	}
}
