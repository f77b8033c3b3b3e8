package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/internal/kubelet"
	"reckon/workload/kubernetes"
)

// replicas is the number of replicas of a Deployment.
const replicas = 10

// simPod is a pod of a Deployment with its control groups, its processes and its entry in the kubelet's list. Each
// roll-out replaces it by another pod in the same place.
type simPod struct {
	kubelet.Pod
	start, end time.Time
	sandbox    string // id of the container that holds its namespaces
	seed       uint64
	program    string
	cores      float64 // that it uses at noon
	memory     uint64
}

// podPrograms are the programs of Deployments, with their use at noon.
var podPrograms = []struct {
	name   string
	cores  float64
	memory uint64
}{{"nginx", 0.03, 40 << 20}, {"java", 0.25, 700 << 20}, {"python3", 0.12, 160 << 20}, {"node", 0.08, 220 << 20},
	{"redis-server", 0.05, 300 << 20}, {"postgres", 0.1, 400 << 20}}

// hexDigits returns n digits that follow from a seed and a number.
func hexDigits(seed, number uint64, n int) string {
	rnd, b := newRandom(seed, number), &strings.Builder{}
	for b.Len() < n {
		fmt.Fprintf(b, "%016x", rnd.Uint64())
	}
	return b.String()[:n]
}

// podsOfNode returns the pods of a node, one for each place and roll-out. place is the index of the node among the nodes
// that run pods, and of is the number of these nodes.
func (s *Site) podsOfNode(place, nodes int) (out []*simPod) {
	for slot := place; slot < s.Pods; slot += nodes {
		for roll := range s.RollOuts + 1 {
			out = append(out, s.makePod(slot, roll))
		}
	}
	return out
}

// podNodeIndex returns the index of a node among the nodes that run pods, and their number, or 0 and 0 if it runs none.
func (s *Site) podNodeIndex(i int) (place, of int) {
	if s.Pods == 0 || s.specs[i].role == login || s.specs[i].role == services {
		return 0, 0
	}
	for k := range s.specs {
		if r := s.specs[k].role; r == login || r == services {
			continue
		}
		if k == i {
			place = of
		}
		of++
	}
	return place, of
}

// rollOutTime returns the time at which roll-out number roll creates the pod in a slot. Roll-outs are evenly spaced.
// Each replaces one tenth of a Deployment at a time.
func (s *Site) rollOutTime(slot, roll int) time.Time {
	if roll == 0 {
		return s.From.Add(-s.lead)
	}
	every := s.For / time.Duration(s.RollOuts+1)
	return s.From.Add(time.Duration(roll)*every + time.Duration(slot%replicas)*every/(2*replicas)).Truncate(time.Second)
}

func (s *Site) makePod(slot, roll int) *simPod {
	deployment := slot / replicas
	purpose := uint64(1)<<40 + uint64(slot)<<16 + uint64(roll)
	digits := hexDigits(s.Seed, purpose, 32+64+64+5)
	what := podPrograms[deployment%len(podPrograms)]
	app := fmt.Sprintf("%s-%d", strings.TrimSuffix(what.name, "-server"), deployment)
	hash := hexDigits(s.Seed, uint64(1)<<39+uint64(deployment)<<16+uint64(roll), 9)
	p := &simPod{start: s.rollOutTime(slot, roll), end: s.End().Add(time.Hour), sandbox: digits[32:96], seed: s.Seed + purpose,
		program: what.name, cores: what.cores, memory: what.memory}
	if roll < s.RollOuts {
		p.end = s.rollOutTime(slot, roll+1)
	}
	uid := fmt.Sprintf("%s-%s-4%s-8%s-%s", digits[:8], digits[8:12], digits[13:16], digits[17:20], digits[20:32])
	p.Pod = kubelet.Pod{
		Namespace: accounts[deployment%len(accounts)], Name: app + "-" + hash + "-" + digits[160:], UID: uid, ReportedUID: uid,
		Created: p.start,
		Labels:  map[string]string{"app": app, "pod-template-hash": hash}, OwnerKind: "ReplicaSet", OwnerName: app + "-" + hash,
		OwnerUID: hash,
		Phase:    "Running", QoS: "Burstable",
		Containers: []kubelet.Container{{
			Name: "app", Image: fmt.Sprintf("registry.example.org/%s:1.%d", app, roll), Type: kubelet.Main, ID: digits[96:160],
			Running: true,
			Request: kubelet.Resources{Cores: 2 * what.cores, MemoryBytes: float64(what.memory)},
			Limit:   kubelet.Resources{MemoryBytes: 2 * float64(what.memory)},
		}},
	}
	return p
}

// startProcesses starts the processes of a pod: the one that holds its namespaces, and its container.
func (p *simPod) startProcesses(n *Node, from time.Time) {
	if !p.end.After(n.now) {
		return
	}
	base := "/kubepods/burstable/pod" + p.UID + "/"
	sandbox := n.newGroup(base+p.sandbox, from, p.end)
	sandbox.pod = p
	sandbox.startProcess(n, "pause", 65535, 1)
	c := &p.Containers[0]
	g := n.newGroup(base+c.ID, from, p.end)
	g.pod, g.works, g.figures.MemoryMax = p, true, uint64(c.Limit.MemoryBytes)
	g.startProcess(n, p.program, 1000, 8)
}

// beginPod starts a pod on the machine.
func (n *Node) beginPod(p *simPod) {
	maps.DeleteFunc(n.pods, func(_ string, old *simPod) bool { return !old.end.After(n.now) })
	n.pods[p.UID] = p
	p.startProcesses(n, p.start)
}

// restartPods starts the containers of all pods again after the machine was off, with new ids.
func (n *Node) restartPods() {
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		p := n.pods[uid]
		if !p.end.After(n.now) {
			delete(n.pods, uid)
			continue
		}
		c := &p.Containers[0]
		c.Restarts++
		p.sandbox, c.ID = hexDigits(p.seed, uint64(2*c.Restarts), 64), hexDigits(p.seed, uint64(2*c.Restarts+1), 64)
		p.startProcesses(n, n.now)
	}
}

// podDemandAt returns the use of the container of a pod, or of its sandbox.
func (g *simGroup) podDemandAt(at time.Time) groupDemand {
	if !g.works {
		return groupDemand{anon: 300 << 10, file: 200 << 10}
	}
	p := g.pod
	d := groupDemand{cores: p.cores * (0.2 + 0.8*hourlyRates[at.Hour()]/12) * (1 + 0.3*noiseAt(p.seed, at.Unix()/60)), write: 2e3}
	d.anon, d.file = uint64(float64(p.memory)*(0.7+0.1*noiseAt(p.seed, at.Unix()/600))), p.memory/10
	return d
}

// Pods returns the pods of the machine as its kubelet lists them; nil if the site has none.
func (n *Node) Pods() kubernetes.Pods {
	if n.site.Pods == 0 {
		return nil
	}
	return podList{n}
}

type podList struct{ n *Node }

// Pod implements [kubernetes.Pods].
func (l podList) Pod(uid string) *kubelet.Pod {
	if p := l.n.pods[uid]; p != nil && p.end.After(l.n.now) {
		return &p.Pod
	}
	return nil
}

// Refresh implements [kubernetes.Pods]. The list is always as of now.
func (podList) Refresh(string) {}
