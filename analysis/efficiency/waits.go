package efficiency

import (
	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

// reportWaits reports the reasons why the workload did not use its cores.
func (j *judge) reportWaits() {
	u := &j.u
	cpu, ok := figure.Known(u.CPUSeconds)
	if wait, has := figure.Known(u.CPUWaitSeconds); ok && has && cpu+wait > 0 && u.Exactness["cpu_seconds"] == figure.Exact &&
		u.Exactness["cpu_wait_seconds"] <= figure.AtLeast {
		least := format.Qualifier(u.Exactness["cpu_wait_seconds"])
		if share := wait / (cpu + wait); share >= waiting && wait >= worth {
			j.addVerdict("cpu_wait", Warning, share, "ratio", j.waitKey(cpu),
				phrase.Words{"wait": phrase.Join(least, phrase.Time(wait)), "share": phrase.Join(least, phrase.Percent(share)),
					"who": j.neighbourNames()})
		}
	}
	if t, has := figure.Known(u.ThrottledSeconds); has && t >= 1 && t/u.WallSeconds >= throttled {
		j.addVerdict("throttled", Warning, t, "seconds", "throttled", phrase.Words{"time": phrase.Time(t)})
	}
}

// waitKey returns the text key for what threads waited for; cpu is the CPU time in seconds. A workload with idle cores, or with no more
// threads than cores, waited for other workloads. A workload that used all its cores waited for its own threads.
func (j *judge) waitKey(cpu float64) string {
	wanted := j.u.CoresWantedP95
	if j.u.Exactness["cpu_wait_seconds"] != figure.Exact {
		wanted = nil // it may have been more
	}
	who := figure.WaitCause(j.u.Cores, j.u.MostThreads, wanted, cpu, j.u.WallSeconds)
	given, ok := figure.Known(j.u.Cores)
	threads, counted := figure.Known(j.u.MostThreads)
	switch {
	case who != "either" || !ok || given <= 0:
	case len(j.u.Neighbours) > 0 && !(counted && threads > given):
		who = "others"
	case counted && len(j.u.Neighbours) == 0:
		who = "own"
	}
	return "wait." + who
}

// maxNeighbours is the number of owners named.
const maxNeighbours = 3

// neighbourNames names the other owners that used the nodes meanwhile.
func (j *judge) neighbourNames() phrase.Text {
	var names phrase.Text
	shown := 0
	for _, n := range j.u.Neighbours {
		if shown == maxNeighbours || n.Cores < 2*none {
			continue
		}
		if shown++; shown > 1 {
			names = phrase.Join(names, ", ")
		}
		names = phrase.Join(names, n.Owner, " (", counted1(n.Cores, "core", "cores"), " on average)")
	}
	if shown == 0 {
		return nil
	}
	return phrase.Join(texts.Sentence("wait.who", phrase.Words{"names": names}))
}

// storageShare returns the measured share of time spent waiting for storage.
func (j *judge) storageShare() float64 {
	if stalled, ok := figure.Known(j.u.StorageStalledSeconds); ok && j.u.WallSeconds > 0 {
		return min(stalled/j.u.WallSeconds, 1)
	}
	if waited, ok := figure.Known(j.u.IOWaitSeconds); ok && j.u.WallSeconds > 0 {
		return min(waited/j.u.WallSeconds, 1) // exact for one thread; an upper bound for several
	}
	return 0
}

// reportStorage reports waiting for storage. If that was not measured, it is inferred from the idle time
// of a single thread that reads and writes.
func (j *judge) reportStorage() {
	u := &j.u
	if u.StorageStalledSeconds == nil && u.IOWaitSeconds != nil {
		j.reportStorageWait()
		return
	}
	if share := j.storageShare(); share >= waiting && share*u.WallSeconds >= worth {
		j.addVerdict("storage", Warning, share, "ratio", "storage",
			phrase.Words{"time": phrase.Time(share * u.WallSeconds), "share": phrase.Percent(share)})
		return
	}
	threads, counted := figure.Known(u.MostThreads)
	cpu, ok := figure.Known(u.CPUSeconds)
	wait, waited := figure.Known(u.CPUWaitSeconds)
	if u.StorageStalledSeconds != nil || !counted || threads > 1 || !ok || !waited || u.Exactness["cpu_seconds"] != figure.Exact ||
		u.Exactness["cpu_wait_seconds"] != figure.Exact {
		return
	}
	read, _ := figure.Known(u.ReadBytes)
	written, _ := figure.Known(u.WriteBytes)
	off, rate := u.WallSeconds-cpu-wait, (read+written)/u.WallSeconds
	if off >= worth && off >= waiting*u.WallSeconds && rate >= busyStorage {
		j.addVerdict("storage", Info, off/u.WallSeconds, "ratio", "storage.likely",
			phrase.Words{"time": phrase.Time(off), "share": phrase.Percent(off / u.WallSeconds), "rate": phrase.Bytes(rate)})
	}
}

// reportStorageWait reports the share of their working time that threads waited for storage.
func (j *judge) reportStorageWait() {
	waited, ok := figure.Known(j.u.IOWaitSeconds)
	cpu, hasCPU := figure.Known(j.u.CPUSeconds)
	if !ok || !hasCPU || waited < worth || j.u.Exactness["io_wait_seconds"] != figure.Exact ||
		j.u.Exactness["cpu_seconds"] != figure.Exact {
		return
	}
	queued, _ := figure.Known(j.u.CPUWaitSeconds)
	share := waited / (waited + cpu + queued)
	if share >= waiting {
		j.addVerdict("storage", Warning, share, "ratio", "storage.waited",
			phrase.Words{"time": phrase.Time(waited), "share": phrase.Percent(share)})
	}
}

// busyStorage is a rate of reading and writing that takes noticeable time, bytes per second.
const busyStorage = 10 << 20
