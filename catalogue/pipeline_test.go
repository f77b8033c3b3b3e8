package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"reckon/access"
	"reckon/agent"
	"reckon/answer"
	"reckon/figure/wire"
	"reckon/query"
	"reckon/sensor"
	"reckon/sensor/cgroup"
	"reckon/web/api"
)

// tree is a machine with control groups as files below root: what the agent reads there
// passes the sensor, the accounts, the store and the catalogue, as on a node.
type tree struct {
	*cgroup.Reader
	t     *testing.T
	root  string
	boot  time.Time
	now   time.Time
	procs []sensor.Process
	paths map[int32][]sensor.CgroupPath
}

// newTree makes a machine with control groups of version 1.
func newTree(t *testing.T, boot time.Time) *tree {
	m := &tree{t: t, root: t.TempDir(), boot: boot, now: boot.Add(time.Hour), paths: map[int32][]sensor.CgroupPath{}}
	for _, pid := range []string{"1", "self"} {
		m.write("proc/"+pid+"/mountinfo", "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 25 0:28 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n")
	}
	m.write("sys/fs/cgroup/memory/tasks", "")
	m.write("sys/fs/cgroup/cpuacct/tasks", "")
	r, err := cgroup.New(cgroup.Options{Root: m.root})
	if err != nil {
		t.Fatal(err)
	}
	m.Reader = r
	return m
}

func (m *tree) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// group sets the figures of a control group: anonymous memory, page cache, the highest use.
func (m *tree) group(path string, cpu time.Duration, anon, cache, peak uint64) {
	dir := "sys/fs/cgroup/memory" + path + "/"
	m.write("sys/fs/cgroup/cpuacct"+path+"/cpuacct.usage", fmt.Sprintln(cpu.Nanoseconds()))
	m.write(dir+"memory.usage_in_bytes", fmt.Sprintln(anon+cache))
	m.write(dir+"memory.max_usage_in_bytes", fmt.Sprintln(peak))
	m.write(dir+"memory.stat", fmt.Sprintf("total_rss %d\ntotal_cache %d\ntotal_shmem 0\n", anon, cache))
	m.write(dir+"memory.kmem.usage_in_bytes", "0\n")
}

