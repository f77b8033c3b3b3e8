package account

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"reckon/figure"
	"reckon/sensor"
)

// pool is a parent with shared memory and workers that touch it bit by bit, and write some of their own.
type pool struct {
	pid           int32
	size, workers uint64 // MiB
	begin, fork   int    // ticks
	stay          int    // ticks after all is touched
	touched, own  uint64 // MiB, of each worker
	now, peak     uint64 // bytes, of the truth
	over          bool
}

func (f *pool) live(now int, step, write uint64) (live []sensor.Process) {
	if now < f.begin || f.over {
		return nil
	}
	n := uint64(1)
	if now >= f.fork {
		n += f.workers
		if f.touched = min(f.size, f.touched+step); f.touched == f.size {
			f.stay--
			f.over = f.stay < 0
		}
		f.own += write
	}
	for i := range n {
		p := proc(f.pid+int32(i), f.pid, 10*second, second)
		p.Start, p.Comm, p.PPID = uint64(1000+f.begin)*second, sensor.CommOf([]byte("server")), 1
		p.Shmem, p.Anon = f.size*mib, mib
		if i > 0 {
			p.PPID, p.Start = f.pid, uint64(1000+f.fork)*second
			p.Shmem, p.Anon = f.touched*mib, mib+f.own*mib
			p.MinorFaults = (f.touched + f.own) * mib / 4096
		}
		live = append(live, p)
	}
	f.now = (f.size + n + f.own*(n-1)) * mib
	f.peak = max(f.peak, f.now)
	return live
}

func (f *pool) shared(s Sharer) sensor.SharedMemory {
	anon, rest := uint64(mib), f.touched*mib/(f.workers+1)
	if s.PID == f.pid {
		rest += (f.size - f.touched) * mib
	} else {
		anon += f.own * mib
	}
	return sensor.SharedMemory{Resident: s.RSS, Proportional: anon + rest, HasAnon: true, Anon: anon, AnonProportional: anon}
}

// TestSharedMemoryIsRightOrMarked: workers touch what they share at any speed, and there is little time to measure it. The peak of their
// group is right, or its mark is.
func TestSharedMemoryIsRightOrMarked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{})
		r.complete(true)
		r.m.MemoryTotal = 64 << 30
		aside := uint64(rapid.IntRange(0, 600).Draw(t, "other shared memory"))
		m := measuring{purse: float64(rapid.IntRange(-50, 200).Draw(t, "time to measure"))}
		var pools []*pool
		for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
			begin := rapid.IntRange(0, 40).Draw(t, "begin")
			pools = append(pools, &pool{
				pid: int32(100 + 100*i), size: uint64(rapid.IntRange(40, 400).Draw(t, "size")),
				workers: uint64(rapid.IntRange(2, 15).Draw(t, "workers")), begin: begin,
				fork: begin + rapid.IntRange(1, 5).Draw(t, "fork"), stay: rapid.IntRange(1, 60).Draw(t, "stay"),
			})
		}
		speed := rapid.IntRange(1, 60).Draw(t, "speed")
		writes := rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(t, "writes")
		last := 0
		for now := range 200 {
			var live []sensor.Process
			held, used := aside, (aside+1000)*mib
			over := true
			for _, f := range pools {
				step := uint64(rapid.IntRange(0, speed).Draw(t, "step"))
				write := uint64(0)
				if writes > 0 {
					write = uint64(rapid.IntRange(0, writes).Draw(t, "write"))
				}
				live = append(live, f.live(now, step, write)...)
				if over = over && f.over; now >= f.begin && !f.over {
					held += f.size
					used += f.now
				}
			}
			if r.m.MemoryShared, r.m.MemoryAvailable = held*mib, r.m.MemoryTotal-used; over {
				if last++; last > 3 {
					return
				}
			}
			r.tick(0, live)
			m.tick(r, func(s Sharer) sensor.SharedMemory { return pools[s.PID/100-1].shared(s) })
			r.export()
			for _, f := range pools {
				if f.peak == 0 {
					continue
				}
				id := fmt.Sprintf("group/n1/%d", f.pid)
				got, mark := r.values["reckon_workload_memory_peak_bytes|"+id+"|group||alice"], r.worst("memory_peak_bytes", id)
				want := float64(f.peak)
				low, high := got > want*0.95-16*float64(mib), got < want*1.05+16*float64(mib)
				if got != 0 && (mark == figure.Exact && !(low && high) || mark == figure.AtMost && !low || mark == figure.AtLeast && !high ||
					mark == figure.Estimated && !high) {
					t.Fatalf("tick %d: peak of %s is %.0f MiB, %v, want %.0f", now, id, got/float64(mib), mark, want/float64(mib))
				}
			}
		}
	})
}
