package query

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
)

// DiskLimit is a limit of a control group on a disk that a workload reached.
type DiskLimit struct {
	Node, Device string
	Direction    string  // read or write
	Limit        float64 // bytes per second
	Observed     float64 // seconds looked at: the run, or its last day
	Seconds      float64 // part of Observed in which the limit was reached
	// means over these seconds: bytes per second that the workload moved, and cores that it used, both in the limited control group
	Rate, Cores float64
}

const (
	diskLimitMetric = "reckon_workload_disk_limit_bytes_per_second"
	atDiskLimit     = 0.9 // share of a limit from which it is reached
	aboveDiskLimit  = 1.1 // share above which it does not hold: the data went to another disk, or is in memory still
)

// limitedGroup is a control group with limits on disks, in steps.
type limitedGroup struct {
	limits map[[2]string]*line // by device and direction
	moved  map[string]*line    // by direction
	cores  *line
	waits  map[string]float64 // seconds, by device
}

// DiskLimit returns the disk limit at which the workload ran for the longest time, or nil. The traffic of a workload is
// known only for all disks together. Therefore a limit counts only if its disk is the one that the workload waited for
// most, provided that disk is known.
func (v *Views) DiskLimit(ctx context.Context, s Selection) (*DiskLimit, error) {
	g := v.cutToLastDay(&s)
	if g == nil {
		return nil, nil
	}
	groups := map[partKey]*limitedGroup{}
	var n series.Labels
	err := v.eachSeries(ctx, s, s.From, s.To, []string{diskLimitMetric}, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device", "direction")
		at := partKey{n.Node, n.Part}
		if groups[at] == nil {
			at = partKey{strings.Clone(n.Node), strings.Clone(n.Part)}
			groups[at] = &limitedGroup{map[[2]string]*line{}, map[string]*line{"read": g.newLine(), "write": g.newLine()}, g.newLine(),
				map[string]float64{}}
		}
		one := g.newLine()
		g.addMean(one, it, nil)
		groups[at].limits[[2]string{strings.Clone(n.Rest["device"]), strings.Clone(n.Rest["direction"])}] = one
		return nil
	})
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	if err := v.readLimitedUse(ctx, s, g, groups); err != nil {
		return nil, err
	}
	var worst *DiskLimit
	for _, at := range slices.SortedFunc(maps.Keys(groups), func(a, b partKey) int {
		return strings.Compare(a.node+a.part, b.node+b.part)
	}) {
		for _, disk := range slices.SortedFunc(maps.Keys(groups[at].limits),
			func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
			if d := groups[at].sumReached(g, disk); d != nil && (worst == nil || d.Seconds > worst.Seconds) {
				d.Node, d.Observed = at.node, s.To.Sub(s.From).Seconds()
				d.Seconds = min(d.Seconds, d.Observed)
				worst = d
			}
		}
	}
	return worst, nil
}

// readLimitedUse adds the traffic and use of control groups with limits.
func (v *Views) readLimitedUse(ctx context.Context, s Selection, g *grid, groups map[partKey]*limitedGroup) error {
	begin, _, err := v.lifetimes(ctx, s)
	if err != nil {
		return err
	}
	var n series.Labels
	return v.eachSeries(ctx, s, s.From.Add(-v.gone), s.To, []string{figure.IO, figure.CPU, diskWait},
		func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l, "device", "direction")
			m := groups[partKey{n.Node, n.Part}]
			if m == nil {
				return nil
			}
			if n.Metric == diskWait {
				if total, ok := series.Total(it); ok {
					m.waits[strings.Clone(n.Rest["device"])] += total
				}
				return nil
			}
			one := g.newLine()
			g.spreadIncrease(one, it, begin, nil)
			if n.Metric == figure.CPU {
				m.cores.addLine(one)
			} else if to := m.moved[n.Rest["direction"]]; to != nil {
				to.addLine(one)
			}
			return nil
		})
}

// sumReached sums up the steps in which the group reached its limit on a disk.
func (m *limitedGroup) sumReached(g *grid, disk [2]string) *DiskLimit {
	for _, wait := range m.waits {
		if wait > m.waits[disk[0]] {
			return nil
		}
	}
	d := DiskLimit{Device: disk[0], Direction: disk[1]}
	moved := m.moved[disk[1]]
	if moved == nil {
		return nil
	}
	limit, seen := 0.0, -1
	for i := range g.n {
		if x, ok := m.limits[disk].value(i); ok {
			limit, seen = x, i
		}
		rate, ok := moved.value(i)
		cores, used := m.cores.value(i)
		if seen < 0 || int64(i-seen)*g.step > g.gap || !ok || !used || rate < atDiskLimit*limit || rate > aboveDiskLimit*limit {
			continue
		}
		seconds := float64(g.step) / 1000
		d.Seconds += seconds
		d.Limit, d.Rate, d.Cores = d.Limit+limit*seconds, d.Rate+rate*seconds, d.Cores+cores*seconds
	}
	if d.Seconds == 0 {
		return nil
	}
	d.Limit, d.Rate, d.Cores = d.Limit/d.Seconds, d.Rate/d.Seconds, d.Cores/d.Seconds
	return &d
}
