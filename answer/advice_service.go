package answer

import (
	"context"
	"time"

	"reckon/analysis/rightsize"
	"reckon/figure/wire"
	"reckon/internal/phrase"
	"reckon/query"
)

// recommendService returns the recommended requests of a service's containers, based on their daily use. It returns nil if
// there are too few days. If the node of a service stops reporting, its last advice is kept.
func (b *Jobs) recommendService(ctx context.Context, d *wire.WorkloadDetail) (*wire.Advice, error) {
	if d.Seen.Sub(d.Start) < rightsize.LeastDays*24*time.Hour {
		return nil, nil
	}
	at := query.Selection{Site: d.Site, ID: d.ID, From: d.Start, To: d.Seen}
	exact, err := b.Views.Exactness(ctx, at, d.Kind, d.Nodes)
	if err != nil {
		return nil, err
	}
	found, err := b.Views.Daily(ctx, at, d.Kind, min(rightsize.CoreDays, int(d.Seen.Sub(d.Start)/(24*time.Hour)))) // full ones
	if err != nil {
		return nil, err
	}
	var list []rightsize.Container
	out := &wire.Advice{Runs: 1, Nodes: max(1, len(d.Nodes)), Why: []string{}, Sentences: []wire.Sentence{}}
	for i := range found {
		f := &found[i]
		c, step := rightsize.ServiceDefault(), 1.0
		if f.Container != "" {
			c.Of, step = "minutes", 60
		}
		a := rightsize.Service(toDays(f, exact, step), rightsize.Request{Cores: f.RequestCores, Memory: f.RequestMemory}, c)
		if a == nil {
			continue
		}
		list = append(list, rightsize.Container{Name: f.Container, ServiceAdvice: a})
		out.Containers = append(out.Containers, toWireContainer(f.Container, a))
		if a.Cores == nil {
			a.Why = append(a.Why, sentences.Sentence("advice.cores.few", nil))
		}
		for _, why := range a.Why {
			if f.Container != "" {
				why = sentences.Sentence("advice.container", phrase.Words{"container": f.Container, "why": why})
			}
			addSentence(out, why, d)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if !d.Running {
		addSentence(out, sentences.Sentence("advice.unseen", phrase.Words{"at": d.Seen.UTC().Format("2006-01-02 15:04")}), d)
	}
	if len(list) == 1 {
		out.Cores, out.MemoryBytes = list[0].Cores, list[0].Memory
	}
	out.Paste = rightsize.Paste(d.Kind, list)
	out.Patch, out.VPA = rightsize.Patch(d.Kind, list), rightsize.VPA(d.Kind, d.ID, list)
	return out, nil
}

// toDays converts the daily use of a container for the analysis. It omits figures that are bounds or estimates. An observation
// of cores lasts step seconds.
func toDays(f *query.Daily, exact map[string]int, step float64) []rightsize.Day {
	days := make([]rightsize.Day, len(f.Days))
	for i := range f.Days {
		u := &f.Days[i]
		one := &days[i]
		one.OutOfMemory = u.OOMKills > 0
		if exact["cpu_seconds"] == 0 {
			one.Cores = u.Cores
		}
		if exact["memory_needed_peak_bytes"] == 0 {
			one.MemoryPeak = u.MemoryPeak
		}
		if u.GPUSeconds != nil && exact["gpu_seconds"] == 0 && u.Cores != nil && u.Cores.Count > 0 {
			one.GPUs = new(*u.GPUSeconds / (step * float64(u.Cores.Count)))
		}
	}
	return days
}

func toWireContainer(name string, a *rightsize.ServiceAdvice) wire.ContainerAdvice {
	test := func(t *rightsize.Test) *wire.RequestTest {
		if t == nil {
			return nil
		}
		return &wire.RequestTest{Days: t.Days, Slack: t.Slack, Above: t.Above}
	}
	return wire.ContainerAdvice{
		Container: name, Days: a.Days, Cores: a.Cores, MemoryBytes: a.Memory, GPUs: a.GPUShare, CoresP95: a.P95, CoresP99: a.P99,
		MemoryPeak:  a.MemoryPeak,
		TestedCores: test(a.TestedCores), TestedMemory: test(a.TestedMemory), NowCores: test(a.NowCores), NowMemory: test(a.NowMemory),
	}
}
