package pipeline_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/store"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// pastJob is a job of accounting, as this test knows it.
type pastJob struct {
	owner, account, partition, qos, name string
	cores, gpus                          int
	nodes                                []string
	submit, start, end                   time.Time
	cpu                                  time.Duration

	asked        int // cores; 0: as many as it got
	memory, peak int // MiB; 0: not reported
	suspended    time.Duration
	state        string  // empty: completed
	unmeasured   bool    // nothing gathered its CPU time
	busy         float64 // share of its GPUs
}

// sacctOf writes jobs as sacct does.
func sacctOf(jobs []pastJob) string {
	var b strings.Builder
	b.WriteString("JobID|JobIDRaw|User|Account|Partition|QOS|State|ExitCode|Submit|Start|End|Elapsed|ReqCPUS|ReqMem|AllocTRES|Timelimit|Suspended|UserCPU|SystemCPU|MaxRSS|NodeList|JobName\n")
	clock := func(d time.Duration) string {
		s := int(d.Seconds())
		return fmt.Sprintf("%d-%02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
	}
	stamp := func(t time.Time) string { return t.Format("2006-01-02T15:04:05") }
	for i, j := range jobs {
		id, more, rss, req := 100+i, "", "", ""
		if j.gpus > 0 {
			more = fmt.Sprintf(",gres/gpu=%d", j.gpus)
		}
		if j.memory > 0 {
			more, rss, req = more+fmt.Sprintf(",mem=%dM", j.memory), fmt.Sprintf("%dM", j.peak), fmt.Sprintf("%dM", j.memory)
		}
		cpu := clock(j.cpu)
		if j.unmeasured {
			cpu = ""
		}
		end, state := stamp(j.end), cmp.Or(j.state, "COMPLETED")
		if state == "RUNNING" {
			end = "Unknown"
		}
		at := fmt.Sprintf("%s|%s|%s|%s", stamp(j.submit), stamp(j.start), end, clock(j.end.Sub(j.start)-j.suspended))
		tres := fmt.Sprintf("cpu=%d,node=%d%s", j.cores, len(j.nodes), more)
		fmt.Fprintf(&b, "%d|%d|%s|%s|%s|%s|%s|0:0|%s|%d|%s|%s|30-00:00:00|%s|%s|00:00:00||%s|%s\n", id, id, j.owner, j.account, j.partition, j.qos, state, at,
			cmp.Or(j.asked, j.cores), req, tres, clock(j.suspended), cpu, strings.Join(j.nodes, ","), j.name)
		if rss != "" {
			fmt.Fprintf(&b, "%d.batch|%d.batch||||||0:0|%s|%d||%s|||%s|00:00:00|%s|%s|batch\n", id, id, at, j.cores, tres, cpu, rss, j.nodes[0])
		}
	}
	return b.String()
}

// randomJobs are jobs of some weeks from a Monday on.
func randomJobs(r *rand.Rand, n int) (jobs []pastJob) {
	begin := time.Date(2025, 3, 3, 0, 0, 0, 0, time.UTC)
	for range n {
		j := pastJob{owner: fmt.Sprint("u", r.IntN(5)), account: fmt.Sprint("a", r.IntN(2)), partition: []string{"batch", "long"}[r.IntN(2)],
			qos: []string{"normal", "high", ""}[r.IntN(3)], name: fmt.Sprint("name", r.IntN(3)),
			cores: []int{1, 2, 8, 9, 32, 64, 256, 1024}[r.IntN(8)], gpus: []int{0, 0, 1, 3, 8}[r.IntN(5)]}
		j.submit = begin.Add(time.Duration(r.IntN(14*86400)) * time.Second)
		j.start = j.submit.Add(time.Duration(r.IntN(7200)) * time.Second)
		ran := []int{30, 60, 1800, 3600, 10_000, 40_000, 200_000, 800_000}[r.IntN(8)]
		j.end = j.start.Add(time.Duration(ran) * time.Second)
		j.cpu = time.Duration(r.Float64()*float64(ran*j.cores)) * time.Second
		for i := range 1 + r.IntN(3) {
			j.nodes = append(j.nodes, fmt.Sprint("n", i))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// of is the value of a job in a dimension: written again from the guide, not from the program.
func (j *pastJob) of(by string) string {
	ran := j.end.Sub(j.start)
	pick := func(v int, limits []int, names ...string) string {
		for i, l := range limits {
			if v <= l {
				return names[i]
			}
		}
		return names[len(limits)]
	}
	switch by {
	case "owner":
		return j.owner
	case "account":
		return j.account
	case "partition":
		return j.partition
	case "qos":
		return j.qos
	case "size":
		return pick(j.cores, []int{1, 8, 32, 128, 512}, "1", "2-8", "9-32", "33-128", "129-512", "more than 512")
	case "gpus":
		return pick(j.gpus, []int{0, 1, 4}, "0", "1", "2-4", "more than 4")
	case "length":
		return pick(int(ran/time.Second), []int{59, 3599, 6*3600 - 1, 86399, 7*86400 - 1}, "< 1 min", "< 1 h", "< 6 h", "< 1 d", "< 7 d", "7 d or more")
	}
	return ""
}

func dimension(r *client.Usage, by string) string {
	return map[string]string{"owner": r.Owner, "account": r.Account, "partition": r.Partition, "qos": r.QOS, "size": r.Size, "gpus": r.GPUs,
		"length": r.Length, "node": r.Node}[by]
}

// TestDimensions: core- and GPU-hours, starts and waits of imported jobs, by any two dimensions and over any time, are those of
// the accounting to the second, and their sums are the same however they are distinguished.
func TestDimensions(t *testing.T) {
	jobs := randomJobs(rand.New(rand.NewPCG(1, 2)), 150)
	s := pipeline.Import(t, sacctOf(jobs), time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC))
	begin := time.Date(2025, 3, 3, 0, 0, 0, 0, time.UTC)
	dims := []string{"owner", "account", "partition", "qos", "size", "gpus", "length"}
	for _, iv := range [][2]time.Time{{begin, begin.AddDate(0, 1, 0)}, {begin.Add(50 * time.Hour), begin.Add(131 * time.Hour)}} {
		var total *client.Usage
		for i, a := range dims {
			for _, b := range dims[i:] {
				by := slices.Compact([]string{a, b})
				list := s.Usage(client.UsageQuery{Since: iv[0], Until: iv[1], Span: "whole", By: by})
				type sums struct{ held, gpu, started, wait float64 }
				want := map[string]sums{}
				for k := range jobs {
					j := &jobs[k]
					over := store.Earlier(j.end, iv[1]).Sub(store.Later(j.start, iv[0])).Seconds()
					began := !j.start.Before(iv[0]) && j.start.Before(iv[1])
					if over <= 0 && !began {
						continue
					}
					at := j.of(a) + " " + j.of(b)
					w := want[at]
					w.held, w.gpu = w.held+over*float64(j.cores), w.gpu+over*float64(j.gpus)
					if began {
						w.started, w.wait = w.started+1, w.wait+j.start.Sub(j.submit).Seconds()
					}
					want[at] = w
				}
				if len(list.Rows) != len(want) {
					t.Errorf("by %v: %d rows, want %d", by, len(list.Rows), len(want))
				}
				for k := range list.Rows {
					r := &list.Rows[k]
					w := want[dimension(r, a)+" "+dimension(r, b)]
					got := sums{orNone(r.HeldCoreSeconds), orNone(r.HeldGPUSeconds), orNone(r.Started), orNone(r.WaitSeconds)}
					if math.Abs(got.held-w.held) > 1 || math.Abs(got.gpu-w.gpu) > 1 || math.Abs(got.started-w.started) > 1e-6 || math.Abs(got.wait-w.wait) > 1 {
						t.Errorf("by %v, %q %q: %+v, want %+v", by, dimension(r, a), dimension(r, b), got, w)
					}
				}
				if total == nil {
					total = &list.Total
				} else if math.Abs(*list.Total.CPUSeconds-*total.CPUSeconds) > 1e-6**total.CPUSeconds {
					t.Errorf("by %v: %g CPU seconds in all, by %s %g", by, *list.Total.CPUSeconds, dims[0], *total.CPUSeconds)
				}
			}
		}
	}
	// Over all the time, what each class used is what its jobs used.
	used := map[string]float64{}
	for i := range jobs {
		used[jobs[i].of("length")] += jobs[i].cpu.Seconds()
	}
	for _, r := range s.Usage(client.UsageQuery{Since: begin, Until: begin.AddDate(0, 1, 0), Span: "whole", By: []string{"length"}}).Rows {
		if math.Abs(*r.CPUSeconds-used[r.Length]) > 1e-6*used[r.Length]+1 || r.Exactness["cpu_seconds"] != 0 {
			t.Errorf("%s: %g CPU seconds (%v), want %g", r.Length, *r.CPUSeconds, r.Exactness, used[r.Length])
		}
	}
	// A node alone, and an owner by node: cores are divided among the nodes of a job.
	held, starts := map[string]float64{}, float64(len(jobs))
	for i := range jobs {
		for _, n := range jobs[i].nodes {
			held[n+" "+jobs[i].owner] += jobs[i].end.Sub(jobs[i].start).Seconds() * float64(jobs[i].cores) / float64(len(jobs[i].nodes))
		}
	}
	for _, r := range s.Usage(client.UsageQuery{Since: begin, Until: begin.AddDate(0, 1, 0), Span: "whole", By: []string{"node", "owner"}}).Rows {
		if w := held[r.Node+" "+r.Owner]; math.Abs(*r.HeldCoreSeconds-w) > 1 {
			t.Errorf("%s on %s held %g core seconds, want %g", r.Owner, r.Node, *r.HeldCoreSeconds, w)
		}
		delete(held, r.Node+" "+r.Owner)
		starts -= orNone(r.Started)
	}
	if len(held) > 0 || starts != 0 {
		t.Errorf("no rows of %v, %g starts too few", held, starts)
	}
}

// TestNodesUnknown: a job has no node where accounting names none, and what it held is in the sum.
func TestNodesUnknown(t *testing.T) {
	const text = "q:n1:alice:staff:one:1:sge:0:1740823200:1740823200:1740826800:0:0:3600:1:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:p:d:NONE:1:0:1800:0:0:NONE:0:NONE:0:0:0\n" +
		"q:n1:alice:staff:many:2:sge:0:1740823200:1740823200:1740826800:0:0:3600:1:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:p:d:mpi:8:0:1800:0:0:NONE:0:NONE:0:0:0\n"
	s := pipeline.Import(t, text, time.Date(2025, 3, 20, 12, 0, 0, 0, time.UTC))
	for _, by := range [][]string{{"node"}, {"node", "owner"}} {
		got := map[string]float64{}
		for _, r := range s.Usage(client.UsageQuery{Since: s.Now.AddDate(0, -1, 0), Until: s.Now, Span: "whole", By: by}).Rows {
			got[r.Node] = *r.HeldCoreSeconds + *r.Started
		}
		if len(got) != 2 || got["n1"] != 3601 || got[""] != 8*3600+1 {
			t.Errorf("by %v: %v", by, got)
		}
	}
}

// TestProjects: owners of jobs without a reported account have the file's account, alone and with other dimensions; others keep theirs.
func TestProjects(t *testing.T) {
	jobs := randomJobs(rand.New(rand.NewPCG(5, 6)), 60)
	held := map[string]float64{}
	projects := map[string]string{"u0": "astro", "u1": "astro", "u2": "genomics"}
	for i := range jobs {
		j := &jobs[i]
		if j.owner != "u2" {
			j.account = ""
		}
		held[cmp.Or(j.account, projects[j.owner])] += j.end.Sub(j.start).Seconds() * float64(j.cores)
	}
	s := pipeline.Import(t, sacctOf(jobs), time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC))
	s.Projects = projects
	begin := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, by := range [][]string{{"account"}, {"account", "partition"}, {"account", "size"}} {
		got := map[string]float64{}
		for _, r := range s.Usage(client.UsageQuery{Since: begin, Until: begin.AddDate(0, 2, 0), Span: "whole", By: by}).Rows {
			got[r.Account] += orNone(r.HeldCoreSeconds)
		}
		for a, want := range held {
			if math.Abs(got[a]-want) > 1 || len(got) != len(held) {
				t.Errorf("by %v: %s held %g, want %g (%v)", by, a, got[a], want, got)
			}
		}
	}
	list := s.Usage(client.UsageQuery{Since: begin, Until: begin.AddDate(0, 2, 0), Span: "whole", Accounts: []string{"astro"}, By: []string{"owner"}})
	if len(list.Rows) != 2 || list.Rows[0].Owner != "u0" || list.Rows[1].Owner != "u1" {
		t.Errorf("owners of astro: %+v", list.Rows)
	}
}

// TestOwnersOfNodes: of a measured site, what the owners of a node used adds up to what the node's workloads used.
func TestOwnersOfNodes(t *testing.T) {
	s := pipeline.Run(t, simulate.Config{Seed: 3, Nodes: 4}, 5*time.Hour, pipeline.Coarse)
	q := client.UsageQuery{Since: s.Now.Add(-5 * time.Hour), Until: s.Now, Span: "whole", By: []string{"node"}}
	nodes, up := map[string]float64{}, map[string]float64{}
	for _, r := range s.Usage(q).Rows {
		nodes[r.Node], up[r.Node] = *r.CPUSeconds, *r.UpSeconds
	}
	for _, more := range []string{"owner", "size", "kind", "length"} {
		q.By = []string{"node", more}
		sums := map[string]float64{}
		for _, r := range s.Usage(q).Rows {
			if sums[r.Node] += orNone(r.CPUSeconds); orNone(r.UpSeconds) != up[r.Node] {
				t.Errorf("by %v: %s was up for %g s, want %g", q.By, r.Node, orNone(r.UpSeconds), up[r.Node])
			}
		}
		for n, want := range nodes {
			if math.Abs(sums[n]-want) > 1e-6*want {
				t.Errorf("by %v: %g CPU seconds on %s, want %g", q.By, sums[n], n, want)
			}
		}
	}
	q.By = []string{"size"}
	list, share := s.Usage(q), 0.0
	for _, r := range list.Rows {
		share += orNone(r.CapacityShare)
	}
	if want := orNone(list.Total.CapacityShare); want == 0 || math.Abs(share-want) > 1e-6 {
		t.Errorf("sizes used %g of the capacity, want %g", share, want)
	}
	// Runs on one node alone are not divided: what accounting of the simulation calls theirs is theirs.
	q.By = []string{"owner"}
	owners := map[string]float64{}
	for _, r := range s.Usage(q).Rows {
		owners[r.Owner] = orNone(r.CPUSeconds)
	}
	q.By = []string{"node", "owner"}
	sums := map[string]float64{}
	for _, r := range s.Usage(q).Rows {
		sums[r.Owner] += orNone(r.CPUSeconds)
	}
	for o, want := range owners {
		if math.Abs(sums[o]-want) > 0.02*want+60 {
			t.Errorf("%s: %g CPU seconds by node and owner, %g by owner", o, sums[o], want)
		}
	}
}

func orNone(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
