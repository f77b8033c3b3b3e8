package planted

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"time"

	"reckon/internal/kubelet"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload/kubernetes"
)

// load is the use of a control group of the planted site over time.
type load struct {
	path  string // of its control group
	comm  string
	uid   uint32
	from  time.Time
	until time.Time         // zero: it goes on
	env   map[string]string // of a batch system
	cores func(time.Time) float64
	bytes func(time.Time) float64
	limit float64 // of memory, bytes
	pod   *kubelet.Pod
	gpus  int     // that its process has open
	busy  float64 // share of each
}

// machineSpec is a machine of the planted site.
type machineSpec struct {
	name         string
	cores        int
	memory       float64
	gpus         int
	idle, a, b   float64 // watts: idle + a u + b sqrt u of all its cores
	from, silent time.Time
	loads        []*load
}

// watts is the power of its processors where so many cores work.
func (s *machineSpec) watts(busy float64) float64 {
	u := busy / float64(s.cores)
	return s.idle + s.a*u + s.b*math.Sqrt(u)
}

// gpuIdle and gpuWork are the watts of a device at rest, and beyond that at work.
const gpuIdle, gpuWork = 55.0, 245.0

// running is a load that runs.
type running struct {
	*load
	number uint64
	proc   sensor.Process
	group  sensor.Cgroup
	gone   bool
}

// planted is a machine that does what was planted. It is read by an agent as a real one is.
type planted struct {
	spec    *machineSpec
	now     time.Time
	boot    time.Time
	list    []*running
	numbers map[uint64]*running
	exited  []sensor.Process
	total   sensor.Machine
	joules  float64
	gpu     []struct{ busy, joules, span, since float64 }
	rows    map[string]*metric.Series
	gpuRows []*sensor.GPUSeries
	meters  sensor.MeterSeries
	read    []sensor.Meter
}

func newPlanted(s *machineSpec) *planted {
	m := &planted{spec: s, now: s.from.Add(-time.Minute), boot: s.from.Add(-2 * time.Minute), numbers: map[uint64]*running{},
		rows: map[string]*metric.Series{}}
	m.gpu = make([]struct{ busy, joules, span, since float64 }, s.gpus)
	m.total = sensor.Machine{Cores: s.cores, MemoryTotal: uint64(s.memory), MemoryAvailable: uint64(s.memory)}
	return m
}

const have = sensor.FieldMemory | sensor.FieldCgroup | sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent | sensor.FieldCPUSplit |
	sensor.FieldIO | sensor.FieldWait

// advance moves the machine.
func (m *planted) advance(to time.Time) {
	seconds := to.Sub(m.now).Seconds()
	was := m.now
	mid := was.Add(to.Sub(was) / 2)
	m.now = to
	m.list = slices.DeleteFunc(m.list, func(r *running) bool {
		r.gone = !r.until.IsZero() && !r.until.After(was)
		if r.gone {
			m.exited = append(m.exited, r.proc)
			delete(m.numbers, r.number)
		}
		return r.gone
	})
	for i, l := range m.spec.loads {
		number := uint64(i + 1)
		if m.numbers[number] != nil || l.from.After(to) || !l.until.IsZero() && !l.until.After(was) {
			continue
		}
		r := &running{load: l, number: number}
		pid := int32(1000 + i)
		r.proc = sensor.Process{PID: pid, PPID: 1, PGID: pid, SID: pid, UID: l.uid, Start: uint64(max(l.from.Sub(m.boot), time.Second)),
			Cgroup: number, Have: have, State: 'R', Comm: sensor.CommOf([]byte(l.comm)), Threads: 4}
		r.group.Have = sensor.CgroupCPU | sensor.CgroupCPUSplit | sensor.CgroupMemory | sensor.CgroupPeak | sensor.CgroupPIDs |
			sensor.CgroupEvents | sensor.CgroupIO | sensor.CgroupShmem | sensor.CgroupKernel
		if l.limit > 0 {
			r.group.Have, r.group.MemoryMax = r.group.Have|sensor.CgroupMemoryMax, uint64(l.limit)
		}
		m.list, m.numbers[number] = append(m.list, r), r
	}
	busy, used := 0.0, 1e9
	held, share := 0, 0.0
	for _, r := range m.list {
		begin, end := was, to // of its part of the step
		if r.from.After(begin) {
			begin = r.from
		}
		if !r.until.IsZero() && r.until.Before(end) {
			end = r.until
		}
		cores, bytes := r.cores(mid)*end.Sub(begin).Seconds()/seconds, r.bytes(mid)
		nanos := uint64(cores * seconds * 1e9)
		r.proc.UserNanos += nanos
		r.proc.Anon = uint64(bytes)
		r.group.UsageNanos, r.group.UserNanos = r.group.UsageNanos+nanos, r.group.UserNanos+nanos
		r.group.Anon, r.group.Current, r.group.PIDs = uint64(bytes), uint64(bytes), 1
		r.group.Peak = max(r.group.Peak, r.group.Current)
		busy, used = busy+cores, used+bytes
		if r.gpus > 0 {
			held, share = r.gpus, r.busy
		}
	}
	m.total.User += uint64(busy * seconds * 1e9)
	m.total.Idle += uint64((float64(m.spec.cores) - busy) * seconds * 1e9)
	m.total.MemoryAvailable = uint64(m.spec.memory - used)
	m.joules += m.spec.watts(busy) * seconds
	for i := range m.gpu {
		g, share := &m.gpu[i], share
		if i >= held {
			share = 0
		}
		g.busy, g.since, g.span, g.joules = g.busy+share*seconds, g.since+share*seconds, g.span+seconds,
			g.joules+(gpuIdle+gpuWork*share)*seconds
	}
}

