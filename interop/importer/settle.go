package importer

import (
	"bytes"
	"context"
	"hash/fnv"

	"reckon/store"
)

// Series follow the journal period by period. The state of a node at the end of a period starts the next one. If readings arrive for a
// period, its series of that node are rebuilt, and the series of later periods as long as the resulting state changes.

// nodeCheckpoint is the state of a node at the end of an earlier period.
type nodeCheckpoint struct {
	period int64
	state  []byte
}

// buildSeries builds the series of all new data in the journal of a site.
func (im *Importer) buildSeries(ctx context.Context, st *siteState) error {
	from := int64(1) << 62
	for p := range st.dirty {
		from = min(from, p)
	}
	if st.again {
		from = min(from, periodStart(st.pending.From.Unix()))
		im.res.Resumed = true
	}
	periods, err := st.journal.listPeriods()
	if err != nil {
		return err
	}
	carry := map[string]nodeCheckpoint{}
	for _, p := range periods {
		if p < from || (!st.again && len(carry) == 0 && len(st.dirty[p]) == 0) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := im.settlePeriod(ctx, st, p, carry); err != nil {
			return err
		}
		if im.out.isFull() {
			if err := im.writeSink(ctx, st); err != nil {
				return err
			}
		}
	}
	return im.writeSink(ctx, st)
}

func (im *Importer) settlePeriod(ctx context.Context, st *siteState, p int64, carry map[string]nodeCheckpoint) error {
	log, err := st.journal.openLog(p)
	if err != nil {
		return err
	}
	ends, err := st.journal.loadEnds(p)
	if err != nil {
		return err
	}
	nodes := map[string]bool{}
	for node := range st.dirty[p] {
		nodes[node] = true
	}
	for node := range carry {
		nodes[node] = true
	}
	if st.again {
		for node := range log.pieces {
			nodes[node] = true
		}
	}
	var measured measuredTimes
	for _, node := range sortedKeys(nodes) {
		pieces := log.pieces[node]
		if len(pieces) == 0 {
			continue
		}
		before, ok := carry[node]
		if !ok {
			if before, err = st.stateBefore(node, p); err != nil {
				return err
			}
		}
		now := nodeEnd{}
		for _, pc := range pieces {
			now.records += pc.records
		}
		if before.state != nil && p-before.period <= maxJobSilence+periodSeconds {
			h := fnv.New64a()
			_, _ = h.Write(before.state)
			now.from = h.Sum64()
		} else {
			before.state = nil
		}
		old, had := ends.nodes[node]
		if had && old.records == now.records && old.from == now.from {
			delete(carry, node)
			if st.again {
				carry[node] = nodeCheckpoint{p, old.state}
			}
			continue
		}
		if measured == nil {
			if measured, err = im.measuredNodes(ctx, p, p+periodSeconds); err != nil {
				return err
			}
		}
		m := rebuild{im: im, st: st, period: p, at: nodeKey{st.site, node}, log: log, pieces: pieces, measured: measured}
		if now.state, err = m.buildPeriod(before.state, old, had && old.from == now.from && !st.again, had); err != nil {
			return err
		}
		ends.nodes[node], ends.dirty = now, true
		carry[node] = nodeCheckpoint{p, now.state}
	}
	return nil
}

// stateBefore returns the state of a node before a period.
func (st *siteState) stateBefore(node string, p int64) (nodeCheckpoint, error) {
	for q := p - periodSeconds; p-q <= maxJobSilence+periodSeconds; q -= periodSeconds {
		e, err := st.journal.loadEnds(q)
		if err != nil {
			return nodeCheckpoint{}, err
		}
		if n, ok := e.nodes[node]; ok {
			return nodeCheckpoint{q, n.state}, nil
		}
	}
	return nodeCheckpoint{}, nil
}

// rebuild builds the series of one node in one period.
type rebuild struct {
	im       *Importer
	st       *siteState
	period   int64
	at       nodeKey
	log      *journalLog
	pieces   []logRange
	measured measuredTimes
}

