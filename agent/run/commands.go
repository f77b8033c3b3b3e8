package run

import (
	"cmp"
	"slices"

	"reckon/sensor"
)

// commandTally sums the processes with one program name.
type commandTally struct {
	n            uint64
	cpu          uint64 // ns
	user, system uint64 // ns
	split        uint64 // processes with user and system
	peak         uint64 // bytes
	read, write  uint64 // bytes
	io           uint64 // processes with I/O
}

func (t *tree) tallyOf(name sensor.Comm) *commandTally {
	key := name.String()
	if key == "" { // unknown: it has not executed its program yet
		key = otherName
	}
	c := t.commands[key]
	if c == nil {
		if len(t.commands) >= maxNames {
			key = otherName
			if c = t.commands[key]; c != nil {
				return c
			}
		}
		c = &commandTally{}
		t.commands[key] = c
	}
	return c
}

// maxNames limits the number of command names in a report. A program may give each of its threads or processes a new
// name.
const (
	maxNames  = 1000
	otherName = "other"
)

// addProcess charges a process with its own figures, or with the exit record if that is better.
func (c *commandTally) addProcess(p *treeProcess) {
	c.n++
	cpu := p.cpu() - min(p.credited, p.cpu())
	c.cpu += cpu
	user, system, split := p.stat.User, p.stat.System, p.split && p.credited == 0
	peak, io, ioKnown := p.peak, IO{p.io.Read, p.io.Write}, p.haveIO && !p.parent
	if e := p.exit; e != nil {
		if e.Have&sensor.FieldCPUSplit != 0 && p.credited == 0 {
			user, system, split = e.UserNanos, e.SystemNanos, true
		}
		if e.Have&sensor.FieldPeak != 0 {
			peak = max(peak, e.PeakBytes)
		}
		if e.Have&sensor.FieldIO != 0 {
			io, ioKnown = IO{e.ReadBytes, e.WriteBytes}, true
		}
	}
	c.peak = max(c.peak, peak)
	if split {
		c.split++
		c.user += user
		c.system += system
	}
	if ioKnown {
		c.io++
		c.read += io.Read
		c.write += io.Write
	}
}

// splitByCommand converts the tallies to the report's list, so that CPU time sums to total (nanoseconds) and processes to
// started. If whole is set, all processes have names and only their first and last moments are missing. breakdown then
// divides the missing time by the number of processes and returns its sum in seconds as shared. Otherwise the missing
// time belongs to unseen children. It is listed under the processes that reaped them, which unseen holds, and the rest
// as "other".
func splitByCommand(m map[string]*commandTally, unseen map[string]uint64, total, started uint64, whole bool) (list []Command,
	shared float64) {
	list = make([]Command, 0, len(m)+1)
	var cpu, n uint64
	for name, c := range m {
		cpu += c.cpu
		n += c.n
		list = append(list, c.toCommand(name))
	}
	// Clocks of different sources differ by parts per thousand: scaled down, never up.
	if cpu > total && cpu > 0 {
		f := float64(total) / float64(cpu)
		for i := range list {
			list[i].scaleCPU(f)
		}
		cpu = total
	}
	missing := float64(total-cpu) / 1e9
	unnamed := started - min(n, started)
	if _, other := m[otherName]; whole && unnamed == 0 && n > 0 && !other {
		for i := range list {
			list[i].addCPU(missing * float64(list[i].Processes) / float64(n))
		}
		slices.SortFunc(list, compareCommands)
		return list, missing
	}
	var sum float64
	for _, ns := range unseen {
		sum += seconds(ns)
	}
	for name, ns := range unseen {
		// Child times include missing time of children that were seen.
		part := seconds(ns) * min(1, missing/sum)
		list = append(list, Command{Name: "children of " + name, CPUSeconds: part})
	}
	slices.SortFunc(list, compareCommands)
	if missing -= min(sum, missing); missing > 0 || unnamed > 0 {
		i := slices.IndexFunc(list, func(c Command) bool { return c.Name == otherName })
		if i < 0 {
			i = len(list)
			list = append(list, Command{Name: otherName})
		}
		list[i].CPUSeconds += missing
		list[i].Processes += unnamed
		slices.SortFunc(list, compareCommands)
	}
	return list, 0
}

// compareCommands sorts commands by CPU time, the largest first, with "other" last.
func compareCommands(a, b Command) int {
	return cmp.Or(boolToInt(a.Name == otherName)-boolToInt(b.Name == otherName),
		cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(b.Processes, a.Processes), cmp.Compare(a.Name, b.Name))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *commandTally) toCommand(name string) Command {
	out := Command{Name: name, Processes: c.n, CPUSeconds: seconds(c.cpu)}
	if c.split == c.n && c.split > 0 {
		// The split is the kernel's estimate from its ticks, while the sum is exact. With only a
		// few ticks there is no basis for an estimate.
		if s := c.user + c.system; s >= 5*userTick {
			user := out.CPUSeconds * float64(c.user) / float64(s)
			system := out.CPUSeconds * float64(c.system) / float64(s) // not the difference: it may be below zero by rounding
			out.User, out.System = &user, &system
		}
	}
	if c.peak > 0 {
		out.MemoryPeakBytes = &c.peak
	}
	if c.io == c.n && c.io > 0 {
		out.IO = &IO{Read: c.read, Write: c.write}
	}
	return out
}

// userTick is the clock tick of times in /proc in ns. USER_HZ is 100 on every architecture that Go supports.
const userTick = 10_000_000

func (c *Command) addCPU(factor float64) {
	if c.CPUSeconds > 0 {
		c.scaleCPU(1 + factor/c.CPUSeconds)
	} else {
		c.CPUSeconds = factor
	}
}

func (c *Command) scaleCPU(f float64) {
	c.CPUSeconds *= f
	for _, v := range []*float64{c.User, c.System} {
		if v != nil {
			*v *= f
		}
	}
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }
