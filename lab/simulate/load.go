package simulate

import "time"

// groupDemand is the use that a group would have at a moment without limits.
type groupDemand struct {
	cores             float64
	most              float64 // maximum number of usable cores, 0 for all
	planned           *Does
	anon, file, shmem uint64
	read, write       float64 // bytes a second
	shorts            float64 // short processes in the step
	tools             []string
	gpu               float64 // busy share of each device
	gpuBytes          uint64
	killed            bool // the kernel ends a process for lack of memory
}

// service is a service.
type service struct {
	unit, comm string
	uid        uint32
	threads    uint32
	cores      float64
	memory     uint64
	write      float64 // bytes a second
}

// servicesOf returns the services of a machine.
func servicesOf(r nodeRole) []service {
	list := []service{
		{"systemd-journald", "systemd-journal", 0, 1, 0.0008, 48 << 20, 9e3},
		{"sshd", "sshd", 0, 1, 0.0001, 9 << 20, 0},
		{"chronyd", "chronyd", 994, 1, 0.0001, 4 << 20, 0},
		{"munge", "munged", 993, 4, 0.0002, 6 << 20, 0},
	}
	switch r {
	case services:
		return append(list, service{"slurmctld", "slurmctld", 992, 24, 0.06, 900 << 20, 40e3},
			service{"slurmdbd", "slurmdbd", 992, 8, 0.02, 300 << 20, 10e3},
			service{"mariadb", "mariadbd", 991, 40, 0.15, 6 << 30, 900e3},
			service{"grafana-server", "grafana", 990, 18, 0.03, 250 << 20, 5e3})
	case login:
		return append(list, service{"nfs-client", "rpc.gssd", 0, 2, 0.0004, 7 << 20, 0})
	}
	return append(list, service{"slurmd", "slurmd", 0, 3, 0.001, 22 << 20, 0})
}

// demandAt returns the demand of the group around a moment. seconds is the length of the step.
func (g *simGroup) demandAt(n *Node, at time.Time, seconds float64) groupDemand {
	switch {
	case g == n.kernel:
		return groupDemand{cores: 0.003 + 0.001*noiseAt(n.site.Seed, at.Unix()/60)}
	case g.place != nil:
		return g.jobDemandAt(n, at, seconds)
	case g.pod != nil:
		return g.podDemandAt(at)
	case g.session != nil:
		return g.session.demandAt(at, seconds)
	}
	u := &g.unit
	day := hourlyRates[at.Hour()] / 12
	d := groupDemand{cores: u.cores * (0.5 + day + 0.3*noiseAt(n.site.Seed+uint64(len(u.unit)), at.Unix()/120)), anon: u.memory,
		file: u.memory / 5, write: u.write}
	d.cores = max(d.cores, u.cores/10)
	return d
}

// jobDemandAt returns the demand of a job on one node.
func (g *simGroup) jobDemandAt(n *Node, at time.Time, seconds float64) groupDemand {
	j := g.place.job
	if !g.works {
		return groupDemand{cores: max(g.cores, 0.001), anon: 3 << 20, file: 2 << 20}
	}
	if j.plan != nil {
		return g.plannedDemandAt(at)
	}
	k := j.kind
	life := max(j.length, time.Second)
	done := min(max(at.Sub(j.Start).Seconds()/life.Seconds(), 0), 1)
	ph, before, inside := k.phaseAt(done)
	seed := j.seed + uint64(n.pid%7) // nodes of one job differ a little
	step := at.Unix() / 20
	d := groupDemand{shorts: k.shorts * float64(j.Cores) * seconds, tools: k.tools}
	d.cores = float64(j.Cores) * j.used * k.busy * ph.busy * (1 + k.jitter*noiseAt(seed, step))
	d.read, d.write = ph.read*(1+0.4*noiseAt(seed+1, step)), ph.write*(1+0.4*noiseAt(seed+2, step))
	if ph.repeat > 0 { // a checkpoint
		if since := int64(at.Sub(j.Start).Seconds()) % int64(ph.repeat); since < 30 {
			d.write, d.cores = d.write+250*mb, d.cores*0.5
		}
	}
	level := before + (ph.memory-before)*inside
	memory := float64(j.peak) * max(level, 0.02)
	if j.Outcome == outOfMemory {
		// It grows to the limit, where the kernel ends it a little before the job is over.
		to := max(j.End.Sub(j.Start).Seconds()-20, 1)
		part := min(at.Sub(j.Start).Seconds()/to, 1)
		memory = float64(j.MemoryBytes) * (0.2 + 0.8*part*part)
		if part >= 1 || j.End.Sub(at) < time.Duration(seconds*float64(time.Second)) {
			d.killed = true
			memory = float64(j.MemoryBytes) * 0.3
		}
	}
	d.anon = uint64(memory * 0.94)
	d.shmem = uint64(memory * 0.02)
	d.file = uint64(min((d.read+d.write)*60, float64(j.MemoryBytes)/10))
	if k.gpus != nil {
		wave := 0.5 + 0.5*noiseAt(seed+3, at.Unix()/45)
		d.gpu = min(k.gpuBusy*ph.busy*(0.8+0.4*wave), 1)
		d.gpuBytes = uint64(k.gpuBytes * gpuMemory * (0.9 + 0.1*noiseAt(j.seed, 4)))
	}
	return d
}

