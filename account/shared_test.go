package account

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"reckon/figure"
	"reckon/sensor"
)

// forked returns processes of one program with that many MiB each.
func forked(n int, size uint64) []sensor.Process {
	var out []sensor.Process
	for i := range n {
		p := proc(int32(100+i), 100, 20*second, second)
		p.PPID, p.Comm = 100, sensor.CommOf([]byte("server"))
		if i == 0 {
			p.PPID = 1
		}
		p.Have |= sensor.FieldMemory
		p.Anon, p.File = size*mib, 2*mib
		out = append(out, p)
	}
	return out
}

func (r *rig) memory(of string) (anon, peak, needed float64, how map[string]float64) {
	r.export()
	l := "|" + of + "|group||alice"
	how = map[string]float64{}
	for _, f := range []string{"memory_bytes", "memory_peak_bytes"} {
		for _, s := range []string{string(fromRSS), string(fromPSS), string(fromRSSSum)} {
			for _, whose := range []string{"||", "|" + of + "|alice"} {
				if v, ok := r.values["reckon_figure_exactness|"+f+"|group|"+s+whose]; ok {
					how[f+" "+s] = v
				}
			}
		}
	}
	return r.values["reckon_workload_memory_bytes"+l+"|anon"] / float64(mib),
		r.values["reckon_workload_memory_peak_bytes"+l] / float64(mib),
		r.values["reckon_workload_memory_needed_peak_bytes"+l] / float64(mib), how
}

// TestForkedPagesCountOnce: a server of 1 GB forks 30 workers that hold the same pages. At
// no time is the group, or its peak, much more than 1 GB, and one or two readings are
// enough.
func TestForkedPagesCountOnce(t *testing.T) {
	const of = "group/n1/100"
	r := newRig(t, Config{})
	r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 22<<30
	r.tick(0, forked(1, 1000))
	anon, _, _, how := r.memory(of)
	if anon != 1000 || how["memory_bytes rss"] != float64(figure.Exact) {
		t.Errorf("alone: %v MiB, %v", anon, how)
	}
	asked := 0
	split := func(s Sharer) uint64 {
		if asked++; asked > 2 {
			return s.RSS // further readings would be wrong here, and must not be needed
		}
		return s.RSS / 31
	}
	for i := range 5 {
		r.tick(0, forked(31, 1000))
		list := r.l.AppendSharers(nil)
		if want := [...]int{0, 31}; i < 2 && len(list) != want[i] {
			t.Errorf("tick %d: %d processes are to be measured, want %d", i, len(list), want[i])
		}
		if len(list) > 0 && asked < 2 {
			r.l.RecordSharing(list[0], sensor.SharedMemory{Resident: list[0].RSS, Proportional: split(list[0])}, true)
		}
		anon, peak, needed, how := r.memory(of)
		if anon < 990 || anon > 1010 || peak > 1012 || needed > 1010 {
			t.Errorf("tick %d: %.0f MiB, peak %.0f, needed %.0f, %v", i, anon, peak, needed, how)
		}
		if how["memory_bytes pss"] != float64(figure.Estimated) {
			t.Errorf("tick %d: %v", i, how)
		}
	}
	// When all are measured it is exact.
	for range calmTicks {
		r.tick(0, forked(31, 1000))
	}
	r.share(func(s Sharer) uint64 { return s.RSS / 31 })
	r.tick(0, forked(31, 1000))
	r.export()
	r.tick(0, forked(31, 1000))
	if anon, _, _, how = r.memory(of); anon < 990 || anon > 1010 || how["memory_bytes pss"] != float64(figure.Exact) {
		t.Errorf("all measured: %.0f MiB, %v", anon, how)
	}
	// More are forked: the measurements are outdated, and are not extrapolated.
	r.tick(0, forked(62, 1000))
	if anon, peak, _, _ := r.memory(of); anon > 1010 || peak > 1012 {
		t.Errorf("twice as many: %.0f MiB, peak %.0f", anon, peak)
	}
	r.tick(0, forked(62, 1000))
	r.share(func(s Sharer) uint64 { return s.RSS / 62 })
	r.tick(0, forked(62, 1000))
	if anon, peak, _, _ := r.memory(of); anon < 990 || anon > 1010 || peak > 1012 {
		t.Errorf("twice as many, measured: %.0f MiB, peak %.0f", anon, peak)
	}
}

