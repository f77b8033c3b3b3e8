package account

import (
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

// What is written and then deleted or cut off soon never reaches storage. The kernel charges it to who deletes, which may be another
// than who wrote: a counter of its own, by which bytes written are never reduced. Few processes do that.

var cancelledBytes = metric.NewDesc("reckon_workload_io_cancelled_bytes_total", metric.Counter, metric.Bytes, with(),
	"Bytes that the workload deleted or cut off before they reached storage: written by itself, mostly, or by others. They are in "+
		"reckon_workload_io_bytes_total of who wrote them.")

// deletes are the bytes that did not reach storage, by who deleted them.
type deletes struct {
	last map[deleter]uint64 // of processes, as last read
	of   map[*Part]uint64
}

// deleter is a process.
type deleter struct {
	pid   int32
	start uint64
}

// take charges what a process deleted. known says that some of it was charged before, and how much is not known.
func (d *deletes) take(e *process, p *sensor.Process, known bool) {
	if p.CancelledBytes == 0 || p.Have&sensor.FieldIO == 0 {
		return
	}
	who := deleter{e.pid, e.start}
	if grew := grown(d.last[who], p.CancelledBytes); grew > 0 {
		if d.last[who] = p.CancelledBytes; !known {
			d.of[e.part] += grew
		}
	}
}

func (d *deletes) absorb(p, o *Part) {
	if n := d.of[o]; n > 0 {
		d.of[p] += n
		delete(d.of, o)
	}
}

// export appends what a part deleted.
func (d *deletes) export(p *Part, b *metric.Batch) {
	if n := d.of[p]; n > 0 {
		b.Add(p.lazy(&p.rows.cancelled, cancelledBytes), float64(n))
	}
}

// strangers returns by owner what parts deleted beyond what they wrote, which others wrote.
func (d *deletes) strangers() map[string]uint64 {
	var by map[string]uint64
	for p, n := range d.of {
		if beyond := grown(p.total.write, n); beyond > 0 {
			if by == nil {
				by = map[string]uint64{}
			}
			by[p.owner] += beyond
		}
	}
	return by
}

// reached returns the exactness of bytes written, as those that reached storage: at most, where more than a hundredth was deleted, or
// may have been, by one who may do that.
func (j *judge) reached(p *Part, c certainty) certainty {
	bearable := p.total.write / bearableUse
	if max(j.parts.deletes.of[p], j.strange[p.owner], j.strange[j.parts.other.owner]) > bearable && p.total.write > 0 {
		return c.worse(certainty{figure.AtMost, fromDeletes})
	}
	return c
}
