package ebpf

import (
	"cmp"
	"slices"

	"reckon/sensor"
)

// taskRow is a process of the table, kept from pass to pass.
type taskRow struct {
	process sensor.Process // state of the last report
	total   taskTotal
	pass    uint64 // pass of the last full reading
	was     int32  // place in table.before, plus one; 0 if it was not there in the pass before
	full    bool   // it was read in full in this pass
}

// previousRecord is the previous record of a process that was read in full again.
type previousRecord struct {
	use   taskUsage
	wait  uint64
	flags uint32
}

// taskTable holds the processes, sorted by process id. Each pass is merged into it.
type taskTable struct {
	rows  []*taskRow // of the last pass that was read to its end
	next  []*taskRow // of the pass that is being read
	left  []*taskRow // of rows, but not in this pass any more
	at    int        // in rows
	holes bool       // a process was reported as in the last pass that we do not have
	pass  uint64
	spare []*taskRow
	// harvests means that the records include the waits of ended threads.
	harvests bool
	sharers  []*taskRow // of this pass; others may share its address space

	before []previousRecord // of this pass
}

// beginPass starts a pass. again means that the same pass starts over.
func (t *taskTable) beginPass(again bool) {
	t.next, t.left, t.sharers, t.at, t.holes = t.next[:0], t.left[:0], t.sharers[:0], 0, false
	if !again {
		t.pass++
		t.before = t.before[:0]
	}
}

// advanceTo returns the row of a process id, or nil. It drops the rows of smaller ids, because these processes have left.
func (t *taskTable) advanceTo(pid int32) *taskRow {
	for t.at < len(t.rows) && t.rows[t.at].process.PID < pid {
		t.left = append(t.left, t.rows[t.at])
		t.at++
	}
	if t.at == len(t.rows) || t.rows[t.at].process.PID != pid {
		return nil
	}
	t.at++
	return t.rows[t.at-1]
}

// addFull records a process that was read in full.
func (t *taskTable) addFull(r *tasksProcess, page uint64) {
	w := t.advanceTo(r.Pid)
	if w != nil && w.process.Start != r.Start {
		t.left = append(t.left, w)
		w = nil
	}
	if w == nil {
		w = t.newRow()
	} else if w.pass != t.pass {
		t.before = append(t.before, previousRecord{w.total.use, w.total.wait, w.total.flags})
		w.was = int32(len(t.before))
	}
	w.total = taskTotal{use: processUsage(r), flags: r.Flags, seq: r.Seq, harvested: r.Harvested, carry: w.total.carry}
	if r.Flags&sharedSpace != 0 {
		t.sharers = append(t.sharers, w)
	}
	w.full, w.pass = true, t.pass
	w.process = sensor.Process{UserNanos: w.process.UserNanos, SystemNanos: w.process.SystemNanos}
	setIdentity(&w.process, r)
	setMemory(&w.process, r, page)
	t.next = append(t.next, w)
}

// dedupeMemory removes the memory figures of processes that share the address space of an older process, so that shared memory is counted
// once. Processes share an address space between vfork(2) and execve(2), or after clone(2) with CLONE_VM.
func (t *taskTable) dedupeMemory() {
	slices.SortFunc(t.sharers, func(a, b *taskRow) int {
		p, q := &a.process, &b.process
		return cmp.Or(cmp.Compare(p.Space, q.Space), cmp.Compare(p.Start, q.Start), cmp.Compare(p.PID, q.PID))
	})
	for i, w := range t.sharers {
		if p := &w.process; i > 0 && p.Space == t.sharers[i-1].process.Space {
			p.Anon, p.File, p.Shmem, p.Swap, p.Huge, p.PeakBytes = 0, 0, 0, 0, 0, 0
			p.Have &^= sensor.FieldPeak
		}
	}
}

// keepRow records a process that has not changed since the last pass.
func (t *taskTable) keepRow(pid int32) {
	w := t.advanceTo(pid)
	if w == nil {
		t.holes = true
		return
	}
	w.full, w.total.ended = false, false
	t.next = append(t.next, w)
}

// endPass makes the current pass the last one. The processes that left are valid until the next begin.
func (t *taskTable) endPass() {
	t.left = append(t.left, t.rows[t.at:]...)
	t.rows, t.next = t.next, t.rows[:0]
}

// forgetAll forgets all processes.
func (t *taskTable) forgetAll() {
	t.spare = append(t.spare, t.rows...)
	t.rows = t.rows[:0]
}

// newRow returns a row for a new process. It allocates adjacent rows together.
func (t *taskTable) newRow() *taskRow {
	if len(t.spare) == 0 {
		block := make([]taskRow, 64)
		for i := range block {
			t.spare = append(t.spare, &block[len(block)-1-i])
		}
	}
	w := t.spare[len(t.spare)-1]
	t.spare = t.spare[:len(t.spare)-1]
	*w = taskRow{}
	return w
}

// freeLeft frees the rows of processes that left.
func (t *taskTable) freeLeft() {
	t.spare = append(t.spare, t.left...)
	t.left = t.left[:0]
}

// find returns the row of a process in the last pass, or nil.
func (t *taskTable) find(pid int32) *taskRow { return findRow(t.rows, pid) }

func findRow(rows []*taskRow, pid int32) *taskRow {
	lo, hi := 0, len(rows)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if rows[mid].process.PID < pid {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(rows) && rows[lo].process.PID == pid {
		return rows[lo]
	}
	return nil
}
