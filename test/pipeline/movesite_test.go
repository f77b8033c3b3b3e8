package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/store"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// The planted site: a cluster with a batch system and two machines without one, as sonar and sacct write of them. Thirty of its users
// are planted: fifteen should move, fifteen should not. Names of users, jobs and partitions are drawn, and give nothing away.

// ground is the time of the planted site.
var ground = time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)

const plantedDays = 15

// slot is a partition of the planted site.
type slot struct {
	key, name        string
	nodes            []string
	cores, gpus      int
	gib              int
	vendor           string
	max, wait        time.Duration // longest run; what its jobs wait
	fast, whole      bool          // has a fast network; its nodes are given whole
	who              []string
	idle, unmeasured bool
}

// plant is a planted user.
type plant struct {
	why    string // for people who read the test
	user   string
	rule   string // empty: must stay
	target string // key of the slot
}

// sacctJob is a job in accounting and, where its node is sampled, in sonar's readings.
type sacctJob struct {
	user, account, name, slot string
	node                      []string
	cores, gpus               int // in all
	used                      float64
	needGiB                   float64
	start                     time.Time
	length, wait, limit       time.Duration
	state                     string
	busy                      func(since time.Duration) float64 // of its GPUs together; nil: it never opens one
	bare                      bool                              // on a machine without a batch system
}

// moveSite is a generated site.
type moveSite struct {
	rnd    *rand.Rand
	slots  map[string]*slot
	jobs   []*sacctJob
	users  []plant
	taken  map[string]bool
	cursor map[string]int // next node of a slot
}

// word draws a name that no other thing of the site has.
func (p *moveSite) word(n int) string {
	for {
		var b strings.Builder
		for i := range n {
			letters := "bdfgklmnprstv"
			if i%2 == 1 {
				letters = "aeiou"
			}
			b.WriteByte(letters[p.rnd.IntN(len(letters))])
		}
		if w := b.String(); !p.taken[w] {
			p.taken[w] = true
			return w
		}
	}
}

func (p *moveSite) slot(key string, count int, s slot) {
	s.key, s.name = key, p.word(5)
	stem := p.word(3)
	for i := range count {
		s.nodes = append(s.nodes, fmt.Sprintf("%s%02d", stem, i+1))
	}
	p.slots[key] = &s
}

// somewhere is the next node of a slot, so that planted users do not share one.
func (p *moveSite) somewhere(key string, n int) (out []string) {
	s := p.slots[key]
	for range n {
		out = append(out, s.nodes[p.cursor[key]%len(s.nodes)])
		p.cursor[key]++
	}
	return out
}

func newMoveSite(seed uint64) *moveSite {
	p := &moveSite{rnd: rand.New(rand.NewPCG(seed, 30)), slots: map[string]*slot{}, taken: map[string]bool{"root": true}, cursor: map[string]int{}}
	day, no := 24*time.Hour, false
	p.slot("plain", 12, slot{cores: 64, gib: 256, max: 7 * day, wait: 8 * time.Minute, fast: no})
	p.slot("wide", 12, slot{cores: 64, gib: 256, max: 7 * day, wait: 12 * time.Minute, fast: true})
	p.slot("large", 4, slot{cores: 64, gib: 2048, max: 7 * day, wait: 13 * time.Minute})
	p.slot("huge", 2, slot{cores: 96, gib: 8192, max: 7 * day, wait: 5 * time.Minute, who: []string{"lab9"}})
	p.slot("four", 14, slot{cores: 64, gib: 512, gpus: 4, vendor: "nvidia", max: 5 * day, wait: 2 * time.Hour})
	p.slot("eight", 4, slot{cores: 128, gib: 1024, gpus: 8, vendor: "nvidia", max: 5 * day, wait: 100 * time.Minute})
	p.slot("other", 4, slot{cores: 128, gib: 1024, gpus: 16, vendor: "amd", max: 5 * day, wait: 10 * time.Minute})
	p.slot("blind", 2, slot{cores: 64, gib: 512, gpus: 4, vendor: "nvidia", max: 5 * day, wait: time.Hour, unmeasured: true})
	p.slot("calm", 4, slot{cores: 64, gib: 256, max: 7 * day, wait: time.Minute, whole: true, idle: true})
	p.slot("whole", 6, slot{cores: 64, gib: 256, max: 7 * day, wait: 40 * time.Minute, whole: true})
	p.slot("dayly", 4, slot{cores: 64, gib: 256, max: day, wait: 50 * time.Minute})
	p.slot("long", 4, slot{cores: 64, gib: 256, max: 28 * day, wait: 35 * time.Minute})
	p.slot("quick", 4, slot{cores: 64, gib: 256, max: 4 * time.Hour, wait: 2 * time.Minute})
	p.slot("fat", 4, slot{cores: 192, gib: 768, max: 7 * day, wait: 14 * time.Minute})
	p.slot("colossus", 2, slot{cores: 384, gib: 3072, max: 2 * day, wait: 6 * time.Hour})
	p.slot("bay", 3, slot{cores: 64, gib: 512, gpus: 8, vendor: "nvidia"})
	p.users = p.plants()
	p.background()
	return p
}