// TestSharedPagesThatMayNotBeRead: an upper bound, limited to what the machine uses, and marked.
func TestSharedPagesThatMayNotBeRead(t *testing.T) {
	const of = "group/n1/100"
	r := newRig(t, Config{})
	r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 21<<30
	for range 3 {
		r.tick(0, forked(31, 1000))
		r.share(func(Sharer) uint64 { return 0 })
	}
	r.export()
	r.tick(0, forked(31, 1000))
	anon, peak, needed, how := r.memory(of)
	if anon < 1000 || anon > 3<<10 || needed > 3<<10 || peak > 3<<10+3<<10 {
		t.Errorf("%.0f MiB, peak %.0f, needed %.0f", anon, peak, needed)
	}
	if how["memory_bytes rss_sum"] != float64(figure.AtMost) || how["memory_peak_bytes rss_sum"] != float64(figure.AtMost) {
		t.Errorf("%v", how)
	}
	if n := r.share(func(Sharer) uint64 { return 0 }); n != 0 {
		t.Errorf("%d are tried again at once", n)
	}
	// No process can be measured: the value is held for a while, then the bound applies.
	r = newRig(t, Config{})
	r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 21<<30
	for i := range holdTicks + 2 {
		r.tick(0, forked(31, 1000))
		if anon, _, _, _ := r.memory(of); (anon > 1100) != (i >= holdTicks) {
			t.Errorf("tick %d: %.0f MiB", i, anon)
		}
	}
}

// TestBoundWithExitRecords: where every end is recorded, a peak from an upper bound is one, too, also after a restart, and where some
// processes are covered by the measurement of another one.
func TestBoundWithExitRecords(t *testing.T) {
	const of = "group/n1/100"
	for _, guess := range []bool{false, true} {
		want := figure.AtMost
		r := newRig(t, Config{})
		r.complete(true)
		r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 21<<30
		live := forked(31, 1000)
		for i := range live[:20] {
			live[i].Comm = sensor.CommOf([]byte("worker"))
		}
		r.tick(0, nil)
		r.export()
		for range holdTicks + 3 {
			r.tick(0, live)
			for _, s := range r.l.AppendSharers(nil) {
				switch {
				case guess && s.PID <= 101:
					r.l.RecordSharing(s, sensor.SharedMemory{Resident: s.RSS, Proportional: s.RSS / 2}, true)
				case !guess || s.PID > 119: // the others of these programs are left to their measurements
					r.l.RecordSharing(s, sensor.SharedMemory{}, false)
				}
			}
		}
		r.export()
		r.tick(0, live)
		if anon, _, _, how := r.memory(of); anon < 1000 || how["memory_bytes rss_sum"] != float64(want) ||
			how["memory_peak_bytes rss_sum"] != float64(want) {
			t.Errorf("some scaled (%t): %.0f MiB, %v", guess, anon, how)
		}
		for _, x := range r.l.Live(nil) {
			if string(x.Workload) == of && x.Exactness["memory_peak_bytes"] != want {
				t.Errorf("some scaled (%t): live %v", guess, x.Exactness)
			}
		}
		r.restart()
		r.complete(true)
		for range 2 {
			r.tick(0, live)
			r.export()
		}
		r.tick(0, live)
		if _, _, _, how := r.memory(of); how["memory_peak_bytes rss_sum"] != float64(want) {
			t.Errorf("some scaled (%t), after a restart: %v", guess, how)
		}
	}
}

// TestBoundOfFiles: pages of files that may not be measured are not more than those that are mapped at all, nor than the machine
// has beside other memory.
func TestBoundOfFiles(t *testing.T) {
	for mapped, most := range map[uint64]float64{0: 24 << 10, 700 * mib: 3<<10 + 700} {
		r := newRig(t, Config{})
		r.m.MemoryTotal, r.m.MemoryAvailable, r.m.MemoryMapped = 24<<30, 21<<30, mapped
		live := forked(1000, 1)
		for i := range live {
			live[i].File = 40 * mib
		}
		for range 3 {
			r.tick(0, live)
			r.share(func(Sharer) uint64 { return 0 })
		}
		r.tick(0, live)
		_, peak, _, _ := r.memory("group/n1/100")
		file := r.values["reckon_workload_memory_bytes|group/n1/100|group||alice|file"] / float64(mib)
		if anon := r.values["reckon_workload_memory_bytes|group/n1/100|group||alice|anon"] / float64(mib); anon != 1000 || file < 700 ||
			anon+file > most || peak > 24<<10 {
			t.Errorf("%d MiB mapped: %.0f MiB and %.0f of files, peak %.0f", mapped/mib, anon, file, peak)
		}
	}
}

