package server

import (
	"context"
	"time"

	"reckon/analysis/efficiency"
	"reckon/client"
)

// verdicts judges a workload. Where nobody asked for cores it holds those of its nodes.
func (b *backend) verdicts(ctx context.Context, d *client.WorkloadDetail) ([]client.Verdict, error) {
	u := efficiency.Usage{
		Running: d.Running, State: d.State, ExitCode: d.ExitCode, WallSeconds: d.WallSeconds,
		CPUSeconds: d.CPUSeconds, CPUWaitSeconds: d.CPUWaitSeconds, CoresP95: d.CoresP95, ThrottledSeconds: d.ThrottledSeconds,
		MemoryPeak: d.MemoryPeakBytes, SwapPeak: d.SwapBytes, MajorFaults: d.MajorFaults, OOMKills: d.OOMKills, GPUSeconds: d.GPUSeconds,
		RequestCores: d.RequestCores, RequestMemory: d.RequestMemory, RequestGPUs: d.RequestGPUs, RequestSeconds: d.RequestSeconds,
		Nodes: byNode(d.Parts),
	}
	if u.RequestCores == nil {
		nodes, err := b.views.Nodes(ctx, time.Now())
		if err != nil {
			return nil, err
		}
		u.RequestCores, u.CoresImplied = coresOf(nodes, d.Site, d.Nodes), true
	}
	var out []client.Verdict
	for _, v := range efficiency.Judge(u) {
		out = append(out, client.Verdict{Kind: v.Kind, Severity: string(v.Severity), Text: v.Text, Value: v.Value, Unit: v.Unit})
	}
	return out, nil
}

// byNode adds the parts on each node up; a node with a part that was not measured is
// not known.
func byNode(parts []client.Part) []efficiency.Node {
	var out []efficiency.Node
	at := map[string]int{}
	for _, p := range parts {
		i, ok := at[p.Node]
		if !ok {
			at[p.Node] = len(out)
			out = append(out, efficiency.Node{Name: p.Node, CPUSeconds: p.CPUSeconds})
			continue
		}
		if out[i].CPUSeconds == nil || p.CPUSeconds == nil {
			out[i].CPUSeconds = nil
			continue
		}
		sum := *out[i].CPUSeconds + *p.CPUSeconds
		out[i].CPUSeconds = &sum
	}
	return out
}

// coresOf adds the cores of the named nodes up; nil when one of them is not known.
func coresOf(nodes []client.Node, site string, names []string) *float64 {
	sum, found := 0.0, 0
	for _, name := range names {
		for i := range nodes {
			if n := &nodes[i]; n.Node == name && n.Site == site && n.Cores != nil {
				sum += *n.Cores
				found++
				break
			}
		}
	}
	if found == 0 || found < len(names) {
		return nil
	}
	return &sum
}
