package files

import (
	"reckon/metric"
	"reckon/sensor"
)

// Series of file systems.
var (
	mountBytes = &metric.Desc{
		Name: "reckon_workload_mount_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help: "Bytes that the workload read from and wrote to a network file system (NFS, Lustre, CephFS, FUSE), by direction, as " +
			"its calls requested. The page cache may have served them.",
		Labels: sensor.Charged("type", "source", "direction"),
	}
	mountOperations = &metric.Desc{
		Name: "reckon_workload_mount_operations_total", Kind: metric.Counter,
		Help: "Calls of the workload on a network file system (NFS, Lustre, CephFS, FUSE): read, write, or metadata for all others. " +
			"Caches may have served them.",
		Labels: sensor.Charged("type", "source", "operation"),
	}
	mountSeconds = metric.NewDesc("reckon_workload_mount_operation_seconds_total", metric.Counter, metric.Seconds,
		sensor.Charged("type", "source", "operation"),
		"Time that calls of the workload on a network file system took, summed over threads.")
	nodeMountBytes = metric.NewDesc("reckon_node_mount_bytes_total", metric.Counter, metric.Bytes, []string{"direction"},
		"Bytes that all processes of the node read from and wrote to file systems across the network since the agent began, by direction "+
			"(read, write): workloads, short work and other together.")
	nodeMountOperations = metric.NewDesc("reckon_node_mount_operations_total", metric.Counter, metric.None, []string{"operation"},
		"Calls of all processes of the node on file systems across the network since the agent began: read, write, or metadata.")
	fileBytes = &metric.Desc{
		Name: "reckon_workload_file_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help: "Bytes that the workload read from and wrote to a local file system by read(2) and write(2), by direction. The page " +
			"cache is included. Needs the agent's setting files: all.",
		Labels: sensor.Charged("type", "source", "direction"),
	}
	fileOperations = &metric.Desc{
		Name: "reckon_workload_file_operations_total", Kind: metric.Counter,
		Help: "Calls of the workload on a local file system: read, write, or metadata for opens, stats, listings and changes. Needs " +
			"the agent's setting files: all.",
		Labels: sensor.Charged("type", "source", "operation"),
	}
)

// Indices of the sets of series: of file systems across the network, and of file systems of this machine.
const (
	networkSet = 1
	localSet   = 2
)

// Spec describes the counts. Calls on local file systems are not timed.
var Spec = buildSpec()

func buildSpec() *sensor.TallySpec {
	figure := &sensor.TallyFigure{Name: "mount_metadata_operations", Source: "requests", Lacks: []sensor.Lack{sensor.LackOtherCalls}}
	series := func(bytes, operations, seconds *metric.Desc) (all []sensor.TallySeries) {
		for _, direction := range []string{"read", "write"} {
			all = append(all, sensor.TallySeries{Desc: bytes, Values: []string{direction}, Always: true})
		}
		for _, d := range []*metric.Desc{operations, seconds} {
			for _, operation := range []string{"read", "write", "metadata"} {
				if d != nil {
					all = append(all, sensor.TallySeries{Desc: d, Values: []string{operation}, Always: true})
				}
			}
		}
		return all
	}
	remote := series(mountBytes, mountOperations, mountSeconds)
	for i := range remote {
		x := &remote[i]
		x.Weight, x.Figure, x.TotalValues = sensor.WeightLong, figure, x.Values
		switch x.Desc {
		case mountBytes:
			x.Total = nodeMountBytes
		case mountOperations:
			x.Total = nodeMountOperations
		}
	}
	const most = 8 // of a workload
	return &sensor.TallySpec{Name: "files", Sets: []sensor.TallySet{
		{},
		networkSet: {Labels: 2, Most: most, Series: remote},
		localSet:   {Labels: 2, Most: most, Series: series(fileBytes, fileOperations, nil)},
	}}
}
