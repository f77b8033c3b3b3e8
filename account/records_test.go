package account

import (
	"testing"
	"time"

	"reckon/sensor"
	"reckon/workload"
)

// TestRecordsInAContainer: the records of processes that nobody saw alive in a container show no more than their parent, which is
// in a certain run of the pod; they are counted by its control group and not a second time.
func TestRecordsInAContainer(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
	shell := int32(0)
	r := newRig(t, Config{Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
		switch {
		case p.PID == shell:
			return Identified{Identity: workload.Identity{Workload: "pod/shop/a", Part: "main", Owner: "shop", Place: "u/1", Run: "u"}, Handle: cg}
		case ended && parent != nil:
			return Identified{Identity: workload.Identity{Workload: parent.Workload(), Part: parent.Name(), Owner: parent.Owner()}}
		}
		return byGroup(p, parent, ended)
	}})
	k := newKin(10 * second)
	r.step(k, 0)
	shell = k.fork(1, true, r.boot)
	for range 4 {
		var records []sensor.Process
		for range 5 {
			c := k.fork(shell, false, r.boot)
			k.run(c, second/10)
			cg.c.UsageNanos += second / 10
			p := proc(c, 0, k.procs[c].start, second/10)
			p.PPID, p.Have = shell, p.Have&^sensor.FieldGroup|sensor.FieldParent
			records = append(records, p)
			k.end(c)
		}
		r.step(k, 0, records...)
	}
	r.export()
	r.want("container", r.cpu("pod/shop/a", "main", "shop"), 2)
	if got := total(r.l); got != k.used {
		t.Errorf("the sum is %d ns, used were %d", got, k.used)
	}
}

// TestRecordThatSaysTooLittle: the last slice that an exit record lacks (taskstats) is
// added, and a record that comes after its process was gone is not counted twice.
func TestRecordThatSaysTooLittle(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	for i := range 20 {
		var exited []sensor.Process
		for range 10 {
			c := k.fork(shell, false, r.boot+second/2)
			k.run(c, second/100)
			record := proc(c, 0, k.procs[c].start, second/125) // 8 of 10 ms
			record.PPID, record.Have = shell, record.Have&^sensor.FieldGroup
			exited = append(exited, record)
			k.end(c)
		}
		c := k.fork(shell, false, r.boot)
		k.run(c, second/2)
		r.step(k, 0, exited...)
		k.run(c, second/10)
		record := proc(c, shell, k.procs[c].start, 6*second/10)
		record.PPID = shell
		k.end(c)
		r.step(k, 0)
		if i%2 == 0 { // otherwise it is lost
			r.step(k, 0, record)
		}
	}
	r.step(k, 0)
	about(t, "group", r.group(shell), 20*(0.1+0.6))
	r.want("sum", toSeconds(total(r.l)), toSeconds(k.used))
}

// TestRecordLongBeforeTheWait: a child leaves a record when it ends, and its parent waits for it much later, as it waits
// for another first. The child is charged once.
func TestRecordLongBeforeTheWait(t *testing.T) {
	for name, above := range map[string]bool{"its parent": false, "the parent of that, which is gone": true} {
		r := newRig(t, Config{Export: 5 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		c := k.fork(shell, false, r.boot)
		if above {
			c = k.fork(c, false, r.boot)
		}
		record := func(pid int32) sensor.Process {
			p := proc(pid, shell, k.procs[pid].start, k.procs[pid].cpu)
			p.PPID, p.Have = k.procs[pid].ppid, p.Have|sensor.FieldParent
			return p
		}
		for range 3 {
			k.run(c, second)
			r.step(k, 0)
		}
		k.run(c, second/2)
		parent := k.procs[c].ppid
		k.exit(c, 1)
		r.step(k, 0, record(c))
		for range 10 {
			r.step(k, 0)
		}
		k.wait(c)
		if above {
			rec := record(parent)
			k.end(parent)
			r.step(k, 0, rec)
		}
		for range 6 {
			r.step(k, 0)
		}
		about(t, name, r.group(shell), 3.5)
		if got := total(r.l); got != k.used {
			t.Errorf("%s: the sum is %d ns, used were %d", name, got, k.used)
		}
	}
}

// TestHeldOverAShortTick: what was held in a long tick may be more than the machine has in the short one after it.
func TestHeldOverAShortTick(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	k := newKin(10 * second)
	k.next = 30000
	shell := k.fork(1, true, 20*second)
	k.next = 200
	k.fork(shell, false, r.boot) // lives, and is read before the shell
	r.step(k, 0)
	r.step(k, 0)
	u := k.fork(shell, false, r.boot)
	k.run(u, 5*second)
	k.end(u)
	r.boot += 2 * second // the tick is late
	r.m.Idle += 2 * second * uint64(r.m.Cores)
	r.step(k, 0)
	if r.l.table.line.held == 0 {
		t.Fatal("nothing is held")
	}
	r.boot -= second * 9 / 10 // and the next comes in time
	r.m.Idle -= second * 9 / 10 * uint64(r.m.Cores)
	for range 3 {
		r.step(k, 0)
	}
	about(t, "shell", r.group(shell), 5)
}
