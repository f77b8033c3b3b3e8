// Package replay plays a recording (doc/recording-format.md) as if it were the
// machine: a task source with its exit records, machine totals, control groups and
// sensors, pass by pass. It serves tests, demonstrations and bug reports.
//
// The pace is the reader's: each reading of the task table moves to the next pass.
// The machine totals belong to the same pass, whichever of the two is read first;
// control groups and sensors give what they gave in the pass that is current. After
// the last pass the task source returns [io.EOF], or begins again when
// [Options].Loop is set: then counters go on growing, time goes on, and processes
// that ended in the recording come again as new ones.
//
// What the recording did not read is an error here too, never a zero. Everything
// that one [Player] hands out shares its position and serves one goroutine.
package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"reckon/sensor"
	"reckon/sensor/replay/recording"
)

// Options say how a recording is played.
type Options struct {
	// Loop begins again after the last pass. A recording of one pass has nothing that
	// could go on and ends all the same.
	Loop bool
	// Now moves the recording in time so that its first pass is at that moment. The
	// zero time leaves it in the past, where the same recording always gives the
	// same names of workloads.
	Now time.Time
}

// Player is an open recording.
type Player struct {
	path string
	opt  Options
	file *os.File
	rd   *recording.Reader
	meta recording.Meta

	cur      *recording.PassData // nil before the first
	first    *recording.PassData
	passes   int // read in this round
	position uint64
	served   struct{ tasks, machine uint64 }
	shift    shift

	about map[int32]about
	paths map[uint64][]sensor.CgroupPath
	users map[uint32]string
	group map[string]*sensor.Cgroup // of the current pass
}

type about struct {
	recording.About
	seen uint64
}

// Open opens a recording and reads its first pass.
func Open(path string, o Options) (*Player, error) {
	p := &Player{path: path, opt: o,
		about: map[int32]about{}, paths: map[uint64][]sensor.CgroupPath{}, users: map[uint32]string{}, group: map[string]*sensor.Cgroup{}}
	if err := p.rewind(); err != nil {
		return nil, err
	}
	if err := p.step(); err != nil {
		p.file.Close()
		if err == io.EOF {
			err = fmt.Errorf("%w: it has no passes", recording.ErrFormat)
		}
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	p.first = p.cur
	return p, nil
}

// rewind opens the file at its beginning.
func (p *Player) rewind() error {
	f, err := os.Open(p.path)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	rd, err := recording.Open(f)
	if err != nil {
		f.Close()
		return fmt.Errorf("replay %s: %w", p.path, err)
	}
	if p.file != nil {
		p.file.Close()
	}
	p.file, p.rd, p.meta, p.passes = f, rd, rd.Meta(), 0
	return nil
}

// step moves to the next pass.
func (p *Player) step() error {
	next, err := p.rd.Next()
	if err == io.EOF && p.opt.Loop && p.passes > 1 {
		p.shift.lap(p.first, p.cur, p.meta.Interval)
		if err = p.rewind(); err == nil {
			next, err = p.rd.Next()
		}
	}
	if err != nil {
		return err
	}
	p.passes++
	p.position++
	p.cur = next
	p.learn(next)
	return nil
}

func (p *Player) learn(d *recording.PassData) {
	for pid, a := range d.About {
		p.about[pid] = about{a, p.position}
	}
	for n, paths := range d.Paths {
		p.paths[n] = paths
	}
	for uid, name := range d.Users {
		p.users[uid] = name
	}
	clear(p.group)
	for i := range d.Cgroups {
		p.group[recording.CgroupKey(d.Cgroups[i].Paths)] = &d.Cgroups[i].Figures
	}
	if d.Tasks == nil {
		return
	}
	for i := range d.Tasks.Live { // the others have ended
		if a, ok := p.about[d.Tasks.Live[i].PID]; ok {
			a.seen = p.position
			p.about[d.Tasks.Live[i].PID] = a
		}
	}
	for pid, a := range p.about {
		if a.seen+1 < p.position {
			delete(p.about, pid)
		}
	}
}

// advance serves a reader that has been served up to the pass *served.
func (p *Player) advance(served *uint64) error {
	if *served == p.position {
		if err := p.step(); err != nil {
			return err
		}
	}
	*served = p.position
	return nil
}

// Close closes the file.
func (p *Player) Close() error { return p.file.Close() }

// Meta describes the recording.
func (p *Player) Meta() recording.Meta { return p.meta }

// Time is when the current pass was taken, moved as [Options].Now and the rounds of a
// loop ask.
func (p *Player) Time() time.Time {
	return p.moved(p.cur.Time).Add(time.Duration(p.shift.boot))
}

// Booted is when the machine of the recording booted, moved as Options.Now asks.
func (p *Player) Booted() time.Time { return p.moved(p.meta.Booted) }

func (p *Player) moved(t time.Time) time.Time {
	if p.opt.Now.IsZero() || p.first == nil {
		return t
	}
	return t.Add(p.opt.Now.Sub(p.first.Time))
}

// Name is "replay".
func (p *Player) Name() string { return "replay" }

// Live names the task source that was recorded.
func (p *Player) Live() string { return p.meta.Source }

// Exits names the exit source that was recorded; it is empty when there was none.
func (p *Player) Exits() string { return p.meta.Exits }

// Read gives the task table of the next pass: see [sensor.TaskSource].
func (p *Player) Read(out *sensor.Pass) error {
	if err := p.advance(&p.served.tasks); err != nil {
		return err
	}
	if p.cur.Tasks == nil {
		return p.missing(p.meta.Source, "the task table")
	}
	p.shift.tasks(out, p.cur.Tasks)
	if text := p.cur.Errors[p.meta.Source]; text != "" {
		return errors.New("recorded: " + text)
	}
	return nil
}

// ReadMachine gives the machine totals: see [sensor.MachineReader].
func (p *Player) ReadMachine(m *sensor.Machine) error {
	if err := p.advance(&p.served.machine); err != nil {
		return err
	}
	if p.cur.Machine == nil {
		return p.missing("machine", "the machine totals")
	}
	*m = *p.cur.Machine
	p.shift.total(m)
	return nil
}

// missing is the recorded reason why something is not in this pass.
func (p *Player) missing(source, what string) error {
	if text := p.cur.Errors[source]; text != "" {
		return errors.New("recorded: " + text)
	}
	return sensor.Unavailable("the recording does not hold "+what, "record again with that source", nil)
}

// CgroupPaths is [sensor.CgroupNamer].
func (p *Player) CgroupPaths(n uint64) ([]sensor.CgroupPath, bool) {
	paths, ok := p.paths[n]
	return paths, ok
}

// UserName returns the name of a user, or false when the recording does not tell.
func (p *Player) UserName(uid uint32) (string, bool) {
	name, ok := p.users[uid]
	return name, ok
}
