package account

import (
	"cmp"
	"slices"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

const (
	// namedCommands is the number of programs of a part with their own series.
	namedCommands = 16
	// trackedCommands is the number of programs that are counted separately at one time.
	trackedCommands = 64
)

// otherName is the common name of the programs without a series.
var otherName = sensor.CommOf([]byte("other"))

// commands holds the CPU time of a part by program. A program gets a series once it has used a hundredth of the part's
// time; this bounds the number of series. The series also counts the program's use before that.
type commands struct {
	byName map[sensor.Comm]*command
	named  []*command
	other  uint64 // nanoseconds of evicted programs
	last   *command
	rest   *metric.Series
	judged uint64 // CPU time of the part when its main program was last determined
}

type command struct {
	comm   sensor.Comm
	nanos  uint64
	series *metric.Series // nil until it is named
}

func (c *commands) addTime(comm sensor.Comm, nanos uint64) {
	if c.last != nil && c.last.comm == comm {
		c.last.nanos += nanos
		return
	}
	e := c.byName[comm]
	if e == nil {
		if nanos == 0 {
			return
		}
		// Names are distinguished as they are printed, so that no two make one series.
		comm = sensor.CommOf([]byte(comm.String()))
		e = c.byName[comm]
	}
	if e == nil {
		if comm == otherName {
			c.other += nanos
			return
		}
		if c.byName == nil {
			c.byName = make(map[sensor.Comm]*command)
		}
		if len(c.byName) >= trackedCommands {
			c.evictUnnamed()
		}
		e = &command{comm: comm}
		c.byName[comm] = e
	}
	e.nanos += nanos
	c.last = e
}

// evictUnnamed makes room by adding the smaller half of the programs without a series to other.
func (c *commands) evictUnnamed() {
	unnamed := c.unnamedBySize()
	for _, e := range unnamed[len(unnamed)/2:] {
		c.other += e.nanos
		delete(c.byName, e.comm)
	}
	c.last = nil
}

// unnamedBySize returns the programs without a series, the largest first.
func (c *commands) unnamedBySize() []*command {
	var list []*command
	for _, e := range c.byName {
		if e.series == nil {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *command) int {
		return cmp.Or(cmp.Compare(b.nanos, a.nanos), slices.Compare(a.comm[:], b.comm[:]))
	})
	return list
}

// createSeries creates a series for each program that has used enough. total is the CPU time of the part. At the end of a part,
// it names the largest programs that fit and leaves the rest in c.other.
func (c *commands) createSeries(part *Part, total uint64, end bool) {
	if len(c.named) == len(c.byName) {
		return
	}
	threshold := max(total/100, 1)
	waiting := false
	for _, e := range c.byName {
		if e.series == nil && (end || e.nanos >= threshold) {
			waiting = true
			break
		}
	}
	if !waiting {
		return
	}
	for _, e := range c.unnamedBySize() {
		switch {
		case len(c.named) < namedCommands && (end || e.nanos >= threshold):
			e.series = part.newSeries(commandSeconds, e.comm.String())
			c.named = append(c.named, e)
		case end:
			c.other += e.nanos
			delete(c.byName, e.comm)
		}
	}
	c.last = nil
}

func (c *commands) export(part *Part, b *metric.Batch) {
	for _, e := range c.named {
		b.Add(e.series, toSeconds(e.nanos))
	}
	if c.other > 0 {
		if c.rest == nil {
			c.rest = part.newSeries(commandSeconds, "other")
		}
		b.Add(c.rest, toSeconds(c.other))
	}
}

// merge adds the programs of o to c.
func (c *commands) merge(other *commands) {
	for comm, e := range other.byName {
		c.addTime(comm, e.nanos)
	}
	c.other += other.other
}

// needsMainProgram reports whether the main program of a part has to be determined again. It does so at the end of the part and
// whenever its CPU time has doubled, so that the series of facts seldom changes. Names from another source are kept.
func (c *commands) needsMainProgram(name string, total uint64, end bool) bool {
	if c.byName[sensor.CommOf([]byte(name))] == nil || (total < 2*c.judged && !end) {
		return false
	}
	c.judged = total
	return true
}

// mainProgram returns the program with the most CPU time. It returns a container runtime only if there is no other program,
// because a runtime runs before the program of the container.
func (c *commands) mainProgram() (program sensor.Comm, ok bool) {
	var best *command
	stage := func(e *command) bool { return workload.RuntimeStage(e.comm.String()) }
	for _, e := range c.byName {
		if best != nil && stage(e) != stage(best) {
			if stage(best) {
				best = e
			}
			continue
		}
		if best == nil || e.nanos > best.nanos || (e.nanos == best.nanos && slices.Compare(e.comm[:], best.comm[:]) < 0) {
			best = e
		}
	}
	if best == nil {
		return sensor.Comm{}, false
	}
	return best.comm, true
}

// commonName returns the common name of kernel threads of one kind, such as kworker for kworker/3:1H-kblockd.
func commonName(c sensor.Comm) sensor.Comm {
	for i, b := range c {
		if b == '/' {
			clear(c[i:])
			break
		}
	}
	return c
}
