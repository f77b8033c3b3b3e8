package account

import (
	"reckon/metric"
	"reckon/sensor"
)

var interconnectBytes = &metric.Desc{
	Name: "reckon_workload_interconnect_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
	Help:   "Octets that went through an RDMA adapter of the node while no other workload and nothing of the kernel held queue pairs on it, by direction (receive, transmit): at least what the workload moved there. Subnet management and what others moved between two looks is included.",
	Labels: with("device", "direction"),
}

var linkDirections = [2]string{"receive", "transmit"}

// links is the ledger's state of RDMA adapters.
type links struct {
	counting
	last map[string]linkUse
}

// linkUse is one look at an adapter.
type linkUse struct {
	octets [2]uint64
	sole   *Part // nil: none, several, or somebody who is not known
}

// link is what a part moved through one adapter.
type link struct {
	linkOctets
	rows [2]*metric.Series
	next *link
}

type linkOctets struct {
	Device string    `json:"device"`
	Octets [2]uint64 `json:"octets"`
}

// Links takes in a look at RDMA adapters. What went through one since the look before is charged to the workload that alone held queue
// pairs there at both; else to nobody.
func (l *Ledger) Links(pass *sensor.LinkPass) {
	if l.other == nil || len(pass.Links) == 0 {
		return
	}
	n := &l.links
	n.begin(l)
	now := make(map[string]linkUse, len(pass.Links))
	for i := range pass.Links {
		d := &pass.Links[i]
		use := linkUse{d.Octets, l.sole(d)}
		was, ok := n.last[d.Device]
		if ok && use.sole != nil && was.sole != nil && was.sole.id == use.sole.id && d.Octets[0] >= was.octets[0] && d.Octets[1] >= was.octets[1] {
			use.sole.moved(&linkOctets{d.Device, [2]uint64{d.Octets[0] - was.octets[0], d.Octets[1] - was.octets[1]}})
		}
		now[d.Device] = use
	}
	n.last = now
}

// sole returns the part of the first user of an adapter if all users belong to its workload, else nil.
func (l *Ledger) sole(d *sensor.Link) (p *Part) {
	if d.Others {
		return nil
	}
	for _, pid := range d.Users {
		e := l.table[pid]
		switch {
		case e == nil || e.part == nil || e.part == l.other:
			return nil
		case p == nil:
			p = e.part
		case p.id != e.part.id:
			return nil
		}
	}
	return p
}

// moved adds what went through an adapter.
func (p *Part) moved(use *linkOctets) {
	for k := p.links; k != nil; k = k.next {
		if k.Device == use.Device {
			k.Octets[0] += use.Octets[0]
			k.Octets[1] += use.Octets[1]
			return
		}
	}
	p.links = &link{linkOctets: *use, next: p.links}
}

// absorbLinks takes over what a folded part moved.
func (p *Part) absorbLinks(o *Part) {
	for k := o.links; k != nil; k = k.next {
		p.moved(&k.linkOctets)
	}
}

// linkState is what a part moved, at rest.
func (p *Part) linkState() (all []linkOctets) {
	for k := p.links; k != nil; k = k.next {
		all = append(all, k.linkOctets)
	}
	return all
}

// exportLinks appends what a part moved through each adapter.
func (l *Ledger) exportLinks(p *Part, b *metric.Batch) {
	for k := p.links; k != nil; k = k.next {
		for i, direction := range linkDirections {
			if k.rows[i] == nil {
				k.rows[i] = p.series(interconnectBytes, k.Device, direction)
				if k.rows[i].Created == 0 {
					k.rows[i].Created = l.links.began
				}
			}
			b.Add(k.rows[i], float64(k.Octets[i]))
		}
	}
}
