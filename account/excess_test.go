package account

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// rowsOf are the CPU seconds of the workloads in an export, by id.
func rowsOf(r *rig) map[string]float64 {
	var b metric.Batch
	b.Reset(wall)
	r.l.Export(&b)
	out := map[string]float64{}
	for _, s := range b.Samples {
		if s.Series.Desc == cpuSeconds {
			out[s.Series.Values[0]] += s.Value
		}
	}
	return out
}

// Beyond 200 live groups of an owner new ones are in the owner's short work, youngest first, until they do something; another
// owner's have their rows, nothing is lost or counted twice, and it stays so over a restart of the agent.
func TestGroupsBeyondTheBound(t *testing.T) {
	r := newRig(t, Config{Export: time.Second, Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
		found := byGroup(p, parent, ended)
		if p.UID == 9 {
			found.Owner = "news"
		}
		return found
	}})
	r.tick(0, nil)
	var live []sensor.Process
	for pid := int32(100); pid < 2700; pid++ {
		live = append(live, proc(pid, pid, r.boot+uint64(pid), 2e6))
	}
	mine := proc(9000, 9000, r.boot+9000, 3e8)
	mine.UID = 9
	live = append(live, mine)
	r.tick(0, live)
	for range 70 { // quiet ones are held back for a minute
		r.tick(0, live)
		rowsOf(r)
	}
	check := func(what string, want float64) map[string]float64 {
		t.Helper()
		rows := rowsOf(r)
		groups, sum := 0, 0.0
		for id, v := range rows {
			if strings.HasPrefix(id, "group/") && id != "group/n1/9000" {
				groups++
			}
			if id != "other/n1" {
				sum += v
			}
		}
		if groups < maxLiveGroups || groups > maxLiveGroups+2 {
			t.Errorf("%s: %d groups of the one have rows", what, groups)
		}
		if rows["group/n1/9000"] < 0.29 {
			t.Errorf("%s: the other's work has %v CPU s", what, rows["group/n1/9000"])
		}
		if sum < want-1e-6 || sum > want+1e-6 {
			t.Errorf("%s: %v CPU s in all, want %v", what, sum, want)
		}
		return rows
	}
	want := 2600*0.002 + 0.3
	rows := check("quiet", want)
	if got := rows["short/alice/n1"]; got < 2400*0.002-1e-6 || got > 2400*0.002+1e-6 {
		t.Errorf("short work has %v CPU s", got)
	}
	// The youngest becomes busy: what it does from then on is its own.
	last := &live[2599]
	last.UserNanos += 15e8
	r.tick(0, live)
	last.UserNanos += 25e7
	r.tick(0, live)
	want += 1.75
	rows = check("one busy", want)
	if got := rows["group/n1/2699"]; got != 0.25 {
		t.Errorf("the row of the busy one has %v CPU s, want those since it was busy", got)
	}
	r.restart()
	r.tick(0, live)
	last.UserNanos += 1e9
	r.tick(0, live)
	want++
	if rows = check("after a restart", want); rows["group/n1/2699"] != 1.25 {
		t.Errorf("the busy one has %v CPU s", rows["group/n1/2699"])
	}
	// All of them end, and the books stay closed.
	r.tick(0, nil, live[:2600]...)
	for range 5 {
		r.tick(0, nil)
	}
	var b metric.Batch
	b.Reset(wall)
	r.l.Export(&b)
	if n := len(r.l.table.excess.of); n != 0 {
		t.Errorf("%d processes that ended are kept", n)
	}
	if n := len(r.l.table.excess.groups); n != 0 {
		t.Errorf("%d groups that ended are kept", n)
	}
}

// Who is bounded: groups, what a user starts in scopes, sessions and containers, and jobs that only a variable names; not root, and
// nothing that has a control group of a batch system.
func TestWhoIsBounded(t *testing.T) {
	for _, tt := range []struct {
		id       workload.ID
		inCgroup bool
		owner    string
		want     bool
	}{
		{"group/n1/1-2", false, "alice", true}, {"group/n1/1-2", false, "root", false}, {"lsf/1", false, "alice", true},
		{"pbs/1.srv", true, "alice", false}, {"pod/shop/x", true, "shop", false}, {"unit/a.service", true, "www-data", false},
		{"unit/alice/run-r1.scope", true, "alice", true}, {"unit/user@1000.service", false, "alice", false},
		{"session/alice/3", true, "alice", true}, {"container/9ec39b91f3d7", true, "alice", true},
		{"container/9ec39b91f3d7", true, "root", false}, {"short/alice/n1", false, "alice", false},
	} {
		if got := hasNumberLimit(tt.id, tt.inCgroup, tt.owner); got != tt.want {
			t.Errorf("%s of %s: %v", tt.id, tt.owner, got)
		}
	}
}

// A user starts 1,000 scopes, and as many processes of the ids that the user may take in containers: 200 of all have rows. A scope that
// has moved 16 MiB over the network gets one too, with what its control group counts from then on.
func TestScopesAndContainersOfOneLogin(t *testing.T) {
	groups := map[int32]*fakeCgroup{}
	r := newRig(t, Config{Export: time.Second,
		Login: func(int32) string { return "alice" },
		Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.PID >= 2000 {
				found := byGroup(p, parent, ended)
				found.Owner = fmt.Sprint(100_000 + p.PID)
				return found
			}
			id := fmt.Sprintf("alice/run-r%d.scope", p.PID)
			if groups[p.PID] == nil {
				groups[p.PID] = &fakeCgroup{}
				groups[p.PID].c.Have, groups[p.PID].c.UsageNanos = sensor.CgroupCPU, p.UserNanos
			}
			return Identified{Handle: groups[p.PID], Identity: workload.Identity{Workload: workload.MakeID(workload.Unit, id), Owner: "alice",
				Cgroup: "/user.slice/" + id}}
		}})
	r.tick(0, nil)
	var live []sensor.Process
	for pid := int32(1000); pid < 3000; pid++ {
		live = append(live, proc(pid, pid, r.boot+uint64(pid), 2e6))
	}
	for range 70 {
		r.tick(0, live)
		rowsOf(r)
	}
	check := func(what string, want float64) map[string]float64 {
		t.Helper()
		rows, own, sum := rowsOf(r), 0, 0.0
		for id, v := range rows {
			if workload.ID(id).Kind().System() {
				continue
			}
			if sum += v; !workload.ID(id).Kind().Folded() {
				own++
			}
		}
		if own < maxLiveGroups || own > maxLiveGroups+1 {
			t.Errorf("%s: %d have rows of their own", what, own)
		}
		if sum < want-1e-6 || sum > want+1e-6 {
			t.Errorf("%s: %v CPU s in all, want %v", what, sum, want)
		}
		return rows
	}
	check("quiet", 4)
	busy := &live[900]
	r.traffic(sent(busy.PID, busy.Start, 17<<20))
	r.tick(0, live)
	busy.UserNanos += 5e8
	groups[busy.PID].c.UsageNanos += 5e8
	r.tick(0, live)
	rows := check("one moved much", 4.5)
	if got := rows[fmt.Sprintf("unit/alice/run-r%d.scope", busy.PID)]; got != 0.5 {
		t.Errorf("the busy scope has %v CPU s, want those since it was busy", got)
	}
}