// buildPeriod returns the packed state of a node at the end of the period. start is its state at the beginning. old is the
// state when the series were last built. sameStart reports whether the last build began with the same start.
func (m *rebuild) buildPeriod(start []byte, old nodeEnd, sameStart, had bool) ([]byte, error) {
	readings := map[int64]*reading{}
	if err := m.st.journal.loadReadings(m.log, m.pieces, old.records, readings); err != nil {
		return nil, err
	}
	if m.at.node == "" {
		for _, t := range sortedKeys(readings) {
			m.im.writeCluster(m.at.site, t, readings[t].cluster)
		}
		return []byte{}, nil
	}
	from := m.period
	state := &nodeState{Jobs: map[jobKey]*jobState{}}
	var err error
	if sameStart && old.records != rereadAll {
		if state, err = unpackState(old.state); err != nil {
			return nil, err
		}
		if m.isAppend(state, old.records, readings) {
			return m.newerReadings(state, readings), nil
		}
		state = &nodeState{Jobs: map[jobKey]*jobState{}}
	}
	if start != nil {
		if state, err = unpackState(start); err != nil {
			return nil, err
		}
		state.dropSilent(from)
	}
	var was *nodeState
	if had {
		if was, err = unpackState(old.state); err != nil {
			return nil, err
		}
	}
	if had || m.st.again {
		m.im.out.addDrop(m.at, m.period, was)
	}
	end := m.newerReadings(state, readings)
	if was != nil && !bytes.Equal(end, old.state) {
		m.undoRenamed(was, state)
	}
	return end, nil
}

// isAppend reports whether all new data is later than a state, and does not affect earlier results.
func (m *rebuild) isAppend(state *nodeState, covered int, readings map[int64]*reading) bool {
	seen := 0
	for _, pc := range m.pieces {
		if seen >= covered && pc.first <= state.Last {
			return false
		}
		seen += pc.records
	}
	if state.Memory > 0 {
		return true
	}
	for _, r := range readings {
		if r.memoryTotal() > 0 {
			return false
		}
	}
	return true
}

// memoryTotal returns the memory of the node in the reading; 0 if not reported.
func (r *reading) memoryTotal() float64 {
	if r.memory > 0 || r.system == nil {
		return r.memory
	}
	return r.system.TotalMemory
}

// newerReadings returns the readings that are newer than the state.
func (m *rebuild) newerReadings(state *nodeState, readings map[int64]*reading) []byte {
	im := m.im
	since := state.Last
	times := sortedKeys(readings)
	if state.Memory == 0 { // the first reported value is also used for earlier readings of the period
		for _, t := range times {
			if state.Memory = readings[t].memoryTotal(); state.Memory > 0 {
				break
			}
		}
	}
	for _, t := range times {
		r := readings[t]
		if t <= since {
			continue
		}
		if v := r.memoryTotal(); v > 0 {
			state.Memory = v
		}
		if m.measured.includes(m.at, t) {
			im.res.Measured += r.fresh
			im.res.Taken = max(im.res.Taken-r.fresh, 0)
			continue
		}
		im.extendRange(t)
		im.addReading(m.at, state, t, r)
	}
	return state.packState()
}

// undoRenamed drops earlier series of jobs that now have another start or another name.
func (m *rebuild) undoRenamed(was, now *nodeState) {
	im := m.im
	ids := map[string]bool{}
	for _, j := range now.Jobs {
		ids[j.ID] = true
	}
	for k, j := range was.Jobs {
		if j.Last < m.period {
			continue
		}
		if !ids[j.ID] {
			im.out.gone = append(im.out.gone, store.Run{Site: m.at.site, ID: j.ID})
		}
		n := now.Jobs[k]
		if j.First < m.period || j.Start >= j.First || (n != nil && n.ID == j.ID && n.Start == j.Start) {
			continue
		}
		im.out.addUndo(m.at, j.ID, j.Start)
		im.noteSpan(j.Start, m.period)
	}
	im.noteSpan(m.period, max(was.Last, now.Last))
}
