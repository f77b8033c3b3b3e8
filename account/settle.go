package account

import (
	"math"
	"time"

	"reckon/sensor"
	"reckon/workload"
)

// maxEmptyTime is the time that a part with an existing control group may have no process before it
// counts as ended. It covers the pause between two job steps and the restart of a service.
const maxEmptyTime = uint64(10 * time.Second)

// rootOwner owns unowned work, and may delete all users' files.
const rootOwner = "root"

// closeTick closes the tick for every part and compares their sum with the machine.
func (l *Ledger) closeTick(boot, elapsed uint64, m *sensor.Machine, first bool) {
	if l.parts.other == nil {
		l.parts.other = l.parts.ensurePart(Identified{Identity: workload.Identity{
			Workload: workload.MakeID(workload.Other, l.config.Node), Owner: rootOwner,
		}}, boot)
	}
	span := float64(elapsed) / 1e9
	l.at.span = span
	t := tickTotals{seconds: span, capacity: cpuCapacity(elapsed, boot, m), tick: l.at.tick, boot: boot, initial: first}
	if m != nil {
		t.used, t.mapped, t.total = counterIncrease(m.MemoryAvailable, m.MemoryTotal), m.MemoryMapped, m.MemoryTotal
		t.held, t.anon = m.MemoryShared, m.MemoryAnon
	}
	l.node.haveBusy = false
	var charged uint64
	for _, p := range l.parts.order {
		if p.end != 0 {
			p.now = tickUse{}
			continue
		}
		p.updateCPU(t.capacity, t.initial)
		if more := p.updateIO(); more != (usage{}) {
			l.table.have |= sensor.FieldIO
			if t.initial {
				p.ensureSeparate().before.add(more)
			} else {
				l.table.counted.add(more)
			}
		}
		p.live, p.thread = p.now.live, p.now.threads
		charged += p.now.cpu
	}
	l.table.crowds = l.parts.closeMemory(&t)
	if m != nil && !first {
		l.chargeUnclaimed(charged, m)
	}
	if m != nil {
		l.node.machine = *m
	}
	l.observeCores(elapsed, m, first)
	for _, p := range l.parts.order {
		l.endIfEmpty(p, boot)
	}
}

// chargeUnclaimed charges to other the busy time of the machine that was charged to no process, such as interrupts and short
// work without exit records. charged is the time charged to processes in this tick.
//
// Busy time is the processor time minus idle, iowait and steal. The kernel measures these three exactly, even if it
// only samples the busy modes.
func (l *Ledger) chargeUnclaimed(charged uint64, m *sensor.Machine) {
	var busy int64
	unused := int64(m.Idle+m.IOWait+m.Steal) - int64(l.node.machine.Idle+l.node.machine.IOWait+l.node.machine.Steal)
	if span := counterIncrease(l.node.machine.Boot, m.Boot); m.Cores == l.node.machine.Cores && span > 0 {
		busy = int64(span)*int64(m.Cores) - unused
		l.node.busy, l.node.haveBusy = float64(busy)/float64(span), true
	} else { // processors came or went
		busy = int64(counterIncrease(busyTicks(&l.node.machine), busyTicks(m)))
	}
	l.node.balance += max(busy, 0) - int64(charged)
	irq := counterIncrease(l.node.machine.IRQ+l.node.machine.SoftIRQ, m.IRQ+m.SoftIRQ)
	late := l.table.line.held + counterIncrease(l.at.now, m.Boot)*uint64(max(m.Cores, 1))
	l.judge.evidence.addTick(max(busy, 0), int64(charged), irq, late, counterIncrease(l.node.machine.Boot, m.Boot), m.Cores)
	unread := l.busyAfterReading(busy, m)
	rest := l.node.balance - int64(l.table.line.held) - unread // which is charged in the next tick
	unpaid, slow := max(rest, 0), counterIncrease(l.at.now, m.Boot) > counterIncrease(l.node.machine.Boot, m.Boot)/slowReadingPart
	if slow || l.node.slow {
		// What was read late and charged to the ticks before hides in the balance what nobody was charged with in this one.
		unpaid = max(unpaid, busy-int64(charged)-int64(l.table.line.held))
	}
	l.node.slow = slow
	if nanos := unpaid - int64(irq); nanos > 0 {
		l.table.markUnpaidUncertain(uint64(nanos))
	}
	if l.table.line.missed.at == l.at.tick {
		l.table.markMissedUncertain(uint64(unpaid))
	}
	if rest <= 0 {
		return
	}
	l.node.balance -= rest
	l.parts.other.total.system += uint64(rest)
	l.parts.other.tasks += uint64(rest)
	l.parts.other.now.cpu += uint64(rest)
}

