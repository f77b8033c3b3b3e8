package agent

import (
	"cmp"
	"slices"

	"reckon/web/client"
)

// live builds the tick of a live view. Everything in it is new memory.
func (a *Agent) live() client.Live {
	a.rows = a.ledger.Live(a.rows[:0])
	l := client.Live{Time: a.now().UTC(), Node: a.config.Node, Workloads: make([]client.LiveWorkload, 0, len(a.rows))}
	if a.haveNode {
		l.Cores = float64(a.total.Cores)
		l.Memory = ptr(float64(a.total.MemoryTotal))
		l.MemUsed = ptr(float64(a.total.MemoryTotal - min(a.total.MemoryAvailable, a.total.MemoryTotal)))
		if busy, ok := a.ledger.Busy(); ok {
			l.CoresUsed = ptr(busy)
		}
	}
	a.gpu.live(&l)
	for i := range a.rows {
		r := &a.rows[i]
		w := client.LiveWorkload{
			ID: string(r.Workload), Part: r.Part, Name: r.Name, Owner: r.Owner,
			Cores: r.Cores, CPUSeconds: r.CPUSeconds,
			Processes: r.Processes, Threads: r.Threads,
			Command: r.Command, StartedAt: r.Start.Unix(), Exactness: r.Exactness,
		}
		if r.KnowMemory {
			w.MemoryBytes, w.MemoryPeak = ptr(float64(r.Memory)), ptr(float64(r.Peak))
		}
		if r.KnowIO {
			w.ReadRate, w.WriteRate = ptr(r.ReadRate), ptr(r.WriteRate)
		}
		if r.KnowNetwork {
			w.ReceiveRate, w.TransmitRate = ptr(r.ReceiveRate), ptr(r.TransmitRate)
		}
		if r.KnowTraffic {
			w.MemoryTrafficRate = ptr(r.TrafficRate)
		}
		if r.KnowGPU {
			w.GPU, w.GPUMemory, w.GPUWatts = ptr(r.GPU), ptr(r.GPUMemory), ptr(r.GPUWatts)
		}
		if r.KnowWait {
			w.Wait = ptr(r.Wait)
		}
		l.Workloads = append(l.Workloads, w)
	}
	slices.SortFunc(l.Workloads, func(x, y client.LiveWorkload) int {
		return cmp.Or(cmp.Compare(y.Cores, x.Cores), cmp.Compare(y.CPUSeconds, x.CPUSeconds), cmp.Compare(x.ID, y.ID))
	})
	return l
}

func ptr[T any](v T) *T { return &v }
