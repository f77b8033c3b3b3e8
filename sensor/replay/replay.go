// Package replay plays a recording (doc/recording-format.md) as if it were the machine: a
// task source with its exit records, machine totals, control groups and sensors, pass by
// pass. It serves tests, demonstrations and bug reports.
//
// The reader sets the pace: each reading of the task table moves to the next pass. The
// machine totals belong to the same pass, whichever of the two is read first; control
// groups and sensors return their readings in the current pass. After the last pass the
// task source returns [io.EOF], or starts again if [Options].Loop is set: then counters
// keep growing, time continues, and processes that ended in the recording appear again as
// new ones.
//
// A failed reading in the recording is an error here too, never a zero. Everything that
// one [Player] returns shares its position and is used from one goroutine.
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

// Options configure a Player.
type Options struct {
	// Loop restarts after the last pass. A recording with a single pass cannot be continued and ends anyway.
	Loop bool
	// Now shifts the recording in time so that its first pass is at that moment. The zero time does
	// not shift it, so that a recording always gives the same workload names.
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
	shift    loopOffset

	about map[int32]processDescription
	paths map[uint64][]sensor.CgroupPath
	users map[uint32]string
	group map[string]*sensor.Cgroup // of the current pass
}

type processDescription struct {
	recording.About
	seen uint64
}

// Open opens a recording and reads its first pass.
func Open(path string, o Options) (*Player, error) {
	p := &Player{path: path, opt: o,
		about: map[int32]processDescription{}, paths: map[uint64][]sensor.CgroupPath{}, users: map[uint32]string{},
		group: map[string]*sensor.Cgroup{}}
	if err := p.openFile(); err != nil {
		return nil, err
	}
	if err := p.advancePass(); err != nil {
		p.file.Close()
		if err == io.EOF {
			err = fmt.Errorf("%w: it has no passes", recording.ErrFormat)
		}
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	p.first = p.cur
	return p, nil
}

// openFile opens the recording at its beginning.
func (p *Player) openFile() error {
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

// advancePass moves to the next pass.
func (p *Player) advancePass() error {
	next, err := p.rd.Next()
	if err == io.EOF && p.opt.Loop && p.passes > 1 {
		p.shift.addRound(p.first, p.cur, p.meta.Interval)
		if err = p.openFile(); err == nil {
			next, err = p.rd.Next()
		}
	}
	if err != nil {
		return err
	}
	p.passes++
	p.position++
	p.cur = next
	p.addPass(next)
	return nil
}

func (p *Player) addPass(d *recording.PassData) {
	for pid, a := range d.About {
		p.about[pid] = processDescription{a, p.position}
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

// nextPass moves to the next pass for a reader that has read up to the pass *served.
func (p *Player) nextPass(served *uint64) error {
	if *served == p.position {
		if err := p.advancePass(); err != nil {
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

// Time returns the time of the current pass, shifted by [Options].Now and the rounds of a loop.
func (p *Player) Time() time.Time {
	return p.shiftTime(p.cur.Time).Add(time.Duration(p.shift.boot))
}

// Booted returns the boot time of the machine of the recording, moved according to Options.Now.
func (p *Player) Booted() time.Time { return p.shiftTime(p.meta.Booted) }

func (p *Player) shiftTime(t time.Time) time.Time {
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

// Read returns the task table of the next pass: see [sensor.TaskSource].
func (p *Player) Read(out *sensor.Pass) error {
	if err := p.nextPass(&p.served.tasks); err != nil {
		return err
	}
	if p.cur.Tasks == nil {
		return p.recordedError(p.meta.Source, "the task table")
	}
	p.shift.shiftTasks(out, p.cur.Tasks)
	if text := p.cur.Errors[p.meta.Source]; text != "" {
		return errors.New("recorded: " + text)
	}
	return nil
}

// ReadMachine returns the machine totals: see [sensor.MachineReader].
func (p *Player) ReadMachine(m *sensor.Machine) error {
	if err := p.nextPass(&p.served.machine); err != nil {
		return err
	}
	if p.cur.Machine == nil {
		return p.recordedError("machine", "the machine totals")
	}
	*m = *p.cur.Machine
	p.shift.shiftTotals(m)
	return nil
}

// recordedError returns the recorded error of a source in this pass.
func (p *Player) recordedError(source, what string) error {
	if text := p.cur.Errors[source]; text != "" {
		return errors.New("recorded: " + text)
	}
	return sensor.Unavailable("the recording does not hold "+what, "record again with that source", nil)
}

// CgroupPaths implements [sensor.CgroupNamer].
func (p *Player) CgroupPaths(n uint64) ([]sensor.CgroupPath, bool) {
	paths, ok := p.paths[n]
	return paths, ok
}

// UserName returns the name of a user, or false if the recording does not have it.
func (p *Player) UserName(uid uint32) (string, bool) {
	name, ok := p.users[uid]
	return name, ok
}
