package account

import (
	"math"
	"math/rand/v2"
)

// forever is the span of what does not end.
const forever = uint64(1000) * second

// load starts the programs of a machine.
func (w *simulated) load(rng *rand.Rand) {
	g := &generator{rng}
	init := w.procs[1]
	one := func(p *routine, uid uint32) {
		init.todo = append(init.todo, act{do: spawn, runs: &routine{kind: p.kind, threads: p.threads, reaper: p.reaper, ignores: p.ignores,
			acts: append([]act{{do: setsid}, {do: setuid, uid: uid}}, p.acts...)}})
	}
	users := []uint32{1000, 1001, 0}
	for range 1 + rng.IntN(4) {
		uid := users[rng.IntN(3)]
		switch p := g.any(); rng.IntN(4) {
		case 0: // at once
			one(p, uid)
		case 1: // of a shell that was there before
			one(&routine{kind: "shell", acts: []act{g.pause(8), {do: spawn, runs: p, group: true}, {do: waitLast}, g.pause(3)}}, uid)
		case 2: // later
			one(&routine{kind: "at", acts: []act{g.pause(20), {do: spawn, runs: p, session: true}, {do: waitLast}}}, uid)
		case 3: // of a login
			one(&routine{kind: "sshd", acts: []act{g.pause(5), {do: spawn, session: true, runs: &routine{kind: "sshd-session", acts: []act{
				{do: compute, span: 5e6}, {do: spawn, runs: &routine{kind: "sshd-user", acts: []act{
					{do: setuid, uid: users[rng.IntN(2)]}, {do: compute, span: 1e6}, {do: spawn, session: true, runs: p}, {do: waitLast},
				}}}, {do: waitLast},
			}}}, {do: waitLast}, {do: sleep, span: forever}}}, 0)
		}
	}
	init.todo = append(init.todo, act{do: sleep, span: forever})
	w.order = append(w.order, init)
}

// generator makes random programs.
type generator struct{ *rand.Rand }

func (g *generator) any() *routine {
	switch g.IntN(10) {
	case 0:
		return g.script()
	case 1:
		return g.build()
	case 2:
		return g.pool()
	case 3:
		return g.interactive()
	case 4:
		return g.cron()
	case 5:
		return g.launcher()
	case 6:
		return g.single()
	case 7:
		return g.daemon()
	default:
		return g.tree(3)
	}
}

// span is between 1 ms and 4 s, evenly by its logarithm.
func (g *generator) span() uint64 { return g.between(1e6, 4e9) }

func (g *generator) between(least, most float64) uint64 {
	return uint64(least * math.Pow(most/least, g.Float64()))
}

func (g *generator) pause(seconds int) act {
	return act{do: sleep, span: 1e6 + g.Uint64N(uint64(seconds)*second)}
}

// command is a child that computes and, at times, sleeps.
func (g *generator) command(most float64) *routine {
	p := &routine{kind: "command", acts: []act{{do: compute, span: g.between(1e6, most)}}}
	if g.IntN(3) == 0 {
		p.acts = append(p.acts, g.pause(2), act{do: compute, span: g.between(1e6, most)})
	}
	return p
}

// single is one process that works and sleeps, at times with several threads.
func (g *generator) single() *routine {
	p := &routine{kind: "single"}
	if g.IntN(3) == 0 {
		p.threads = uint32(2 + g.IntN(6))
	}
	for range 1 + g.IntN(6) {
		p.acts = append(p.acts, act{do: compute, span: g.span() * uint64(max(p.threads, 1))}, g.pause(4))
	}
	return p
}

// script runs one command after the other.
func (g *generator) script() *routine {
	p := &routine{kind: "script"}
	most := []float64{2e6, 2e7, 3e9}[g.IntN(3)]
	n := int(min(2000, g.between(3, 3e10/most)))
	for range n {
		p.acts = append(p.acts, act{do: compute, span: 3e5}, act{do: spawn, runs: g.command(most)}, act{do: waitLast})
	}
	return p
}

// build keeps several compilers running, each with a shell and two children.
func (g *generator) build() *routine {
	p := &routine{kind: "make"}
	jobs := 1 + g.IntN(6)
	most := float64(g.between(1e7, 3e9))
	for i := range 5 + g.IntN(60) {
		gcc := &routine{kind: "gcc", acts: []act{
			{do: compute, span: 1e6}, {do: spawn, runs: &routine{kind: "cc1", acts: []act{{do: compute, span: g.between(1e6, most)}}}}, {do: waitLast},
			{do: spawn, runs: &routine{kind: "as", acts: []act{{do: compute, span: g.between(1e6, most/4)}}}}, {do: waitLast},
		}}
		if i >= jobs {
			p.acts = append(p.acts, act{do: waitAny})
		}
		p.acts = append(p.acts, act{do: compute, span: 5e5}, act{do: spawn, runs: &routine{kind: "sh", acts: []act{{do: compute, span: 1e6}, {do: spawn, runs: gcc}, {do: waitLast}}}})
	}
	p.acts = append(p.acts, act{do: waitAll})
	return p
}

