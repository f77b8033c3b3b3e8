package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
)

// silentListed is the time for which a silent node stays in the list, as down.
const silentListed = 24 * time.Hour

// rateWindow is the window for the rates of nodes.
const rateWindow = 2 * time.Minute

// nodeMetrics are the series read for every node, apart from the times of its processors.
var nodeMetrics = []string{
	"node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes", "node_load1",
	"node_pressure_cpu_waiting_seconds_total", "node_pressure_memory_waiting_seconds_total", "node_pressure_io_waiting_seconds_total",
	"node_network_receive_bytes_total", "node_network_transmit_bytes_total",
	"node_disk_read_bytes_total", "node_disk_written_bytes_total",
	ibReceived, ibSent, slingshotReceived, slingshotSent, figure.NodeBoot, "node_uname_info", "node_os_info",
	"reckon_agent_cpu_seconds_total", "reckon_agent_memory_bytes", "reckon_sensor_up", figure.CPU, figure.StartTime, figure.NodeEnergy,
	gpuInfo, gpuBusy, gpuUsedMetric, gpuSizeMetric, gpuPower, memoryMoved, cacheMoved, groupsHeld, mountsLeft,
}

// Measurements of agents without rows.
const (
	groupsHeld = "reckon_short_live_groups"
	mountsLeft = "reckon_node_filesystems_left_out"
)

// idleModes matches the processor modes that are not use. Guest time is not use either, because user time includes it.
const idleModes = "idle|iowait|guest|guest_nice"

// nodeSeries are the matchers of the series that are read for every node. Most series of a node are CPU times, so only
// the needed modes are read. A workload has CPU time in two modes, and one of them is enough to show that it exists.
var nodeSeries = [][]*labels.Matcher{
	{series.Equal("__name__", figure.NodeCPU), labels.MustNewMatcher(labels.MatchNotRegexp, "mode", idleModes)},
	{series.OneOf("__name__", nodeMetrics), labels.MustNewMatcher(labels.MatchNotEqual, "mode", "system")},
}

// Octets at ports that bypass the sockets and mostly also the network devices of the kernel.
const (
	ibReceived        = "node_infiniband_port_data_received_bytes_total"
	ibSent            = "node_infiniband_port_data_transmitted_bytes_total"
	slingshotReceived = "reckon_slingshot_receive_bytes_total"
	slingshotSent     = "reckon_slingshot_transmit_bytes_total"
)

// nodeKey identifies a node.
type nodeKey struct{ site, node string }

// machine collects a node while its series are being read.
type machine struct {
	wire.Node
	cpus      map[string]bool
	available *float64
	uname, os int64 // time of the sample that named the kernel, and the distribution
	workloads map[string]bool
	gpus      map[string]bool
	traffic   map[string]*trafficHalves // of its memory, by metric
	sensors   map[string]sensorState
}

type sensorState struct {
	wire.Sensor
	t int64
}

// readNodes implements [Views.Nodes] without the cache.
func (v *Views) readNodes(ctx context.Context, now time.Time) ([]wire.Node, error) {
	found := map[nodeKey]*machine{}
	var n series.Labels
	get := func() *machine {
		k := nodeKey{n.Site, n.Node}
		m := found[k]
		if m == nil {
			m = &machine{Node: wire.Node{Node: n.Node, Site: n.Site, Sensors: []wire.Sensor{}},
				cpus: map[string]bool{}, workloads: map[string]bool{}, gpus: map[string]bool{}, sensors: map[string]sensorState{}}
			found[k] = m
		}
		return m
	}
	take := func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "cpu", "mode", "device", "sensor", "reason", "release", "pretty_name", "share", "method", "parent", "direction", "memory")
		if n.Node == "" {
			return nil
		}
		r := recentRate(it, now.Add(-rateWindow).UnixMilli())
		if r.t != 0 {
			m := get()
			if at := time.UnixMilli(r.t).UTC(); at.After(m.Seen) {
				m.Seen, m.Up, m.Agent = at, true, true
			}
			m.addSeries(&n, r)
		}
		return nil
	}
	for _, ms := range nodeSeries {
		if err := series.EachUnordered(ctx, v.q, now.Add(-v.gone), now, take, ms...); err != nil {
			return nil, err
		}
	}
	if err := v.addSilent(ctx, now, found); err != nil {
		return nil, err
	}
	batch, err := v.batchNodes(ctx, now)
	if err != nil {
		return nil, err
	}
	out := make([]wire.Node, 0, len(found))
	called := matchBatchNodes(found, batch)
	for k, m := range found {
		if b := batch[called[k]]; b != nil {
			m.Batch = &b.NodeBatch
			b.found = true
		}
		if m.Batch != nil && m.Batch.GPUs != nil {
			m.GPUs = m.Batch.GPUs
		} else if len(m.gpus) > 0 {
			m.GPUs = new(float64(len(m.gpus)))
		}
		out = append(out, m.toNode())
	}
	for k, b := range batch {
		if !b.found {
			out = append(out, b.toNode(k))
		}
	}
	slices.SortFunc(out, func(a, b wire.Node) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node))
	})
	return out, nil
}

