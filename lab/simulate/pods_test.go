package simulate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/sensor"
)

// TestPods: as many pods run as were asked for, each in control groups of its own that the list of its node has; a roll-out replaces
// all of them, and a node that comes back starts the containers of its pods again.
func TestPods(t *testing.T) {
	const pods = 60
	s := made(t, simulate.Config{Nodes: 12, Jobs: 1, Pods: pods, RollOuts: 3, Seed: 4, For: 40 * 24 * time.Hour})
	nodes := make([]*simulate.Node, len(s.Names()))
	for i := range nodes {
		nodes[i] = s.Node(i)
	}
	uids, workloads, restarts := map[string]bool{}, map[string]bool{}, 0
	for at := s.From.Add(time.Hour); at.Before(s.End()); at = at.Add(5 * time.Hour) {
		running, used, down := 0, map[string]bool{}, 0
		for i, n := range nodes {
			n.Advance(at)
			if about := s.About(i); n.Down() {
				down++
				continue
			} else if about.Partition == "" && n.Pods() == nil {
				t.Fatal("a list is there on every node")
			}
			var pass sensor.Pass
			if err := n.Read(&pass); err != nil {
				t.Fatal(err)
			}
			for _, p := range pass.Live {
				paths, _ := n.CgroupPaths(p.Cgroup)
				rest, ok := strings.CutPrefix(paths[0].Path, "/kubepods/burstable/pod")
				if !ok {
					continue
				}
				uid, id, _ := strings.Cut(rest, "/")
				pod := n.Pods().Pod(uid)
				if pod == nil {
					t.Fatalf("%v: the pod %s runs and is not listed", at, uid)
				}
				uids[uid], workloads[pod.Namespace+"/"+pod.Labels["app"]] = true, true
				if c := pod.Container(id); c != nil {
					running++
					used[uid] = true
					restarts += c.Restarts
				} else if p.Comm.String() != "pause" {
					t.Fatalf("%s runs in no container that is listed", p.Comm)
				}
			}
		}
		if down == 0 && (running != pods || len(used) != pods) {
			t.Fatalf("%v: %d containers in %d pods, want %d", at, running, len(used), pods)
		}
	}
	if len(workloads) != pods/10 || len(uids) != 4*pods {
		t.Errorf("%d Deployments with %d pods, want %d with %d: %v", len(workloads), len(uids), pods/10, 4*pods, slices.Sorted(maps.Keys(workloads)))
	}
	if restarts == 0 {
		t.Error("no node went down and came back: choose another seed")
	}
	if n := made(t, simulate.Config{Nodes: 2, Jobs: 1}).Node(0); n.Pods() != nil {
		t.Error("a site without pods has a list of them")
	}
	for _, c := range []simulate.Config{{Pods: -1}, {Pods: 100_001}, {RollOuts: -1}, {RollOuts: 1001}} {
		c.From = monday
		if _, err := simulate.New(c); err == nil {
			t.Errorf("%d pods, %d roll-outs are taken", c.Pods, c.RollOuts)
		}
	}
}
