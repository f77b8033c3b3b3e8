package agent

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"reckon/account"
	"reckon/sensor"
	"reckon/workload"
	"reckon/workload/process"
)

// identityReader reads the facts that identify a process.
type identityReader interface {
	Cgroups(pid int32) ([]sensor.CgroupPath, error)
	Env(pid int32, keys ...string) (map[string]string, error)
	LoginSession(pid int32) (uint32, bool, error)
}

// cgroupSet describes one set of control groups to which processes belong.
type cgroupSet struct {
	paths []workload.Path
	seen  uint64
}

// groupLeader describes the leader of a process group. It is kept after the leader has ended, because the id of the
// group's workload contains the start of the leader.
type groupLeader struct {
	start int64 // seconds since the Unix epoch
	comm  string
	seen  uint64
}

// identify returns the workload of a process.
func (a *Agent) identify(p *sensor.Process, was *account.Part, ended bool) account.Identified {
	h, gone := a.collectHint(p, ended)
	if !p.Kernel && gone && p.Have&sensor.FieldGroup == 0 {
		return a.identifyUnseen(h, was)
	}
	if was != nil {
		h.Was = was.Workload()
	}
	refused := false
	h.InJob = func(job workload.ID) (owner string, ok bool) {
		owner, ok = a.mayBeInJob(h, was, job)
		refused = refused || !ok
		return owner, ok
	}
	id := a.chain.Resolve(h)
	if refused {
		a.self.strangers++
	}
	a.warnNameless(&id)
	found := account.Identified{Identity: id}
	if id.Cgroup != "" && a.cgroups != nil {
		found.Handle = a.openCgroup(h, id.Cgroup)
	}
	if id.Whole != "" && id.Whole != id.Cgroup && a.cgroups != nil {
		found.Whole = a.openCgroup(h, id.Whole, "memory", "cpu", "cpuacct")
	}
	return found
}

// login returns the login user of a process, or "" if that is unknown or root.
func (a *Agent) login(pid int32) string {
	if look, ok := a.look.(interface {
		LoginUser(pid int32) (uint32, bool, error)
	}); ok { // recordings have none
		if uid, ok, err := look.LoginUser(pid); ok && err == nil && uid != 0 {
			return a.user(uid)
		}
	}
	return ""
}

// mayBeInJob reports whether a process may belong to the job named in its environment, and returns the job's owner. The job
// must belong to the user of the process or be the job it was in before. A process of root may belong to any job.
func (a *Agent) mayBeInJob(h *workload.Hint, was *account.Part, job workload.ID) (owner string, ok bool) {
	owner = a.ledger.JobOwner(job)
	return owner, owner == "" || owner == h.User || h.UID == 0 || was != nil && was.Workload() == job
}

// collectHint collects the data that identifies a process. gone reports that the process can no longer be examined.
func (a *Agent) collectHint(p *sensor.Process, ended bool) (h *workload.Hint, gone bool) {
	h = &workload.Hint{
		Node: a.config.Node, PID: p.PID, PPID: p.PPID, PGID: p.PGID, SID: p.SID,
		UID: p.UID, User: a.user(p.UID), Comm: p.Comm.String(), Kernel: p.Kernel,
		Start:      a.btime + int64(p.Start/1e9),
		LookupUser: a.user,
	}
	if p.Kernel {
		return h, false
	}
	gone = a.setCgroups(h, p, ended)
	if gone && p.Have&sensor.FieldGroup == 0 {
		return h, true
	}
	a.setGroupLeader(h, p)
	if !gone {
		h.Env = a.environment(p.PID)
		if args, ok := a.look.(interface {
			Args(pid int32) ([]string, error)
		}); ok { // recordings have none
			h.Args = func() []string {
				list, _ := args.Args(p.PID) // it may have ended, or be another user's
				return list
			}
		}
		h.LoginSession = func() (uint32, bool) {
			id, ok, err := a.look.LoginSession(p.PID)
			return id, ok && err == nil
		}
	}
	return h, gone
}

// environment returns a function that looks up environment variables of a process. The variables that identify batch
// jobs are read together and only once.
func (a *Agent) environment(pid int32) func(key string) (string, bool) {
	var probed map[string]string
	return func(key string) (string, bool) {
		if !slices.Contains(a.probes, key) {
			vars, err := a.look.Env(pid, key)
			v, ok := vars[key]
			return v, ok && err == nil
		}
		if probed == nil {
			vars, err := a.look.Env(pid, a.probes...)
			if err != nil || vars == nil {
				vars = map[string]string{}
			}
			probed = vars
		}
		v, ok := probed[key]
		return v, ok
	}
}