// addSilent adds the nodes that sent samples within the last day but not recently.
func (v *Views) addSilent(ctx context.Context, now time.Time, found map[nodeKey]*machine) error {
	from := now.Add(-silentListed)
	var n series.Labels
	return series.EachUnordered(ctx, v.q, from, now.Add(-v.gone), func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "sensor")
		k := nodeKey{n.Site, n.Node}
		if n.Node == "" || (found[k] != nil && found[k].Up) {
			return nil
		}
		t, x, _, ok := series.Last(it)
		if !ok {
			return nil
		}
		m := found[k]
		if m == nil {
			m = &machine{Node: wire.Node{Node: n.Node, Site: n.Site, Sensors: []wire.Sensor{}}}
			found[k] = m
		}
		if at := time.UnixMilli(t).UTC(); at.After(m.Seen) {
			m.Seen, m.Agent = at, true
		}
		if n.Metric == figure.NodeBoot && (m.Boot == nil || x > float64(m.Boot.UnixMilli())/1000) {
			m.Boot = unixSeconds(x)
		}
		return nil
	}, series.OneOf("__name__", []string{figure.NodeBoot, "reckon_agent_memory_bytes"}))
}

// lastReading is the end of a series.
type lastReading struct {
	t     int64
	v     float64
	rate  *float64 // increase per second over the last samples, if there were two
	ended bool
}

// recentRate returns the last sample of a series and its rate since the first sample after since. If the last sample is the
// only one after since, the rate is that since the previous sample.
func recentRate(it chunkenc.Iterator, since int64) lastReading {
	var r lastReading
	var t0, prevT int64
	var total, prev float64
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if value.IsStaleNaN(v) {
			r.ended = true
			continue
		}
		if math.IsNaN(v) {
			continue
		}
		if r.t != 0 {
			prevT, prev = r.t, r.v
			if t0 == 0 || prevT < since {
				t0, total = prevT, 0
			}
			if v >= prev {
				total += v - prev
			} else {
				total += v
			}
		}
		r.t, r.v, r.ended = t, v, false
	}
	if t0 != 0 && r.t > t0 {
		r.rate = new(total / (float64(r.t-t0) / 1000))
	}
	return r
}

// addSeries adds one series to the node.
func (m *machine) addSeries(n *series.Labels, r lastReading) {
	if n.Metric == figure.CPU || n.Metric == figure.StartTime {
		if !r.ended {
			m.workloads[n.Workload] = true
		}
		return
	}
	if r.ended && n.Metric != "reckon_sensor_up" {
		return
	}
	switch n.Metric {
	case figure.NodeCPU:
		m.cpus[n.Rest["cpu"]] = true
		figure.Plus(&m.CoresUsed, r.rate)
	case "node_network_receive_bytes_total", "node_network_transmit_bytes_total":
		if !isVirtual(n.Rest["device"]) {
			figure.Plus(&m.NetworkBytes, r.rate)
		}
	case "node_disk_read_bytes_total", "node_disk_written_bytes_total":
		if !isStacked(n.Rest["device"]) {
			figure.Plus(&m.DiskBytes, r.rate)
		}
	case ibReceived, ibSent, slingshotReceived, slingshotSent:
		figure.Plus(&m.InterconnectBytes, r.rate)
	case figure.NodeEnergy:
		m.addPower(n, r.rate, figure.Plus)
	case "reckon_agent_cpu_seconds_total":
		figure.Plus(&m.AgentCPU, r.rate)
	case "reckon_agent_memory_bytes":
		m.AgentMemory = new(r.v)
	case gpuInfo:
		if n.Rest["parent"] == "" { // a partition is not another GPU
			m.gpus[n.Rest["device"]] = true
		}
	case "reckon_sensor_up":
		name := n.Rest["sensor"]
		if s := m.sensors[name]; r.t > s.t || (r.t == s.t && !r.ended) {
			m.sensors[name] = sensorState{wire.Sensor{Sensor: name, Up: r.v > 0, Reason: n.Rest["reason"]}, r.t}
		}
	case gpuBusy, gpuUsedMetric, gpuSizeMetric, gpuPower:
		if !strings.HasPrefix(n.Rest["device"], "MIG-") { // the device has it too
			figure.Plus(map[string]**float64{gpuBusy: &m.GPUsUsed, gpuUsedMetric: &m.GPUMemoryUsed, gpuSizeMetric: &m.GPUMemory,
				gpuPower: &m.GPUWatts}[n.Metric], map[bool]*float64{true: r.rate, false: &r.v}[n.Metric == gpuBusy])
		}
	default:
		m.addProperty(n, r)
	}
}