// TestRefusedMemory: a process with memory that was refused in a tick leaves its group's as it was, and the sums go on.
func TestRefusedMemory(t *testing.T) {
	r := newRig(t, Config{})
	r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 21<<30
	live := forked(1, 100)
	r.tick(0, live)
	for _, blank := range []bool{false, true, false} {
		now := slices.Clone(live)
		if blank {
			now[0].Anon, now[0].File, now[0].Blank = 0, 0, true
			now[0].Have &^= sensor.FieldMemory | sensor.FieldPeak
		}
		r.tick(0, now)
		if anon, peak, _, how := r.memory("group/n1/100"); anon != 100 || peak != 102 || how["memory_bytes rss"] != 0 {
			t.Errorf("refused %t: %g MiB, peak %g, %v", blank, anon, peak, how)
		}
	}
	if got := r.values["reckon_workload_memory_byte_seconds_total|group/n1/100|group||alice"]; got < 3*102<<20 || got > 4.1*102*float64(mib) {
		t.Errorf("%g MiB seconds in 4 s", got/float64(mib))
	}
}

// TestUnclaimedSharedMemory: what memfd and tmpfs hold is of the groups that map it and of the control groups that it is charged to; the
// rest is other's, so that all together are the machine's.
func TestUnclaimedSharedMemory(t *testing.T) {
	other := "reckon_workload_memory_bytes|other/n1|other||root|shmem"
	r := newRig(t, Config{})
	r.m.MemoryTotal, r.m.MemoryAvailable, r.m.MemoryShared = 24<<30, 21<<30, 500*mib
	live := forked(1, 100)
	live[0].Shmem = 200 * mib
	for i := range 4 {
		r.tick(0, live)
		if r.export(); r.values[other] != 300<<20 {
			t.Errorf("tick %d: %g MiB of shared memory are other's, want 300", i, r.values[other]/float64(mib))
		}
	}
	if seconds := r.values["reckon_workload_memory_byte_seconds_total|other/n1|other||root"]; seconds < 3*300<<20 || seconds > 4*300<<20 {
		t.Errorf("%g MiB seconds of other in 4 s", seconds/float64(mib))
	}
	r.m.MemoryShared = 0 // not read
	r.tick(0, live)
	if r.export(); r.values[other] != 300<<20 {
		t.Errorf("%g MiB are other's when the machine was not read, want 300 still", r.values[other]/float64(mib))
	}
	r.m.MemoryShared = 150 * mib // two groups may map the same: what they count is not taken back
	r.tick(0, live)
	if r.export(); r.values[other] != 0 {
		t.Errorf("%g MiB are other's of what a group maps", r.values[other]/float64(mib))
	}
}

// TestPagesWrittenAfterFork: workers that write to the pages which they share get pages of their own, which their resident size does not
// show. Until they are measured again, soon, what was measured is no more than an estimate; the peak is what was measured then.
func TestPagesWrittenAfterFork(t *testing.T) {
	const of = "group/n1/100"
	r := newRig(t, Config{})
	r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 22<<30
	live, pss := forked(7, 300), uint64(300)
	step := func() int {
		r.tick(0, live)
		return r.share(func(s Sharer) uint64 { return s.RSS * pss / (7 * 300) })
	}
	for range calmTicks + 2 {
		step()
	}
	r.export() // the exactness of the time before
	r.tick(0, live)
	if anon, peak, _, how := r.memory(of); anon < 299 || anon > 301 || peak > 303 || how["memory_bytes pss"] != float64(figure.Exact) {
		t.Errorf("measured: %.0f MiB, peak %.0f, %v", anon, peak, how)
	}
	for i := range live[1:] {
		live[1+i].MinorFaults += 20 << 20 / 4096
	}
	r.tick(0, live)
	if _, _, _, how := r.memory(of); how["memory_bytes pss"] != float64(figure.Estimated) {
		t.Errorf("after the pages were written: %v", how)
	}
	pss = 420
	asked := 0
	for range growthTicks + 1 {
		asked += step()
	}
	r.tick(0, live)
	r.export()
	r.tick(0, live)
	if anon, peak, _, how := r.memory(of); asked < 6 || asked > 7 || anon < 400 || anon > 425 || peak < 400 || how["memory_bytes pss"] != float64(figure.Exact) {
		t.Errorf("measured again (%d): %.0f MiB, peak %.0f, %v", asked, anon, peak, how)
	}
}

