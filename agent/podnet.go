package agent

import (
	"slices"

	"reckon/metric"
	"reckon/metric/compat"
	"reckon/sensor/netns"
	"reckon/workload"
)

var podNetworkLabels = []string{"workload", "kind", "part", "owner", "device", "direction"}

var (
	podNetwork = metric.NewDesc("reckon_pod_network_bytes_total", metric.Counter, metric.Bytes, podNetworkLabels,
		"Bytes through the network devices of a pod since its sandbox was made, by device and direction (receive, transmit). Headers "+
			"are included, loopback is not. Pods in the host's network have no series. reckon_workload_network_bytes_total counts "+
			"payload at sockets.")
	podPackets = metric.NewDesc("reckon_pod_network_packets_total", metric.Counter, metric.None, podNetworkLabels,
		"Packets that passed the network devices of a pod; shown on /metrics with the view cadvisor.")
	podErrors = metric.NewDesc("reckon_pod_network_errors_total", metric.Counter, metric.None, podNetworkLabels,
		"Packets in which the network devices of a pod found an error; shown on /metrics with the view cadvisor.")
	podDropped = metric.NewDesc("reckon_pod_network_dropped_total", metric.Counter, metric.None, podNetworkLabels,
		"Packets that the network devices of a pod dropped; shown on /metrics with the view cadvisor.")
)

// podNetworks reads the network namespaces of pods.
type podNetworks struct {
	reader *netns.Reader
	bytes  metric.Cache
	more   metric.Cache
	pods   []podDevices // of the last reading
}

// podDevices are the devices of a pod.
type podDevices struct {
	id          workload.ID
	part, owner string
	list        []netns.Device
}

// exportPodNetwork appends the traffic of each pod's devices, once per pod.
func (a *Agent) exportPodNetwork(b *metric.Batch) {
	n := &a.podNet
	if n.reader == nil {
		return
	}
	n.pods = n.pods[:0]
	a.ledger.Runs(func(id workload.ID, part, owner string, f *workload.ContainerFacts, pid int32) {
		if f.HostNetwork {
			return
		}
		list, err := n.reader.Read(pid)
		if err != nil {
			return // it ended a moment ago, or its numbers are another namespace's
		}
		n.pods = append(n.pods, podDevices{id, part, owner, slices.Clone(list)})
	})
	n.eachCounter(&n.bytes, b, func(c *netns.Counters, add func(*metric.Desc, uint64)) { add(podNetwork, c.Bytes) })
}

// exportPodPackets appends the other counters of these devices for the view that shows them.
func (a *Agent) exportPodPackets(b *metric.Batch) {
	a.podNet.eachCounter(&a.podNet.more, b, func(c *netns.Counters, add func(*metric.Desc, uint64)) {
		add(podPackets, c.Packets)
		add(podErrors, c.Errors)
		add(podDropped, c.Dropped)
	})
}

// eachCounter calls f with the counters of each device and direction, and appends the samples that f adds.
func (n *podNetworks) eachCounter(series *metric.Cache, b *metric.Batch, f func(*netns.Counters, func(*metric.Desc, uint64))) {
	for _, p := range n.pods {
		for i := range p.list {
			d := &p.list[i]
			for _, x := range [...]struct {
				direction string
				counters  *netns.Counters
			}{{"receive", &d.Receive}, {"transmit", &d.Transmit}} {
				f(x.counters, func(desc *metric.Desc, v uint64) {
					b.Add(series.Get(desc, string(p.id), string(p.id.Kind()), p.part, p.owner, d.Name, x.direction), float64(v))
				})
			}
		}
	}
	series.Sweep()
}

// exportViews appends the series that only compatibility views need, and then the views. begin is the index in b of the
// first sample of a view.
func (a *Agent) exportViews(b *metric.Batch) (begin int) {
	upTo := map[string]int{}
	own := len(b.Samples)
	if slices.Contains(a.config.Compat, compat.CAdvisorName) {
		a.exportPodPackets(b)
		a.exportPodGroups(b)
		upTo[compat.CAdvisorName] = len(b.Samples)
	}
	if slices.Contains(a.config.Compat, compat.KubeName) { // kube shows every pod, the others only measured ones
		a.exportEnded(b)
		upTo[compat.KubeName] = len(b.Samples)
	}
	begin = len(b.Samples)
	for _, v := range a.views {
		if n, ok := upTo[v.Name()]; ok {
			v.Append(b, n)
		} else {
			v.Append(b, own)
		}
	}
	return begin
}
