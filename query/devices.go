package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
)

// deviceMetrics are the series read for the devices of a node.
var deviceMetrics = []string{
	"node_disk_io_time_seconds_total", "node_disk_io_time_weighted_seconds_total", "node_disk_read_bytes_total",
	"node_disk_written_bytes_total",
	"node_disk_read_time_seconds_total", "node_disk_write_time_seconds_total", "node_disk_reads_completed_total",
	"node_disk_writes_completed_total",
	"reckon_mount_bytes_total", "reckon_mount_operations_total", "reckon_mount_operation_seconds_total",
	"reckon_mount_retransmissions_total",
	"reckon_workload_mount_bytes_total", "reckon_workload_mount_operations_total", "reckon_workload_mount_operation_seconds_total",
	diskWait,
	ibReceived, ibSent, slingshotReceived, slingshotSent, "node_infiniband_state_id", "node_infiniband_rate_bytes_per_second",
	"reckon_infiniband_port_info",
	"reckon_infiniband_saturated", "reckon_slingshot_link_up", "reckon_slingshot_rate_bytes_per_second",
	memoryMoved, cacheMoved, cacheOccupied,
}

// Traffic of sockets: by memory controllers, and by the monitoring of caches.
const (
	memoryMoved   = "reckon_node_memory_traffic_bytes_total"
	cacheMoved    = "reckon_node_cache_memory_bytes_total"
	cacheOccupied = "reckon_node_cache_occupancy_bytes"
)

// diskWait has a series for each workload and disk.
const diskWait = "reckon_workload_disk_wait_seconds_total"

// devices collects the devices while series are read.
type devices struct {
	disks   map[string]*disk
	mounts  map[[2]string]*mount
	links   map[[2]string]*wire.Link
	sockets map[string]*wire.Socket
}

// disk adds the seconds and counts of reads and writes to the exported figures.
type disk struct {
	wire.Disk
	seconds, count [2]*float64
}

// mount is a file system. It has its own series and those of workloads on it, which are used if it has none.
type mount struct {
	own, workloads mountRates
}

type mountRates struct {
	wire.Mount
	seconds, count [3]*float64 // read, write, metadata
}

// Devices returns the traffic of a node's disks, network file systems and interconnect ports. Rates are means over the
// two minutes before now. It omits devices without recent samples.
func (v *Views) Devices(ctx context.Context, site, node string, now time.Time) (wire.NodeDevices, error) {
	d := devices{disks: map[string]*disk{}, mounts: map[[2]string]*mount{}, links: map[[2]string]*wire.Link{},
		sockets: map[string]*wire.Socket{}}
	var n series.Labels
	err := series.ForEach(ctx, v.q, now.Add(-v.gone), now, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device", "port", "type", "source", "direction", "operation", "link_layer", "counter", "socket", "memory")
		if n.Site != site && site != "" {
			return nil
		}
		if r := recentRate(it, now.Add(-rateWindow).UnixMilli()); r.t != 0 && !r.ended {
			d.addSeries(&n, r)
		}
		return nil
	}, series.Equal("node", node), series.OneOf("__name__", deviceMetrics))
	if err != nil {
		return wire.NodeDevices{}, err
	}
	return d.toAnswer(site, node), nil
}

func (d *devices) addSeries(n *series.Labels, r lastReading) {
	device := n.Rest["device"]
	switch n.Metric {
	case "reckon_mount_bytes_total", "reckon_mount_operations_total", "reckon_mount_operation_seconds_total",
		"reckon_mount_retransmissions_total",
		"reckon_workload_mount_bytes_total", "reckon_workload_mount_operations_total", "reckon_workload_mount_operation_seconds_total":
		d.addMount(n, r)
	case ibReceived, ibSent, "node_infiniband_state_id", "node_infiniband_rate_bytes_per_second", "reckon_infiniband_port_info",
		"reckon_infiniband_saturated",
		slingshotReceived, slingshotSent, "reckon_slingshot_link_up", "reckon_slingshot_rate_bytes_per_second":
		d.addLink(n, r)
	case memoryMoved, cacheMoved, cacheOccupied:
		d.addSocket(n, r)
	default:
		if n.Metric == diskWait && device == "other" {
			return // several disks of one workload
		}
		x := d.disks[device]
		if x == nil {
			x = &disk{Disk: wire.Disk{Device: device}}
			d.disks[device] = x
		}
		switch n.Metric {
		case "node_disk_io_time_seconds_total":
			x.Busy = waitShare(r.rate)
		case "node_disk_io_time_weighted_seconds_total":
			x.Waiting = r.rate
		case diskWait:
			figure.Plus(&x.Threads, r.rate)
		case "node_disk_read_bytes_total":
			x.ReadBytes = r.rate
		case "node_disk_written_bytes_total":
			x.WriteBytes = r.rate
		case "node_disk_read_time_seconds_total":
			x.seconds[0] = r.rate
		case "node_disk_write_time_seconds_total":
			x.seconds[1] = r.rate
		case "node_disk_reads_completed_total":
			x.count[0] = r.rate
		case "node_disk_writes_completed_total":
			x.count[1] = r.rate
		}
	}
}