// identifyUnseen identifies an ended process that no reading saw and that has only a taskstats record. Such a record
// has no process group and no control groups. The process belongs to the part of its parent. If the parent is unknown
// or belongs to another user, it belongs to the short work of its user.
func (a *Agent) identifyUnseen(h *workload.Hint, parent *account.Part) account.Identified {
	if parent != nil && !isForeign(parent, h.User) {
		return account.Identified{Identity: workload.Identity{
			Workload: parent.Workload(), Part: parent.Name(), Owner: parent.Owner(),
		}}
	}
	return account.Identified{Identity: workload.Identity{
		Workload: workload.MakeID(workload.Short, h.User+"/"+a.config.Node), Owner: h.User,
	}}
}

// isForeign reports whether a part consists of system processes, or of plain processes of another user. Such a parent
// does not tell where a process of this user belongs.
func isForeign(p *account.Part, user string) bool {
	switch kind := p.Workload().Kind(); {
	case kind.System():
		return true
	case kind.Group(), kind.Folded():
		return p.Owner() != user
	}
	return false
}

// setCgroups sets the control groups of a process in h, from the cache if its set of groups is known. gone reports that
// the process can no longer be examined. The source that numbered the set has its paths. /proc is read later and may
// show other paths: the paths that the process moved to, or the root in version 1 hierarchies while it exits
// (proc_cgroup_show in kernel/cgroup/cgroup.c), which takes long with much memory. Such paths apply only to that
// process.
func (a *Agent) setCgroups(h *workload.Hint, p *sensor.Process, ended bool) (gone bool) {
	var n uint64
	if p.Have&sensor.FieldCgroup != 0 {
		n = p.Cgroup
	}
	if m := a.known[n]; n != 0 && m != nil {
		m.seen = a.self.ticks
		h.Cgroups = m.paths
		return ended
	}
	if ended && n != 0 {
		a.resolveNewSets()
	}
	if n != 0 {
		if paths, ok := a.tasks.CgroupPaths(n); ok {
			m := &cgroupSet{paths: convertPaths(paths), seen: a.self.ticks}
			a.known[n] = m
			h.Cgroups = m.paths
			return ended
		}
	}
	if ended {
		return true // its id may be another's already
	}
	paths, err := a.look.Cgroups(p.PID)
	if err != nil {
		return !errors.Is(err, fs.ErrPermission)
	}
	h.Cgroups = convertPaths(paths)
	return false
}

func convertPaths(paths []sensor.CgroupPath) []workload.Path {
	out := make([]workload.Path, len(paths))
	for i, c := range paths {
		out[i] = workload.Path{Controllers: c.Controllers, Path: c.Path}
	}
	return out
}

// resolveNewSets identifies one living process of each new set of control groups, once per pass and before ended
// processes. Some names, such as the name of an array task, are only in the environment, which cannot be read after the
// process ended.
func (a *Agent) resolveNewSets() {
	if a.introduced == a.pass.Boot {
		return
	}
	a.introduced = a.pass.Boot
	for i := range a.pass.Live {
		p := &a.pass.Live[i]
		if p.Kernel || p.Have&sensor.FieldCgroup == 0 || a.known[p.Cgroup] != nil {
			continue
		}
		h, _ := a.collectHint(p, false)
		a.chain.Resolve(h)
	}
}

// setGroupLeader sets the leader of the process group in h.
func (a *Agent) setGroupLeader(h *workload.Hint, p *sensor.Process) {
	h.GroupStart, h.GroupComm = h.Start, h.Comm
	if p.Have&sensor.FieldGroup == 0 || p.PGID == 0 {
		return
	}
	g := a.leaders[p.PGID]
	// While one of its processes is older than its leader, the id cannot be a reused one.
	if g == nil || p.PGID == p.PID && g.start != h.Start && cmp.Or(a.oldestInGroup(p.PGID), p).Start >= p.Start {
		g = &groupLeader{start: h.Start, comm: h.Comm}
		if q := cmp.Or(a.findProcess(p.PGID), a.oldestInGroup(p.PGID)); q != nil && (q.PID == p.PGID || q.Start < p.Start) {
			g.start, g.comm = a.btime+int64(q.Start/1e9), q.Comm.String()
		}
		a.leaders[p.PGID] = g
	}
	g.seen = a.self.ticks
	h.GroupStart, h.GroupComm = g.start, g.comm
}

