package catalogue

import (
	"fmt"
	"testing"
	"time"

	"reckon/agent"
	"reckon/internal/kubelet"
	"reckon/sensor"
	"reckon/store"
	"reckon/workload/kubernetes"
)

// podSite is a machine with pods and an agent that writes into a store.
type podSite struct {
	*tree
	x      *site
	a      *agent.Agent
	pods   map[string]*kubelet.Pod // that the kubelet lists, by UID
	export int                     // seconds
	second int
}

func newPodSite(t *testing.T, export int, linger time.Duration) *podSite {
	p := &podSite{tree: newTree(t, time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)), pods: map[string]*kubelet.Pod{}, export: export}
	a, err := agent.OpenMachine(agent.Config{Node: "n1", Linger: linger, Export: time.Duration(export) * time.Second}, p)
	if err != nil {
		t.Fatal(err)
	}
	p.a, p.x = a, newSite(t, t.TempDir(), p.now)
	t.Cleanup(p.x.close)
	return p
}

func (p *podSite) Pods() kubernetes.Pods       { return p }
func (p *podSite) Pod(uid string) *kubelet.Pod { return p.pods[uid] }
func (p *podSite) Refresh(string)              {}

// run lets seconds pass, with an export at each end of the interval.
func (p *podSite) run(seconds int) {
	p.t.Helper()
	for range seconds {
		p.second++
		p.now, p.x.now = p.now.Add(time.Second), p.x.now.Add(time.Second)
		if err := p.a.Step(); err != nil {
			p.t.Fatal(err)
		}
		if p.second%p.export == 0 {
			if err := p.x.s.Append(p.t.Context(), map[string]string{"site": "s", "node": "n1"}, p.a.TakeExport()); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// TestEndOfPods: a run of pods ends when its containers ended, not when the sandbox went or the last series of the workload fell silent.
func TestEndOfPods(t *testing.T) {
	for _, kind := range []string{"", "Job", "StatefulSet"} {
		for _, linger := range []time.Duration{0, time.Minute} {
			for _, export := range []int{5, 15} {
				for _, length := range []int{3, 12, 40} {
					t.Run(fmt.Sprint(kind, linger, export, length), func(t *testing.T) { endOfPod(t, kind, linger, export, length) })
				}
			}
		}
	}
}

// TestOutcomeOfPods: how the containers of a pod ended is in its row: code, reason, state, restarts, and the memory of one that was
// killed at its limit within a second.
func TestOutcomeOfPods(t *testing.T) {
	const uid, cid = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001", "22f44d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce"
	for name, tt := range map[string]struct {
		kind     string
		end      kubelet.End
		restarts int
		waiting  string
		state    string
		reason   string
		need     float64
	}{
		"well":       {"Job", kubelet.End{ExitCode: 0, Reason: "Completed"}, 0, "", "completed", "", 1 << 20},
		"failed":     {"Job", kubelet.End{ExitCode: 7, Reason: "Error"}, 0, "", "failed", "Error", 1 << 20},
		"stopped":    {"", kubelet.End{ExitCode: 143, Reason: "Error"}, 0, "", "", "", 1 << 20},
		"killed":     {"Job", kubelet.End{ExitCode: 137, Reason: "OOMKilled"}, 0, "", "out_of_memory", "OOMKilled", 16 << 20},
		"crash loop": {"Deployment", kubelet.End{ExitCode: 3, Reason: "Error"}, 4, "CrashLoopBackOff", "", "CrashLoopBackOff", 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodSite(t, 5, time.Minute)
			listed := kubelet.Pod{Namespace: "shop", Name: "train-0", UID: uid, ReportedUID: uid, OwnerKind: tt.kind, OwnerName: "train", OwnerUID: "u1",
				Phase: "Running", Completes: tt.kind == "Job", Containers: []kubelet.Container{{Name: "app", Type: kubelet.Main, ID: cid, Running: true}}}
			listed.Containers[0].Limit.MemoryBytes = 16 << 20
			p.pods[uid] = &listed
			group := "/kubepods/besteffort/pod" + uid
			p.start(100, group+"/aaaa4d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce")
			p.procs[0].Comm = sensor.CommOf([]byte("pause"))
			p.group(group+"/"+cid, 0, 1<<20, 0, 1<<20)
			p.start(200, group+"/"+cid)
			p.run(10)
			p.procs = deletePID(p.procs, 200)
			p.remove(group + "/" + cid)
			over, end := listed, tt.end
			end.ID = cid
			over.Containers = []kubelet.Container{{Name: "app", Type: kubelet.Main, ID: cid, Ended: &end, Restarts: tt.restarts, Waiting: tt.waiting}}
			over.Containers[0].Limit.MemoryBytes = 16 << 20
			p.pods[uid] = &over
			p.run(10)
			if tt.waiting == "" {
				p.procs = deletePID(p.procs, 100)
			}
			p.run(100)
			for _, w := range p.x.between(p.now.Add(-time.Hour), p.now) {
				if w.Kind == "other" {
					continue
				}
				if w.ExitCode == nil || *w.ExitCode != tt.end.ExitCode || w.State != tt.state || w.Reason != tt.reason {
					t.Errorf("%s: exit code %v, state %q, reason %q", w.ID, w.ExitCode, w.State, w.Reason)
				}
				if w.Restarts == nil || *w.Restarts != float64(tt.restarts) || w.End.IsZero() != (tt.waiting != "") {
					t.Errorf("%s: %s restarts, ended %s", w.ID, show(w.Restarts), w.End)
				}
				if need := w.MemoryNeededPeakBytes; need == nil || *need != tt.need {
					t.Errorf("%s needed %s, want %g (limit %s, %s kills, %s)", w.ID, show(need), tt.need, show(w.LimitMemoryBytes), show(w.OOMKills), show(w.RequestMemoryBytes))
				}
				return
			}
			t.Error("no row of the pod")
		})
	}
}

func endOfPod(t *testing.T, kind string, linger time.Duration, export, length int) {
	const uid, cid = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001", "22f44d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce"
	p := newPodSite(t, export, linger)
	name := "train"
	if kind != "" {
		name += "-0"
	}
	p.pods[uid] = &kubelet.Pod{Namespace: "shop", Name: name, UID: uid, ReportedUID: uid, OwnerKind: kind, OwnerName: "train", OwnerUID: "u1",
		Phase: "Running", Completes: true, Containers: []kubelet.Container{{Name: "app", Type: kubelet.Main, ID: cid}}}
	p.run(7)
	group := "/kubepods/besteffort/pod" + uid
	p.start(100, group+"/aaaa4d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce")
	p.procs[0].Comm = sensor.CommOf([]byte("pause"))
	p.group(group, 0, 1<<20, 0, 1<<20)
	p.run(1)
	begin := p.now
	p.start(200, group+"/"+cid)
	for range length {
		p.use(200, time.Second/2)
		p.run(1)
	}
	p.procs = deletePID(p.procs, 200)
	end := p.now
	p.run(4)
	p.procs = deletePID(p.procs, 100)
	p.remove(group)
	p.run(180)
	var row *store.Workload
	for _, w := range p.x.between(begin.Add(-time.Minute), p.now) {
		if w.Kind != "other" {
			if row != nil {
				t.Errorf("a second row, %s", w.ID)
			}
			row = &w
		}
	}
	if row == nil {
		t.Fatal("no row of the pod")
	}
	if late := row.End.Sub(end); row.End.IsZero() || late < -time.Second || late > time.Second {
		t.Errorf("%s ended %v, want %v", row.ID, row.End, end)
	}
}