// TestWhatIsNoCrowd: few bytes, or one large process, are simply summed.
func TestWhatIsNoCrowd(t *testing.T) {
	for name, tt := range map[string]struct {
		live []sensor.Process
		want float64
	}{
		"small":       {forked(8, 0), 0},
		"below 16":    {forked(2, 13), 26},
		"one process": {forked(1, 5000), 5000},
	} {
		r := newRig(t, Config{})
		r.tick(0, tt.live)
		r.tick(0, tt.live)
		if n := len(r.l.AppendSharers(nil)); n != 0 {
			t.Errorf("%s: %d to be measured", name, n)
		}
		if anon, _, _, how := r.memory("group/n1/100"); anon != tt.want || how["memory_bytes rss"] != float64(figure.Exact) {
			t.Errorf("%s: %v MiB %v", name, anon, how)
		}
	}
	r := newRig(t, Config{})
	r.tick(0, forked(2, 14))
	r.tick(0, forked(2, 14))
	if n := len(r.l.AppendSharers(nil)); n != 2 {
		t.Errorf("at the threshold %d are to be measured, want 2", n)
	}
}

// TestWorkersInGroupsOfTheirOwn: each is alone in its part, and still shares its pages.
func TestWorkersInGroupsOfTheirOwn(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, forked(1, 1000))
	live := forked(31, 1000)
	for i := range live[1:] {
		live[i+1].PGID, live[i+1].Start = live[i+1].PID, r.boot+1
	}
	for range 3 {
		r.tick(0, live) // the parent was found to share when its children were met
	}
	measured := r.share(func(s Sharer) uint64 { return s.RSS / 31 })
	if measured != 31 {
		t.Errorf("%d were measured, want 31", measured)
	}
	r.tick(0, live)
	sum := 0.0
	for i := range live {
		anon, _, _, _ := r.memory(fmt.Sprintf("group/n1/%d", live[i].PGID))
		sum += anon
	}
	if sum < 990 || sum > 1010 {
		t.Errorf("the groups hold %.0f MiB together", sum)
	}
}

// TestSharedPagesThatStayAreReadLessOften: the span until a process is measured again doubles while nothing changes, and begins
// anew with a change.
func TestSharedPagesThatStayAreReadLessOften(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, forked(31, 1000))
	r.tick(0, forked(31, 1000))
	for i, again := range []struct {
		part  float64 // of its pages that a process has for itself
		after uint64
	}{{0.03, remeasureTicks}, {0.03, 2 * remeasureTicks}, {0.05, 4 * remeasureTicks}, {0.03, 8 * remeasureTicks}, {0.03, 8 * remeasureTicks}, {0.07, remeasureTicks},
		{0.07, 2 * remeasureTicks}} {
		r.share(func(s Sharer) uint64 { return uint64(float64(s.RSS) * again.part) })
		for n := uint64(1); ; n++ {
			r.tick(0, forked(31, 1000))
			if got := len(r.l.AppendSharers(nil)); got == 31 && n == again.after {
				break
			} else if got != 0 || n > again.after {
				t.Fatalf("reading %d: %d are measured again after %d ticks, want 31 after %d", i+1, got, n, again.after)
			}
		}
	}
}

// TestYoungWorkersAreNotMeasured: of a program that was measured, further processes are measured from their tenth
// second on, and not before.
func TestYoungWorkersAreNotMeasured(t *testing.T) {
	r := newRig(t, Config{})
	live := forked(31, 1000)
	for i := range live[1:] {
		live[i+1].Start = r.boot + second
	}
	r.tick(0, live)
	r.tick(0, live)
	for _, first := range r.l.AppendSharers(nil)[:2] { // the parent, and a worker
		r.l.RecordSharing(first, sensor.SharedMemory{Resident: first.RSS, Proportional: first.RSS / 31}, true)
	}
	for range 20 {
		r.tick(0, live)
		age, want := r.boot-live[1].Start, 0
		if age >= minMeasuredAge {
			want = 29 // all but the first
		}
		if got := len(r.l.AppendSharers(nil)); got != want {
			t.Fatalf("%d are to be measured %v after their start, want %d", got, time.Duration(age), want)
		}
	}
}

// measuring serves the ledger's wishes as an agent does that saves a millisecond a tick, at 17 us for each MiB.
type measuring struct{ purse float64 }

