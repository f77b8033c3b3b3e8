package metricsetlog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

func parseNumber(s string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return v, err == nil
}

// parseOSU parses the tables of the OSU micro-benchmarks (https://mvapich.cse.ohio-state.edu/benchmarks/): the command,
// comments with column names, and rows. It tolerates the output of `time` around them.
func parseOSU(lines []string, f *figures) (bad []string) {
	name, columns := "osu", []string(nil)
	for _, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.Contains(line, "osu_") && !strings.HasPrefix(line, "#"):
			for _, word := range strings.Fields(line) {
				if i := strings.LastIndex(word, "/"); strings.HasPrefix(word[i+1:], "osu_") {
					name, columns = word[i+1:], nil
				}
			}
		case strings.HasPrefix(line, "#"): // others stand before and, since version 7, after the columns
			if c := splitOSUColumns(strings.TrimPrefix(line, "#")); len(c) > 0 &&
				(strings.EqualFold(c[0], "Size") || strings.Contains(line, "(us)") || strings.Contains(line, "MB/s")) {
				columns = c
			}
		case strings.Contains(line, "(us)"):
			columns = splitOSUColumns(line)
		case strings.HasPrefix(line, "real\t"), strings.HasPrefix(line, "user\t"), strings.HasPrefix(line, "sys\t"):
			word, text, _ := strings.Cut(line, "\t")
			if v, ok := parseBashTime(text); ok {
				f.addValue(name+" "+word, "seconds", v)
			}
		case strings.HasPrefix(line, "nprocs:"):
			parseOSUInit(name, line, f)
		default:
			parseOSURow(name, columns, strings.Fields(line), f)
		}
	}
	return bad
}

// splitOSUColumns splits a header into column names with their units in parentheses.
func splitOSUColumns(line string) (out []string) {
	for _, part := range regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1) {
		if part != "" {
			out = append(out, part)
		}
	}
	return out
}

// parseOSURow parses a row of a table; the first cell is usually a size in bytes.
func parseOSURow(name string, columns, words []string, f *figures) {
	prefix, first := name, 0
	if len(columns) > 0 && strings.EqualFold(columns[0], "Size") && len(words) > 1 {
		if _, ok := parseNumber(words[0]); !ok {
			return
		}
		prefix, first = name+" "+words[0]+" bytes", 1
	}
	for i := first; i < len(words); i++ {
		v, ok := parseNumber(words[i])
		if !ok {
			return // text
		}
		column, unit, scale := "", "count", 1.0
		if i < len(columns) {
			column, unit, scale = splitOSUUnit(columns[i])
		} else if strings.HasSuffix(name, "_latency") || strings.HasSuffix(name, "_lat") {
			unit, scale = "seconds", 1e-6
		}
		f.addValue(strings.TrimSpace(prefix+" "+column), unit, v*scale)
	}
}

// splitOSUUnit splits the unit from the name of a column. A column that is only a unit has no name.
func splitOSUUnit(column string) (name, unit string, scale float64) {
	name, rest, _ := strings.Cut(column, "(")
	name = strings.TrimSpace(name)
	switch {
	case strings.HasPrefix(rest, "us"):
		unit, scale = "seconds", 1e-6
	case strings.HasPrefix(rest, "MB/s") || name == "MB/s":
		unit, scale = "bytes_per_second", 1e6
	case strings.HasPrefix(rest, "%"):
		unit, scale = "ratio", 0.01
	case strings.HasPrefix(name, "Messages/s"):
		unit, scale = "per_second", 1
	default:
		unit, scale = "count", 1
	}
	if name == "Latency" || name == "Bandwidth" || name == "Avg Latency" {
		name = ""
	}
	return name, unit, scale
}

