package agent

import (
	"cmp"
	"slices"

	"reckon/web/client"
)

// buildLive returns the current tick for a live view, in new memory.
func (a *Agent) buildLive() client.Live {
	a.rows = a.ledger.Live(a.rows[:0])
	l := client.Live{Time: a.now().UTC(), Node: a.config.Node, Workloads: make([]client.LiveWorkload, 0, len(a.rows))}
	if a.haveNode {
		l.Cores = float64(a.total.Cores)
		l.Memory = new(float64(a.total.MemoryTotal))
		l.MemUsed = new(float64(a.total.MemoryTotal - min(a.total.MemoryAvailable, a.total.MemoryTotal)))
		if busy, ok := a.ledger.Busy(); ok {
			l.CoresUsed = new(busy)
		}
	}
	a.gpu.addToLive(&l)
	for i := range a.rows {
		r := &a.rows[i]
		w := client.LiveWorkload{
			ID: string(r.Workload), Part: r.Part, Name: r.Name, Owner: r.Owner,
			Cores: r.Cores, CPUSeconds: r.CPUSeconds,
			Processes: r.Processes, Threads: r.Threads,
			Command: r.Command, StartedAt: r.Start.Unix(), Exactness: r.Exactness,
		}
		if r.KnowMemory {
			w.MemoryBytes, w.MemoryPeak = new(float64(r.Memory)), new(float64(r.Peak))
		}
		if r.KnowIO {
			w.ReadRate, w.WriteRate = new(r.ReadRate), new(r.WriteRate)
		}
		if r.KnowNetwork {
			w.ReceiveRate, w.TransmitRate = new(r.ReceiveRate), new(r.TransmitRate)
		}
		if r.KnowTraffic {
			w.MemoryTrafficRate = new(r.TrafficRate)
		}
		if r.KnowGPU {
			w.GPU, w.GPUMemory, w.GPUWatts = new(r.GPU), new(r.GPUMemory), new(r.GPUWatts)
		}
		if r.KnowWait {
			w.Wait = new(r.Wait)
		}
		l.Workloads = append(l.Workloads, w)
	}
	slices.SortFunc(l.Workloads, func(x, y client.LiveWorkload) int {
		return cmp.Or(cmp.Compare(y.Cores, x.Cores), cmp.Compare(y.CPUSeconds, x.CPUSeconds), cmp.Compare(x.ID, y.ID))
	})
	return l
}