// addProperty adds a series of the machine's properties or load.
func (m *machine) addProperty(n *series.Labels, r lastReading) {
	switch n.Metric {
	case figure.NodeBoot:
		if boot := unixSeconds(r.v); m.Boot == nil || boot.After(*m.Boot) {
			m.Boot = boot
		}
	case "node_memory_MemTotal_bytes":
		m.MemoryBytes = new(r.v)
	case "node_memory_MemAvailable_bytes":
		m.available = new(r.v)
	case "node_load1":
		m.Load1 = new(r.v)
	case "node_pressure_cpu_waiting_seconds_total":
		m.CPUPressure = waitShare(r.rate)
	case "node_pressure_memory_waiting_seconds_total":
		m.MemoryPressure = waitShare(r.rate)
	case "node_pressure_io_waiting_seconds_total":
		m.IOPressure = waitShare(r.rate)
	case memoryMoved, cacheMoved:
		m.addMemory(n, r.rate)
	case groupsHeld, mountsLeft:
		if r.v > 0 {
			kind := map[string]string{groupsHeld: "process groups", mountsLeft: "file systems"}[n.Metric]
			m.Bounds = append(m.Bounds, wire.NodeBound{Owner: n.Owner, Kind: kind, Count: r.v})
		}
	case "node_uname_info":
		if r.t > m.uname {
			m.uname, m.KernelRelease = r.t, n.Rest["release"]
		}
	case "node_os_info":
		if r.t > m.os {
			m.os, m.Distribution = r.t, n.Rest["pretty_name"]
		}
	}
}

// waitShare turns a rate in seconds per second into a share of time, 0 to 1.
func waitShare(rate *float64) *float64 {
	if rate == nil {
		return nil
	}
	return new(min(max(*rate, 0), 1))
}

// trafficHalves sums up the two directions of the memory traffic of sockets: reads and writes, or local and remote. The
// sum is unknown without either.
type trafficHalves struct {
	sum   float64
	count [2]int
}

// addMemory adds the traffic of a socket in one direction.
func (m *machine) addMemory(n *series.Labels, rate *float64) {
	if rate == nil {
		return
	}
	if m.traffic == nil {
		m.traffic = map[string]*trafficHalves{}
	}
	h := m.traffic[n.Metric]
	if h == nil {
		h = &trafficHalves{}
		m.traffic[strings.Clone(n.Metric)] = h
	}
	h.sum += *rate
	if n.Rest["direction"] == "write" || n.Rest["memory"] == "remote" {
		h.count[1]++
	} else {
		h.count[0]++
	}
}

// addPower adds the power of one energy series.
func (m *machine) addPower(n *series.Labels, watts *float64, add func(**float64, *float64)) {
	if watts == nil {
		return
	}
	add(&m.Watts, watts)
	if n.Rest["share"] == "idle" {
		add(&m.WattsIdle, watts)
	}
	if *watts == 0 {
		return
	}
	method := "measured"
	if n.Rest["method"] == "modelled" {
		method = "modelled"
	}
	if m.PowerMethod != "" && m.PowerMethod != method {
		method = "both"
	}
	m.PowerMethod = method
}

func (m *machine) toNode() wire.Node {
	if len(m.cpus) > 0 {
		m.Cores = new(float64(len(m.cpus)))
	}
	if m.MemoryBytes != nil && m.available != nil {
		m.MemoryUsed = new(*m.MemoryBytes - *m.available)
	}
	for _, metric := range []string{memoryMoved, cacheMoved} {
		if h := m.traffic[metric]; h != nil && m.MemoryTraffic == nil && h.count[0] == h.count[1] {
			m.MemoryTraffic = &h.sum
		}
	}
	m.Workloads = len(m.workloads)
	for _, s := range m.sensors {
		m.Sensors = append(m.Sensors, s.Sensor)
	}
	slices.SortFunc(m.Sensors, func(a, b wire.Sensor) int { return cmp.Compare(a.Sensor, b.Sensor) })
	return m.Node
}

// virtualDevices are the name prefixes of devices with traffic that another device counts too.
var virtualDevices = []string{"veth", "docker", "br", "cni", "flannel", "cali", "virbr", "tun", "tap", "kube", "lxc", "vnet", "ifb",
	"dummy", "bond", "team", "vlan", "macvlan", "vxlan", "wg"}

// isVirtual reports whether the traffic of an interface is also counted on another one. Names of VLANs contain a dot (eth0.100).
func isVirtual(device string) bool {
	return device == "lo" || strings.Contains(device, ".") ||
		slices.ContainsFunc(virtualDevices, func(p string) bool { return strings.HasPrefix(device, p) })
}

// isStacked reports whether a block device is layered on others, which already count its traffic.
func isStacked(device string) bool {
	for _, p := range []string{"dm-", "md", "loop", "ram", "zram"} {
		if strings.HasPrefix(device, p) {
			return true
		}
	}
	return false
}

func unixSeconds(v float64) *time.Time {
	t := time.UnixMilli(int64(v * 1000)).UTC()
	return &t
}