func (m *measuring) tick(r *rig, shared func(s Sharer) sensor.SharedMemory) {
	m.purse = min(m.purse+1, 200)
	for _, s := range r.l.AppendSharers(nil) {
		if cost := float64(s.RSS>>20) * 0.017; cost <= m.purse && r.l.NeedsMeasurement(s) {
			m.purse -= cost
			r.l.RecordSharing(s, shared(s), true)
		}
	}
}

// inAll is for a proportion that is the same for all kinds of pages.
func inAll(pss func(s Sharer) uint64) func(s Sharer) sensor.SharedMemory {
	return func(s Sharer) sensor.SharedMemory { return sensor.SharedMemory{Resident: s.RSS, Proportional: pss(s)} }
}

// TestPagesThatAreMappedLater: twelve workers touch the 300 MiB that their parent shares with them, bit by bit, and then some end: at no
// time do they hold more together.
func TestPagesThatAreMappedLater(t *testing.T) {
	for _, step := range []uint64{4, 15, 30, 150} {
		r := newRig(t, Config{})
		r.complete(true)
		r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 22<<30
		live, touched := forked(13, 0), uint64(0)
		for i := range live {
			live[i].File = 0
		}
		live[0].Shmem = 300 * mib
		r.tick(0, live[:1])
		var m measuring
		m.purse = 100
		const of = "group/n1/100"
		for i := range 300 / step * 2 {
			touched = min(300, touched+step)
			for k := range live[1:] {
				live[k+1].Shmem = touched * mib
			}
			r.tick(0, live)
			m.tick(r, inAll(func(s Sharer) uint64 {
				shared := touched * mib / 13
				if s.PID == 100 {
					shared += (300 - touched) * mib
				}
				return shared
			}))
			r.export()
			now := r.values["reckon_workload_memory_bytes|"+of+"|group||alice|shmem"] / float64(mib)
			bound := r.values["reckon_figure_exactness|memory_bytes|group|rss_sum|"+of+"|alice"] == float64(figure.AtMost)
			if now < 270 || now > 345 && !bound || bound && step > 4 {
				t.Errorf("by %d MiB a second, second %d: %.0f MiB, bound %v", step, i, now, bound)
			}
		}
		for range 5 {
			r.tick(0, live)
			m.tick(r, inAll(func(Sharer) uint64 { return 300 * mib / 13 }))
		}
		if _, peak, needed, how := r.memory(of); peak < 299 || peak > 315 || needed > 315 {
			t.Errorf("by %d MiB a second: peak %.0f, needed %.0f, %v", step, peak, needed, how)
		}
		live = live[:3]
		for range 3 {
			r.tick(0, live)
			m.tick(r, inAll(func(Sharer) uint64 { return 100 * mib }))
		}
		r.export()
		if now := r.values["reckon_workload_memory_bytes|"+of+"|group||alice|shmem"] / float64(mib); now < 290 || now > 310 {
			t.Errorf("three are left: %.0f MiB", now)
		}
	}
}

// TestBoundIsTheLeast: 800 MiB, with 20 MiB written by each of 20 children, which may not be read, are not more than the machine uses less
// what another part holds for itself.
func TestBoundIsTheLeast(t *testing.T) {
	r := newRig(t, Config{})
	r.complete(true)
	r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 24<<30-(1200+300+6000)*mib
	live := append(forked(21, 800), proc(900, 900, 20*second, second))
	live[21].Have, live[21].Anon = live[21].Have|sensor.FieldMemory, 6000*mib
	for range holdTicks + 3 {
		r.tick(0, live)
		r.share(func(Sharer) uint64 { return 0 })
	}
	anon, peak, needed, how := r.memory("group/n1/100")
	if anon < 1200 || anon > 1500 || needed < 1200 || needed > 1500 || peak > 1550 ||
		how["memory_peak_bytes rss_sum"] != float64(figure.AtMost) {
		t.Errorf("%.0f MiB, peak %.0f, needed %.0f, %v", anon, peak, needed, how)
	}
	// Once it is measured the bound is forgotten.
	for i := range r.l.table.seen.last {
		r.l.table.seen.last[i].share.denied = 0
	}
	for range 3 {
		r.tick(0, live)
		r.share(func(s Sharer) uint64 { return 1200 * mib / 21 })
	}
	if _, peak, _, how := r.memory("group/n1/100"); peak < 1190 || peak > 1260 || how["memory_peak_bytes rss_sum"] != 0 {
		t.Errorf("measured: peak %.0f, %v", peak, how)
	}
}