// busyAfterReading returns the busy time that processes may have used between their own reading and the later reading of the
// machine. If it were charged to other, it would be charged again to the processes in the next tick.
func (l *Ledger) busyAfterReading(busy int64, m *sensor.Machine) int64 {
	span := counterIncrease(l.node.machine.Boot, m.Boot)
	if busy <= 0 || span == 0 {
		return 0
	}
	return int64(float64(busy) * min(1, float64(counterIncrease(l.at.now, m.Boot))/float64(span)))
}

// slowReadingPart is the fraction of a tick, as 1/slowReadingPart, above which reading the processes counts as slow.
const slowReadingPart = 20

// busyTicks returns the busy time as counted by the kernel's modes.
func busyTicks(m *sensor.Machine) uint64 {
	return m.User + m.Nice + m.System + m.IRQ + m.SoftIRQ
}

// observeCores adds one observation of the cores in use to each workload. If an observation exceeds the capacity of a tick,
// it moves the excess to the next ticks. Such an excess arises because child times arrive late and counters are not
// read at one instant.
func (l *Ledger) observeCores(elapsed uint64, m *sensor.Machine, first bool) {
	if first || elapsed == 0 {
		return
	}
	room := uint64(math.MaxUint64)
	if m != nil && m.Cores > 0 {
		room = elapsed * uint64(m.Cores)
	}
	for _, p := range l.parts.order {
		g := p.group
		if g.seen != l.at.tick {
			g.seen, g.cpu = l.at.tick, 0
		}
		g.recordWait(p, elapsed)
		g.cpu += p.now.cpu - p.now.late
		g.late += p.now.late
	}
	for _, p := range l.parts.order {
		if g := p.group; g.seen == l.at.tick && (p.end == 0 || p.now.cpu > 0) {
			now := min(g.cpu+g.late, room)
			g.late += g.cpu - now
			g.wanted.observe(now, elapsed)
			g.cores.Observe(float64(now) / float64(elapsed))
			g.seen = l.at.tick - 1
		}
	}
}

// endIfEmpty ends a part that has no process left.
func (l *Ledger) endIfEmpty(p *Part, boot uint64) {
	switch {
	case p == l.parts.other || p.end != 0 || p.kind.Folded():
	case p.part == shortPart && p.place == "" && p.group.parts > 1: // more may follow
	case p.live > 0:
		p.emptySince, p.left = 0, boot&^1
	case p.emptySince == 0:
		p.emptySince = boot // a record of its exit may still come
	case p.cgroup == nil || boot-p.emptySince >= maxEmptyTime:
		p.finish(p.endTime(p.emptySince))
	}
}

// endTime returns the end of a part that was first found without processes at the time empty. That is the end of its last
// process, if an exit record reported it.
func (p *Part) endTime(empty uint64) uint64 {
	if p.left&1 == 1 {
		return min(p.left, empty)
	}
	return empty
}

// hasUncertainEnd reports whether the run time of a part may be more than a hundredth too long. If its last process has no exit
// record, a part ends when it is first found empty.
func (p *Part) hasUncertainEnd() bool {
	return p.end != 0 && p.left&1 == 0 && counterIncrease(max(p.left, p.start), p.end) > counterIncrease(p.start, p.end)/useTolerance
}

// finish ends a part and sets its memory gauges to zero.
func (p *Part) finish(boot uint64) {
	p.end = boot
	p.memory.types, p.memory.kernel, p.memory.swap = [3]uint64{}, 0, 0
	p.live, p.thread = 0, 0
	p.closeCgroup()
}
