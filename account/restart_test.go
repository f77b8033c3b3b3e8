package account

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// sink is a store: it keeps the last sample of each series, and sums the increases of
// counters as a query for raw increases does, with the zero at a series' creation.
type sink struct {
	t    interface{ Fatalf(string, ...any) }
	last map[string]point
	grew float64
	sent int
}

type point struct {
	v  float64
	at int64 // milliseconds
}

func (s *sink) take(b *metric.Batch) {
	now := b.Time.UnixMilli()
	for _, x := range b.Samples {
		if x.Series.Desc.Kind != metric.Counter || x.Ended() {
			continue
		}
		k := x.Series.Desc.Name + "|" + strings.Join(x.Series.Values, "|")
		was, known := s.last[k]
		add := 0.0
		switch created := x.Series.Created; {
		case created != 0 && (!known || created > was.at):
			add = x.Value // from zero
		case !known: // it only exists
		case x.Value < was.v-1e-9:
			s.t.Fatalf("export %d: %s fell from %v to %v", s.sent, k, was.v, x.Value)
		default:
			add = x.Value - was.v
		}
		if x.Series.Desc == cpuSeconds {
			s.grew += add
		}
		s.last[k] = point{x.Value, now}
	}
	s.sent++
}

// TestCrashesLoseNothing kills the agent at any moment, also between an export and its
// saving or sending, while processes start and end, with and without records of their ends that name no group and lack the
// last moments (taskstats). No counter decreases, and the sum of the increases is the busy time of the machine.
func TestCrashesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{Export: 3 * time.Second, Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.Have&sensor.FieldGroup == 0 && parent == nil {
				return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Short, "alice/n1"), Owner: "alice"}}
			}
			return byGroup(p, parent, ended)
		}})
		k := newKin(10 * second)
		s := &sink{t: t, last: map[string]point{}}
		for range 3 {
			k.run(k.fork(1, true, 20*second), second)
		}
		r.before = k.used
		r.step(k, 0)
		saved, err := r.saved("b")
		if err != nil {
			t.Fatal(err)
		}
		restart := func() {
			r.l = New(r.l.config)
			if err := r.l.Restore(saved, "b"); err != nil {
				t.Fatal(err)
			}
		}
		export := func(upTo int) {
			var b metric.Batch
			b.Reset(wall.Add(time.Duration(r.boot)))
			r.l.Export(&b)
			if upTo == 0 {
				return
			}
			if saved, err = r.saved("b"); err != nil {
				t.Fatal(err)
			}
			if upTo > 1 {
				s.take(&b)
			}
		}
		export(2)
		began, other := k.used, r.l.node.balance
		records := rapid.Bool().Draw(t, "records")
		var ended []sensor.Process
		end := func(pid int32) {
			if p := k.procs[pid]; records {
				e := proc(pid, 0, p.start, p.cpu-min(p.cpu, uint64(rapid.IntRange(0, 4e6).Draw(t, "lacks"))))
				e.PPID, e.State = p.ppid, 'X'
				e.Have &^= sensor.FieldGroup
				ended = append(ended, e)
			}
			k.end(pid)
		}
		step := func() {
			r.step(k, 0, ended...)
			ended = nil
		}
		for range rapid.IntRange(1, 40).Draw(t, "seconds") {
			left := 3 * second
			pids := make([]int32, 0, len(k.procs))
			for pid, p := range k.procs {
				if pid != 1 && !p.dead {
					pids = append(pids, pid)
				}
			}
			slices.Sort(pids)
			for _, pid := range pids {
				switch rapid.IntRange(0, 7).Draw(t, "event") {
				case 0:
					if len(k.procs) < 12 {
						k.fork(pid, rapid.Bool().Draw(t, "own group"), r.boot+second/2)
					}
				case 1:
					if len(k.procs) > 3 {
						end(pid)
					}
				case 2:
					c := k.fork(pid, false, r.boot+second/2)
					d := min(left, uint64(rapid.IntRange(0, 3e8).Draw(t, "short")))
					left -= d
					k.run(c, d)
					end(c)
				default:
					d := min(left, uint64(rapid.IntRange(0, 1e9).Draw(t, "use")))
					left -= d
					k.run(pid, d)
				}
			}
			switch rapid.IntRange(0, 9).Draw(t, "agent") {
			case 0: // it is down for this second
				restart()
				ended = nil
				r.boot += second
				r.m.User += k.used - r.before
				r.m.Idle += 4*second - (k.used - r.before)
				r.before = k.used
				continue
			case 1: // killed after the export, before it is saved
				step()
				export(0)
				restart()
			case 2: // killed before it is sent
				step()
				export(1)
				restart()
			case 3: // killed after it was sent
				step()
				export(2)
				restart()
			case 4, 5, 6:
				step()
				export(2)
			default:
				step()
			}
		}
		step()
		held := uint64(r.l.config.maxIdleAge()) + second // young groups are not held back any more
		r.boot += held
		r.m.Idle += 4 * held
		step()
		export(2)
		got, want := s.grew-0, toSeconds(k.used-began)
		slack := -toSeconds(uint64(max(-r.l.node.balance, 0))) - toSeconds(uint64(max(-other, 0)))
		if got < want+slack-1e-6 || got > want-slack+1e-6 {
			t.Fatalf("counters grew by %.6f s, %.6f were used", got, want)
		}
	})
}

// TestOwedOnce: what a process was charged that ended just before the accounts were saved is owed to its parent once, also after a restart.
func TestOwedOnce(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	r.step(k, 0)
	for range 5 {
		c := k.fork(shell, false, r.boot)
		k.run(c, second/2)
		r.step(k, 0)
		k.end(c)
		r.step(k, 0)
		r.restart()
		s := k.fork(shell, false, r.boot)
		k.run(s, second/2)
		k.end(s)
		r.step(k, 0)
		r.step(k, 0)
	}
	about(t, "the group", r.group(shell), 5)
}
