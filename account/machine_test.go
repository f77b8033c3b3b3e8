package account

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"reckon/sensor"
	"reckon/workload"
)

// simulated is a machine of processes that run programs, with the kernel's rules of process groups, sessions, waiting and adopting. It keeps
// what each process group truly used, and shows its processes as /proc and taskstats do.
type simulated struct {
	log     func(string, ...any) // nil for silence
	rng     *rand.Rand
	now     uint64 // nanoseconds since boot
	cores   int
	procs   map[int32]*actor
	order   []*actor // those that have not ended, in the order of their start
	next    int32
	given   map[int32]bool
	used    uint64
	forks   uint64
	truth   map[job]uint64
	kinds   map[job]string    // what the first process of a group runs
	before  map[job]uint64    // used by processes that were gone when the ledger began
	foreign map[string]uint64 // what processes used at their end under a parent of another user, by both users
	reaped  []*actor          // by process 1, a reaper or nobody, since the accounts were saved
	ended   []sensor.Process  // records of ends that were not read yet
	lost    map[string]uint64 // of it, what only child times of process 1, of a reaper or of nobody would show
}

// job is a process group of a user.
type job struct {
	owner string
	pgid  int32
}

// actor is a process.
type actor struct {
	pid, ppid, pgid, sid int32
	uid                  uint32
	kind                 string
	threads              uint32
	start                uint64
	cpu                  uint64
	unflushed            uint64 // of it, since it was last switched off the processor
	childUser, childSys  uint64
	sys                  float64 // share of its CPU time that is system time
	turns                uint64
	blocked              bool // waits, or sleeps
	dead                 bool
	ended                uint64
	reaper               bool // adopts orphans
	ignores              bool // SIGCHLD: its children leave nothing
	at                   uint64
	todo                 []act
	left                 uint64 // of the present act
	shown, saved         uint64 // its use and the use of children that it waited for, at the last reading, and in the last saved accounts
}

type verb uint8

const (
	compute  verb = iota // for span of CPU time
	sleep                // for span
	spawn                // a child
	waitLast             // for the last child that it spawned
	waitAny
	waitAll
	setsid
	setuid
)

// act is a step of a program.
type act struct {
	do      verb
	span    uint64
	runs    *routine
	group   bool // the child is a process group of its own
	session bool // and a session
	uid     uint32
}

// routine is the work of a process.
type routine struct {
	kind            string
	acts            []act
	threads         uint32
	reaper, ignores bool
}

func owner(uid uint32) string {
	switch uid {
	case 0:
		return "root"
	case 1000:
		return "alice"
	}
	return "bob"
}

func newSimulated(seed uint64, log func(string, ...any)) *simulated {
	w := &simulated{
		log: log,
		rng: rand.New(rand.NewPCG(seed, 1)), now: 1000 * second, cores: 2, procs: map[int32]*actor{}, next: 300, given: map[int32]bool{1: true},
		truth: map[job]uint64{}, kinds: map[job]string{}, before: map[job]uint64{}, lost: map[string]uint64{}, foreign: map[string]uint64{},
	}
	w.cores = 1 << w.rng.IntN(4)
	w.next = int32(300 + w.rng.IntN(32000))
	w.procs[1] = &actor{pid: 1, pgid: 1, sid: 1, kind: "init", threads: 1, start: second, reaper: true, blocked: true, at: w.now}
	return w
}

// whole is the use of a process and the children that it waited for.
func (a *actor) whole() uint64 { return a.cpu + a.childUser + a.childSys }

func (a *actor) job() job { return job{owner(a.uid), a.pgid} }

// start begins a process.
func (w *simulated) start(parent *actor, p *routine, at uint64, own, session bool) *actor {
	for w.next++; w.given[w.next]; w.next++ {
	}
	if w.rng.IntN(200) == 0 {
		w.next += int32(w.rng.IntN(3000))
	}
	if w.next > 32767 {
		w.next = int32(300 + w.rng.IntN(100))
		for ; w.given[w.next]; w.next++ {
		}
	}
	w.given[w.next] = true
	w.forks += uint64(max(p.threads, 1))
	a := &actor{
		pid: w.next, ppid: parent.pid, pgid: parent.pgid, sid: parent.sid, uid: parent.uid, kind: p.kind, threads: max(p.threads, 1),
		start: at, at: at, sys: w.rng.Float64() / 2, todo: p.acts, reaper: p.reaper, ignores: p.ignores, turns: 1,
	}
	if own || session {
		a.pgid = a.pid
	}
	if session {
		a.sid = a.pid
	}
	w.trace("%.3f %d (%s, pgid %d, %s) forked by %d", float64(at)/1e9, a.pid, a.kind, a.pgid, owner(a.uid), parent.pid)
	w.procs[a.pid] = a
	w.order = append(w.order, a)
	w.begin(a)
	return a
}

