package agent

import (
	"reckon/metric"
	"reckon/sensor/netns"
	"reckon/workload"
)

var podNetwork = &metric.Desc{
	Name: "reckon_pod_network_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
	Help:   "Bytes that passed the network devices of a pod, headers included and loopback left out, by direction (receive, transmit), since its sandbox was made. Pods in the network of the machine have none. What passes sockets is in reckon_workload_network_bytes_total.",
	Labels: []string{"workload", "kind", "part", "owner", "direction"},
}

// podNet reads the network namespaces of pods.
type podNet struct {
	reader *netns.Reader
	series metric.Cache
}

// exportPodNetwork appends what passed the devices of each pod, once a pod.
func (a *Agent) exportPodNetwork(b *metric.Batch) {
	if a.podNet.reader == nil {
		return
	}
	a.ledger.Runs(func(id workload.ID, part, owner string, f *workload.ContainerFacts, pid int32) {
		if f.HostNetwork {
			return
		}
		c, err := a.podNet.reader.Read(pid)
		if err != nil {
			return // it ended a moment ago, or its numbers are another namespace's
		}
		b.Add(a.podNet.series.Get(podNetwork, string(id), string(id.Kind()), part, owner, "receive"), float64(c.ReceiveBytes))
		b.Add(a.podNet.series.Get(podNetwork, string(id), string(id.Kind()), part, owner, "transmit"), float64(c.TransmitBytes))
	})
	a.podNet.series.Sweep()
}
