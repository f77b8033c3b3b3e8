package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
)

// Congestion is one direction of a network device of a node that was full at times while a workload used it.
type Congestion struct {
	Node, Device string
	Direction    string  // receive or transmit
	Speed        float64 // of the device, bytes per second
	Observed     float64 // seconds looked at: the run, or its last day
	Seconds      float64 // part of Observed in which the device was full and the workload had a share of the traffic
	// Means over these seconds: bytes per second through the device, payload bytes of the workload
	// (a lower bound), and cores that the workload used on the node.
	Rate, Own, Cores float64
}

const (
	fullLink     = 0.9  // share of its speed at which a device is full; 1500-byte packets reach 0.98, by the kernel's count of bytes
	nominalSpeed = 1.05 // a device that moves more than this share of its speed is virtual, and its speed a mere name
	partOfLink   = 0.1  // minimum share of the traffic of a full device for a workload to be limited by it

	congestionStep  = 30 * time.Second
	congestionSteps = 2000 // at most, in longer steps
	congestionNodes = 16   // those on which the workload moved most
)

// Congestion returns the device that was saturated for the longest time while the workload used a share of it, or nil.
// It considers hardware devices with a known speed, over the last day of the run. The workload's share of a device is
// the traffic that the node's other devices cannot have carried.
func (v *Views) Congestion(ctx context.Context, s Selection) (*Congestion, error) {
	g := v.cutToLastDay(&s)
	if g == nil {
		return nil, nil
	}
	nodes, err := v.busiestNodes(ctx, s, g)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	if err := v.readDevices(ctx, s, g, nodes); err != nil {
		return nil, err
	}
	var worst *Congestion
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		m := nodes[name]
		for _, device := range slices.Sorted(maps.Keys(m.speed)) {
			for _, direction := range []string{"receive", "transmit"} {
				c := m.findCongestion(g, device, direction)
				if c != nil && (worst == nil || c.Seconds > worst.Seconds) {
					c.Node, c.Observed = name, s.To.Sub(s.From).Seconds()
					worst = c
				}
			}
		}
	}
	return worst, nil
}

// cutToLastDay limits a selection to its last day and returns the grid of that day. It returns nil for a run without
// duration.
func (v *Views) cutToLastDay(s *Selection) *grid {
	if s.To.Sub(s.From) > neighbourSpan {
		s.From = s.To.Add(-neighbourSpan)
	}
	g, err := newGrid(s.From, s.To, max(congestionStep, s.To.Sub(s.From)/congestionSteps), v.gone)
	if err != nil {
		return nil
	}
	return g
}

// trafficNode holds the traffic and the cores in use of a workload on a node, by step.
type trafficNode struct {
	own   map[string]*line // by direction, of the workload
	cores *line
	links map[[2]string]*line // by device and direction
	speed map[string]float64  // by device, bytes per second
	bytes float64             // that the workload moved
}

// busiestNodes returns the nodes with the most traffic of the workload.
func (v *Views) busiestNodes(ctx context.Context, s Selection, g *grid) (map[string]*trafficNode, error) {
	begin, _, err := v.lifetimes(ctx, s)
	if err != nil {
		return nil, err
	}
	nodes := map[string]*trafficNode{}
	var n series.Labels
	err = v.eachSeries(ctx, s, s.From.Add(-v.gone), s.To, []string{figure.Network, figure.CPU},
		func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l, "direction", "scope")
			if n.Metric == figure.Network && n.Rest["scope"] == "host" {
				return nil // it leaves by no device
			}
			m := nodes[n.Node]
			if m == nil {
				m = &trafficNode{own: map[string]*line{"receive": g.newLine(), "transmit": g.newLine()}, cores: g.newLine(),
					links: map[[2]string]*line{},
					speed: map[string]float64{}}
				nodes[strings.Clone(n.Node)] = m
			}
			one := g.newLine()
			g.spreadIncrease(one, it, begin, nil)
			if n.Metric == figure.CPU {
				m.cores.addLine(one)
				return nil
			}
			m.own[n.Rest["direction"]].addLine(one)
			for i, w := range one.weight {
				if w > 0 {
					m.bytes += one.sum[i] / 1000
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(nodes))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(nodes[b].bytes, nodes[a].bytes), cmp.Compare(a, b)) })
	for i, name := range names {
		if i >= congestionNodes || nodes[name].bytes == 0 || name == "" {
			delete(nodes, name)
		}
	}
	return nodes, nil
}

// readDevices reads the devices of nodes that have hardware, and their speed if known.
func (v *Views) readDevices(ctx context.Context, s Selection, g *grid, nodes map[string]*trafficNode) error {
	const speed, received, sent = "node_network_speed_bytes", "node_network_receive_bytes_total", "node_network_transmit_bytes_total"
	ms := []*labels.Matcher{series.OneOf("__name__", []string{speed, received, sent}),
		series.OneOf("node", slices.Collect(maps.Keys(nodes))),
		labels.MustNewMatcher(labels.MatchNotRegexp, "device", "lo|("+strings.Join(virtualDevices, "|")+").*|.*[.].*")}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	var n series.Labels
	return series.ForEach(ctx, v.q, s.From.Add(-v.gone), s.To, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device")
		m, device := nodes[n.Node], strings.Clone(n.Rest["device"])
		if n.Metric == speed {
			if _, x, _, ok := series.Last(it); ok && x > 0 {
				m.speed[device] = x
			}
			return nil
		}
		one := g.newLine()
		g.spreadIncrease(one, it, 0, nil)
		m.links[[2]string{device, map[string]string{received: "receive", sent: "transmit"}[n.Metric]}] = one
		return nil
	}, ms...)
}

// findCongestion summarizes the steps in which a direction of a device was full.
func (m *trafficNode) findCongestion(g *grid, device, direction string) *Congestion {
	c := Congestion{Device: device, Direction: direction, Speed: m.speed[device]}
	link := m.links[[2]string{device, direction}]
	if link == nil {
		return nil
	}
	for i := range g.n {
		rate, ok := link.value(i)
		cores, used := m.cores.value(i)
		own, _ := m.own[direction].value(i)
		switch {
		case ok && rate > nominalSpeed*c.Speed:
			return nil
		case !ok || !used || rate < fullLink*c.Speed:
			continue
		}
		for k, other := range m.links {
			if x, _ := other.value(i); k[0] != device && k[1] == direction {
				own -= x
			}
		}
		if own < partOfLink*rate {
			continue
		}
		seconds := min(link.weight[i], float64(g.step)) / 1000
		c.Seconds += seconds
		c.Rate, c.Own, c.Cores = c.Rate+rate*seconds, c.Own+own*seconds, c.Cores+cores*seconds
	}
	if c.Seconds == 0 {
		return nil
	}
	c.Rate, c.Own, c.Cores = c.Rate/c.Seconds, c.Own/c.Seconds, c.Cores/c.Seconds
	return &c
}

// value returns the figure at a step; false if it is unknown.
func (l *line) value(i int) (float64, bool) {
	if l.weight[i] <= 0 {
		return 0, false
	}
	return l.sum[i] / l.weight[i], true
}
