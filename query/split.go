package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
)

// maxCommands is the number of programs with their own line.
const maxCommands = 20

// CommandProfile returns the cores that each program used over time, summed over nodes and parts, largest first. The
// line "other" sums the smaller programs and those that the agent did not name. Steps are as in [Views.Profile].
func (v *Views) CommandProfile(ctx context.Context, s Selection, step time.Duration) ([]wire.Profile, error) {
	g, err := newGrid(s.From, s.To, step, v.gone)
	if err != nil {
		return nil, err
	}
	begin, ends, err := v.lifetimes(ctx, s)
	if err != nil {
		return nil, err
	}
	lines := map[string]*line{}
	var n series.Labels
	err = v.eachSeries(ctx, s, s.From.Add(-v.gone), s.To, []string{figure.CommandCPU}, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "command")
		one := g.newLine()
		g.spreadIncrease(one, it, begin, ends[partKey{n.Node, n.Part}])
		name := n.Rest["command"]
		if lines[name] == nil {
			lines[name] = g.newLine()
		}
		lines[name].addLine(one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var order []string
	area := map[string]float64{}
	for name, l := range lines {
		order = append(order, name)
		for i, w := range l.weight {
			if w > 0 {
				area[name] += l.sum[i] / w
			}
		}
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(area[b], area[a]), cmp.Compare(a, b)) })
	const rest = "other"
	named := 0
	for _, name := range order {
		if name == rest {
			continue
		}
		if named++; named <= maxCommands {
			continue
		}
		if lines[rest] == nil {
			lines[rest] = g.newLine()
		}
		lines[rest].addLine(lines[name])
		delete(lines, name)
	}
	order = slices.DeleteFunc(order, func(name string) bool { return lines[name] == nil || name == rest })
	if lines[rest] != nil {
		order = append(order, rest)
	}
	var out []wire.Profile
	for _, name := range order {
		for _, p := range g.toProfiles(map[profileKey]*line{{metric: "command_cores", unit: "cores"}: lines[name]}) {
			p.Command = name
			out = append(out, p)
		}
	}
	return out, nil
}

// Combine returns the sum of all lines of a profile if by is "total", and the sum per node if by is "node". For any
// other value it returns the lines unchanged. All lines must have the same steps. A step of a sum is unknown only if it
// is unknown in all its lines.
func Combine(lines []wire.Profile, by string) []wire.Profile {
	if by != "total" && by != "node" {
		return lines
	}
	type key struct{ metric, node string }
	at := map[key]int{}
	var out []wire.Profile
	for _, p := range lines {
		k := key{metric: p.Metric}
		if by == "node" {
			k.node = p.Node
		}
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			p.Node, p.Part, p.Points = k.node, "", slices.Clone(p.Points)
			out = append(out, p)
			continue
		}
		sum := out[i].Points
		for j := range min(len(sum), len(p.Points)) {
			add := p.Points[j].Value
			switch {
			case add == nil:
			case sum[j].Value == nil:
				sum[j].Value = add
			default:
				sum[j].Value = new(*sum[j].Value + *add)
			}
		}
	}
	return out
}