// phaseAt returns the current phase of a program. done is the completed fraction of the program, and inside is that of
// the phase. before is the memory at the end of the previous phase.
func (k *programKind) phaseAt(done float64) (p *programPhase, before, inside float64) {
	before = 0.05
	for i := range k.phases {
		p = &k.phases[i]
		if done < p.share || i == len(k.phases)-1 {
			return p, before, min(done/p.share, 1)
		}
		done -= p.share
		before = p.memory
	}
	return p, before, 1
}

// loginSession is a login session of a user.
type loginSession struct {
	number     int
	user       *User
	start, end time.Time
	program    string
	cores      float64
	memory     uint64
	burst      bool // it works now and then
	tools      []string
	seed       uint64
	plan       *PlannedSession
}

// drawSessions returns random logins, the same at each call.
func (s *Site) drawSessions() []*loginSession {
	if s.OnlyPlanned {
		return s.plannedSessions(0)
	}
	rnd := newRandom(s.Seed, 4)
	from := s.From.Add(-s.lead)
	clock := newArrivals(from, s.lead+s.For)
	days := (s.lead + s.For).Hours() / 24
	count := min(int(days*float64(len(s.Users))*1.5)+1, 20_000)
	out := make([]*loginSession, count)
	for i := range out {
		u := s.Users[rnd.IntN(len(s.Users))]
		v := &loginSession{number: i + 1, user: u, start: clock.drawTime(false, rnd), seed: rnd.Uint64()}
		v.end = v.start.Add(5*time.Minute + time.Duration(rnd.ExpFloat64()*float64(90*time.Minute))).Truncate(time.Second)
		switch at := rnd.Float64(); {
		case at < 0.5: // a shell that waits
		case at < 0.8:
			v.program, v.cores, v.memory = "vim", 0.01, 60<<20
		case at < 0.95:
			v.program, v.cores, v.memory, v.burst = "make", 6, 500<<20, true
			v.tools = []string{"cc1plus", "as", "ld", "sh"}
		default: // work that does not belong on a login node
			v.program, v.cores, v.memory = "python3", float64(s.Cores)*0.8, 24<<30
			v.end = v.end.Add(2 * time.Hour)
		}
		out[i] = v
	}
	out = append(out, s.busySessions(len(out))...)
	return append(out, s.plannedSessions(len(out))...)
}

// busySessions returns the sessions of busy afternoons on the login node. One user computes with two threads per core,
// against the rules, while two others compile with half of the cores each. Threads of all three users wait for a core.
func (s *Site) busySessions(after int) (out []*loginSession) {
	if len(s.Users) < 3 {
		return nil
	}
	rnd := newRandom(s.Seed, 5)
	first := rnd.IntN(len(s.Users))
	from := s.From.Add(-s.lead)
	for at := from.Truncate(24 * time.Hour).Add(13 * time.Hour); at.Before(s.End()); at = at.Add(24 * time.Hour) {
		for i := range 3 {
			v := &loginSession{number: after + len(out) + 1, user: s.Users[(first+i)%len(s.Users)], start: at, end: at.Add(4 * time.Hour),
				seed:    rnd.Uint64(),
				program: "make", cores: float64(s.Cores) / 2, memory: 2 << 30}
			if i == 0 {
				v.program, v.cores, v.memory, v.start = "python3", 2*float64(s.Cores), 24<<30, at.Add(20*time.Minute)
			}
			out = append(out, v)
		}
	}
	return out
}

func (v *loginSession) demandAt(at time.Time, seconds float64) groupDemand {
	if v.plan != nil {
		return v.plan.demand()
	}
	d := groupDemand{cores: 0.0005, anon: 6 << 20, file: 4 << 20}
	if v.program == "" {
		return d
	}
	d.cores += v.cores * (1 + 0.1*noiseAt(v.seed, at.Unix()/30))
	d.anon += v.memory
	if v.burst {
		if noiseAt(v.seed, at.Unix()/300) < 0.5 {
			d.cores = 0.001
			return d
		}
		d.shorts, d.tools, d.write = 2*seconds, v.tools, 3*mb
	}
	return d
}