// TestBoundOfControlGroup: processes that may not be read hold no more than their control group needs, and no more than the machine has of
// the kind. In several control groups, or with pages from elsewhere, only the machine is the bound.
func TestBoundOfControlGroup(t *testing.T) {
	for _, c := range []struct {
		name     string
		sets     [2]uint64 // of the first eleven processes, and of the ten others
		outside  bool      // the first process, of the same program, is in a group of its own
		anon     uint64    // of the machine, MiB
		low, top float64   // MiB, anonymous
	}{
		{name: "one", sets: [2]uint64{7, 7}, low: 1200, top: 1201},
		{name: "two", sets: [2]uint64{7, 8}, low: 21 * 800, top: 21*800 + 1},
		{name: "some in the root", sets: [2]uint64{8, 1}, low: 21 * 800, top: 21*800 + 1},
		{name: "a small one", sets: [2]uint64{9, 9}, low: 800, top: 803}, // the largest process, with its files
		{name: "from outside", sets: [2]uint64{8, 8}, outside: true, low: 20 * 800, top: 20*800 + 1},
		{name: "in the root of a small machine", sets: [2]uint64{1, 1}, anon: 2000, low: 2000, top: 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{Within: func(set uint64) (uint64, bool) {
				needed, ok := map[uint64]uint64{7: 1200 * mib, 8: 820 * mib, 9: 10 * mib}[set]
				return needed, ok
			}})
			r.complete(true)
			r.m.MemoryTotal, r.m.MemoryAvailable, r.m.MemoryAnon = 64<<30, 32<<30, c.anon*mib
			live := forked(21, 800)
			for i := range live {
				live[i].Have |= sensor.FieldCgroup
				if live[i].Cgroup = c.sets[0]; i > 10 {
					live[i].Cgroup = c.sets[1]
				}
			}
			if c.outside {
				live[0].PGID = 99
				r.tick(0, live[:1]) // before it forks
			}
			for range holdTicks + 3 {
				r.tick(0, live)
				r.share(func(Sharer) uint64 { return 0 })
			}
			anon, _, _, how := r.memory("group/n1/100")
			if anon < c.low || anon > c.top || how["memory_bytes rss_sum"] != float64(figure.AtMost) {
				t.Errorf("%.0f MiB, want %.0f to %.0f, at most; %v", anon, c.low, c.top, how)
			}
		})
	}
}

// TestBoundOfSharedMemory: what several processes map of one memfd is not more than all such memory of the machine.
func TestBoundOfSharedMemory(t *testing.T) {
	r := newRig(t, Config{})
	r.complete(true)
	r.m.MemoryTotal, r.m.MemoryAvailable, r.m.MemoryAnon, r.m.MemoryShared = 24<<30, 16<<30, 100*mib, 230*mib
	live := forked(5, 2)
	for i := range live {
		live[i].Shmem = 200 * mib
	}
	for range holdTicks + 3 {
		r.tick(0, live)
		r.share(func(Sharer) uint64 { return 0 })
	}
	anon, peak, _, how := r.memory("group/n1/100")
	if anon != 10 || peak < 230+10 || peak > 260 || how["memory_peak_bytes rss_sum"] != float64(figure.AtMost) {
		t.Errorf("%.0f MiB anonymous, peak %.0f, %v", anon, peak, how)
	}
}

// TestPeakThatWasNotMeasured: forked processes that fill 100 MiB each end before it is found what they share. The peak is at least the
// largest's, and not exact; where they stay and are measured it is theirs.
func TestPeakThatWasNotMeasured(t *testing.T) {
	for _, stay := range []bool{false, true} {
		r := newRig(t, Config{Linger: time.Hour})
		r.complete(true)
		r.m.MemoryTotal, r.m.MemoryAvailable = 24<<30, 20<<30
		r.tick(0, forked(1, 1))
		for range 5 {
			r.tick(0, forked(6, 100))
		}
		if stay {
			r.share(func(s Sharer) uint64 { return s.RSS })
			r.tick(0, forked(6, 100))
		}
		r.tick(0, nil)
		_, peak, _, how := r.memory("group/n1/100")
		switch {
		case !stay && (peak < 100 || peak > 110 || how["memory_peak_bytes pss"] != float64(figure.AtLeast)):
			t.Errorf("not measured: peak %.0f MiB, %v", peak, how)
		case stay && (peak < 600 || peak > 615 || how["memory_peak_bytes pss"] != float64(figure.Exact)):
			t.Errorf("measured: peak %.0f MiB, %v", peak, how)
		}
	}
}
