package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"reckon/interop/sonar"
)

// reading is the data about a node at one time, from all inputs together.
type reading struct {
	procs   []sonar.Process
	system  *sonar.System
	memory  float64 // memory of the node, in bytes; 0: not reported
	cores   int     // cores of the node; 0: not reported
	cluster string  // nodes and partitions as JSON; stored under no node
	fresh   int     // processes that are new to the series
}

// bufferedReading returns the reading of a node in the buffer.
func (im *Importer) bufferedReading(site, node string, t int64) *reading {
	b := innerMap(im.buf, nodeKey{site, node})
	r := b[t]
	if r == nil {
		r = &reading{}
		b[t] = r
		im.rows++
	}
	return r
}

// refuseFuture refuses a reading with the given number of records if its time is in the future.
func (im *Importer) refuseFuture(node string, t int64, records int) bool {
	if t <= im.o.Clock().Unix()+600 {
		return false
	}
	im.res.Refused += records
	im.addError(0, fmt.Errorf("reading of node %s at %d is in the future; check the clock of the node", node, t))
	return true
}

// addSample reads a reading, or a process of one.
func (im *Importer) addSample(s *sonar.Sample) error {
	im.res.Records += len(s.Procs)
	if im.refuseFuture(s.Node, s.Time, len(s.Procs)) {
		return nil
	}
	r := im.bufferedReading(im.siteOf(s.Cluster), s.Node, s.Time)
	r.cores = max(r.cores, s.Cores)
	if s.System != nil {
		r.mergeReading(&reading{system: s.System})
	}
	for i := range s.Procs {
		p := &s.Procs[i]
		if p.User == "_sonar_" || p.Cmd == "_heartbeat_" { // only shows that the node was up, as any reading does
			im.res.Heartbeats++
			continue
		}
		r.procs = append(r.procs, *p)
		r.procs[len(r.procs)-1].Virtual = 0 // not used
	}
	im.rows += len(s.Procs)
	if im.rows < softRows {
		return nil
	}
	return im.flushBuffer()
}

func (im *Importer) addSysinfo(s *sonar.Sysinfo) error {
	if s.Memory > 0 && !im.refuseFuture(s.Node, s.Time, 0) {
		r := im.bufferedReading(im.siteOf(s.Cluster), s.Node, s.Time)
		r.memory = max(r.memory, s.Memory)
	}
	return nil
}

