package simulate

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// placement is the part of a job on one of its nodes.
type placement struct {
	job        *Job
	first      bool // of the nodes of the job
	start, end time.Time
	gpus       []int // numbers of its devices on the node
}

// jobsByEnd is a heap of the running jobs, with the next one to end first.
type jobsByEnd []*Job

func (e jobsByEnd) Len() int { return len(e) }
func (e jobsByEnd) Less(i, k int) bool {
	return cmp.Or(e[i].End.Compare(e[k].End), cmp.Compare(e[i].Raw, e[k].Raw)) < 0
}
func (e jobsByEnd) Swap(i, k int) { e[i], e[k] = e[k], e[i] }
func (e *jobsByEnd) Push(j any)   { *e = append(*e, j.(*Job)) }
func (e *jobsByEnd) Pop() any {
	last := len(*e) - 1
	j := (*e)[last]
	*e = (*e)[:last]
	return j
}

// freeNode is the free capacity of a node.
type freeNode struct {
	cores  int
	memory uint64
	gpus   uint64 // one bit for each
	down   int    // the next outage of the node
}

// jobScheduler starts jobs in order of submission. If a job does not fit, a few later jobs that fit may overtake it,
// unless it has waited for long.
type jobScheduler struct {
	site  *Site
	now   time.Time
	left  []freeNode
	queue map[string][]*Job // by partition
	run   jobsByEnd
	at    int // index of the last placement
}

const (
	maxTried     = 60            // how many of a queue are tried
	maxOvertaken = 6 * time.Hour // wait after which no other job may overtake
)

// schedule determines the time and the nodes of each job.
func (s *Site) schedule() {
	q := &jobScheduler{site: s, left: make([]freeNode, len(s.specs)), queue: map[string][]*Job{}}
	for i := range q.left {
		q.left[i] = freeNode{cores: s.Cores, memory: s.specs[i].memory}
		if s.specs[i].role == withGPUs {
			q.left[i].gpus = 1<<gpusPerNode - 1
		}
	}
	next := 0
	for horizon := s.End(); ; {
		switch {
		case len(q.run) > 0 && (next == len(s.Jobs) || !q.run[0].End.After(s.Jobs[next].Submit)):
			j := heap.Pop(&q.run).(*Job)
			q.now = j.End
			q.releaseNodes(j)
			q.startFitting(j.Partition)
		case next < len(s.Jobs):
			j := s.Jobs[next]
			next++
			q.now = j.Submit
			if j.Stuck != "" || !q.fitsEmptySite(j) {
				continue // the job waits for ever without blocking others
			}
			q.queue[j.Partition] = append(q.queue[j.Partition], j)
			if len(q.queue[j.Partition]) <= maxTried || len(q.run) == 0 { // nothing else would try again
				q.startFitting(j.Partition)
			}
		default:
			s.sortPlaces()
			return
		}
		if q.now.After(horizon) {
			s.sortPlaces()
			return
		}
	}
}

func (s *Site) sortPlaces() {
	for i := range s.specs {
		slices.SortStableFunc(s.specs[i].places,
			func(a, b placement) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.job.Raw, b.job.Raw)) })
	}
}

// startFitting starts the jobs that can start.
func (q *jobScheduler) startFitting(partition string) {
	list := q.queue[partition]
	kept, tried := list[:0], 0
	for i, j := range list {
		held := len(kept) > 0 && q.now.Sub(kept[0].Submit) > maxOvertaken
		if tried++; tried > maxTried || held {
			kept = append(kept, list[i:]...)
			break
		}
		if !q.startJob(j) {
			kept = append(kept, j)
		}
	}
	q.queue[partition] = kept
}

// fitsEmptySite reports whether the job would fit into an empty site.
func (q *jobScheduler) fitsEmptySite(j *Job) bool {
	n := 0
	for i := range q.site.specs {
		whole := freeNode{cores: q.site.Cores, memory: q.site.specs[i].memory}
		if q.site.specs[i].role == withGPUs {
			whole.gpus = 1<<gpusPerNode - 1
		}
		if whole.hasRoom(j, q.site.specs[i].role) {
			n++
		}
	}
	return n >= j.Nodes
}

// hasRoom reports whether a job fits the free part of a node with a role.
func (f *freeNode) hasRoom(j *Job, as nodeRole) bool {
	want := compute
	if j.GPUs > 0 {
		want = withGPUs
	}
	return as == want && f.cores >= j.Cores && f.memory >= j.MemoryBytes && countBits(f.gpus) >= j.GPUs
}

// startJob starts a job on nodes with enough space.
func (q *jobScheduler) startJob(j *Job) bool {
	var on []int
	for n := range q.left {
		i := (q.at + n) % len(q.left)
		if q.canStart(j, i) {
			if on = append(on, i); len(on) == j.Nodes {
				break
			}
		}
	}
	if len(on) < j.Nodes {
		return false
	}
	slices.Sort(on)
	j.On, j.Start = on, q.now.Add(time.Second)
	j.End = j.Start.Add(j.length)
	q.applyEarlyEnd(j)
	for _, i := range on {
		p := placement{job: j, first: i == on[0], start: j.Start, end: j.End}
		f := &q.left[i]
		f.cores -= j.Cores
		f.memory -= j.MemoryBytes
		for g := 0; len(p.gpus) < j.GPUs; g++ {
			if f.gpus&(1<<g) != 0 {
				f.gpus &^= 1 << g
				p.gpus = append(p.gpus, g)
			}
		}
		q.site.specs[i].places = append(q.site.specs[i].places, p)
	}
	q.at = (on[len(on)-1] + 1) % len(q.left)
	heap.Push(&q.run, j)
	return true
}

// applyEarlyEnd shortens the run of a job to the event that ends it.
func (q *jobScheduler) applyEarlyEnd(j *Job) {
	switch j.Outcome {
	case timeout:
		j.End = j.Start.Add(j.Limit + 30*time.Second)
	case cancelled:
		if j.plan != nil {
			break
		}
		j.End = j.Start.Add(time.Duration(float64(j.length)*(0.55+0.45*noiseAt(j.seed, 7))).Truncate(time.Second) + time.Second)
	case outOfMemory:
		if j.plan != nil {
			break
		}
		j.End = j.Start.Add(time.Duration(float64(j.length)*(0.6+0.3*noiseAt(j.seed, 7))).Truncate(time.Second) + time.Second)
	}
	for _, i := range j.On {
		for _, o := range q.site.specs[i].outages {
			if o.from.After(j.Start) && o.from.Before(j.End) {
				j.End, j.Outcome, j.Exit = o.from, nodeFail, 0
			}
		}
	}
}

func (q *jobScheduler) canStart(j *Job, i int) bool {
	n, f := &q.site.specs[i], &q.left[i]
	if !f.hasRoom(j, n.role) {
		return false
	}
	for f.down < len(n.outages) && n.outages[f.down].to.Before(q.now) {
		f.down++
	}
	return f.down == len(n.outages) || q.now.Add(2*time.Second).Before(n.outages[f.down].from)
}

func (q *jobScheduler) releaseNodes(j *Job) {
	for _, i := range j.On {
		f := &q.left[i]
		f.cores += j.Cores
		f.memory += j.MemoryBytes
		for k := len(q.site.specs[i].places) - 1; k >= 0; k-- {
			if p := &q.site.specs[i].places[k]; p.job == j {
				for _, g := range p.gpus {
					f.gpus |= 1 << g
				}
				break
			}
		}
	}
}

func countBits(v uint64) (n int) {
	for ; v != 0; v &= v - 1 {
		n++
	}
	return n
}
