package run

import "slices"

// searchChildren finds the descendants of this process by the lists of children in /proc (CONFIG_PROC_CHILDREN). It records the
// end of processes that it no longer finds.
func (t *tree) searchChildren(now float64) {
	t.turn++
	t.searchChildrenOf(t.self, true)
	for i := 0; i < len(t.order); i++ { // includes children of processes appended meanwhile
		if p := t.order[i]; p.pid != 0 && !p.dead && p.mark == t.turn {
			t.searchChildrenOf(p.pid, p.threads > 1)
		}
	}
	for _, p := range t.order {
		// One that is handed from a parent that ended to us can be in neither list.
		if p.pid != 0 && !p.dead && p.mark != t.turn && !t.readStat(p) {
			t.markDead(p, now)
		}
	}
}

// endMissing records the end of processes that are no longer in /proc, because the event for an end may be lost or
// late.
func (t *tree) endMissing(now float64) {
	for _, p := range t.order {
		if p.pid != 0 && !p.dead && !t.readStat(p) {
			t.markDead(p, now)
		}
	}
}

// ignoreExisting records the children that exist already. They belong to the program that started us by exec.
func (t *tree) ignoreExisting() {
	t.turn++
	t.searchChildrenOf(t.self, true)
	t.foreign = map[int32]bool{}
	for pid := range t.procs {
		t.foreign[pid] = true
	}
	t.procs, t.order, t.started = map[int32]*treeProcess{}, nil, 0
}

// isEmpty reports whether no process of the tree is alive.
func (t *tree) isEmpty() bool {
	return !slices.ContainsFunc(t.order, func(p *treeProcess) bool { return p.pid != 0 && !p.dead })
}

func (t *tree) searchChildrenOf(pid int32, threads bool) {
	tids := []int32{pid}
	if threads {
		tids = append([]int32(nil), t.listThreads(pid)...)
	}
	for _, tid := range tids {
		t.list = t.files.Children(pid, tid, t.list[:0])
		for _, n := range t.list {
			if !t.foreign[n] {
				t.recordChild(n, pid)
			}
		}
	}
}

// recordChild records a child that the search found in the list of a parent.
func (t *tree) recordChild(pid, ppid int32) {
	p := t.procs[pid]
	if p != nil && (p.exit != nil || p.dead && t.isUnreapedZombie(p)) { // its end was reported
		p.mark = t.turn
		return
	}
	if p == nil || p.dead {
		p = t.addProcess(pid, ppid)
	} else if p.mark == t.turn {
		return
	} else if p.ppid != ppid {
		// A child that lost its parent becomes our child. It keeps its place in the order, and is
		// walked now or was already.
		p.ppid = ppid
	}
	p.mark = t.turn
}

// isUnreapedZombie reports whether a process that is taken for dead still has to be reaped.
func (t *tree) isUnreapedZombie(p *treeProcess) bool {
	s, err := t.files.Times(p.pid)
	return err == nil && s.State == 'Z' && (p.stat.Start == 0 || p.stat.Start == s.Start)
}

// findReaper determines which process will reap an ending process: its parent, this process, or none. The kernel adds
// the CPU time of a process to its reaper, but drops it if the parent ignores SIGCHLD.
func (t *tree) findReaper(p *treeProcess) {
	up := t.procs[p.ppid]
	if up == nil {
		return
	}
	t.checkSigchld(up)
	if up.ignores {
		p.lost = true
	} else if !up.dead {
		p.heir = up
	}
}

// setExactWait replaces the sampled waiting time of an ended process by the exact one.
func (t *tree) setExactWait(p *treeProcess) {
	for _, w := range p.waits {
		t.observed.run -= w.run
		t.observed.wait -= w.wait
	}
	p.waits = nil
	t.observed.run += p.cpu()
	t.observed.wait += p.exit.WaitNanos
}

// checkSigchld determines whether a parent ignores SIGCHLD, at most once between two studies.
func (t *tree) checkSigchld(p *treeProcess) {
	if p.dead || p.asked == t.studies+1 {
		return
	}
	p.asked = t.studies + 1
	p.ignores = t.files.IgnoresChildren(p.pid)
}