// begin notes what a process group runs.
func (w *simulated) begin(a *actor) {
	if _, ok := w.kinds[a.job()]; !ok {
		w.kinds[a.job()] = a.kind
		w.truth[a.job()] = 0
	}
}

// advance lets the processes run for a time.
func (w *simulated) advance(span uint64) {
	const slice = uint64(10e6)
	for end := w.now + span; w.now < end; {
		w.slice(min(w.now+slice, end))
	}
}

func (w *simulated) slice(end uint64) {
	running := uint32(0)
	for _, a := range w.order {
		if len(a.todo) > 0 && a.todo[0].do == compute {
			running += a.threads
		}
	}
	speed := min(1, float64(w.cores)/float64(max(running, 1)))
	for moved := true; moved; {
		moved = false
		for i := 0; i < len(w.order); i++ {
			if a := w.order[i]; !a.dead && a.at < end && w.act(a, end, speed) {
				moved = true
			}
		}
	}
	for _, a := range w.order {
		if a.at < end {
			a.at = end // it waits
		}
	}
	w.order = slices.DeleteFunc(w.order, func(a *actor) bool { return a.dead })
	w.now = end
}

// act lets a process run until it is blocked, ends or has no time left; false if it still waits.
func (w *simulated) act(a *actor, end uint64, speed float64) (moved bool) {
	for a.at < end {
		if len(a.todo) == 0 {
			w.exit(a)
			return true
		}
		s := &a.todo[0]
		switch s.do {
		case compute:
			if a.left == 0 {
				a.left = max(s.span, 1)
			}
			rate := speed * float64(a.threads)
			took := min(uint64(float64(a.left)/rate)+1, end-a.at)
			use := min(uint64(float64(took)*rate)+1, a.left)
			w.use(a, use)
			a.at += took
			if a.left -= use; a.left > 0 {
				if speed < 1 {
					a.turns++ // others get the processor, too
				}
				return true
			}
		case sleep:
			if a.left == 0 {
				a.left, a.blocked, a.unflushed = max(s.span, 1), true, 0
			}
			took := min(a.left, end-a.at)
			a.at += took
			if a.left -= took; a.left > 0 {
				return true
			}
			a.blocked = false
			a.turns++
		case spawn:
			child := w.start(a, s.runs, a.at, s.group, s.session)
			a.left = uint64(child.pid)
			a.todo = a.todo[1:]
			if len(a.todo) == 0 || a.todo[0].do != waitLast {
				a.left = 0
			}
			moved = true
			continue
		case setsid:
			a.pgid, a.sid = a.pid, a.pid
			w.begin(a)
		case setuid:
			a.uid = s.uid
			w.begin(a)
		default:
			if !w.wait(a, s.do) {
				a.blocked, a.unflushed = true, 0
				return moved
			}
		}
		a.left, a.todo, moved = 0, a.todo[1:], true
	}
	return moved
}

func (w *simulated) use(a *actor, nanos uint64) {
	a.cpu += nanos
	a.unflushed += nanos
	w.used += nanos
	w.truth[a.job()] += nanos
}

// wait waits for children; false if none of those has ended.
func (w *simulated) wait(a *actor, do verb) bool {
	last := int32(a.left)
	done := false
	for {
		var found *actor
		alive := false
		for _, c := range w.children(a) {
			if do == waitLast && c.pid != last {
				continue
			}
			if !c.dead {
				alive = true
			} else if found == nil || c.ended < found.ended {
				found = c
			}
		}
		if found == nil {
			if !alive || done && do != waitAll {
				break
			}
			return false
		}
		w.reap(a, found)
		if done = true; a.blocked {
			a.turns++
			a.blocked = false
		}
		a.at = max(a.at, found.ended)
		if do != waitAll {
			break
		}
	}
	if a.blocked {
		a.blocked = false
		a.turns++
	}
	return true
}