// addCluster reads a report of nodes and partitions as a reading without a node.
func (im *Importer) addCluster(c *sonar.Cluster) error {
	if im.refuseFuture("", c.Time, 0) {
		return nil
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	r := im.bufferedReading(im.siteOf(c.Cluster), "", c.Time)
	r.cluster = max(r.cluster, string(raw))
	return nil
}

// flushBuffer writes the buffer to the journals of its sites, without data that they already have.
func (im *Importer) flushBuffer() error {
	bySite := map[string]map[int64]map[string]map[int64]*reading{}
	for p, times := range im.buf {
		for t, r := range times {
			innerMap(innerMap(innerMap(bySite, p.site), periodStart(t)), p.node)[t] = r
		}
	}
	im.buf, im.rows = map[nodeKey]map[int64]*reading{}, 0
	for _, site := range sortedKeys(bySite) {
		st, err := im.loadState(site)
		if err != nil {
			return err
		}
		for _, p := range sortedKeys(bySite[site]) {
			if err := im.storePeriod(st, p, bySite[site][p]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (im *Importer) storePeriod(st *siteState, p int64, nodes map[string]map[int64]*reading) error {
	log, err := st.journal.openLog(p)
	if err != nil {
		return err
	}
	var names []string
	for _, node := range sortedKeys(nodes) {
		if err := im.removeKnown(st.journal, log, node, nodes[node]); err != nil {
			return err
		}
		if len(nodes[node]) == 0 {
			continue
		}
		names = append(names, node)
		innerMap(st.dirty, p)[node] = true
	}
	if len(names) == 0 {
		return nil
	}
	if err := st.beginImport(unixTime(p), unixTime(p+periodSeconds), nil); err != nil {
		return err
	}
	return st.journal.appendReadings(p, log, names, nodes)
}

// removeKnown removes readings that the log already has and counts both kinds.
func (im *Importer) removeKnown(j *journal, log *journalLog, node string, readings map[int64]*reading) error {
	times := sortedKeys(readings)
	if len(times) == 0 {
		return nil
	}
	first, last := times[0], times[len(times)-1]
	var overlap []logRange
	for _, pc := range log.pieces[node] {
		if pc.first <= last && first <= pc.last {
			overlap = append(overlap, pc)
		}
	}
	had := map[int64]*reading{}
	if err := j.loadReadings(log, overlap, 0, had); err != nil {
		return err
	}
	for _, t := range times {
		r, old := readings[t], had[t]
		n := len(r.procs)
		r.procs = dropDuplicates(r.procs, old)
		im.res.Known += n - len(r.procs)
		im.res.Taken += len(r.procs)
		if old == nil {
			continue
		}
		// The first one in sort order is kept: see mergeReading.
		if r.system != nil && old.system != nil && systemText(r.system) <= systemText(old.system) {
			r.system = nil
		}
		if r.memory <= old.memory {
			r.memory = 0
		}
		if r.cluster <= old.cluster {
			r.cluster = ""
		}
		// The number of cores alone is not new data: it bounds the other figures.
		if len(r.procs) == 0 && r.system == nil && r.memory == 0 && r.cluster == "" {
			delete(readings, t)
		}
	}
	return nil
}

// maxPairwise is the maximum number of processes that are compared pairwise.
const maxPairwise = 24

// dropDuplicates removes duplicate processes, and those that are in old.
func dropDuplicates(procs []sonar.Process, old *reading) []sonar.Process {
	out := procs[:0]
	if len(procs) <= maxPairwise && (old == nil || len(old.procs) <= maxPairwise) {
		for i := range procs {
			if !slices.Contains(out, procs[i]) && (old == nil || !slices.Contains(old.procs, procs[i])) {
				out = append(out, procs[i])
			}
		}
		return out
	}
	seen := make(map[sonar.Process]bool, len(procs))
	if old != nil {
		for i := range old.procs {
			seen[old.procs[i]] = true
		}
	}
	for i := range procs {
		if !seen[procs[i]] {
			seen[procs[i]] = true
			out = append(out, procs[i])
		}
	}
	return out
}

// addReading adds one reading of a node to its workloads.
func (im *Importer) addReading(p nodeKey, node *nodeState, t int64, r *reading) {
	r.sortProcesses()
	resident := false
	byJob := map[jobKey][]*sonar.Process{}
	im.refuseImpossible(p, node, t, r)
	for i := range r.procs {
		k := toJobKey(&r.procs[i], im.o.Batch)
		byJob[k] = append(byJob[k], &r.procs[i])
		resident = resident || r.procs[i].Resident >= 0
	}
	keys := slices.Collect(maps.Keys(byJob))
	slices.SortFunc(keys, jobKey.compare)
	for _, k := range keys {
		procs := slices.CompactFunc(byJob[k], func(a, b *sonar.Process) bool { return toProcKey(a) == toProcKey(b) })
		j := node.Jobs[k]
		if j == nil || j.Owner != procs[0].User || (k.Epoch == 0 && !k.Batch && t-j.Last > restartGap) {
			before := j
			j = newJob(k, p.node, t, procs)
			if k.Batch {
				j.ID = "slurm/" + im.sites[p.site].jobID(k.Job, t)
			}
			if before != nil {
				j.Start = max(j.Start, before.Last+1)
			}
			if r.system != nil && r.system.Boot < t {
				j.Start = max(j.Start, r.system.Boot)
			}
			node.Jobs[k] = j
		}
		if j.Last > 0 {
			im.noteSpan(j.Last, t) // later growth is spread over it
		}
		grown, procs := im.acceptedGrowth(p, j, t, procs, r)
		j.addReading(grown, procs, resident)
		im.writeFigures(p, j, t, procs)
		if k.Batch {
			im.out.recordTime(p.site, j.ID, t)
		}
	}
	if node.Last > 0 && t-node.Last <= maxJobSilence {
		im.noteSpan(node.Last, t)
	}
	im.writeNode(p, node, t, r.system)
	node.Last = t
}
