package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// EnvKeys returns the environment variables that are recorded if their value is a number. They identify the batch job
// of a process if its control group does not.
func EnvKeys() []string {
	return []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"}
}

// Looker reads the identity of a process.
type Looker interface {
	Cgroups(pid int32) ([]sensor.CgroupPath, error)
	Env(pid int32, keys ...string) (map[string]string, error)
	LoginSession(pid int32) (uint32, bool, error)
}

// Recorder records passes of a machine. It skips sources that are nil.
type Recorder struct {
	Tasks   sensor.TaskSource
	Machine sensor.MachineReader
	Cgroups sensor.CgroupReader
	Look    Looker
	// User returns the name of a user.
	User    func(uid uint32) string
	Sensors []sensor.Sensor
	// Files reads raw files; nil records readings only.
	Files *Collector
	// Scrub replaces names; nil keeps them.
	Scrub *Scrubber

	pass    sensor.Pass
	seen    map[int32]seenProcess
	paths   map[uint64]bool
	users   map[uint32]bool
	handles map[string]*openHandle
	round   uint64
}

type seenProcess struct {
	start, cgroup uint64
	paths         []sensor.CgroupPath
	round         uint64
}

type openHandle struct {
	sensor.CgroupHandle
	paths []sensor.CgroupPath
	round uint64
}