func (*planted) Name() string               { return "planted" }
func (*planted) Live() string               { return "planted" }
func (*planted) Exits() string              { return "planted" }
func (*planted) Close() error               { return nil }
func (m *planted) Time() time.Time          { return m.now }
func (m *planted) Booted() time.Time        { return m.boot }
func (m *planted) UserName(u uint32) string { return plantedUsers[u] }

func (m *planted) Read(p *sensor.Pass) error {
	p.Boot, p.Exited = uint64(m.now.Sub(m.boot)), append(p.Exited, m.exited...)
	m.exited = m.exited[:0]
	for _, r := range m.list {
		p.Live = append(p.Live, r.proc)
	}
	return nil
}

func (m *planted) ReadMachine(x *sensor.Machine) error {
	*x = m.total
	x.Boot = uint64(m.now.Sub(m.boot))
	return nil
}

func (m *planted) of(pid int32) *running {
	for _, r := range m.list {
		if r.proc.PID == pid {
			return r
		}
	}
	return nil
}

func (m *planted) Cgroups(pid int32) ([]sensor.CgroupPath, error) {
	if r := m.of(pid); r != nil {
		return []sensor.CgroupPath{{Path: r.path}}, nil
	}
	return nil, fs.ErrNotExist
}

func (m *planted) CgroupPaths(n uint64) ([]sensor.CgroupPath, bool) {
	if r := m.numbers[n]; r != nil {
		return []sensor.CgroupPath{{Path: r.path}}, true
	}
	return nil, false
}

func (*planted) LoginSession(int32) (uint32, bool, error) { return 0, false, nil }

func (m *planted) Env(pid int32, keys ...string) (map[string]string, error) {
	out := map[string]string{}
	if r := m.of(pid); r != nil {
		for _, k := range keys {
			if v, ok := r.env[k]; ok {
				out[k] = v
			}
		}
	}
	return out, nil
}

func (m *planted) Groups() sensor.CgroupReader { return plantedGroups{m} }

type plantedGroups struct{ m *planted }

func (plantedGroups) Close() error { return nil }

func (g plantedGroups) Open(paths []sensor.CgroupPath) (sensor.CgroupHandle, error) {
	for _, p := range paths {
		for _, r := range g.m.list {
			if r.path == p.Path || r.path == p.Path+"/user/task_0" || r.path == p.Path+"/task_0" {
				return plantedHandle{r}, nil
			}
		}
	}
	return nil, fmt.Errorf("%v: %w", paths, fs.ErrNotExist)
}

type plantedHandle struct{ r *running }

func (plantedHandle) Close() error { return nil }

func (h plantedHandle) Read(c *sensor.Cgroup) error {
	if h.r.gone {
		return fs.ErrNotExist
	}
	*c = h.r.group
	return nil
}

// Pods are the pods of the machine, as its kubelet lists them.
func (m *planted) Pods() kubernetes.Pods { return plantedPods{m} }

type plantedPods struct{ m *planted }

