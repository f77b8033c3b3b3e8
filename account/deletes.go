package account

import (
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

// Data that is written and soon deleted or truncated never reaches storage. The kernel charges that to the deleting process, which may
// differ from the writer, so it is a separate counter that does not reduce bytes written. Few processes have it.

var cancelledBytes = metric.NewDesc("reckon_workload_io_cancelled_bytes_total", metric.Counter, metric.Bytes, chargedLabels(),
	"Written bytes that the workload deleted or truncated before they reached storage. reckon_workload_io_bytes_total of the writer, "+
		"usually the same workload, includes them.")

// deletedBytes counts written bytes that did not reach storage, by the part that deleted them.
type deletedBytes struct {
	last   map[deleterKey]uint64 // of processes, as last read
	of     map[*Part]uint64
	recent map[*Part]*recentWrites
}

// recentWrites counts the recent writes and deletions of a part. Written data stays in memory for at most half a minute.
type recentWrites struct {
	written, deleted uint64 // at the last export
	recent           uint64 // written before that may not have reached storage yet
	doubted          uint64 // bytes of its writes that another part may have deleted
}

// deleterKey identifies a process.
type deleterKey struct {
	pid   int32
	start uint64
}

// chargeDeleted charges the bytes that a process deleted. known is true if a part of them was charged before.
func (d *deletedBytes) chargeDeleted(e *process, p *sensor.Process, known bool) {
	if p.CancelledBytes == 0 || p.Have&sensor.FieldIO == 0 {
		return
	}
	who := deleterKey{e.pid, e.start}
	if grew := counterIncrease(d.last[who], p.CancelledBytes); grew > 0 {
		if d.last[who] = p.CancelledBytes; !known {
			d.of[e.part] += grew
		}
	}
}

func (d *deletedBytes) mergePart(p, other *Part) {
	if n := d.of[other]; n > 0 {
		d.of[p] += n
		if delete(d.of, other); d.recent[other] != nil {
			d.recent[other].deleted = 0
		}
	}
}

// export appends the bytes that a part deleted.
func (d *deletedBytes) export(p *Part, b *metric.Batch) {
	if n := d.of[p]; n > 0 {
		b.Add(p.seriesOnce(&p.rows.cancelled, cancelledBytes), float64(n))
	}
}

// closeInterval ends an export interval of the counts of deleted bytes. If parts deleted more bytes than they recently
// wrote, other parts wrote the rest. Those are parts of the same owner, or of any owner if root deleted the bytes.
func (d *deletedBytes) closeInterval(parts []*Part) {
	strange := map[string]uint64{}
	for _, p := range parts {
		w := d.recent[p]
		if w == nil && p.total.write == 0 && d.of[p] == 0 {
			continue
		}
		if w == nil {
			w = new(recentWrites)
			d.recent[p] = w
		}
		w.recent = w.recent/2 + counterIncrease(w.written, p.total.write)
		if beyond := counterIncrease(w.recent, counterIncrease(w.deleted, d.of[p])); beyond > 0 {
			strange[p.owner] += beyond
		}
		w.written, w.deleted = p.total.write, d.of[p]
	}
	if len(strange) == 0 {
		return
	}
	for p, w := range d.recent {
		w.doubted += min(w.recent, max(strange[p.owner], strange[rootOwner]))
	}
}

// reachedCertainty returns how certain the written bytes of p are as a measure of the bytes that reached storage. They are an
// upper bound if more than 1 % was, or may have been, deleted first. They are an estimate if some writes may be missing
// as well.
func (d *deletedBytes) reachedCertainty(p *Part, c certainty) certainty {
	gone := d.of[p]
	if w := d.recent[p]; w != nil {
		gone = max(gone, w.doubted)
	}
	if gone > p.total.write/useTolerance && p.total.write > 0 {
		if c.degree != figure.Exact {
			return c.worse(certaintyOfLack(sensor.LackReachedSome, fromDeletes))
		}
		return c.worse(certaintyOfLack(sensor.LackReached, fromDeletes))
	}
	return c
}

// state returns the saved state of a part.
func (d *deletedBytes) state(p *Part) [2]uint64 {
	s := [2]uint64{d.of[p]}
	if w := d.recent[p]; w != nil {
		s[1] = w.doubted
	}
	return s
}

// restore restores the saved counts of a part with restored counters.
func (d *deletedBytes) restore(p *Part, saved [2]uint64) {
	if p.total.write == 0 && saved == [2]uint64{} {
		return
	}
	if saved[0] > 0 {
		d.of[p] = saved[0]
	}
	d.recent[p] = &recentWrites{written: p.total.write, deleted: saved[0], doubted: saved[1]}
}