// Record writes n passes to w, one per interval. If n is 0, it continues until ctx ends. A failed source is noted in
// the pass, and only errors of w are returned. Record closes w and the control groups that it opened, but not the
// sources.
func (r *Recorder) Record(ctx context.Context, w *Writer, n int, interval time.Duration) (err error) {
	defer func() { err = errors.Join(err, r.close(), w.Close()) }()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := 0; ; {
		if err := w.Pass(r.Pass(time.Now())); err != nil {
			return err
		}
		if i++; i == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Pass reads everything once.
func (r *Recorder) Pass(now time.Time) PassData {
	if r.seen == nil {
		r.seen, r.paths, r.users, r.handles = map[int32]seenProcess{}, map[uint64]bool{}, map[uint32]bool{}, map[string]*openHandle{}
	}
	r.round++
	d := PassData{
		Time: now, About: map[int32]About{}, Paths: map[uint64][]sensor.CgroupPath{},
		Users: map[uint32]string{}, Errors: map[string]string{},
	}
	if r.Tasks != nil {
		r.pass.Reset()
		d.addError(r.Tasks.Name(), r.Tasks.Read(&r.pass))
		d.Tasks = &r.pass
		r.identifyNew(&d)
	}
	if r.Machine != nil {
		d.Machine = &sensor.Machine{}
		if err := r.Machine.ReadMachine(d.Machine); err != nil {
			d.addError("machine", err)
			d.Machine = nil
		}
	}
	r.readCgroups(&d)
	for _, s := range r.Sensors {
		var b metric.Batch
		b.Reset(now)
		reading := Reading{Sensor: s.Name()}
		if g, ok := s.(sensor.GPUSource); ok {
			reading.GPU = new(sensor.GPUPass)
			if f, ok := s.(sensor.GPUFinder); ok {
				f.FindGPU(r.pass.Opens)
			}
			if err := g.ReadGPU(reading.GPU); err != nil {
				reading.Error = err.Error()
			}
		}
		if err := s.Read(&b); err != nil {
			reading.Error = err.Error()
		}
		reading.Samples = b.Samples
		d.Sensors = append(d.Sensors, reading)
	}
	if r.Files != nil {
		d.Files = r.Files.Collect()
	}
	if r.Scrub != nil {
		r.Scrub.Pass(&d)
	}
	return d
}

func (d *PassData) addError(source string, err error) {
	if err != nil {
		d.Errors[source] = err.Error()
	}
}

// identifyNew examines the processes that are new or have moved.
func (r *Recorder) identifyNew(d *PassData) {
	for i := range d.Tasks.Live {
		p := &d.Tasks.Live[i]
		r.recordUser(d, p.UID)
		s, known := r.seen[p.PID]
		if !known || s.start != p.Start || s.cgroup != p.Cgroup {
			s = seenProcess{start: p.Start, cgroup: p.Cgroup}
			s.paths = r.recordIdentity(d, p)
		}
		s.round = r.round
		r.seen[p.PID] = s
		r.openGroups(s.paths)
	}
	namer, _ := r.Tasks.(sensor.CgroupNamer)
	for i := range d.Tasks.Exited {
		p := &d.Tasks.Exited[i]
		r.recordUser(d, p.UID)
		if n := p.Cgroup; namer != nil && n != 0 && !r.paths[n] {
			if paths, ok := namer.CgroupPaths(n); ok {
				d.Paths[n], r.paths[n] = paths, true
			}
		}
	}
	maps.DeleteFunc(r.seen, func(_ int32, s seenProcess) bool { return s.round != r.round })
}

func (r *Recorder) recordUser(d *PassData, uid uint32) {
	if r.User != nil && !r.users[uid] {
		r.users[uid] = true
		d.Users[uid] = r.User(uid)
	}
}

func (r *Recorder) recordIdentity(d *PassData, p *sensor.Process) []sensor.CgroupPath {
	if r.Look == nil || p.Kernel {
		return nil
	}
	var a About
	a.Cgroups, _ = r.Look.Cgroups(p.PID) // it may have ended meanwhile, or belong to another user
	if id, ok, err := r.Look.LoginSession(p.PID); ok && err == nil {
		a.LoginSession = &id
	}
	if env, err := r.Look.Env(p.PID, EnvKeys()...); err == nil {
		for k, v := range env {
			if v == "" || len(v) > 20 || strings.Trim(v, "0123456789") != "" {
				delete(env, k)
			}
		}
		a.Env = env
	}
	d.About[p.PID] = a
	if n := p.Cgroup; n != 0 && len(a.Cgroups) > 0 && !r.paths[n] {
		d.Paths[n], r.paths[n] = a.Cgroups, true
	}
	return a.Cgroups
}

// maxHandles is the maximum number of open control groups, a few descriptors each.
const maxHandles = 5000

// openGroups opens the control groups of a process and all groups above them, because each of them may be a workload's.
func (r *Recorder) openGroups(paths []sensor.CgroupPath) {
	if r.Cgroups == nil {
		return
	}
	for _, line := range paths {
		for p := line.Path; len(p) > 1 && p[0] == '/'; p = p[:strings.LastIndexByte(p, '/')] {
			set := groupsBelow(paths, p)
			key := CgroupKey(set)
			h := r.handles[key]
			if h == nil && len(r.handles) < maxHandles {
				open, err := r.Cgroups.Open(set)
				if err != nil {
					continue // gone meanwhile
				}
				h = &openHandle{CgroupHandle: open, paths: set}
				r.handles[key] = h
			}
			if h != nil {
				h.round = r.round
			}
		}
	}
}

// groupsBelow returns the group p in every hierarchy in which the group of a line is p or below it.
func groupsBelow(lines []sensor.CgroupPath, p string) (set []sensor.CgroupPath) {
	for _, c := range lines {
		if c.Path == p || strings.HasPrefix(c.Path, p+"/") {
			set = append(set, sensor.CgroupPath{Controllers: c.Controllers, Path: p})
		}
	}
	return set
}

// CgroupKey returns a text that is equal for equal sets of paths.
func CgroupKey(paths []sensor.CgroupPath) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "%s:%s\n", p.Controllers, p.Path)
	}
	return b.String()
}

func (r *Recorder) readCgroups(d *PassData) {
	for key, h := range r.handles {
		c := Cgroup{Paths: h.paths}
		err := h.Read(&c.Figures)
		if err == nil {
			d.Cgroups = append(d.Cgroups, c)
		}
		if err != nil || h.round != r.round {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.addError("cgroup", err)
			}
			_ = h.Close() // it was only read from
			delete(r.handles, key)
		}
	}
	slices.SortFunc(d.Cgroups, func(a, b Cgroup) int { return strings.Compare(CgroupKey(a.Paths), CgroupKey(b.Paths)) })
}

func (r *Recorder) close() (err error) {
	for _, h := range r.handles {
		err = errors.Join(err, h.Close())
	}
	clear(r.handles)
	return err
}
