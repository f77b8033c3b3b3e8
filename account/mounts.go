package account

import (
	"reckon/metric"
	"reckon/sensor"
)

// Series of file systems whose use can be attributed to processes.
var (
	mountBytes = &metric.Desc{
		Name: "reckon_workload_mount_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Bytes that the workload read from and wrote to a file system across the network, by direction (read, write), in calls (NFS, Lustre, CephFS, FUSE); the page cache may have served them.",
		Labels: with("type", "source", "direction"),
	}
	mountOperations = &metric.Desc{
		Name: "reckon_workload_mount_operations_total", Kind: metric.Counter,
		Help:   "Calls of the workload on a file system across the network (NFS, Lustre, CephFS, FUSE): read, write, or metadata for all others; caches may have served them.",
		Labels: with("type", "source", "operation"),
	}
	mountSeconds = &metric.Desc{
		Name: "reckon_workload_mount_operation_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time of these calls of the workload until they returned, added up.",
		Labels: with("type", "source", "operation"),
	}
	fileBytes = &metric.Desc{
		Name: "reckon_workload_file_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Bytes that the workload read from and wrote to a file system of the machine by read(2) and write(2), by direction (read, write), the page cache included (agent with the setting files: all).",
		Labels: with("type", "source", "direction"),
	}
	fileOperations = &metric.Desc{
		Name: "reckon_workload_file_operations_total", Kind: metric.Counter,
		Help:   "Calls of the workload on a file system of the machine: read, write, or metadata for opens, stats, listings and changes (agent with the setting files: all).",
		Labels: with("type", "source", "operation"),
	}
)

// maxMounts is the number of file systems of a part that have series of their own; all others share one.
const maxMounts = 8

// otherOf stands for file systems beyond that.
func otherOf(m sensor.Mount) sensor.Mount {
	return sensor.Mount{Type: "other", Source: "other", Local: m.Local}
}

var (
	mountDirections = [...]string{"read", "write"}
	mountKinds      = [sensor.MountOperations]string{"read", "write", "metadata"}
)

// mounting is the ledger's state of file systems.
type mounting struct {
	counting
	waiting []awaited[mounted]
}

// mounted is the activity on one file system.
type mounted struct {
	Mount sensor.Mount
	Use   sensor.MountUse
}

// mount is the activity of a part on one file system.
type mount struct {
	mounted
	bytes    [2]*metric.Series
	requests [sensor.MountOperations]*metric.Series
	times    [sensor.MountOperations]*metric.Series
}

// Mounts takes in the file system activity of processes up to the tick that the ledger took last. Activity of processes
// that remain unidentified goes to other.
func (l *Ledger) Mounts(pass *sensor.MountPass) {
	if l.other == nil {
		return // no tick yet
	}
	m := &l.mounting
	m.begin(l)
	for i := range pass.Used {
		u := &pass.Used[i]
		m.waiting = append(m.waiting, awaited[mounted]{u.PID, u.Start, l.tick + patience, mounted{u.Mount, u.Use}})
	}
	settle(l, &m.waiting, (*Part).mount)
}

// mount adds activity on a file system.
func (p *Part) mount(u *mounted) {
	for _, m := range p.mounts {
		if m.Mount == u.Mount {
			m.Use.Add(&u.Use)
			return
		}
	}
	if other := otherOf(u.Mount); len(p.mounts) >= maxMounts && u.Mount != other {
		p.mount(&mounted{other, u.Use})
		return
	}
	p.mounts = append(p.mounts, &mount{mounted: *u})
}

// usesMounts reports whether the part does more on file systems across the network than a process group with the reduced
// series set.
func (p *Part) usesMounts() bool {
	var bytes, calls, nanos uint64
	for _, m := range p.mounts {
		if m.Mount.Local {
			continue
		}
		for _, n := range m.Use.Bytes {
			bytes += n
		}
		for i := range m.Use.Operations {
			calls += m.Use.Operations[i]
			nanos += m.Use.Nanos[i]
		}
	}
	return bytes >= reducedIO || calls >= reducedCalls || nanos >= reducedCPU
}

// absorbMounts takes over the activity of a folded part.
func (p *Part) absorbMounts(o *Part) {
	for _, m := range o.mounts {
		p.mount(&m.mounted)
	}
}

// exportMounts appends the activity of a part on each file system, including operations with a count of 0.
func (l *Ledger) exportMounts(p *Part, b *metric.Batch) {
	for _, m := range p.mounts {
		bytes, operations := mountBytes, mountOperations
		if m.Mount.Local {
			bytes, operations = fileBytes, fileOperations
		}
		for i, name := range mountDirections {
			b.Add(l.mountRow(p, &m.bytes[i], bytes, m, name), float64(m.Use.Bytes[i]))
		}
		for i, name := range mountKinds {
			b.Add(l.mountRow(p, &m.requests[i], operations, m, name), float64(m.Use.Operations[i]))
			if m.Mount.Local {
				continue // times are not measured
			}
			b.Add(l.mountRow(p, &m.times[i], mountSeconds, m, name), seconds(m.Use.Nanos[i]))
		}
	}
}

func (l *Ledger) mountRow(p *Part, row **metric.Series, d *metric.Desc, m *mount, last string) *metric.Series {
	if *row == nil {
		*row = p.series(d, m.Mount.Type, m.Mount.Source, last)
		if (*row).Created == 0 {
			(*row).Created = l.mounting.began
		}
	}
	return *row
}

// mountState is the serialized activity of a part.
func (p *Part) mountState() (all []mounted) {
	for _, m := range p.mounts {
		all = append(all, m.mounted)
	}
	return all
}
