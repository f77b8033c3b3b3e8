package importer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"reckon/internal/sonar"
)

// buffer holds the readings of a node until they are written.
type buffer struct{ at map[int64]*reading }

type reading struct {
	procs    []sonar.Process
	system   *sonar.System
	resident bool // memory is told
}

// sample takes a reading, or a process of one.
func (im *Importer) sample(ctx context.Context, s *sonar.Sample) error {
	im.res.Records += len(s.Procs)
	if t := im.o.Clock().Unix(); s.Time > t+600 {
		im.bad(0, fmt.Errorf("reading of node %s at %d lies in the future; check the clock of the node", s.Node, s.Time))
		return nil
	}
	at := place{im.site(s.Cluster), s.Node}
	b := im.buf[at]
	if b == nil {
		b = &buffer{at: map[int64]*reading{}}
		im.buf[at] = b
	}
	r := b.at[s.Time]
	if r == nil {
		r = &reading{}
		b.at[s.Time] = r
		im.rows++
	}
	if s.System != nil {
		r.system = s.System
	}
	for i := range s.Procs {
		p := &s.Procs[i]
		r.resident = r.resident || p.Resident >= 0
		if p.User == "_sonar_" || p.Cmd == "_heartbeat_" {
			continue // says that the node was up, which the reading does
		}
		r.procs = append(r.procs, *p)
	}
	im.rows += len(s.Procs)
	im.newest = max(im.newest, s.Time)
	if im.rows < im.hold {
		return nil
	}
	if err := im.flushSamples(ctx, im.newest-holdBack); err != nil {
		return err
	}
	im.hold = im.rows + softRows
	return nil
}

func (im *Importer) sysinfo(s *sonar.Sysinfo) error {
	st, err := im.state(im.site(s.Cluster))
	if err != nil {
		return err
	}
	if s.Memory > 0 {
		st.node(s.Node).Memory = s.Memory
	}
	return nil
}

// flushSamples writes the readings before a time.
func (im *Importer) flushSamples(ctx context.Context, until int64) error {
	places := make([]place, 0, len(im.buf))
	from, to := int64(math.MaxInt64), int64(0)
	for p, b := range im.buf {
		places = append(places, p)
		for t := range b.at {
			if t < until {
				from, to = min(from, t), max(to, t)
			}
		}
	}
	if from > to {
		return nil
	}
	measured, err := im.measuredNodes(ctx, from, to)
	if err != nil {
		return err
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.site != b.site {
			return sign(a.site < b.site)
		}
		return sign(a.node < b.node)
	})
	jobs := map[string]map[string]bool{} // slurm jobs by site
	for _, p := range places {
		st, err := im.state(p.site)
		if err != nil {
			return err
		}
		node := st.node(p.node)
		b := im.buf[p]
		times := make([]int64, 0, len(b.at))
		for t := range b.at {
			if t < until {
				times = append(times, t)
			}
		}
		slices.Sort(times)
		var out nodeSeries
		for _, t := range times {
			r := b.at[t]
			delete(b.at, t)
			im.rows -= len(r.procs) + 1
			known, late := node.cover(t)
			switch {
			case known:
				im.res.Known += len(r.procs)
				continue
			case late:
				im.res.Late += len(r.procs)
				continue
			case measured.at(p, t):
				im.res.Measured += len(r.procs)
				continue
			}
			im.res.Taken += len(r.procs)
			im.note(t)
			im.reading(p, node, t, r, &out, jobs)
			node.extend(t)
		}
		if len(times) > 0 {
			node.forget(times[len(times)-1])
		}
		for _, j := range node.Jobs {
			j.out = nil
		}
		if len(b.at) == 0 {
			delete(im.buf, p)
		}
	}
	im.rows = max(im.rows, 0)
	for site, ids := range jobs {
		if err := im.dropAccounted(ctx, site, ids, from); err != nil {
			return err
		}
	}
	return im.write(ctx)
}

// reading adds one reading of a node to its workloads.
func (im *Importer) reading(p place, node *nodeState, t int64, r *reading, out *nodeSeries, slurm map[string]map[string]bool) {
	byJob := map[jobKey][]*sonar.Process{}
	for i := range r.procs {
		k := keyOf(&r.procs[i], im.o.Batch)
		byJob[k] = append(byJob[k], &r.procs[i])
	}
	keys := make([]jobKey, 0, len(byJob))
	for k := range byJob {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, k int) bool {
		a, b := keys[i], keys[k]
		if a.Job != b.Job {
			return a.Job < b.Job
		}
		return a.PID < b.PID || a.PID == b.PID && (a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.User < b.User)
	})
	for _, k := range keys {
		procs := byJob[k]
		j := node.Jobs[k]
		if j == nil || j.Owner != procs[0].User || (k.Epoch == 0 && !k.Batch && t-j.Last > restart) {
			before := j
			j = newJob(k, p.node, t, procs)
			if before != nil {
				j.Start = max(j.Start, before.Last+1)
			}
			if r.system != nil && r.system.Boot < t {
				j.Start = max(j.Start, r.system.Boot)
			}
			node.Jobs[k] = j
		}
		j.take(t, procs, r.resident)
		im.tell(p, j, t, procs)
		im.seen[p.site+"\x00"+j.ID] = true
		if k.Batch {
			if slurm[p.site] == nil {
				slurm[p.site] = map[string]bool{}
			}
			slurm[p.site][j.ID] = true
		}
	}
	im.tellNode(p, node, t, r.system, out)
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}