// addMount adds a series of a file system: one of the node, or several of workloads, with their rates summed.
func (d *devices) addMount(n *series.Labels, r lastReading) {
	k := [2]string{n.Rest["type"], n.Rest["source"]}
	m := d.mounts[k]
	if m == nil {
		m = &mount{}
		d.mounts[k] = m
	}
	x := &m.own
	if strings.Contains(n.Metric, "_workload_") {
		x = &m.workloads
	}
	x.Type, x.Source = k[0], k[1]
	operation := slices.Index([]string{"read", "write", "metadata"}, n.Rest["operation"])
	metric := strings.Replace(n.Metric, "_workload_", "_", 1)
	switch {
	case metric == "reckon_mount_retransmissions_total":
		figure.Plus(&x.Retransmissions, r.rate)
	case metric == "reckon_mount_bytes_total" && n.Rest["direction"] == "read":
		figure.Plus(&x.ReadBytes, r.rate)
	case metric == "reckon_mount_bytes_total":
		figure.Plus(&x.WriteBytes, r.rate)
	case operation < 0:
	case metric == "reckon_mount_operations_total":
		figure.Plus(&x.count[operation], r.rate)
	default:
		figure.Plus(&x.seconds[operation], r.rate)
	}
}

func (d *devices) addLink(n *series.Labels, r lastReading) {
	k := [2]string{n.Rest["device"], n.Rest["port"]}
	x := d.links[k]
	if x == nil {
		x = &wire.Link{Device: k[0], Port: k[1]}
		if k[1] == "" {
			x.Layer = "Slingshot"
		}
		d.links[k] = x
	}
	switch n.Metric {
	case ibReceived, slingshotReceived:
		x.ReceiveBytes = r.rate
	case ibSent, slingshotSent:
		x.TransmitBytes = r.rate
	case "node_infiniband_state_id":
		x.Up = new(r.v >= ibActive)
	case "reckon_slingshot_link_up":
		x.Up = new(r.v == 1)
	case "reckon_infiniband_port_info":
		x.Layer = n.Rest["link_layer"]
	case "reckon_infiniband_saturated":
		x.Saturated = append(x.Saturated, n.Rest["counter"])
	default:
		x.Rate = new(r.v)
	}
}

// addSocket adds a series of a processor socket.
func (d *devices) addSocket(n *series.Labels, r lastReading) {
	name := n.Rest["socket"]
	x := d.sockets[name]
	if x == nil {
		x = &wire.Socket{Socket: name}
		d.sockets[name] = x
	}
	switch {
	case n.Metric == cacheOccupied:
		x.CacheBytes = new(r.v)
	case n.Metric == memoryMoved && n.Rest["direction"] == "read":
		x.ReadBytes = r.rate
	case n.Metric == memoryMoved:
		x.WriteBytes = r.rate
	case n.Rest["memory"] == "local":
		x.LocalBytes = r.rate
	default:
		x.RemoteBytes = r.rate
	}
}

// ibActive is the lowest InfiniBand port state that carries data: active, or active and about to be deferred.
const ibActive = 4

func (d *devices) toAnswer(site, node string) wire.NodeDevices {
	out := wire.NodeDevices{Node: node, Site: site, Disks: []wire.Disk{}, Mounts: []wire.Mount{}, Links: []wire.Link{},
		Sockets: []wire.Socket{}}
	for _, x := range d.disks {
		x.ReadSeconds, x.WriteSeconds = perOperation(x.seconds[0], x.count[0]), perOperation(x.seconds[1], x.count[1])
		out.Disks = append(out.Disks, x.Disk)
	}
	for _, m := range d.mounts {
		x := &m.own
		if x.Type == "" {
			x = &m.workloads
		}
		for _, c := range x.count {
			if c != nil {
				x.Operations = new(*c + *cmp.Or(x.Operations, new(float64)))
			}
		}
		x.MetadataRate = x.count[2]
		x.ReadSeconds, x.WriteSeconds, x.MetadataSeconds = perOperation(x.seconds[0], x.count[0]), perOperation(x.seconds[1], x.count[1]),
			perOperation(x.seconds[2], x.count[2])
		out.Mounts = append(out.Mounts, x.Mount)
	}
	for _, x := range d.links {
		slices.Sort(x.Saturated)
		out.Links = append(out.Links, *x)
	}
	for _, x := range d.sockets {
		out.Sockets = append(out.Sockets, *x)
	}
	slices.SortFunc(out.Sockets, func(a, b wire.Socket) int {
		return cmp.Or(cmp.Compare(len(a.Socket), len(b.Socket)), cmp.Compare(a.Socket, b.Socket))
	})
	slices.SortFunc(out.Disks, func(a, b wire.Disk) int { return cmp.Compare(a.Device, b.Device) })
	slices.SortFunc(out.Mounts, func(a, b wire.Mount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Source, b.Source))
	})
	slices.SortFunc(out.Links, func(a, b wire.Link) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	})
	return out
}

// perOperation returns the mean seconds per operation; nil without operations.
func perOperation(seconds, count *float64) *float64 {
	if seconds == nil || count == nil || *count <= 0 {
		return nil
	}
	return new(*seconds / *count)
}
