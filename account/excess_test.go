package account

import (
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
		if groups < mostLive || groups > mostLive+2 {
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

// Who is bounded: groups, and jobs that only a variable names; not root, and nothing that has a control group of a batch system.
func TestWhoIsBounded(t *testing.T) {
	for _, tt := range []struct {
		kind          workload.Kind
		cgroup, owner string
		want          bool
	}{
		{workload.Group, "", "alice", true}, {workload.Group, "", "root", false}, {workload.LSF, "", "alice", true},
		{workload.PBS, "/pbs_jobs.service/jobid/1.srv", "alice", false}, {workload.Pod, "/kubepods/x", "shop", false},
		{workload.Unit, "/system.slice/a.service", "www-data", false}, {workload.Short, "", "alice", false},
	} {
		if got := numbered(tt.kind, tt.cgroup, tt.owner); got != tt.want {
			t.Errorf("%s of %s in %q: %v", tt.kind, tt.owner, tt.cgroup, got)
		}
	}
}