// pool has workers that live as long as it.
func (g *generator) pool() *routine {
	p := &routine{kind: "pool"}
	for range 1 + g.IntN(8) {
		worker := &routine{kind: "worker"}
		for range 1 + g.IntN(8) {
			worker.acts = append(worker.acts, act{do: compute, span: g.span()}, g.pause(3))
		}
		p.acts = append(p.acts, act{do: spawn, runs: worker})
	}
	p.acts = append(p.acts, act{do: waitAll})
	return p
}

// interactive is a shell with job control: each command is a process group of its own in its session.
func (g *generator) interactive() *routine {
	p := &routine{kind: "bash"}
	for range 1 + g.IntN(8) {
		var job *routine
		switch g.IntN(5) {
		case 0:
			job = g.script()
		case 1:
			job = g.build()
		default:
			job = g.command(5e9)
		}
		p.acts = append(p.acts, g.pause(8), act{do: spawn, runs: job, group: true}, act{do: waitLast})
		if g.IntN(4) == 0 { // a command substitution, in its own group
			p.acts = append(p.acts, act{do: spawn, runs: g.command(5e7)}, act{do: waitLast})
		}
	}
	return p
}

// cron starts jobs in sessions of users.
func (g *generator) cron() *routine {
	p := &routine{kind: "cron"}
	for range 1 + g.IntN(4) {
		p.acts = append(p.acts, g.pause(10), act{do: spawn, runs: &routine{kind: "cron-child", acts: []act{
			{do: compute, span: 5e5}, {do: spawn, session: true, runs: &routine{kind: "cron-job", acts: append([]act{{do: setuid, uid: 1000}}, g.script().acts...)}}, {do: waitLast},
		}}})
	}
	p.acts = append(p.acts, act{do: waitAll})
	return p
}

// launcher starts sessions of short commands, one after the other or several at once.
func (g *generator) launcher() *routine {
	p := &routine{kind: "launcher"}
	most, late, jobs := float64(g.between(1e7, 3e9)), g.IntN(3) == 0, 1+g.IntN(4)
	for i := range 3 + g.IntN(30) {
		if i >= jobs {
			p.acts = append(p.acts, act{do: waitAny})
		}
		c := g.command(most)
		c.kind = "session"
		if late {
			c.acts = append([]act{{do: compute, span: 5e5}, {do: setsid}}, c.acts...)
		}
		p.acts = append(p.acts, act{do: compute, span: 5e5}, act{do: spawn, runs: c, session: !late})
	}
	p.acts = append(p.acts, act{do: waitAll})
	return p
}

// daemon forks twice, and its first process ends.
func (g *generator) daemon() *routine {
	p := &routine{kind: "starts-daemons"}
	for range 1 + g.IntN(3) {
		p.acts = append(p.acts, g.pause(4), act{do: spawn, session: g.IntN(2) == 0, runs: &routine{kind: "daemon-1", acts: []act{
			{do: compute, span: 1e6}, {do: spawn, runs: g.single()},
		}}}, act{do: waitLast})
	}
	return p
}

// tree does anything.
func (g *generator) tree(depth int) *routine {
	p := &routine{kind: "tree", reaper: g.IntN(12) == 0, ignores: g.IntN(12) == 0}
	// A parent that starts both commands of its own group and sessions cannot be recognised by those that no reading saw.
	group, session := g.IntN(4) == 0, g.IntN(6) == 0
	for range 1 + g.IntN(6) {
		switch n := g.IntN(8); {
		case n < 2 || depth == 0:
			p.acts = append(p.acts, act{do: compute, span: g.span()})
		case n == 2:
			p.acts = append(p.acts, g.pause(5))
		case n == 3:
			for range 1 + g.IntN(40) {
				p.acts = append(p.acts, act{do: spawn, runs: g.command(5e7), group: group, session: session}, act{do: waitLast})
			}
		case n == 4:
			p.acts = append(p.acts, act{do: waitAll})
		default:
			p.acts = append(p.acts, act{do: spawn, runs: g.tree(depth - 1), group: group, session: session})
			if g.IntN(3) > 0 {
				p.acts = append(p.acts, act{do: waitLast})
			}
		}
	}
	return p
}