// runs plants runs of one user: count of them, so long, every so often.
func (p *moveSite) runs(pl plant, j sacctJob, count int, every time.Duration) plant {
	if pl.user == "" {
		pl.user = p.word(6)
	}
	if j.name == "" {
		j.name = p.word(7)
	}
	if j.account == "" {
		j.account = "lab1"
	}
	s := p.slots[j.slot]
	if j.node == nil && s != nil {
		j.node = p.somewhere(j.slot, 1)
	}
	from := j.start
	if from.IsZero() {
		from = ground.Add(time.Duration(1+p.rnd.IntN(5)) * time.Hour)
	}
	for i := range count {
		one := j
		one.user = pl.user
		one.start = from.Add(time.Duration(i) * every)
		one.length = time.Duration(float64(j.length) * (0.97 + 0.06*p.rnd.Float64())).Truncate(time.Minute)
		if j.state == "TIMEOUT" {
			one.length = j.length
		}
		if one.wait == 0 && s != nil {
			one.wait = time.Duration(float64(s.wait) * (0.9 + 0.2*p.rnd.Float64())).Truncate(time.Second)
		}
		if one.limit == 0 && s != nil {
			one.limit = s.max
		}
		if one.start.Add(one.length).Before(ground.AddDate(0, 0, plantedDays)) {
			p.jobs = append(p.jobs, &one)
		}
	}
	return pl
}

