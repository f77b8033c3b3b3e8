package catalogue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ledger "reckon/account"
	"reckon/figure"
	"reckon/internal/kubelet"
	"reckon/metric"
	"reckon/sensor"
	"reckon/store"
	"reckon/workload/kubernetes"
)

// reporter does as the operator: it sends the pods without a node, and marks those that it sent before.
type reporter struct {
	p      *podSite
	series metric.Cache
	sent   map[string]*metric.Series
	list   map[string]*waiter // by name
	live   *Builder
}

func (r *reporter) report() {
	b, now := &metric.Batch{Time: r.p.now}, map[string]*metric.Series{}
	for _, w := range r.list {
		id := kubernetes.IdentityOf(&w.Pod)
		s := r.series.Get(unscheduledDesc(r.p.t), string(id.Workload), string(id.Workload.Kind()), w.Name, id.Owner, id.Facts.Run, "Unschedulable", w.message)
		b.Add(s, float64(w.Created.Unix()))
		now[fmt.Sprint(s.Values)] = s
	}
	for k, s := range r.sent {
		if now[k] == nil {
			b.End(s)
		}
	}
	r.sent = now
	if err := r.p.x.s.Append(r.p.t.Context(), map[string]string{"site": "s"}, b); err != nil {
		r.p.t.Fatal(err)
	}
}

// run lets seconds pass with a report every ten.
func (r *reporter) run(seconds int) {
	for range seconds {
		r.p.run(1)
		if r.p.second%10 == 0 {
			r.report()
		}
	}
}

// waiter is a pod that the scheduler cannot place, and why.
type waiter struct {
	kubernetes.Pod
	message string
}

func unscheduledDesc(t *testing.T) *metric.Desc {
	for _, d := range ledger.Descs() {
		if d.Name == figure.Unscheduled {
			return d
		}
	}
	t.Fatal("no such series")
	return nil
}

// pod is a pod of the owner kind/train, or of none.
func (r *reporter) pod(name, uid, kind string) kubernetes.Pod {
	p := kubernetes.Pod{Namespace: "shop", Name: name, UID: uid, ReportedUID: uid, OwnerKind: kind, OwnerName: "train", OwnerUID: "of-" + uid,
		Created: r.p.now.Add(-time.Second).Truncate(time.Second), Completes: kind == "Job" || kind == ""}
	if kind == "ReplicaSet" {
		p.OwnerName, p.Labels = "train-5d9c7b4f6", map[string]string{"pod-template-hash": "5d9c7b4f6"}
	}
	return p
}

// waits adds a pod that the scheduler cannot place.
func (r *reporter) waits(name, uid, kind, message string) {
	r.list[name] = &waiter{r.pod(name, uid, kind), message}
}

// starts gives a pod a node, on which its sandbox and its container run.
func (r *reporter) starts(name, uid, kind string, pid int32) (group string) {
	delete(r.list, name)
	cid := strings.Repeat(fmt.Sprintf("%02x", pid%200), 32)
	pod := r.pod(name, uid, kind)
	pod.Phase, pod.Containers = "Running", []kubelet.Container{{Name: "app", Type: kubelet.Main, ID: cid}}
	r.p.pods[uid] = &pod
	group = "/kubepods/besteffort/pod" + uid
	r.p.start(pid, group+"/aaaa4d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce")
	r.p.procs[len(r.p.procs)-1].Comm = sensor.CommOf([]byte("pause"))
	r.p.group(group, 0, 1<<20, 0, 1<<20)
	r.p.start(pid+1, group+"/"+cid)
	return group
}

// ends ends the container and the sandbox of a pod.
func (r *reporter) ends(group string, pid int32) {
	r.p.procs = deletePID(deletePID(r.p.procs, pid+1), pid)
	r.p.remove(group)
}

