package account

import "reckon/sensor"

// counterOffsets holds the offsets to add to the counters of a part's current control group. A part may have
// several groups in sequence: the counters start at zero when a container restarts, and continue
// from another part when a group changes its name.
type counterOffsets [cgCounters]int64

// Counters of a control group that are exported unchanged.
const (
	cgThrottled = iota
	cgThrottledPeriods
	cgCPUWait
	cgMemoryStall
	cgIOStall
	cgOOMKills
	cgRefaultAnon
	cgRefaultFile
	cgMaxEvents
	cgOOMEvents
	cgUser
	cgSystem
	cgRead
	cgWrite
	cgFaults
	cgMajorFaults
	cgCounters
)

func cgroupCounters(c *sensor.Cgroup) [cgCounters]uint64 {
	return [...]uint64{
		cgThrottled: c.ThrottledNanos, cgThrottledPeriods: c.ThrottledPeriods,
		cgCPUWait: c.CPUWaitNanos, cgMemoryStall: c.MemoryStallNanos, cgIOStall: c.IOStallNanos,
		cgOOMKills: c.OOMKills, cgRefaultAnon: c.RefaultAnon, cgRefaultFile: c.RefaultFile,
		cgMaxEvents: c.MaxEvents, cgOOMEvents: c.OOMEvents, cgUser: c.UserNanos, cgSystem: c.SystemNanos,
		cgRead: c.ReadBytes, cgWrite: c.WriteBytes, cgFaults: c.Faults, cgMajorFaults: c.MajorFaults,
	}
}

// counterSum returns counter i summed over the control groups of the part since the part began.
func (p *Part) counterSum(i int) uint64 {
	return uint64(max(0, int64(cgroupCounters(&p.cg)[i])+p.past[i]))
}

// replaceCgroup replaces the control group of the part by h. since holds the group's counters at the time when it began to
// belong to this part, or is nil if they were zero.
func (p *Part) replaceCgroup(h sensor.CgroupHandle, since *sensor.Cgroup) {
	if h == nil || h == p.cgroup {
		return
	}
	if p.cgroup != nil {
		if p.readCgroup(); p.cgroup != nil {
			_ = p.cgroup.Close()
		}
	}
	counted := int64(p.CPU())
	if p.cg.Have&sensor.CgroupCPU != 0 {
		counted = max(counted, int64(p.cg.UsageNanos)-p.cgBase)
	}
	for i, v := range cgroupCounters(&p.cg) {
		p.past[i] += int64(v)
	}
	p.cg, p.cgroup, p.cgBase = sensor.Cgroup{}, h, -counted
	p.memory.ensureBounds().read = groupMemory{}
	if since != nil {
		p.memory.ensureBounds().read = readGroupMemory(since)
		p.cg = *since // so that a group that is already gone adds nothing
		for i, v := range cgroupCounters(since) {
			p.past[i] -= int64(v)
		}
		p.cgBase += int64(since.UsageNanos)
	}
	p.readCgroup()
}