// parseOSUInit parses "nprocs: 2, min: 143 ms, max: ...".
func parseOSUInit(name, line string, f *figures) {
	for _, part := range strings.Split(line, ",") {
		key, text, _ := strings.Cut(part, ":")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		v, ok := parseNumber(words[0])
		if !ok {
			continue
		}
		unit := "count"
		if len(words) > 1 && words[1] == "ms" {
			unit, v = "seconds", v/1000
		}
		f.addValue(name+" "+strings.TrimSpace(key), unit, v)
	}
}

// parseBashTime parses 0m1.234s.
func parseBashTime(text string) (float64, bool) {
	minutes, seconds, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(text), "s"), "m")
	m, ok1 := parseNumber(minutes)
	s, ok2 := parseNumber(seconds)
	return 60*m + s, ok && ok1 && ok2
}

var netmarkTrip = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^RTT between rank (\d+) and rank (\d+) is ([0-9.]+) micro-seconds`)
})

// parseNetmark parses every printed round trip, and the matrix of RTT.csv, in microseconds.
func parseNetmark(lines []string, f *figures) (bad []string) {
	matrix, row := false, 0
	for _, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case line == "NETMARK RTT.CSV START":
			matrix, row = true, 0
		case line == "NETMARK RTT.CSV END":
			matrix = false
		case matrix && line != "":
			for i, cell := range strings.Split(strings.TrimSuffix(line, ","), ",") {
				v, ok := parseNumber(cell)
				switch {
				case !ok:
					bad = append(bad, fmt.Sprintf("row %d of RTT.csv is no row of numbers", row))
				case i != row:
					f.addValue(fmt.Sprintf("RTT.csv rank %d to rank %d", row, i), "seconds", v*1e-6)
				}
			}
			row++
		default:
			if m := netmarkTrip().FindStringSubmatch(line); m != nil {
				if v, ok := parseNumber(m[3]); ok {
					f.addValue("round trip rank "+m[1]+" to rank "+m[2], "seconds", v*1e-6)
				}
			}
		}
	}
	return bad
}

// textRule matches a line of text. The groups of the expression are the values of names, in units.
type textRule struct {
	expr  *regexp.Regexp
	names []string
	units []string
	scale []float64
}

func lammpsRules() []textRule {
	const n = `([0-9.eE+-]+)`
	one := func(expr, name, unit string, scale float64) textRule {
		return textRule{regexp.MustCompile(strings.ReplaceAll(expr, "<n>", n)), []string{name}, []string{unit}, []float64{scale}}
	}
	three := func(expr string, names, units []string, scale float64) textRule {
		return textRule{regexp.MustCompile(strings.ReplaceAll(expr, "<n>", n)), names, units, []float64{scale, scale, scale}}
	}
	return []textRule{
		one(`^Loop time of <n> on`, "loop time", "seconds", 1), one(` on <n> procs for`, "procs", "count", 1),
		one(` for <n> steps with`, "steps", "count", 1), one(` steps with <n> atoms`, "atoms", "count", 1),
		three(`^Performance: <n> ns/day, <n> hours/ns, <n> timesteps/s`, []string{"ns/day", "hours/ns", "timesteps/s"},
			[]string{"count", "count", "per_second"}, 1),
		one(`^<n>% CPU use with`, "CPU use", "ratio", 0.01), one(`CPU use with <n> MPI tasks`, "MPI tasks", "count", 1),
		one(`x <n> OpenMP threads`, "OpenMP threads", "count", 1),
		three(`^Per MPI rank memory allocation \(min/avg/max\) = <n> \| <n> \| <n> Mbytes`,
			[]string{"memory of a rank, min", "memory of a rank, mean", "memory of a rank, max"}, []string{"bytes", "bytes", "bytes"},
			1<<20),
		one(`bounding box extra memory = <n> MB`, "bounding box extra memory", "bytes", 1<<20),
		one(`read_data CPU = <n> seconds`, "read_data CPU", "seconds", 1),
		one(`replicate CPU = <n> seconds`, "replicate CPU", "seconds", 1),
		three(`^Nlocal:\s+<n> ave\s+<n> max\s+<n> min`, []string{"Nlocal ave", "Nlocal max", "Nlocal min"},
			[]string{"count", "count", "count"}, 1),
		three(`^Nghost:\s+<n> ave\s+<n> max\s+<n> min`, []string{"Nghost ave", "Nghost max", "Nghost min"},
			[]string{"count", "count", "count"}, 1),
		three(`^Neighs:\s+<n> ave\s+<n> max\s+<n> min`, []string{"Neighs ave", "Neighs max", "Neighs min"},
			[]string{"count", "count", "count"}, 1),
		one(`^Total # of neighbors = <n>`, "neighbors", "count", 1), one(`^Ave neighs/atom = <n>`, "neighbors of an atom", "count", 1),
		one(`^Neighbor list builds = <n>`, "neighbor list builds", "count", 1),
		three(`^Total wall time: <n>:<n>:<n>`, []string{"total wall time hours", "total wall time minutes", "total wall time seconds"},
			[]string{"count", "count", "count"}, 1),
		one(`^\s*Time step\s+: <n>`, "time step", "count", 1),
	}
}

// parseLAMMPS parses the log of LAMMPS (https://docs.lammps.org/Run_output.html).
func parseLAMMPS(lines []string, f *figures) (bad []string) {
	var columns []string
	sections := false
	rules := lammpsRules()
	for _, line := range lines {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && fields[0] == "Step":
			columns = fields
			continue
		case strings.HasPrefix(line, "Section |"):
			sections = true
			continue
		case sections && strings.Count(line, "|") == 5:
			parseLAMMPSRow(line, f)
			continue
		case sections && strings.TrimSpace(line) == "":
			sections = false
		}
		if columns != nil && len(fields) == len(columns) {
			row := make([]float64, len(fields))
			ok := true
			for i := range fields {
				var one bool
				row[i], one = parseNumber(fields[i])
				ok = ok && one
			}
			if ok {
				for i := 1; i < len(columns); i++ {
					f.addValue("thermo "+columns[i], "count", row[i])
				}
				continue
			}
			columns = nil
		}
		f.applyRules(rules, line)
	}
	f.joinWallTime()
	return bad
}

// applyRules adds the values that the rules find in a line.
func (f *figures) applyRules(rules []textRule, line string) {
	for _, r := range rules {
		m := r.expr.FindStringSubmatch(line)
		for i := range r.names {
			if i+1 < len(m) {
				if v, ok := parseNumber(m[i+1]); ok {
					f.addValue(r.names[i], r.units[i], v*r.scale[i])
				}
			}
		}
	}
}

// joinWallTime converts hours, minutes and seconds to seconds.
func (f *figures) joinWallTime() {
	h, ok := f.at["total wall time hours"]
	if !ok {
		return
	}
	m, s := f.at["total wall time minutes"], f.at["total wall time seconds"]
	seconds := &f.list[s]
	for i := range seconds.Values {
		seconds.Values[i] += 3600*f.list[h].Values[i] + 60*f.list[m].Values[i]
	}
	seconds.Name, seconds.Unit = "total wall time", "seconds"
	f.list = append(f.list[:h], f.list[s:]...)
	for name := range f.at {
		delete(f.at, name)
	}
	for i := range f.list {
		f.at[f.list[i].Name] = i
	}
}

// parseLAMMPSRow parses a row of the breakdown of times.
func parseLAMMPSRow(line string, f *figures) {
	cells := strings.Split(line, "|")
	name := strings.TrimSpace(cells[0])
	for i, column := range []string{"min", "mean", "max"} {
		if v, ok := parseNumber(cells[i+1]); ok {
			f.addValue("time of "+name+", "+column, "seconds", v)
		}
	}
	if v, ok := parseNumber(cells[5]); ok {
		f.addValue("time of "+name+", share", "ratio", v/100)
	}
}