// look returns the rows of pods as a builder that goes on keeps them, which are to be the same when they are made anew.
func (r *reporter) look() []store.Workload {
	r.p.t.Helper()
	if _, err := r.live.Advance(r.p.t.Context()); err != nil {
		r.p.t.Fatal(err)
	}
	pods := func(list []store.Workload) (out []store.Workload, text []string) {
		for _, w := range list {
			if w.Kind != "other" {
				out = append(out, w)
				text = append(text, fmt.Sprintf("%s %q %q %s %s to %s submitted %s on %v", w.ID, w.State, w.Reason, w.Owner, w.Start.UTC(), w.End.UTC(), w.Submit.UTC(), w.Nodes))
			}
		}
		slices.Sort(text)
		return out, text
	}
	live, a := pods(r.p.x.rows())
	if _, b := pods(r.p.x.between(r.p.now.Add(-24*time.Hour), r.p.now)); !slices.Equal(a, b) {
		r.p.t.Errorf("live\n%s\nmade anew\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	return live
}

const noRoom = "0/1 nodes are available: 1 Insufficient cpu"

// TestUnscheduled: a pod that the scheduler cannot place waits as a pending job does, with the scheduler's reason, while the operator
// restarts or its message changes. When it has a node the run begins; deleted before, it was cancelled. One row each, live and rebuilt.
func TestUnscheduled(t *testing.T) {
	const uid = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001"
	for _, kind := range []string{"", "Job", "ReplicaSet", "StatefulSet"} {
		for _, then := range []string{"starts", "starts late", "deleted", "silent"} {
			t.Run(kind+" "+then, func(t *testing.T) {
				p := newPodSite(t, 5, 0)
				r := &reporter{p: p, live: p.x.builder(), list: map[string]*waiter{}, sent: map[string]*metric.Series{}}
				r.run(10)
				name := map[string]string{"": "train", "Job": "train-x2x4z", "ReplicaSet": "train-5d9c7b4f6-abcde", "StatefulSet": "train-0"}[kind]
				id := map[string]string{"": "pod", "Job": "job", "ReplicaSet": "deployment", "StatefulSet": "statefulset"}[kind] + "/shop/train"
				r.waits(name, uid, kind, noRoom)
				created := p.now.Add(-time.Second).Truncate(time.Second)
				r.run(30)
				_ = r.look()
				r.series, r.sent = metric.Cache{}, map[string]*metric.Series{} // the operator restarts
				p.run(70)
				r.run(30)
				r.list[name].message = strings.ReplaceAll(noRoom, "cpu", "memory")
				r.run(30)
				row := one(t, r.look())
				if row.ID != id || row.Owner != "shop" || row.State != "pending" || row.Reason != "Unschedulable: 0/1 nodes are available: 1 Insufficient memory" ||
					!row.Submit.Equal(created) || !row.Start.Equal(created) || !row.End.IsZero() || !row.Waits() || len(row.Nodes) != 0 {
					t.Errorf("waits: %+v", row)
				}
				stopped := p.now
				switch then {
				case "deleted", "silent":
					if then == "deleted" {
						delete(r.list, name)
						r.run(10)
					} else {
						p.run(360) // nobody reports any more
					}
					p.run(10)
					row = one(t, r.look())
					if late := stopped.Sub(row.End); row.State != "cancelled" || row.End.IsZero() || late < 0 || late > 10*time.Second || !row.Start.Equal(row.End) || row.Began() {
						t.Errorf("after its end: %+v", row)
					}
					return
				case "starts late":
					r.run(900)
				}
				begin := p.now
				group := r.starts(name, uid, kind, 100)
				r.run(30)
				row = one(t, r.look())
				if row.State != "" || row.Reason != "" || row.Start.Sub(begin).Abs() > time.Second || !row.Submit.Equal(created) || !row.End.IsZero() || !slices.Equal(row.Nodes, []string{"n1"}) {
					t.Errorf("runs: %+v", row)
				}
				r.ends(group, 100)
				end := p.now
				r.run(420)
				row = one(t, r.look())
				if row.Start.Sub(begin).Abs() > time.Second || row.End.Sub(end).Abs() > time.Second || row.State == "cancelled" {
					t.Errorf("ended %s, began %s, want %s to %s: %+v", row.End, row.Start, begin, end, row)
				}
			})
		}
	}
}

func one(t *testing.T, rows []store.Workload) store.Workload {
	t.Helper()
	if len(rows) != 1 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	return rows[0]
}

// TestUnscheduledReplica: a Deployment with a pod that has no node runs, for a reason, until that pod has one; a Job made again under
// its name waits as another run.
func TestUnscheduledReplica(t *testing.T) {
	const first, second = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001", "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a002"
	for _, kind := range []string{"ReplicaSet", "Job"} {
		p := newPodSite(t, 5, 0)
		r := &reporter{p: p, live: p.x.builder(), list: map[string]*waiter{}, sent: map[string]*metric.Series{}}
		begin := p.now
		group := r.starts("train-a", first, kind, 100)
		r.run(30)
		if kind == "Job" {
			r.ends(group, 100)
			r.run(30)
		}
		r.waits("train-b", second, kind, noRoom)
		r.run(60)
		rows := r.look()
		if kind == "Job" {
			slices.SortFunc(rows, func(a, b store.Workload) int { return a.Start.Compare(b.Start) })
			if len(rows) != 2 || rows[0].State != "" || rows[0].End.IsZero() || rows[1].State != "pending" || !rows[1].End.IsZero() {
				t.Errorf("a Job made again: %+v", rows)
			}
			continue
		}
		row := one(t, rows)
		if row.State != "" || row.Reason != "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu" || row.Start.Sub(begin).Abs() > time.Second || !row.Submit.IsZero() {
			t.Errorf("a replica waits: %+v", row)
		}
		r.starts("train-b", second, kind, 200)
		r.run(30)
		if row := one(t, r.look()); row.Reason != "" || row.Start.Sub(begin).Abs() > time.Second {
			t.Errorf("no replica waits: %+v", row)
		}
	}
}