// steady is GPUs that are busy for a share of the time.
func steady(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

func (p *moveSite) plants() (out []plant) {
	h := time.Hour
	add := func(pl plant, j sacctJob, count int, every time.Duration) {
		out = append(out, p.runs(pl, j, count, every))
	}
	// must move
	for i := range 2 {
		add(plant{why: "CPU only, on a machine with GPUs", rule: "gpu-off", target: "plain"},
			sacctJob{slot: "bay", node: []string{p.slots["bay"].nodes[i]}, bare: true, used: 14, needGiB: 30, length: 9 * h}, 24, 24*h)
		add(plant{why: "holds GPUs that do next to nothing", rule: "gpu-off", target: "plain"},
			sacctJob{slot: "four", cores: 8, gpus: 2 + i, used: 6, needGiB: 20, length: 10 * h, busy: steady(0.03)}, 22, 26*h)
		add(plant{why: "all GPUs of its node busy, and it waits", rule: "gpu-up", target: "eight"},
			sacctJob{slot: "four", cores: 32, gpus: 4, used: 20, needGiB: 100, length: 12 * h, wait: time.Duration(2+i) * h, busy: steady(3.8)}, 20, 28*h)
		name, user := p.word(7), p.word(6)
		for k, cores := range []int{16, 32, 64} { // it scales: as much work in half the time
			pl := p.runs(plant{user: user, why: "all cores busy, and it scales", rule: "cpu-up", target: "fat"}, sacctJob{slot: "plain", name: name, cores: cores,
				used: float64(cores) * 0.97, needGiB: 40, start: ground.Add(time.Duration(k*31+i) * h), length: 32 * h * 16 / time.Duration(cores)}, 7, 93*h)
			if k == 0 {
				out = append(out, pl)
			}
		}
		add(plant{why: "several nodes at once, on a slow network", rule: "nodes", target: "wide"},
			sacctJob{slot: "plain", node: p.somewhere("plain", 2+i), cores: 64 * (2 + i), used: 50 * float64(2+i), needGiB: 100, length: 8 * h}, 20, 30*h)
	}
	add(plant{why: "needs nearly all memory of its node", rule: "memory", target: "large"},
		sacctJob{slot: "plain", cores: 64, used: 30, needGiB: 244, length: 11 * h}, 20, 30*h)
	add(plant{why: "a twentieth of a large memory", rule: "memory", target: "plain"},
		sacctJob{slot: "large", cores: 32, used: 18, needGiB: 100, length: 11 * h}, 20, 30*h)
	add(plant{why: "ends at the limit of its partition", rule: "length", target: "plain"},
		sacctJob{slot: "dayly", cores: 32, used: 20, needGiB: 60, length: 24 * h, state: "TIMEOUT"}, 20, 30*h)
	add(plant{why: "short work in the long queue", rule: "length", target: "quick"},
		sacctJob{slot: "long", cores: 32, used: 20, needGiB: 60, length: 2 * h}, 60, 9*h)
	add(plant{why: "small work on whole nodes", rule: "small", target: "plain"},
		sacctJob{slot: "whole", cores: 64, used: 8, needGiB: 20, length: 9 * h}, 24, 24*h)
	// must not
	add(plant{why: "full use of GPUs, and no wait"},
		sacctJob{slot: "four", cores: 32, gpus: 4, used: 20, needGiB: 100, length: 12 * h, wait: 5 * time.Second, busy: steady(3.8)}, 20, 28*h)
	add(plant{why: "8 of 64 cores on an idle machine"}, sacctJob{slot: "calm", cores: 64, used: 8, needGiB: 20, length: 3 * h}, 20, 30*h)
	name, user := p.word(7), p.word(6)
	for k, cores := range []int{16, 32, 64} {
		pl := p.runs(plant{user: user, why: "all cores busy, and it does not scale"}, sacctJob{slot: "plain", name: name, cores: cores,
			used: float64(cores) * 0.97, needGiB: 40, start: ground.Add(time.Duration(k*31) * h), length: 10 * h}, 7, 93*h)
		if k == 0 {
			out = append(out, pl)
		}
	}
	add(plant{why: "NVIDIA, and what is larger is AMD"},
		sacctJob{slot: "eight", cores: 64, gpus: 8, used: 50, needGiB: 200, length: 12 * h, busy: steady(7.7)}, 20, 28*h)
	for _, c := range []struct {
		why    string
		length time.Duration
	}{{"the target waits ten times as long", 8 * h}, {"the target ends runs too early", 72 * h}} {
		name, user := p.word(7), p.word(6)
		for k, cores := range []int{48, 96, 192} {
			pl := p.runs(plant{user: user, why: c.why}, sacctJob{slot: "fat", name: name, cores: cores, used: float64(cores) * 0.97, needGiB: 100,
				start: ground.Add(time.Duration(k*31) * h), length: c.length * 48 / time.Duration(cores)}, 7, 93*h)
			if k == 0 {
				out = append(out, pl)
			}
		}
	}
	add(plant{why: "its account is not let in"}, sacctJob{slot: "large", cores: 64, used: 30, needGiB: 1960, length: 11 * h}, 20, 30*h)
	add(plant{why: "two runs"}, sacctJob{slot: "four", cores: 8, gpus: 4, used: 6, needGiB: 20, length: 70 * h, busy: steady(0.05)}, 2, 200*h)
	both, halfName := p.word(6), p.word(7)
	out = append(out, p.runs(plant{user: both, why: "half of the runs each way"},
		sacctJob{slot: "four", name: halfName, cores: 8, gpus: 2, used: 6, needGiB: 20, length: 10 * h, busy: steady(0.03)}, 12, 52*h))
	p.runs(plant{user: both}, sacctJob{slot: "four", name: halfName, cores: 8, gpus: 2, used: 6, needGiB: 20, start: ground.Add(26 * h), length: 10 * h,
		busy: steady(1.8)}, 12, 52*h)
	add(plant{why: "GPU use that nothing measures"}, sacctJob{slot: "blind", cores: 8, gpus: 2, used: 6, needGiB: 20, length: 10 * h}, 22, 26*h)
	add(plant{why: "an hour of GPU a day"}, sacctJob{slot: "four", cores: 4, gpus: 1, used: 1, needGiB: 20, length: 23*h + 30*time.Minute,
		busy: func(since time.Duration) float64 {
			if since >= 6*h && since < 7*h {
				return 0.95
			}
			return 0
		}}, 26, 24*h)
	add(plant{why: "reserved on purpose, and agreed: muted"},
		sacctJob{slot: "four", cores: 8, gpus: 4, used: 6, needGiB: 20, length: 14 * h, busy: steady(0.04)}, 27, 24*h)
	add(plant{why: "interactive"}, sacctJob{slot: "four", name: "interactive", cores: 8, gpus: 1, used: 0.2, needGiB: 4, length: 9 * h, busy: steady(0.01)}, 22, 26*h)
	add(plant{why: "a service of root", user: "root"}, sacctJob{slot: "bay", node: []string{p.slots["bay"].nodes[2]}, bare: true, used: 5, needGiB: 10, length: 20 * h}, 26, 24*h)
	moved, movedName := p.word(6), p.word(7)
	out = append(out, p.runs(plant{user: moved, why: "moved last week"},
		sacctJob{slot: "four", name: movedName, cores: 8, gpus: 2, used: 6, needGiB: 20, length: 12 * h, busy: steady(0.03)}, plantedDays-7, 24*h))
	p.runs(plant{user: moved}, sacctJob{slot: "plain", name: movedName, cores: 8, used: 6, needGiB: 20, start: ground.Add((plantedDays-7)*24*h + 3*h), length: 8 * h}, 7, 24*h)
	return out
}

// background keeps partitions busy, by owners who change every two days, and gives each some waits of all sizes.
func (p *moveSite) background() {
	for _, key := range []string{"plain", "wide", "large", "huge", "four", "eight", "other", "blind", "calm", "whole", "dayly", "long", "quick", "fat", "colossus"} {
		s := p.slots[key]
		who := "lab1"
		if s.who != nil {
			who = s.who[0]
		}
		for d := 0; d < plantedDays; d += 2 {
			owner := p.word(6)
			for k := range 4 {
				if s.idle {
					break
				}
				cores, gpus := s.cores*len(s.nodes)*3/4, s.gpus*len(s.nodes)*3/4
				p.jobs = append(p.jobs, &sacctJob{user: owner, account: who, name: p.word(7), slot: key, node: s.nodes[:max(len(s.nodes)*3/4, 1)], cores: cores, gpus: gpus,
					used: float64(cores) * 0.8, needGiB: 40, start: ground.Add(time.Duration(d)*24*time.Hour + time.Duration(k)*12*time.Hour),
					length: min(10*time.Hour, s.max), wait: s.wait, limit: s.max, bare: false})
			}
			for _, size := range []int{4, 4, 16, 16, 64, 64, 128, 256} { // short ones, for what jobs like them wait
				nodes := max((size+s.cores-1)/s.cores, 1)
				if nodes > len(s.nodes) || s.whole && size < s.cores {
					continue
				}
				p.jobs = append(p.jobs, &sacctJob{user: p.word(6), account: who, name: p.word(7), slot: key, node: s.nodes[:nodes], cores: size,
					gpus: min(s.gpus*size/64, s.gpus*nodes), used: float64(size) * 0.8, needGiB: 4, start: ground.Add(time.Duration(d)*24*time.Hour + 5*time.Hour),
					length: 6 * time.Minute, wait: time.Duration(float64(s.wait) * (0.8 + 0.4*p.rnd.Float64())).Truncate(time.Second), limit: s.max / 2})
			}
		}
	}
	for d := range plantedDays { // work on the machines without a batch system
		for _, n := range p.slots["bay"].nodes {
			p.jobs = append(p.jobs, &sacctJob{user: p.word(6), name: p.word(7), slot: "bay", node: []string{n}, bare: true, used: 40, needGiB: 60,
				start: ground.Add(time.Duration(d)*24*time.Hour + 2*time.Hour), length: 14 * time.Hour, busy: steady(5)})
		}
	}
}

const clusterName, bayName = "fjord.test", "bay.test"

// sacct writes the jobs of the batch system as sacct does.
func (p *moveSite) sacct() string {
	var b strings.Builder
	b.WriteString("JobID|JobIDRaw|Cluster|User|Account|Partition|State|ExitCode|Submit|Start|End|ReqCPUS|ReqMem|AllocTRES|Timelimit|UserCPU|SystemCPU|MaxRSS|NodeList|JobName\n")
	for i, j := range p.jobs {
		if j.bare {
			continue
		}
		s := p.slots[j.slot]
		const layout = "2006-01-02T15:04:05"
		state, gpus := j.state, ""
		if state == "" {
			state = "COMPLETED"
		}
		if j.gpus > 0 {
			gpus = fmt.Sprintf(",gres/gpu=%d", j.gpus)
		}
		id, memory := 1000+i, int(j.needGiB*1.05)+1
		times := j.start.Add(-j.wait).Format(layout) + "|" + j.start.Format(layout) + "|" + j.start.Add(j.length).Format(layout)
		begun := j.start.Format(layout) + "|" + j.start.Add(j.length).Format(layout)
		fmt.Fprintf(&b, "%d|%d|%s|%s|%s|%s|%s|0:0|%s|%d|%dG|cpu=%d,mem=%dG,node=%d%s|%s|%s|00:00:00||%s|%s\n", id, id, clusterName, j.user, j.account, s.name, state, times,
			j.cores, memory, j.cores, memory*len(j.node), len(j.node), gpus, slurmSpan(j.limit), slurmSpan(time.Duration(j.used*float64(j.length))), strings.Join(j.node, ","), j.name)
		fmt.Fprintf(&b, "%d.batch|%d.batch|%s||%s||%s|0:0||%s|%d||cpu=%d,mem=%dG,node=%d||%s|00:00:00|%dK|%s|batch\n", id, id, clusterName, j.account, state, begun,
			j.cores, j.cores, memory*len(j.node), len(j.node), slurmSpan(time.Duration(j.used*float64(j.length))), int(j.needGiB*1024*1024)*len(j.node), strings.Join(j.node, ","))
	}
	return b.String()
}

func slurmSpan(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d-%02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
}

// sampled reports whether sonar reads the node of a job.
func (p *moveSite) sampled(j *sacctJob) bool {
	return p.slots[j.slot].gpus > 0 && !p.slots[j.slot].unmeasured && j.slot != "other" && len(j.node) == 1
}

// sonar writes readings of the nodes with GPUs, every hour, and what they are.
func (p *moveSite) sonar() string {
	type process = map[string]any
	var b strings.Builder
	put := func(kind string, a any) {
		raw, _ := json.Marshal(map[string]any{"meta": map[string]string{"producer": "sonar"}, "data": map[string]any{"type": kind, "attributes": a}})
		b.Write(append(raw, '\n'))
	}
	on := map[string][]int{}
	for i, j := range p.jobs {
		if p.sampled(j) {
			on[j.node[0]] = append(on[j.node[0]], i)
		}
	}
	const every = time.Hour
	for _, key := range []string{"four", "eight", "bay"} {
		s, cluster := p.slots[key], clusterName
		if key == "bay" {
			cluster = bayName
		}
		for _, n := range s.nodes {
			cards := make([]map[string]any, s.gpus)
			for k := range cards {
				cards[k] = map[string]any{"index": k, "uuid": fmt.Sprintf("GPU-%s-%d", n, k), "manufacturer": s.vendor}
			}
			put("sysinfo", map[string]any{"time": ground.Format(time.RFC3339), "cluster": cluster, "node": n, "sockets": 2, "cores_per_socket": s.cores / 2,
				"threads_per_core": 1, "memory": s.gib << 20, "cards": cards})
			busy := 0.0
			for at := ground; !at.After(ground.AddDate(0, 0, plantedDays)); at = at.Add(every) {
				var jobs []map[string]any
				for _, i := range on[n] {
					j := p.jobs[i]
					since := at.Sub(j.start)
					if since < 0 || since > j.length {
						continue
					}
					busy += j.used * min(since, every).Seconds()
					q := process{"cmd": j.name, "pid": 2000 + i, "ppid": 1, "cpu_time": int(j.used * since.Seconds()), "resident_memory": int(j.needGiB * 1024 * 1024)}
					if j.busy != nil {
						var gpus []map[string]any
						held := max(j.gpus, 1)
						if j.bare {
							held = s.gpus
						}
						for k := range held {
							gpus = append(gpus, map[string]any{"index": k, "uuid": fmt.Sprintf("GPU-%s-%d", n, k), "gpu_util": 100 * j.busy(since) / float64(held), "gpu_memory": 2 << 20})
						}
						q["gpus"] = gpus
					}
					id, epoch := 1000+i, 0
					if j.bare {
						id, epoch = 2000+i, 7
					}
					jobs = append(jobs, map[string]any{"job": id, "user": j.user, "epoch": epoch, "processes": []process{q}})
				}
				system := map[string]any{"boot": ground.AddDate(0, 0, -3).Format(time.RFC3339), "used_memory": 8 << 20, "gpus": cards}
				if key == "bay" {
					seconds := make([]int, s.cores)
					for k := range seconds {
						seconds[k] = int(busy) / s.cores
					}
					system["cpus"] = seconds
				}
				put("sample", map[string]any{"time": at.Format(time.RFC3339), "cluster": cluster, "node": n, "jobs": jobs, "system": system})
			}
		}
	}
	return b.String()
}

// shapes writes the facts of the partitions, in the form of shapes.yaml.
func (p *moveSite) shapes() string {
	var b strings.Builder
	b.WriteString("clusters:\n  - name: " + clusterName + "\n    partitions:\n")
	for _, key := range []string{"plain", "wide", "large", "huge", "four", "eight", "other", "blind", "calm", "whole", "dayly", "long", "quick", "fat", "colossus", "bay"} {
		s := p.slots[key]
		if key == "bay" {
			b.WriteString("  - name: " + bayName + "\n    partitions:\n")
		}
		fmt.Fprintf(&b, "      - {name: %s, nodes: %d, cores: %d, memory: %dG, gpus: %d, fast_network: %v", s.name, len(s.nodes), s.cores, s.gib, s.gpus, s.fast)
		if s.vendor != "" {
			b.WriteString(", gpu_vendor: " + s.vendor)
		}
		if s.max > 0 {
			fmt.Fprintf(&b, ", max_time: %gh", s.max.Hours())
		}
		if len(s.who) > 0 {
			b.WriteString(", who: [" + strings.Join(s.who, ", ") + "]")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// site takes the planted site through the import.
func (p *moveSite) site(t testing.TB) *pipeline.Site {
	return pipeline.ImportAll(t, p.sacct(), p.sonar(), ground.AddDate(0, 0, plantedDays))
}

// mute agrees to what one planted user does: it keeps the findings of the site, and mutes theirs.
func (p *moveSite) mute(t testing.TB, s *pipeline.Site) {
	i := slices.IndexFunc(p.users, func(u plant) bool { return strings.Contains(u.why, "muted") })
	s.Mute(p.users[i].user, "agreed", s.Now.AddDate(0, 2, 0))
}

// TestPlantedArrives: the planted work arrives: runs, core-hours, GPU time and waits of each planted user by a reading of their own.
func TestPlantedArrives(t *testing.T) {
	p := newMoveSite(1)
	must := 0
	for _, u := range p.users {
		if u.rule != "" {
			must++
		}
	}
	if len(p.users) != 30 || must != 15 {
		t.Fatalf("%d planted, of whom %d should move", len(p.users), must)
	}
	s := p.site(t)
	rows, _, err := s.Catalogue.Workloads(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	type sum struct{ runs, coreHours, gpuHours, wait, cpu float64 }
	got, want := map[string]sum{}, map[string]sum{}
	for i := range rows {
		r := &rows[i]
		x := got[r.Owner]
		x.runs++
		hours := r.End.Sub(r.Start).Hours()
		if r.AllocatedCores != nil {
			x.coreHours += *r.AllocatedCores * hours
		}
		if r.GPUSeconds != nil {
			x.gpuHours += *r.GPUSeconds / 3600
		}
		if !r.Submit.IsZero() {
			x.wait += r.Start.Sub(r.Submit).Hours()
		}
		if r.CPUSeconds != nil {
			x.cpu += *r.CPUSeconds / 3600
		}
		got[r.Owner] = x
	}
	for _, j := range p.jobs {
		x := want[j.user]
		x.runs++
		x.cpu += j.used * j.length.Hours()
		if !j.bare {
			x.coreHours += float64(j.cores) * j.length.Hours()
			x.wait += j.wait.Hours()
		}
		if p.sampled(j) && j.busy != nil {
			for at := time.Duration(0); at < j.length; at += time.Minute {
				x.gpuHours += j.busy(at) / 60
			}
		}
		want[j.user] = x
	}
	near := func(a, b, share float64) bool { return a >= b*(1-share)-0.2 && a <= b*(1+share)+0.2 }
	for _, u := range p.users {
		g, w := got[u.user], want[u.user]
		if g.runs != w.runs || !near(g.coreHours, w.coreHours, 0.08) || !near(g.gpuHours, w.gpuHours, 0.12) || !near(g.wait, w.wait, 0.01) || !near(g.cpu, w.cpu, 0.12) {
			t.Errorf("%s: got %+v, want %+v", u.why, g, w)
		}
	}
	if names := p.users; slices.ContainsFunc(names, func(u plant) bool { return strings.Contains(u.user, "gpu") }) {
		t.Error("a name gives it away")
	}
}

// TestMove: of the planted users those who should move are named, with the rule and the target, and no other; over five seeds, and for a
// site with its shapes in a file.
func TestMove(t *testing.T) {
	seeds := 5
	if testing.Short() {
		seeds = 1
	}
	right, said, should := 0, 0, 0
	for seed := range seeds {
		p := newMoveSite(uint64(seed + 1))
		s := p.site(t)
		p.mute(t, s)
		list := s.Move(client.MoveQuery{Since: ground, Until: ground.AddDate(0, 0, plantedDays), All: true}, p.shapes())
		got := map[string]client.Move{}
		for _, m := range slices.Concat(list.Stays, list.Moves) {
			got[m.Owner] = m
		}
		for _, m := range list.Moves {
			said++
			i := slices.IndexFunc(p.users, func(u plant) bool { return u.user == m.Owner })
			if i < 0 || p.users[i].rule != m.Rule || p.slots[p.users[i].target].name != m.To {
				t.Logf("seed %d: wrong: %+v", seed+1, m)
				continue
			}
			right++
		}
		for _, u := range p.users {
			if u.rule != "" {
				should++
			}
			m := got[u.user]
			if (u.rule != "" || m.Rule != "") && (m.Rule != u.rule || u.target != "" && m.To != p.slots[u.target].name) {
				t.Logf("seed %d: %s (%s): want %q to %s, got %q to %q: %s", seed+1, u.user, u.why, u.rule, u.target, m.Rule, m.To, m.Why)
			}
		}
		others := map[string]bool{}
		for _, u := range p.users {
			others[u.user] = true
		}
		for _, m := range list.Moves {
			for name := range others {
				if name != m.Owner && strings.Contains(m.Text, name) {
					t.Errorf("the paragraph for %s names %s: %s", m.Owner, name, m.Text)
				}
			}
			if m.Text == "" || strings.ContainsAny(m.Text, "{}!") || m.WaitThere == nil || len(m.Jobs) == 0 || len(m.Unknown) == 0 {
				t.Errorf("%+v", m)
			}
		}
	}
	precision, recall := float64(right)/float64(max(said, 1)), float64(right)/float64(should)
	t.Logf("precision %.3f, recall %.3f (%d right, %d said, %d should)", precision, recall, right, said, should)
	if precision < 0.9 || recall < 0.9 {
		t.Errorf("precision %.3f, recall %.3f: want 0.9 of both", precision, recall)
	}
}

// TestMoveFromBareGPUs: work that keeps all GPUs of a machine without a batch system busy belongs on a partition with more, though nothing
// queues here; work that keeps five of eight busy does not.
func TestMoveFromBareGPUs(t *testing.T) {
	p := newMoveSite(11)
	p.slot("rig", 2, slot{cores: 128, gpus: 16, gib: 1024, vendor: "nvidia", max: 5 * 24 * time.Hour})
	on := func(node int, busy float64) string {
		return p.runs(plant{}, sacctJob{slot: "bay", node: []string{p.slots["bay"].nodes[node]}, bare: true, used: 20, needGiB: 60, start: ground.Add(17 * time.Hour),
			length: 7 * time.Hour, busy: steady(busy)}, plantedDays-1, 24*time.Hour).user
	}
	all, some := on(0, 7.8), on(1, 5)
	shapes := strings.Replace(p.shapes(), "  - name: "+bayName, fmt.Sprintf("      - {name: %s, nodes: 2, cores: 128, memory: 1024G, gpus: 16, gpu_vendor: nvidia, "+
		"max_time: 120h, wait: {hours: 0.1, source: the queue}}\n  - name: %s", p.slots["rig"].name, bayName), 1)
	list := p.site(t).Move(client.MoveQuery{Since: ground, Until: ground.AddDate(0, 0, plantedDays), All: true}, shapes)
	i := slices.IndexFunc(list.Moves, func(m client.Move) bool { return m.Owner == all })
	if i < 0 {
		k := slices.IndexFunc(list.Stays, func(m client.Move) bool { return m.Owner == all })
		t.Fatalf("it stays: %+v", list.Stays[max(k, 0)])
	}
	m := list.Moves[i]
	month := 30.0 / plantedDays * 7.8 * 7 * (plantedDays - 1) // GPU-hours
	if m.Rule != "gpu-up" || m.To != p.slots["rig"].name || m.FreedGPUHours < 0.8*month || m.FreedGPUHours > 1.1*month || strings.Contains(m.Text, "waited for them") ||
		!strings.Contains(m.Why, "all 8 GPUs of its node were busy or full") {
		t.Errorf("want gpu-up to %s and %g GPU-hours: %+v", p.slots["rig"].name, month, m)
	}
	if slices.ContainsFunc(list.Moves, func(m client.Move) bool { return m.Owner == some }) {
		t.Error("five of eight GPUs busy are told to move")
	}
}