// restoreLeaders restores the leaders of process groups from the saved accounts, because /proc does not show leaders
// that have ended. If several groups had the same number, it takes the youngest.
func (a *Agent) restoreLeaders() {
	for id, facts := range a.ledger.Running() {
		if pgid, start, ok := process.Leader(id); ok {
			if g := a.leaders[pgid]; g == nil || g.start < start {
				a.leaders[pgid] = &groupLeader{start: start, comm: facts.Name, seen: a.self.ticks}
			}
		}
	}
}

// findProcess returns the process with the given id in the current pass, or nil.
func (a *Agent) findProcess(pid int32) *sensor.Process {
	for _, list := range [...][]sensor.Process{a.pass.Live, a.pass.Exited} {
		for i := range list {
			if list[i].PID == pid {
				return &list[i]
			}
		}
	}
	return nil
}

// oldestInGroup returns the oldest living process of a process group, or nil. A group without a leader is named after it,
// because the first process found differs between sources.
func (a *Agent) oldestInGroup(pgid int32) (eldest *sensor.Process) {
	for i := range a.pass.Live {
		if q := &a.pass.Live[i]; q.PGID == pgid && (eldest == nil || q.Start < eldest.Start) {
			eldest = q
		}
	}
	return eldest
}

// sharedHandle is the control group of several processes. It is opened once and closed with the part.
type sharedHandle struct {
	sensor.CgroupHandle
	agent *Agent
	key   string
}

// Rest implements [sensor.CgroupRester].
func (s *sharedHandle) Rest() bool {
	r, ok := s.CgroupHandle.(sensor.CgroupRester)
	return ok && r.Rest()
}

// Close closes the handle, so that it can be opened again.
func (s *sharedHandle) Close() error {
	if s.agent.handles[s.key] == s {
		delete(s.agent.handles, s.key)
	}
	return s.CgroupHandle.Close()
}

// openCgroup returns a handle on the control group at path in every hierarchy that has the process in the group or below it.
// If controllers is not empty, it opens only those version 1 hierarchies that have one of the controllers.
func (a *Agent) openCgroup(h *workload.Hint, path string, controllers ...string) sensor.CgroupHandle {
	key := strings.Join(controllers, ",") + path
	if s := a.handles[key]; s != nil {
		return s
	}
	var paths []sensor.CgroupPath
	for _, c := range h.Cgroups {
		if len(controllers) > 0 && c.Controllers != "" &&
			!slices.ContainsFunc(strings.Split(c.Controllers, ","), func(has string) bool { return slices.Contains(controllers, has) }) {
			continue
		}
		if c.Path == path || strings.HasPrefix(c.Path, path+"/") {
			paths = append(paths, sensor.CgroupPath{Controllers: c.Controllers, Path: path})
		}
	}
	if len(paths) == 0 {
		return nil
	}
	handle, err := a.cgroups.Open(paths)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.recordResult("cgroup", err)
		}
		return nil
	}
	a.recordResult("cgroup", nil)
	s := &sharedHandle{CgroupHandle: handle, agent: a, key: key}
	a.handles[key] = s
	return s
}

// neededMemory returns the needed memory in bytes of the control groups in a set. It opens their files for each call,
// because calls are rare.
func (a *Agent) neededMemory(set uint64) (needed uint64, ok bool) {
	m := a.known[set]
	if m == nil || a.cgroups == nil {
		return 0, false
	}
	var c sensor.Cgroup
	for _, p := range m.paths {
		if ok || p.Path == "/" {
			continue
		}
		if g := a.openCgroup(&workload.Hint{Cgroups: m.paths}, p.Path, "memory"); g != nil {
			ok = errors.Join(g.Read(&c), g.Close()) == nil && c.Have&sensor.CgroupMemory != 0
		}
	}
	return c.Anon + c.Shmem + c.Kernel, ok
}

// forgetEmptyGroups forgets the groups that have had no process for a while.
func (a *Agent) forgetEmptyGroups() {
	for i := range a.pass.Live {
		p := &a.pass.Live[i]
		if g := a.leaders[p.PGID]; g != nil {
			g.seen = a.self.ticks
		}
		if m := a.known[p.Cgroup]; m != nil {
			m.seen = a.self.ticks
		}
	}
	for id, g := range a.leaders {
		if g.seen+2 < a.self.ticks {
			delete(a.leaders, id)
		}
	}
	for id, m := range a.known {
		if m.seen+600 < a.self.ticks {
			delete(a.known, id)
		}
	}
}