func (m *tree) remove(path string) {
	for _, c := range []string{"memory", "cpuacct"} {
		if err := os.RemoveAll(filepath.Join(m.root, "sys/fs/cgroup", c+path)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// start starts a process in a control group, with an id that no other has.
func (m *tree) start(pid int32, path string) {
	m.procs = append(m.procs, sensor.Process{
		PID: pid, PPID: 1, PGID: pid, SID: pid, UID: 1000, Start: uint64(m.now.Sub(m.boot)), State: 'R', Threads: 1, Comm: sensor.CommOf([]byte("mem")),
		Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldThreads,
	})
	for _, c := range []string{"memory", "cpuacct"} {
		m.paths[pid] = append(m.paths[pid], sensor.CgroupPath{Controllers: c, Path: path})
	}
}

// fork starts a process of a user in the process group of a parent.
func (m *tree) fork(pid, parent int32, uid uint32) {
	m.procs = append(m.procs, sensor.Process{
		PID: pid, PPID: parent, PGID: parent, SID: parent, UID: uid, Start: uint64(m.now.Sub(m.boot)), State: 'R', Threads: 1,
		Comm: sensor.CommOf([]byte("child")), Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldThreads,
	})
}

// use adds CPU time to a process.
func (m *tree) use(pid int32, cpu time.Duration) {
	for i := range m.procs {
		if p := &m.procs[i]; p.PID == pid {
			p.UserNanos += uint64(cpu)
		}
	}
}

func (m *tree) Name() string  { return "tree" }
func (m *tree) Live() string  { return "tree" }
func (m *tree) Exits() string { return "ebpf" }
func (m *tree) Read(p *sensor.Pass) error {
	p.Boot, p.Live = uint64(m.now.Sub(m.boot)), append(p.Live, m.procs...)
	return nil
}
func (m *tree) CgroupPaths(uint64) ([]sensor.CgroupPath, bool) { return nil, false }
func (m *tree) ReadMachine(t *sensor.Machine) error {
	*t = sensor.Machine{Boot: uint64(m.now.Sub(m.boot)), Cores: 4, MemoryTotal: 16 << 30, MemoryAvailable: 8 << 30}
	t.Idle = 4 * t.Boot
	return nil
}
func (m *tree) Cgroups(pid int32) ([]sensor.CgroupPath, error)  { return m.paths[pid], nil }
func (m *tree) Env(int32, ...string) (map[string]string, error) { return nil, fs.ErrPermission }
func (m *tree) LoginSession(int32) (uint32, bool, error)        { return 0, false, nil }
func (m *tree) Groups() sensor.CgroupReader                     { return m.Reader }
func (m *tree) UserName(uid uint32) string {
	if uid == 0 {
		return "root"
	}
	return "alice"
}
func (m *tree) Booted() time.Time { return m.boot }
func (m *tree) Time() time.Time   { return m.now }

// TestPeakOfSequentialSteps: steps of 400 MiB that follow each other, of any length against
// the export interval, are a job of 400 MiB; steps at a time are as much as they hold
// together at once, which only the control group of the job knows.
func TestPeakOfSequentialSteps(t *testing.T) {
	const mib = 1 << 20
	type step = struct{ from, to int } // seconds
	for name, tt := range map[string]struct {
		steps   []step
		noWhole bool // Slurm constrains no memory: there is no group of the job
		want    uint64
	}{
		"2 x 60 s":           {[]step{{2, 62}, {63, 123}}, false, 400},
		"5 x 18 s":           {[]step{{2, 20}, {21, 39}, {40, 58}, {59, 77}, {78, 96}}, false, 400},
		"20 x 3 s":           {everyFour(20), false, 400},
		"two at a time":      {[]step{{2, 62}, {30, 90}}, false, 800},
		"2 x 60 s, no group": {[]step{{2, 62}, {63, 123}}, true, 400},
		"5 x 18 s, no group": {[]step{{2, 20}, {21, 39}, {40, 58}, {59, 77}, {78, 96}}, true, 400},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTree(t, time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
			a, err := agent.OpenMachine(agent.Config{Node: "n1"}, m)
			if err != nil {
				t.Fatal(err)
			}
			x := newSite(t, t.TempDir(), m.now)
			defer x.close()
			const job = "/slurm/uid_1000/job_7"
			begin := m.now
			m.start(100, job+"/step_batch")
			m.group(job+"/step_batch", 0, mib, 0, mib)
			var peak uint64
			for second := 0; second <= 140; second++ {
				var held uint64
				for i, s := range tt.steps {
					path := fmt.Sprintf("%s/step_%d", job, i)
					if second == s.from {
						m.start(int32(200+i), path)
					}
					if second >= s.from && second < s.to {
						held += 400 * mib
						m.group(path, time.Duration(second-s.from)*time.Second, 400*mib, 600*mib, 1000*mib)
					}
					if second == s.to {
						m.remove(path)
						m.procs = deletePID(m.procs, int32(200+i))
					}
				}
				peak = max(peak, held+600*mib)
				if !tt.noWhole {
					m.group(job, 0, held+mib, 600*mib, peak)
				}
				m.now, x.now = m.now.Add(time.Second), m.now.Add(time.Second)
				if err := a.Step(); err != nil {
					t.Fatal(err)
				}
				if second%15 == 0 {
					if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, a.TakeExport()); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := float64(tt.want+600) * mib
			if tt.noWhole {
				want = 1001 * mib // the page cache of each step is its own then, and the script's
			}
			for _, w := range x.between(begin, m.now) {
				if w.ID != "slurm/7" {
					continue
				}
				if got := w.MemoryPeakBytes; got == nil || *got < want*0.99 || *got > want*1.01 {
					t.Errorf("peak %s MiB, want %g", showMiB(got), want/mib)
				}
				return
			}
			t.Error("no row of the job")
		})
	}
}

// TestNeedOfASpike: a job needed at least what one of its processes held between two readings, and no more than the peak of its group.
func TestNeedOfASpike(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct{ spike, peak, want uint64 }{{1000, 1056, 1000}, {1000, 900, 900}, {40, 1056, 51}} {
		m := newTree(t, time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
		a, err := agent.OpenMachine(agent.Config{Node: "n1"}, m)
		if err != nil {
			t.Fatal(err)
		}
		x := newSite(t, t.TempDir(), m.now)
		defer x.close()
		const job = "/slurm/uid_1000/job_7"
		begin := m.now
		m.start(100, job+"/step_batch")
		m.group(job, 0, 51*mib, mib, 52*mib)
		for second := range 60 {
			if second == 30 {
				m.procs[0].Have |= sensor.FieldMemory | sensor.FieldPeak
				m.procs[0].Anon, m.procs[0].PeakBytes = 40*mib, tt.spike*mib
				m.group(job, 0, 51*mib, mib, tt.peak*mib)
			}
			m.now, x.now = m.now.Add(time.Second), m.now.Add(time.Second)
			if err := a.Step(); err != nil {
				t.Fatal(err)
			}
			if second%15 == 0 {
				if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, a.TakeExport()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, w := range x.between(begin, m.now) {
			if w.ID == "slurm/7" && (w.MemoryNeededPeakBytes == nil || *w.MemoryNeededPeakBytes != float64(tt.want*mib)) {
				t.Errorf("a spike of %d MiB below a peak of %d: needed %s MiB, want %d", tt.spike, tt.peak, showMiB(w.MemoryNeededPeakBytes), tt.want)
			}
		}
	}
}

// TestGroupOfTwoUsers: what a script runs as another user, again and again, is of the script's process group, which ends when the script does. It is
// the script's user who owns the group, also where the other one's name is later in the alphabet or all that runs at the moment is his.
func TestGroupOfTwoUsers(t *testing.T) {
	for _, uids := range [][2]uint32{{1000, 0}, {0, 1000}} {
		for _, fill := range []bool{false, true} {
			m := newTree(t, time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
			owner := m.UserName(uids[0])
			a, err := agent.OpenMachine(agent.Config{Node: "n1"}, m)
			if err != nil {
				t.Fatal(err)
			}
			x := newSite(t, t.TempDir(), m.now)
			defer x.close()
			begin, b := m.now, x.builder()
			m.start(100, "/")
			m.procs[0].UID = uids[0]
			const length = 400
			for second := range length {
				// A child of the other user works for 20 s of 50, the script itself for the rest.
				switch at, pid := second%50, int32(200+second/50); {
				case at == 20:
					m.fork(pid, 100, uids[1])
				case at > 20 && at < 40:
					m.use(pid, time.Second/2)
				case at == 40:
					m.procs = deletePID(m.procs, pid)
				default:
					m.use(100, time.Second/4)
				}
				m.now, x.now = m.now.Add(time.Second), m.now.Add(time.Second)
				if err := a.Step(); err != nil {
					t.Fatal(err)
				}
				if second%15 == 0 {
					if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, a.TakeExport()); err != nil {
						t.Fatal(err)
					}
					if !fill {
						advance(t, b)
						for _, w := range x.rows() {
							if w.Kind == "group" && !w.End.IsZero() {
								t.Errorf("%s with a child of another user ended %v, as of %v", owner, w.End, m.now)
							}
						}
					}
				}
			}
			rows := x.rows()
			if fill {
				rows = x.between(begin, m.now)
			}
			found := 0
			for _, w := range rows {
				if w.Kind != "group" {
					continue
				}
				found++
				const want = length/50*(19*0.5+29*0.25) - 10 // what was exported last is 10 s old
				if w.Owner != owner || !w.End.IsZero() || w.CPUSeconds == nil || *w.CPUSeconds < want || *w.CPUSeconds > want+10 || !w.Start.Equal(begin) {
					t.Errorf("%s with a child of another user, filled %t: %s of %s from %v to %v, %v of %g s of CPU time", owner, fill, w.ID, w.Owner, w.Start, w.End, show(w.CPUSeconds), want)
				}
			}
			if found != 1 {
				t.Errorf("%s with a child of another user, filled %t: %d rows of one group", owner, fill, found)
			}
			if fill {
				if _, err := b.Rebuild(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			x.dividesGroup(t, fill, map[string]float64{owner: length/50*29*0.25 - 2, m.UserName(uids[1]): length / 50 * 19 * 0.5})
		}
	}
}

// TestGroupThatChangesUser: a process that becomes another user's (setuid) holds its memory once, and its group is of who began it.
func TestGroupThatChangesUser(t *testing.T) {
	const mib = 1 << 20
	for _, uids := range [][2]uint32{{1000, 0}, {0, 1000}} {
		m := newTree(t, time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
		a, err := agent.OpenMachine(agent.Config{Node: "n1"}, m)
		if err != nil {
			t.Fatal(err)
		}
		x := newSite(t, t.TempDir(), m.now)
		defer x.close()
		for second := range 120 {
			if second == 5 {
				m.start(100, "/")
				p := &m.procs[0]
				p.Have |= sensor.FieldMemory | sensor.FieldPeak
				p.UID, p.Anon, p.PeakBytes = uids[0], 60*mib, 60*mib
			}
			if second > 5 {
				m.use(100, time.Second/2)
			}
			if second == 52 {
				m.procs[0].UID = uids[1]
			}
			m.now, x.now = m.now.Add(time.Second), m.now.Add(time.Second)
			if err := a.Step(); err != nil {
				t.Fatal(err)
			}
			if second%15 == 0 {
				if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, a.TakeExport()); err != nil {
					t.Fatal(err)
				}
			}
		}
		advance(t, x.builder())
		found := 0
		for _, w := range x.rows() {
			if w.Kind != "group" {
				continue
			}
			found++
			if w.Owner != m.UserName(uids[0]) || len(w.Shares) != 2 || *w.MemoryPeakBytes != 60*mib || w.Exactness["memory_peak_bytes"] != 0 ||
				*w.MemoryMeanBytes < 58*mib || *w.MemoryMeanBytes > 60*mib {
				t.Errorf("%v: of %s, peak %s MiB %v, mean %s, %d shares", uids, w.Owner, showMiB(w.MemoryPeakBytes), w.Exactness, showMiB(w.MemoryMeanBytes), len(w.Shares))
			}
		}
		if found != 1 {
			t.Errorf("%v: %d rows", uids, found)
		}
	}
}

// jobsOnly answers about workloads.
type jobsOnly struct{ *answer.Jobs }

func (jobsOnly) Nodes(context.Context) (wire.NodeList, error) { return wire.NodeList{}, nil }

// dividesGroup checks that the catalogue and the API show each user of a process group what its processes used of it, and no more.
func (x *site) dividesGroup(t *testing.T, fill bool, used map[string]float64) {
	t.Helper()
	views := query.New(x.s, query.Options{})
	jobs := jobsOnly{&answer.Jobs{Catalogue: x.c, Views: views, Clock: func() time.Time { return x.now }}}
	var who access.Viewer
	server := httptest.NewServer(api.New(api.Options{Backend: jobs, Viewer: func(*http.Request) (access.Viewer, error) { return who, nil }}))
	defer server.Close()
	ask := func(path string, into any) {
		t.Helper()
		r, err := http.Get(server.URL + "/api/reckon/v1/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK || json.Unmarshal(text, into) != nil {
			t.Fatalf("%s: %s %s, %v", path, r.Status, text, err)
		}
		for name := range used {
			if !who.Sees(name) && bytes.Contains(text, []byte(`"`+name+`"`)) {
				t.Errorf("%s tells %s of %s: %s", path, who.Name, name, text)
			}
		}
	}
	who = access.Viewer{Name: "admin", Role: access.Admin}
	var all wire.WorkloadList
	ask("workloads?kind=group", &all)
	if len(all.Workloads) != 1 || len(all.Workloads[0].Users) != 2 || all.Workloads[0].Partial {
		t.Fatalf("filled %t: %+v", fill, all.Workloads)
	}
	whole, sum := all.Workloads[0], 0.0
	for name, want := range used {
		for _, as := range []access.Viewer{{Name: "admin", Role: access.Admin}, {Name: name, Role: access.User}} {
			who = as
			var list wire.WorkloadList
			ask("workloads?kind=group&owner="+name, &list)
			if len(list.Workloads) != 1 || list.Total != 1 {
				t.Fatalf("filled %t, as %s: %d rows of the group, total %d", fill, who.Name, len(list.Workloads), list.Total)
			}
			w := list.Workloads[0]
			if w.Owner != name || !w.Partial || math.Abs(*w.CPUSeconds-want) > 5 || *w.CoresMean >= *whole.CoresMean {
				t.Errorf("filled %t, as %s: %s has %g s of the group, want %g", fill, who.Name, w.Owner, *w.CPUSeconds, want)
			}
			sum += *w.CPUSeconds / 2
		}
		var d wire.WorkloadDetail // as the user
		ask("workloads/"+whole.ID, &d)
		parts := 0.0
		for _, p := range d.Parts {
			parts += *p.CPUSeconds
		}
		if d.Owner != name || math.Abs(parts-want) > 5 || len(d.Profile) == 0 {
			t.Errorf("filled %t: %s sees parts of %g s in %d lines, want %g", fill, name, parts, len(d.Profile), want)
		}
	}
	if math.Abs(sum-*whole.CPUSeconds) > 1e-6 {
		t.Errorf("filled %t: the shares are %g s of %g", fill, sum, *whole.CPUSeconds)
	}
	who = access.Viewer{Name: "mallory", Role: access.User}
	if ask("workloads?kind=group", &all); len(all.Workloads) != 0 {
		t.Errorf("mallory sees %+v", all.Workloads)
	}
}

func everyFour(n int) (out []struct{ from, to int }) {
	for i := range n {
		out = append(out, struct{ from, to int }{2 + 4*i, 5 + 4*i})
	}
	return out
}

func deletePID(procs []sensor.Process, pid int32) []sensor.Process {
	var out []sensor.Process
	for _, p := range procs {
		if p.PID != pid {
			out = append(out, p)
		}
	}
	return out
}

func showMiB(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f", *v/(1<<20))
}