func (p plantedPods) Pod(uid string) *kubelet.Pod {
	for _, r := range p.m.list {
		if r.pod != nil && r.pod.UID == uid {
			return r.pod
		}
	}
	return nil
}

func (plantedPods) Refresh(string) {}

// hardware is a machine beside its processes: processors, memory, meters and GPUs.
type hardware struct{ *planted }

func counterOf(name string, u metric.Unit, l ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: "Planted.", Kind: metric.Counter, Unit: u, Labels: l}
}

func gaugeOf(name string, u metric.Unit, l ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: "Planted.", Kind: metric.Gauge, Unit: u, Labels: l}
}

var (
	plantedCPU   = counterOf("node_cpu_seconds_total", metric.Seconds, "cpu", "mode")
	plantedTotal = gaugeOf("node_memory_MemTotal_bytes", metric.Bytes)
	plantedFree  = gaugeOf("node_memory_MemAvailable_bytes", metric.Bytes)
	plantedBoot  = gaugeOf("node_boot_time_seconds", metric.Seconds)
)

func (hardware) Name() string { return "planted-hardware" }

func (hardware) Descs() []*metric.Desc {
	return append(append([]*metric.Desc{plantedCPU, plantedTotal, plantedFree, plantedBoot}, sensor.MeterDescs()...), sensor.GPUDescs()...)
}

func (h hardware) row(b *metric.Batch, d *metric.Desc, v float64, values ...string) {
	key := d.Name + fmt.Sprint(values)
	if h.rows[key] == nil {
		h.rows[key] = metric.NewSeries(d, values...)
	}
	b.Add(h.rows[key], v)
}

func (h hardware) Read(b *metric.Batch) error {
	n := float64(h.spec.cores) * 1e9
	for c := range h.spec.cores {
		h.row(b, plantedCPU, float64(h.total.User)/n, strconv.Itoa(c), "user")
		h.row(b, plantedCPU, float64(h.total.Idle)/n, strconv.Itoa(c), "idle")
	}
	h.row(b, plantedTotal, h.spec.memory)
	h.row(b, plantedFree, float64(h.total.MemoryAvailable))
	h.row(b, plantedBoot, float64(h.boot.Unix()))
	h.meters.Append(b, h.planted.read)
	for i := range h.gpu {
		d := h.device(i)
		for len(h.gpuRows) <= i {
			h.gpuRows = append(h.gpuRows, sensor.NewGPUSeries(&d))
		}
		h.gpuRows[i].AddUsed(b, &d, h.gpu[i].busy)
		h.gpuRows[i].Add(b, sensor.GPUEnergyJoules, h.gpu[i].joules)
	}
	return nil
}

func (h hardware) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	dst = append(dst, sensor.Meter{Domain: sensor.DomainPackage, Zone: "0", Joules: h.joules, HasJoules: true})
	for i := range h.gpu {
		dst = append(dst, sensor.Meter{Domain: sensor.DomainGPU, Zone: h.deviceName(i), Joules: h.gpu[i].joules, HasJoules: true})
	}
	h.planted.read = append(h.planted.read[:0], dst...)
	return dst, nil
}

func (h hardware) deviceName(i int) string { return fmt.Sprintf("GPU-%s-%d", h.spec.name, i) }

func (h hardware) device(i int) sensor.GPU {
	g := &h.gpu[i]
	d := sensor.GPU{Vendor: "nvidia", Device: h.deviceName(i), Model: "Planted 40GB", Index: i, Span: g.span, Busy: g.since,
		Have: sensor.GPUBusy | sensor.GPUMemory | sensor.GPUSize, MemorySize: 40 << 30}
	for _, r := range h.list {
		if i < r.gpus {
			d.Memory = 4 << 30
		}
	}
	return d
}

func (h hardware) ReadGPU(p *sensor.GPUPass) error {
	for i := range h.gpu {
		d := h.device(i)
		p.Devices = append(p.Devices, d)
		for _, r := range h.list {
			if i < r.gpus {
				p.Uses = append(p.Uses, sensor.GPUUse{PID: r.proc.PID, Device: d.Device, Have: sensor.GPUBusy | sensor.GPUMemory, Busy: d.Busy,
					Memory: d.Memory})
			}
		}
		h.gpu[i].since, h.gpu[i].span = 0, 0
	}
	return nil
}
