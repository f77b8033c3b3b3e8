package procfs

import "reckon/sensor"

// threadTable holds the threads of a process between passes.
type threadTable struct {
	many  bool // has ever had more than one
	known bool // was read before
	ended bool // some have ended that were not read to their end
	count uint32
	skip  uint32 // readings until the threads are looked at again
	round uint32
	list  []threadEntry
}

type threadEntry struct {
	tid  int32
	file file // schedstat
	wait uint64
}

// threadBatch is the maximum number of threads of a process that is read in every pass. A process with k times as many
// threads is read in every k-th pass, but at least in every 16th.
const threadBatch = 32

// sumThreads sums figures that the kernel reports only per thread.
func (s *Source) sumThreads(e *processEntry, st *stat, keep bool) {
	t := &e.threads
	t.many = t.many || st.threads > 1
	if !t.many {
		s.setWait(e, keep)
		return
	}
	e.p.Have &^= sensor.FieldSwitches | sensor.FieldTurns
	if t.skip > 0 && t.known {
		t.skip--
		e.p.Partial |= sensor.FieldWait // it may end before they are looked at again
		return
	}
	t.skip = min(st.threads/threadBatch, 15)
	if t.round%8 == 0 || t.count != st.threads || !t.known {
		if s.listThreads(e) != nil {
			return // gone, or not ours to see: the last figures stand
		}
		t.count = st.threads
	}
	t.round++
	kept, ran := t.list[:0], uint64(0)
	for i := range t.list {
		th := &t.list[i]
		if run, lives := s.addThread(e, th, keep); lives {
			kept = append(kept, *th)
			ran += run
		} else {
			t.count, t.ended = 0, true // list again
			s.dropThread(th)
		}
	}
	t.list = kept
	t.known = true
	// Threads that have ended account for the rest of the process's use.
	used := e.p.UserNanos + e.p.SystemNanos
	t.ended = t.ended || ran > 0 && used > ran+ran/100+endedSlack
	if e.p.Partial &^= sensor.FieldWait; t.ended {
		e.p.Partial |= sensor.FieldWait
	}
}

// endedSlack is a tolerance in nanoseconds. The CPU time of a process may be rounded to clock ticks, so the sum over
// its threads may be lower by this much although no thread has ended.
const endedSlack = 20e6

// listThreads makes the list follow /proc/PID/task.
func (s *Source) listThreads(e *processEntry) error {
	f, err := s.openPID(e.p.PID, "task")
	if err != nil {
		return err
	}
	s.tids.dir = int(f)
	s.tidBuf, err = s.tids.read(s.tidBuf[:0])
	f.close()
	if err != nil {
		return err
	}
	// Both lists are in ascending order. New threads are appended, and the list is sorted at the end.
	list, old := e.threads.list, len(e.threads.list)
	i := 0
	for _, tid := range s.tidBuf {
		for i < old && list[i].tid < tid {
			i++ // ended: found out when it is read
		}
		if i < old && list[i].tid == tid {
			i++
			continue
		}
		th := threadEntry{tid: tid, file: fileClosed}
		if tid == e.p.PID && !e.threads.known {
			th.wait = e.p.WaitNanos // was the only thread so far
		}
		list = append(list, th)
	}
	if len(list) > old {
		sortThreads(list)
	}
	e.threads.list = list
	return nil
}

// sortThreads sorts by insertion: the list is sorted but for a few at its end.
func sortThreads(l []threadEntry) {
	for i := 1; i < len(l); i++ {
		for j := i; j > 0 && l[j].tid < l[j-1].tid; j-- {
			l[j], l[j-1] = l[j-1], l[j]
		}
	}
}

// addThread adds the waiting time of a thread and returns its running time. lives is false if the thread ended.
func (s *Source) addThread(e *processEntry, th *threadEntry, keep bool) (ran uint64, lives bool) {
	text, err := s.readThread(e, th, keep)
	if err != nil {
		return 0, false
	}
	run, wait, _, err := parseSchedstat(text)
	if err == nil && run|wait != 0 {
		e.p.WaitNanos += counterGrowth(&th.wait, wait)
		e.p.Have |= sensor.FieldWait
	}
	return run, true
}

func (s *Source) readThread(e *processEntry, th *threadEntry, keep bool) ([]byte, error) {
	if th.file >= 0 {
		return s.readAll(th.file)
	}
	f, err := s.openTask(e.p.PID, th.tid, processFileNames[schedstatFile])
	if err != nil {
		return nil, err
	}
	text, err := s.readAll(f)
	if err == nil && keep && s.files.used < s.files.limit {
		th.file = f
		s.files.used++
		return text, nil
	}
	f.close()
	return text, err
}

func (s *Source) dropThread(th *threadEntry) {
	if th.file >= 0 {
		th.file.close()
		s.files.used--
	}
}

// counterGrowth returns the growth of a counter, and stores its value.
func counterGrowth(last *uint64, v uint64) uint64 {
	d := uint64(0)
	if v > *last {
		d = v - *last
	}
	*last = v
	return d
}

// setWait sets the wait of a process that has only ever had one thread.
func (s *Source) setWait(e *processEntry, keep bool) {
	text, err := s.readFile(e, schedstatFile, keep)
	if err != nil {
		return
	}
	// All zero means that this kernel does not account it, or that nothing ran yet.
	if run, wait, turns, err := parseSchedstat(text); err == nil && run|wait != 0 {
		e.p.WaitNanos, e.p.Turns = max(e.p.WaitNanos, wait), max(e.p.Turns, turns)
		e.p.Have |= sensor.FieldWait | sensor.FieldTurns
	}
}
