package account

import (
	"reckon/metric"
	"reckon/sensor"
)

var interconnectBytes = &metric.Desc{
	Name: "reckon_workload_interconnect_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
	Help: "Bytes through an RDMA adapter of the node while only this workload had queue pairs on it, by direction (receive, " +
		"transmit); a lower bound of the workload's traffic. Subnet management is included.",
	Labels: sensor.Charged("device", "direction"),
}

// maxAdapters is the number of adapters of a workload with their own series.
const maxAdapters = 64

// adapterSpec describes the charges for RDMA adapters, with a set of series for each.
var adapterSpec = func() *sensor.TallySpec {
	figure := &sensor.TallyFigure{Name: "interconnect_bytes", Source: "sole_user", Lacks: []sensor.Lack{sensor.LackShared}}
	var all []sensor.TallySeries
	for d := range sensor.Direction(sensor.Directions) {
		all = append(all, sensor.TallySeries{Desc: interconnectBytes, Values: []string{d.String()}, Always: true, Figure: figure})
	}
	return &sensor.TallySpec{Name: "rdma", Sets: []sensor.TallySet{{}, {Labels: 1, Most: maxAdapters, Series: all}}}
}()

// linkUse is one reading of an adapter.
type linkUse struct {
	octets [2]uint64
	sole   *Part // nil: none, several, or an unknown holder
}

// Links records a reading of the RDMA adapters. Traffic since the previous reading is charged to a
// workload only if it was the sole holder of queue pairs on the adapter at both readings.
func (l *Ledger) Links(pass *sensor.LinkPass) {
	if l.parts.other == nil || len(pass.Links) == 0 {
		return
	}
	l.parts.tallies.Begin(l.at.lastTick(), adapterSpec)
	now := make(map[string]linkUse, len(pass.Links))
	for i := range pass.Links {
		d := &pass.Links[i]
		use := linkUse{d.Octets, l.table.soleUser(d)}
		was, ok := l.links[d.Device]
		alone := ok && use.sole != nil && was.sole != nil && was.sole.id == use.sole.id
		if alone && d.Octets[0] >= was.octets[0] && d.Octets[1] >= was.octets[1] {
			for k := range d.Octets {
				name := sensor.TallyName{Set: 1, Labels: [2]string{d.Device}}
				l.parts.tallies.Charge(&use.sole.tally, adapterSpec, name, k, d.Octets[k]-was.octets[k])
			}
		}
		now[d.Device] = use
	}
	l.links = now
}

// soleUser returns the part of the first user of an adapter if all users belong to its workload, else nil.
func (tab *table) soleUser(d *sensor.Link) (p *Part) {
	if d.Others {
		return nil
	}
	for _, pid := range d.Users {
		e := tab.byID[pid]
		switch {
		case e == nil || e.part == nil || e.part == tab.parts.other:
			return nil
		case p == nil:
			p = e.part
		case p.id != e.part.id:
			return nil
		}
	}
	return p
}