func (w *simulated) children(a *actor) []*actor {
	var out []*actor
	for _, c := range w.procs {
		if c.ppid == a.pid {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(x, y *actor) int { return int(x.pid - y.pid) })
	return out
}

func (w *simulated) reap(parent, c *actor) {
	sys := uint64(float64(c.cpu) * c.sys)
	if !parent.ignores {
		parent.childUser += c.cpu - sys + c.childUser
		parent.childSys += sys + c.childSys
	}
	if parent.reaper || parent.ignores {
		w.lost[owner(c.uid)] += c.whole() - c.shown
		w.reaped = append(w.reaped, c)
	}
	if parent.uid != c.uid {
		w.foreign[owner(c.uid)] += c.whole() - c.shown
		w.foreign[owner(parent.uid)] += c.whole() - c.shown
	}
	w.trace("%.3f %d waited for by %d", float64(c.ended)/1e9, c.pid, parent.pid)
	delete(w.procs, c.pid)
}

// exit ends a process. Its children get the nearest ancestor that adopts orphans.
func (w *simulated) exit(a *actor) {
	a.dead, a.ended, a.blocked = true, a.at, false
	w.trace("%.3f %d (%s, pgid %d) ended, %.3f + %.3f", float64(a.at)/1e9, a.pid, a.kind, a.pgid, float64(a.cpu)/1e9, float64(a.childUser+a.childSys)/1e9)
	lacks := uint64(0)
	if w.rng.IntN(2) == 0 {
		lacks = min(a.unflushed, uint64(w.rng.IntN(4e6)))
	}
	w.ended = append(w.ended, sensor.Process{
		PID: a.pid, PPID: a.ppid, UID: a.uid, Start: a.start + uint64(w.rng.IntN(int(second/2))), Life: a.at - a.start, State: 'X',
		Have: sensor.FieldWait | sensor.FieldSwitches | sensor.FieldParent, Comm: sensor.CommOf([]byte(a.kind)), UserNanos: a.cpu - lacks,
	})
	adopter := w.procs[a.ppid]
	for adopter != nil && !adopter.reaper {
		adopter = w.procs[adopter.ppid]
	}
	for _, c := range w.children(a) {
		c.ppid = adopter.pid
		if c.dead {
			w.reap(adopter, c)
		}
	}
	if p := w.procs[a.ppid]; p.pid == 1 || p.ignores || p.dead && p.reaper {
		w.reap(p, a)
	}
}

// save notes that the accounts are saved.
func (w *simulated) save() {
	for _, a := range w.procs {
		a.saved = a.shown
	}
	w.reaped = w.reaped[:0]
}

// lose notes that the accounts are those that were saved last.
func (w *simulated) lose() {
	for _, a := range w.reaped {
		w.lost[owner(a.uid)] += a.shown - a.saved
	}
	w.reaped = w.reaped[:0]
}

// read is a reading of /proc that lasts for a time, in which the processes go on. With records, the records of processes that are not in the table any more
// are in it; the others wait.
func (w *simulated) read(pass *sensor.Pass, lasts uint64, records bool) {
	pass.Boot, pass.Live, pass.Exited = w.now, nil, nil
	w.trace("%.3f reading", float64(w.now)/1e9)
	pids := slices.Sorted(maps.Keys(w.procs))
	parts := max(int(lasts/20e6), 1)
	for i, pid := range pids {
		if lasts > 0 && i > 0 && i*parts/len(pids) != (i-1)*parts/len(pids) {
			w.advance(lasts / uint64(parts))
		}
		if a := w.procs[pid]; a != nil {
			pass.Live = append(pass.Live, w.shown(a))
			a.shown = a.whole()
			w.trace("   reads %d (%s, pgid %d) %.3f + %.3f", a.pid, a.kind, a.pgid, float64(a.cpu)/1e9, float64(a.childUser+a.childSys)/1e9)
		}
	}
	if !records {
		w.ended = nil
		return
	}
	kept := w.ended[:0]
	for _, e := range w.ended {
		if findLiving(pass.Live, e.PID) != nil {
			kept = append(kept, e)
			continue
		}
		pass.Exited = append(pass.Exited, e)
	}
	w.ended = kept
}

// trace reports what happens, if somebody asks.
func (w *simulated) trace(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// shown is a process as /proc shows it: its own time to the nanosecond, its children's in clock ticks.
func (w *simulated) shown(a *actor) sensor.Process {
	const tick = uint64(10e6)
	sys := uint64(float64(a.cpu) * a.sys)
	p := sensor.Process{
		PID: a.pid, PPID: a.ppid, PGID: a.pgid, SID: a.sid, UID: a.uid, Start: a.start - a.start%tick, State: 'S', Threads: a.threads,
		Have: sensor.FieldWait | sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent | sensor.FieldCPUSplit | sensor.FieldChildren,
		Comm: sensor.CommOf([]byte(a.kind)), UserNanos: a.cpu - sys, SystemNanos: sys,
		ChildUserNanos: a.childUser - a.childUser%tick, ChildSystemNanos: a.childSys - a.childSys%tick,
	}
	if a.threads == 1 {
		p.Have |= sensor.FieldTurns
		p.Turns = a.turns
	}
	switch {
	case a.dead:
		p.State, p.Threads = 'Z', 1
	case !a.blocked:
		p.State = 'R'
	}
	return p
}

// identifySimulated puts a process into its process group, and one with nothing known but its parent into the parent's group.
func identifySimulated(p *sensor.Process, parent *Part, _ bool) Identified {
	switch {
	case p.Have&sensor.FieldGroup != 0:
		return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Group, fmt.Sprintf("n1/%d", p.PGID)), Owner: owner(p.UID)}}
	case parent != nil:
		return Identified{Identity: workload.Identity{Workload: parent.Workload(), Part: parent.Name(), Owner: owner(p.UID)}}
	}
	return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Short, owner(p.UID)+"/n1"), Owner: owner(p.UID)}}
}
